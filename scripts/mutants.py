#!/usr/bin/env python3
"""Changes one place of the code at a time and asks whether a test notices: https://mutants.rs, which lists the changes.

A seeded sample of each group of modules is tried in a clone of the last commit. What was found is kept in target/mutants, so that an
interrupted run goes on where it was; a change that was caught is not tried again until its file changes. A change that no test can
notice, because the program does the same, is listed with its reason in mutants-equivalent.toml.

usage: mutants.py CARGO-MUTANTS [--seed N] [GROUP...]
"""

import argparse
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "target" / "mutants"
TREE = KEPT / "tree"
RESULTS = KEPT / "results.jsonl"
# What is there, and what says the same in other words.
SAME = {("&[]", "Vec::leak(Vec::new())"), ("Vec::new()", "vec![]")}
# A change may make a loop endless: how many times as much CPU time as without a change a program may take, and how many seconds at least.
# CPU time is the same beside other work. Whoever waits for ever takes none: so many seconds by the clock.
TIMES, LEAST, PATIENCE = 4, 20, 900


class Group:
    def __init__(self, package, files, count, least, *tests):
        self.package, self.files, self.count, self.least, self.tests = package, files, count, least, tests


BENCH = "bench-image/bench/src"
CONTROLLER = "operator/controller/src"
# Each change is tried with the tests that catch most first, and with the next ones only if these pass. Programs under test are built by
# tests that start them.
GROUPS = {
    "core": Group(
        "assay-core",
        [f"operator/core/src/{name}{rest}" for name in "stats gates verdict judge decide plan validate".split() for rest in ("/**", ".rs")],
        200,
        96,
        "-p assay-core --lib",
        "-p assay-core --test *",
        "-p assay-cli --test judge --test cli",
    ),
    "protocol": Group("assay-protocol", ["bench-image/protocol/src/**"], 50, 92, "-p assay-protocol --tests", "-p assay-core --lib", "-p assay-core --test *"),
    "bench": Group(
        "assay-bench",
        [f"{BENCH}/{name}" for name in "fill/** measure/** metrics/** driver/** evidence/** engagement.rs events.rs load.rs watch.rs time_spent.rs".split()],
        50,
        92,
        "-p assay-bench --features planted --bin assay-bench",
        "-p assay-bench --features planted --test numbers --test trial --test planted",
    ),
    "controller": Group(
        "assay-controller",
        [f"{CONTROLLER}/{name}" for name in "args.rs lease.rs pod.rs record.rs experiment/ended.rs experiment/known.rs experiment/memory.rs experiment/advance/decide.rs watch/touched.rs".split()],
        30,
        92,
        "-p assay-controller --tests",
    ),
}


def run(command, **options):
    return subprocess.run(command, cwd=TREE, check=True, capture_output=True, text=True, **options).stdout


def clone():
    """The last commit, with what cargo has built of an earlier one."""
    if not TREE.is_dir():
        KEPT.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "clone", "--quiet", "--shared", ROOT, TREE], check=True)
    run(["git", "fetch", "--quiet", ROOT, "HEAD"])
    run(["git", "checkout", "--quiet", "--force", "FETCH_HEAD"])
    run(["git", "clean", "--quiet", "--force", "-d"])
    # Where RocksDB is.
    config = ROOT / ".cargo" / "config.toml"
    if config.is_file():
        (TREE / ".cargo").mkdir(exist_ok=True)
        (TREE / ".cargo" / "config.toml").write_bytes(config.read_bytes())


def listed(tool, group):
    files = [argument for file in group.files for argument in ("-f", file)]
    found = json.loads(run([tool, "mutants", "--list", "--json", "-p", group.package, *files]))
    for mutant in found:
        text = (TREE / mutant["file"]).read_text().splitlines()
        mutant["line"] = text[mutant["span"]["start"]["line"] - 1].strip()
        mutant["short"] = re.sub(r":\d+:\d+", "", mutant["name"], count=1)
    return sorted(found, key=lambda mutant: mutant["name"])


def changed(text, span, replacement):
    lines = text.splitlines(keepends=True)
    at = lambda place: sum(map(len, lines[: place["line"] - 1])) + place["column"] - 1
    return text[: at(span["start"])] + replacement + text[at(span["end"]) :]


def cargo(tests, *arguments):
    return ["cargo", "test", "--locked", "--profile", "mutants", *tests.split(), *arguments]


def compiles(tests):
    """Compiled in peace: rustc that is killed leaves behind what it can't link later."""
    done = subprocess.run(cargo(tests, "--no-run"), cwd=TREE, capture_output=True, text=True)
    if done.returncode == 0:
        return True
    # A linker that fails says nothing of the change.
    if not re.search(r"^error.*\n +--> ", done.stderr, re.MULTILINE):
        sys.exit(f"mutants: cargo test {tests} fails before it runs: remove {TREE / 'target'} if nothing else is wrong\n{done.stderr}")
    return False


def notices(tests, most):
    """How tests end that have been compiled, each program within so many seconds of CPU time: None if they pass."""
    said, failed = [], None
    # What one change has shown to fail must not help against the next.
    environment = {**os.environ, "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "true"}
    limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    # In a session of its own, so that it ends with all that it has started.
    with subprocess.Popen(
        cargo(tests),
        cwd=TREE,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=limit,
    ) as child:
        late = threading.Timer(PATIENCE, os.killpg, (child.pid, signal.SIGKILL))
        late.start()
        try:
            for line in child.stdout:
                said.append(line)
                # One is enough.
                if failed := re.match(r"test (\S+) .*FAILED$", line):
                    os.killpg(child.pid, signal.SIGKILL)
                    break
        finally:
            late.cancel()
    if failed:
        return ("caught", failed[1])
    if child.returncode == 0:
        return None
    # As cargo tells of a program that was killed, at its limit or by the clock.
    if child.returncode == -signal.SIGKILL or any("SIGKILL" in line for line in said):
        return ("caught", "it takes too long")
    return ("caught", "tests ended with an error")


def unchanged(group):
    """How much CPU time each of a group's tests may take. Those that fail by themselves would catch everything."""
    most = []
    for tests in group.tests:
        if not compiles(tests):
            sys.exit(f"mutants: cargo test {tests} does not compile without any change")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        if found := notices(tests, resource.RLIM_INFINITY):
            sys.exit(f"mutants: cargo test {tests} fails without any change: {found[1]}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        most.append(max(LEAST, round(TIMES * took)))
    return most


def tried(mutant, group, most):
    file = TREE / mutant["file"]
    original = file.read_text()
    try:
        file.write_text(changed(original, mutant["span"], mutant["replacement"]))
        for tests, seconds in zip(group.tests, most):
            if not compiles(tests):
                return ("unviable", "it does not compile")
            if found := notices(tests, seconds):
                return found
        return ("missed", "")
    finally:
        file.write_text(original)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("tool", metavar="CARGO-MUTANTS")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(GROUPS))
    # Groups may follow the seed, which parse_args of older versions of Python refuses.
    options = arguments.parse_intermixed_args()
    unknown = [name for name in options.groups if name not in GROUPS]
    if unknown:
        sys.exit(f"mutants: no group {', '.join(unknown)}: they are {', '.join(GROUPS)}")
    clone()
    commit = run(["git", "rev-parse", "HEAD"]).strip()
    equivalent = {(entry["mutant"], entry["line"]) for entry in tomllib.loads((ROOT / "scripts" / "mutants-equivalent.toml").read_text()).get("equivalent", [])}
    known = {}
    if RESULTS.is_file():
        for line in RESULTS.read_text().splitlines():
            result = json.loads(line)
            # What was missed may be caught by the tests of another commit.
            if result["outcome"] != "missed" or result["commit"] == commit:
                known[result["mutant"], result["file"]] = result
    rows, survivors, weak = {}, [], []
    for name in options.groups or GROUPS:
        group = GROUPS[name]
        mutants = listed(options.tool, group)
        random.Random(options.seed).shuffle(mutants)
        sample = mutants[: group.count]
        began, fresh, caught, viable = time.monotonic(), 0, 0, 0
        for number, mutant in enumerate(sample, 1):
            blob = run(["git", "rev-parse", f"HEAD:{mutant['file']}"]).strip()
            result = known.get((mutant["name"], blob))
            if (mutant["short"], mutant["line"]) in equivalent or (mutant["line"], mutant["replacement"]) in SAME:
                outcome = "equivalent"
            elif result:
                outcome = result["outcome"]
            else:
                if fresh == 0:
                    most = unchanged(group)
                outcome, by = tried(mutant, group, most)
                fresh += 1
                with RESULTS.open("a") as results:
                    results.write(json.dumps({"mutant": mutant["name"], "file": blob, "commit": commit, "outcome": outcome, "by": by}) + "\n")
                left = (time.monotonic() - began) / fresh * (len(sample) - number) / 60
                print(f"{name} {number} of {len(sample)} (about {left:.0f} min left): {outcome}: {mutant['name']} {by}", flush=True)
            module = re.sub(r"^.*/src/", "", mutant["file"]).split("/")[0].removesuffix(".rs")
            row = rows.setdefault((name, module), dict.fromkeys(["caught", "missed", "equivalent", "unviable"], 0))
            row[outcome] += 1
            viable += outcome in ("caught", "missed")
            caught += outcome == "caught"
            if outcome == "missed":
                survivors.append(f"{mutant['name']}\n    {mutant['line']}")
        if viable and 100 * caught < group.least * viable:
            weak.append(f"{name}: {100 * caught / viable:.1f} % caught, at least {group.least} % needed")
    print(f"\n{'module':<28}{'mutants':>8}{'caught':>8}{'missed':>8}{'equivalent':>12}{'unviable':>10}")
    for (name, module), row in rows.items():
        print(f"{name + ' ' + module:<28}{sum(row.values()):>8}{row['caught']:>8}{row['missed']:>8}{row['equivalent']:>12}{row['unviable']:>10}")
    for survivor in survivors:
        print(f"missed: {survivor}")
    for line in weak:
        print(f"mutants: {line}")
    sys.exit(1 if weak else 0)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
