#!/usr/bin/env python3
"""Asks Apache Otava about nights like those of `make simulate-nights`, as someone would who runs it every night: a row of the table
"Detection" in docs/statistics.md.

Nights have a standard error of 1 % and an effect of their own of 0.5 %, both normal; Otava has its defaults, and sees all nights so far.
A false alarm is the first change that it reports of a series in which there is none; it then begins anew. After 30 nights a series changes,
and the delay counts the nights until Otava reports a change at most three nights before that.

usage: compare-otava.py [SERIES], by a Python that has apache-otava
"""

import importlib.metadata
import random
import statistics
import sys

from otava.analysis import compute_change_points

SERIES, YEAR = 50, 365
BEFORE, LONGEST = 30, 80
CHANGES = {"1.5 %": (1.5, 0.0), "3 %": (3.0, 0.0), "5 %": (5.0, 0.0), "0.2 % a night": (0.0, 0.2)}


def night(draw):
    return draw.gauss(0, 1) + draw.gauss(0, 0.5)


def points(series):
    found = compute_change_points(series)[0]
    return [point.index for point in found]


def until_false(draw):
    """Nights until a change is reported of a series without one."""
    series = [night(draw) for _ in range(3)]
    while len(series) < 3 * YEAR:
        series.append(night(draw))
        if points(series[-200:]):
            break
    return len(series)


def until_found(draw, step, drift):
    series = [night(draw) for _ in range(BEFORE)]
    for after in range(1, LONGEST + 1):
        series.append(night(draw) - step - drift * after)
        if any(index >= BEFORE - 3 for index in points(series)):
            return after
    return None


def quantile(delays, part):
    ordered = sorted(LONGEST + 1 if delay is None else delay for delay in delays)
    own = ordered[int(len(ordered) * part)]
    return "never" if own > LONGEST else str(own)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    draw = random.Random(1)
    lengths = [until_false(draw) for _ in range(count)]
    rate = SERIES * YEAR / statistics.mean(lengths)
    cells = []
    for step, drift in CHANGES.values():
        delays = [until_found(draw, step, drift) for _ in range(count)]
        cells.append(f"{quantile(delays, 0.5)}/{quantile(delays, 0.9)}")
    version = importlib.metadata.version("apache-otava")
    print(f"| normal nights, night effect 0.5 % | Apache Otava {version}, each night | {rate:.1f} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
