#!/usr/bin/env python3
"""Twenty nights of a sweep in a row, each with an image of its own; since the tenth they are slower by five standard errors of a night.

No alert may come before that, and one must come after it; among eight builds, of which one can't be pulled, the one that brought it is
named; once someone has accepted it, all is quiet. What is there is read from the cluster each time, so that it goes on where it was.

usage: mornings.py ASSAY REGISTRY NODE
"""

import hashlib
import json
import math
import subprocess
import sys
import time
import urllib.request

SWEEP = "mornings"
NAMESPACE = "mornings"
NIGHTS = 20
PLANTED = 10
STANDARD_ERRORS = 5
BUILDS = 8
CULPRIT = 7
MISSING = 5
MANIFEST = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"


def say(*words):
    print(time.strftime("%H:%M:%S", time.gmtime()), *words, flush=True)


class Registry:
    """Images of one program that differ by a label, and by what is planted in them."""

    def __init__(self, url):
        self.url, self.host = url, url.removeprefix("http://")
        self.made = {}

    def ask(self, method, path, body=None, headers=None):
        url = path if path.startswith("http") else self.url + path
        request = urllib.request.Request(url, data=body, method=method, headers=headers or {})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.headers, answer.read()

    def put(self, content):
        digest = "sha256:" + hashlib.sha256(content).hexdigest()
        begun, _ = self.ask("POST", "/v2/lab/bench/blobs/uploads/", b"")
        place = begun["Location"]
        self.ask("PUT", f"{place}{'&' if '?' in place else '?'}digest={digest}", content,
                 {"Content-Type": "application/octet-stream"})
        return {"digest": digest, "size": len(content)}

    def pushed(self, tag):
        headers, _ = self.ask("HEAD", f"/v2/lab/bench/manifests/{tag}", headers={"Accept": MANIFEST})
        return f"{self.host}/lab/bench@{headers['Docker-Content-Digest']}"

    def build(self, label, slow=None):
        """The image of a build, by its digest."""
        if (label, slow) not in self.made:
            manifest = json.loads(self.ask("GET", "/v2/lab/bench/manifests/base", headers={"Accept": MANIFEST})[1])
            config = json.loads(self.ask("GET", f"/v2/lab/bench/blobs/{manifest['config']['digest']}")[1])
            own = config.setdefault("config", {})
            own.setdefault("Labels", {})["org.opencontainers.image.revision"] = label
            if slow is not None:
                own["Env"] = [*(own.get("Env") or []), f"ASSAY_PLANTED=*:slow={slow:.4f}"]
            manifest["config"].update(self.put(json.dumps(config, sort_keys=True).encode()))
            kind = manifest.get("mediaType", "application/vnd.oci.image.manifest.v1+json")
            headers, _ = self.ask("PUT", f"/v2/lab/bench/manifests/{label}", json.dumps(manifest).encode(),
                                  {"Content-Type": kind})
            self.made[label, slow] = f"{self.host}/lab/bench@{headers['Docker-Content-Digest']}"
        return self.made[label, slow]


class Sweep:
    def __init__(self, assay):
        self.program = assay

    def assay(self, *args):
        return subprocess.run([self.program, *args, "-n", NAMESPACE], capture_output=True, text=True, check=False)

    def must(self, *args):
        ran = self.assay(*args)
        if ran.returncode != 0:
            sys.exit(f"mornings: assay {' '.join(args)}: {ran.stderr}")
        return ran.stdout

    def entries(self):
        return [json.loads(line) for line in self.must("sweep", "history", SWEEP, "--format", "jsonl").splitlines()]

    def status(self):
        text = subprocess.run(["kubectl", "get", "tuningsweep", SWEEP, "-n", NAMESPACE, "-o", "json"], capture_output=True,
                              text=True, check=True).stdout
        return json.loads(text).get("status", {})

    def changes(self, stage=None):
        """By name. What is suspected of two metrics in different nights is two changes."""
        changes = {change["name"]: change for change in self.status().get("changes", [])}
        return {name: change for name, change in changes.items() if stage in (None, change["stage"])}


def object_of(registry, node):
    return {
        "apiVersion": "assay.rocks/v1alpha1",
        "kind": "TuningSweep",
        "metadata": {"name": SWEEP, "namespace": NAMESPACE},
        "spec": {
            "schedule": "17 1 * * *",
            "reference": {"name": "release", "image": registry.pushed("release")},
            "subjects": [{"name": "tonight", "image": registry.build("night-1"), "revision": "night-1"}],
            "detect": {"confirmationsPerYear": 2, "falseAlertsPerYear": "0.04", "visitGapSeconds": 120},
            "successfulHistoryLimit": 3,
            "experiment": {
                "scenarios": [{"name": "mixed", "workload": {"keyValue": {
                    "keys": 20_000, "valueBytes": {"fixed": 400},
                    "roles": [{"name": "writer", "steps": 400_000, "warmupSteps": 20_000, "mix": {"get": 9, "put": 1}}],
                }}}],
                "repetitions": 8,
                "objectives": [{"metric": "throughput", "margin": "3%"}],
                "placement": {
                    "nodeSelector": {"kubernetes.io/hostname": node}, "memory": "256Mi", "environment": "Shared",
                },
            },
        },
    }


def measured(entries):
    return [entry for entry in entries if entry["outcome"] == "Measured"]


def standard_error(nights):
    """Of the throughput of a night, pooled."""
    own = [point["standardError"] for night in nights for point in night["points"] if point["metric"] == "throughput"]
    return math.sqrt(sum(error * error for error in own) / len(own))


def slowdown(entries):
    """In percent of the time that steps take."""
    return 100 * math.expm1(STANDARD_ERRORS * standard_error(measured(entries)[: PLANTED - 1]))


def candidates(registry, slow):
    for number in range(1, BUILDS + 1):
        build = f"build-{number}"
        missing = f"{registry.host}/lab/bench@sha256:{'0' * 64}"
        image = missing if number == MISSING else registry.build(build, slow if number >= CULPRIT else None)
        yield {"image": image, "revision": build}


def point(night):
    own = next((point for point in night["points"] if point["metric"] == "throughput"), None)
    return "no value" if own is None else f"{100 * math.expm1(own['logRatio']):+.2f} % (s.e. {100 * own['standardError']:.2f} %)"


def run_nights(sweep, registry):
    while sweep.status().get("active"):
        # It was begun before an interruption.
        time.sleep(5)
    while len(measured(entries := sweep.entries())) < NIGHTS:
        number = len(measured(entries)) + 1
        slow = slowdown(entries) if number >= PLANTED else None
        if number == PLANTED:
            say(f"planted: {slow:.2f} % more time for each step, {STANDARD_ERRORS} standard errors of a night")
            # A team would know the noise of its machines when it chooses what matters to it.
            margin = max(1, round(slow / 2))
            say(f"detect.margin: {margin} %")
            patch = json.dumps({"spec": {"detect": {"margin": f"{margin}%"}}})
            subprocess.run(["kubectl", "patch", "tuningsweep", SWEEP, "-n", NAMESPACE, "--type", "merge", "-p", patch],
                           check=True, stdout=subprocess.DEVNULL)
            listed = json.dumps(list(candidates(registry, slow)))
            subprocess.run([sweep.program, "sweep", "candidates", SWEEP, "--file", "-", "-n", NAMESPACE], input=listed,
                           text=True, check=True, stdout=subprocess.DEVNULL)
        if number > PLANTED and sweep.changes("Regressed"):
            answer(sweep)
            continue
        image = registry.build(f"night-{number}", slow)
        sweep.must("sweep", "set-image", SWEEP, f"tonight={image}", "--revision", f"night-{number}")
        ran = sweep.assay("sweep", "run-now", SWEEP, "--wait")
        last = sweep.entries()[-1]
        if ran.returncode not in (0, 11):
            sys.exit(f"mornings: night {number}: {ran.stderr}")
        nights = measured(sweep.entries())
        said = point(nights[-1]) if len(nights) == number else f"{last.get('reason')}: {last.get('message')}"
        stages = [f"{name} {change['stage']}" for name, change in sweep.changes().items()]
        say(f"night {number}: {said}; {', '.join(stages) or 'no change'}")


def answer(sweep):
    """What a team does in the morning: it waits until a culprit is known, and takes what that brought."""
    told = {}
    while not any(known(change) for change in sweep.changes().values()):
        for name, change in sweep.changes("Regressed").items():
            if told.get(name) != change["message"]:
                say(f"{name}:", change["message"])
            told[name] = change["message"]
        time.sleep(15)
    for name in sweep.changes("Regressed"):
        print(sweep.must("sweep", "explain", SWEEP, name), flush=True)
        sweep.must("accept", SWEEP, name, "--reason", "planted")
        while sweep.changes()[name]["stage"] != "Accepted":
            time.sleep(5)
        say("accepted:", sweep.changes()[name]["message"])


def known(change):
    """Whether the search for the culprit of a change has ended."""
    return "culprit" in change and not change["culprit"].endswith("so far")


def wrong(sweep):
    """What is not as it should be."""
    entries = sweep.entries()
    nights = measured(entries)
    planted = nights[PLANTED - 1]["night"]
    quiet = ("Refuted", "Undecided", "Confirming", "Improved")
    confirmed = [change for change in sweep.changes().values() if change["stage"] not in quiet]
    begun = [entry["night"] for entry in entries if entry.get("visit") and not entry["visit"].get("search")]
    raised = {entry["visit"]["raised"] for entry in entries if entry.get("visit")}
    say(f"{len(nights)} nights, {len(entries) - len(nights)} other entries; suspected in {sorted(raised)}")
    if not confirmed:
        yield "nothing was confirmed"
        return
    for change in confirmed:
        if change["stage"] != "Accepted":
            yield f"{change['name']} is {change['stage']}, not Accepted"
    culprits = [change["culprit"] for change in confirmed if known(change)]
    if not culprits or not all(culprit.startswith(f"build-{CULPRIT} (") for culprit in culprits):
        yield f"the culprits are {culprits}, not build-{CULPRIT}"
    if min(begun) <= planted:
        yield f"something was suspected before the night of {planted}"
    reasons = [entry.get("reason") for entry in entries if (entry.get("visit") or {}).get("search")]
    if "ImagePullFailed" not in reasons:
        say(f"build-{MISSING} was never asked for")


def main():
    program, url, node = sys.argv[1:]
    registry, sweep = Registry(url), Sweep(program)
    there = subprocess.run(["kubectl", "get", "tuningsweep", SWEEP, "-n", NAMESPACE], capture_output=True, check=False)
    if there.returncode != 0:
        subprocess.run(["kubectl", "apply", "--server-side", "-f", "-"], input=json.dumps(object_of(registry, node)),
                       text=True, check=True)
    run_nights(sweep, registry)
    if sweep.changes("Regressed"):
        answer(sweep)
    print(sweep.must("sweep", "history", SWEEP), flush=True)
    problems = list(wrong(sweep))
    for problem in problems:
        say("WRONG:", problem)
    say("as it should be" if not problems else f"{len(problems)} wrong")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
