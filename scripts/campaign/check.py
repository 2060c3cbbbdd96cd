#!/usr/bin/env python3
"""Tests of the campaign without a measurement, and that docs/evidence.md is what the raw results give."""

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import design
import neighbour
import page
import rows as raw
from interval import clopper_pearson

HERE = Path(__file__).resolve().parent


def equal(found, expected, what):
    if found != expected:
        sys.exit(f"campaign: {what}: {found!r}, not {expected!r}")


def intervals():
    # None of n: 1 - 0.025^(1/n). The others are what R's binom.test says.
    known = [
        (0, 40, 0.0, 1 - 0.025 ** (1 / 40)),
        (40, 40, 0.025 ** (1 / 40), 1.0),
        (1, 40, 0.0006327, 0.1315859),
        (5, 10, 0.1870860, 0.8129140),
        (0, 1, 0.0, 0.975),
    ]
    for hits, total, *ends in known:
        found = clopper_pearson(hits, total)
        equal([round(end, 6) for end in found], [round(end, 6) for end in ends], f"interval of {hits} of {total}")
    # Its ends are those at which the count is as extreme as the level allows, and no others.
    low, high = clopper_pearson(3, 30)
    equal(clopper_pearson(3, 30, 0.9)[0] > low and clopper_pearson(3, 30, 0.9)[1] < high, True, "a lower level has a shorter interval")


def campaigns():
    experiments = design.campaign()
    equal(experiments == design.campaign() and experiments != design.campaign(2), True, "the order follows from the seed")
    equal((len(experiments), len({e.id for e in experiments}), len({e.seed for e in experiments})), (120, 120, 120), "experiments")
    first, others = experiments[:20], experiments[20:]
    equal([(e.kind, e.workload) for e in first], [(kind, design.OVERWRITE) for kind in design.FIRST] * design.EACH_FIRST, "the first experiments")
    # Comments of the example do not count.
    example = [line.split("  #")[0].rstrip() for line in (page.ROOT / "examples" / "quickstart.yaml").read_text().splitlines()]
    equal(design.WORKLOADS[design.OVERWRITE] in "\n".join(example), True, f"{design.OVERWRITE} is a workload of examples/quickstart.yaml")
    of = lambda kind, environment: [e for e in others if (e.kind, e.environment) == (kind, environment)]
    for environment, count in design.EQUAL.items():
        own = of(design.AA, environment)
        per_workload = [sum(e.workload == workload for e in own) for workload in design.WORKLOADS if workload != design.OVERWRITE]
        equal((len(own), max(per_workload) - min(per_workload) <= 1), (count, True), f"equal arms, {environment}")
    for kind in design.PLANTED:
        own = of(kind, design.AS_IS)
        equal((len(own), {e.workload for e in own}), (design.EACH_PLANTED, set(design.EXACT)), kind)
    # Each round is a small campaign.
    for start in range(0, 100, 20):
        kinds = {(e.kind, e.environment) for e in others[start : start + 20]}
        equal(len(kinds), len(design.PLANTED) + len(design.EQUAL), f"kinds from experiment {start} on")
    equal(design.digest(experiments, 3) != design.digest(experiments, 4), True, "other rules are another campaign")
    equal(design.digest(experiments, 3) != design.digest(design.campaign(2), 3), True, "other experiments are another campaign")


def a_row(experiment, verdict, low, high, **more):
    campaign = design.digest(design.campaign(), page.rules())
    row = {"campaign": campaign, "id": experiment.id, "commit": "abc", "kind": experiment.kind, "environment": experiment.environment}
    row |= {"workload": experiment.workload, "seed": experiment.seed, "verdict": verdict, "reason": "", "labels": []}
    row |= {"effect": {"estimate": (low + high) / 2, "low": low, "high": high, "mean": 0.0}, "blocks": 12, "attempts": {"Valid": 24}}
    row |= {"stalled": 0, "failed": 0, "windowSeconds": 2.0, "foreignCpuPercent": 0.2, "stealPercent": 0.0, "scatterPercent": 2.0}
    row |= {"started": "2026-01-01T00:00:00Z", "rules": 3, "assay": "assay 0.1.0", "bench": "0.1.0", "rocksdb": "11", "seconds": 90, "load": 0.1}
    machine = {"cpuModel": "c", "onlineCpus": 2, "memoryBytes": 2**34, "kernel": "6", "disk": "vda", "diskModel": None, "diskTransport": "virtio"}
    return row | {"machine": machine | {"filesystem": "ext4"}} | more


def pages():
    experiments = design.campaign()
    campaign = design.digest(experiments, page.rules())
    of = lambda kind, environment=design.AS_IS: [e for e in experiments if (e.kind, e.environment) == (kind, environment)]
    said = lambda rows: page.generated(rows, campaign, experiments)

    def has(text, *lines):
        for line in lines:
            equal(line in text, True, f"{line!r} in:\n{text}")

    has(said([]), "**This campaign is partial: 0 of 120 experiments.**", "| as it is | 0 |  |  | not measured |  |  |")
    equal_ones = of(design.AA)
    rows = [a_row(e, "Win" if number == 0 else "Neutral", -2.0 + 3 * (number == 0), 2.0) for number, e in enumerate(equal_ones)]
    text = said(rows)
    has(text, "50 of 120 experiments", "| as it is | 50 | 1 | 0 | 1 of 50 | 0.1 to 10.6 % | not missed |", "contains 0 in 49 of 50", "49 Neutral, 1 Win")
    has(said([{**row, "verdict": "Reject"} for row in rows[:6]]), "| as it is | 6 | 0 | 6 | 6 of 6 | 54.1 to 100.0 % | missed |")
    slow = [a_row(e, "Reject", -12.0, -9.0) for e in of("throughput-10")]
    slow[0] = a_row(of("throughput-10")[0], "Win", 1.0, 2.0)
    has(said(slow), "| -10 % | 15 | 14 of 15 | 1 of 15 | 14 of 15 | -10.5 % | 14 Reject, 1 Win |", "| +10 % | 0 |")
    failing = [a_row(e, "Inconclusive", 5.0, 9.0, failed=2, attempts={"Valid": 22, "Failed": 2}) for e in of("failure")]
    has(said(failing), "| 5 | 10 | 0 | 5 Inconclusive |", "110 valid, 10 failed")
    everything = [a_row(e, "Neutral", -1.0, 1.0) for e in experiments]
    has(said(everything), "The campaign is complete: 120 experiments.")
    # Neither rows of another campaign nor those of experiments that it does not have count.
    other = [{**row, "campaign": "000000000000"} for row in everything[:3]]
    has(said(other + rows[:2]), "2 of 120 experiments", "3 results of other campaigns")
    # A verdict without an interval is a verdict.
    nothing = a_row(equal_ones[0], "Invalid", 0.0, 0.0) | {"effect": dict.fromkeys(["estimate", "low", "high", "mean"]), "scatterPercent": None}
    has(said([nothing]), "1 Invalid", "contains 0 in no interval")


def resuming():
    experiments = design.campaign()
    campaign = design.digest(experiments, page.rules())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "new" / "campaign.jsonl"
        equal(raw.read(path), [], "a campaign that has not begun")
        first, second = (a_row(e, "Neutral", -1.0, 1.0) for e in experiments[:2])
        raw.append(path, first)
        whole = path.read_bytes()
        # Killed while it wrote: half of a line, or all of it but its end.
        for half in (json.dumps(second)[:50], json.dumps(second)):
            path.write_bytes(whole + half.encode())
            equal(raw.read(path), [first], "half a row")
        raw.append(path, second)
        equal(raw.read(path), [first, second], "rows after half a row")
        known = raw.of_campaign(raw.read(path), campaign, experiments)
        equal([e.id for e in experiments if e.id not in known], [e.id for e in experiments[2:]], "what is left")
        raw.append(path, {**first, "campaign": "000000000000", "id": experiments[5].id})
        equal(experiments[5].id in raw.of_campaign(raw.read(path), campaign, experiments), False, "a row of another campaign")
        path.write_text("{}\nno row\n{}\n")
        try:
            raw.read(path)
        except SystemExit as error:
            equal(f"{path}:2: not a row" in str(error), True, "a row that can't be read")
        else:
            sys.exit("campaign: a file with a broken row was read")


def neighbours():
    spells = lambda seed: list(itertools.islice(neighbour.spells(seed, "cpu"), 200))
    equal((spells(1) == spells(1), spells(1) == spells(2)), (True, False), "bursts follow from the seed")
    for length, (least, most) in zip(zip(*spells(1)), (neighbour.PAUSE, neighbour.BURST)):
        equal(all(least <= seconds <= most for seconds in length), True, "lengths of pauses and bursts")
    with tempfile.TemporaryDirectory() as folder:
        neighbour.write(time.monotonic() + 0.3, Path(folder))
        equal(os.listdir(folder), [], "files after a burst")
        # It ends when asked to, and with it all that it has started.
        child = subprocess.Popen([sys.executable, HERE / "neighbour.py", "1", folder], start_new_session=True)
        time.sleep(1)
        child.send_signal(signal.SIGTERM)
        equal((child.wait(), os.listdir(folder)), (0, []), "the end of a neighbour")


def main():
    intervals()
    campaigns()
    pages()
    resuming()
    neighbours()
    text = page.PAGE.read_text()
    if page.page(raw.read(page.RAW), text) != text:
        sys.exit("campaign: docs/evidence.md is not what docs/evidence/campaign.jsonl gives: run scripts/campaign/page.py")
    equal(page.page([*raw.read(page.RAW), a_row(design.campaign()[0], "Win", 1.0, 2.0)], text) == text, False, "a page without its last row")
    equal(page.between(f"a\n{page.BEGIN}old\n{page.END}b\n", "new"), f"a\n{page.BEGIN}\nnew\n{page.END}b\n", "between markers")


if __name__ == "__main__":
    main()
