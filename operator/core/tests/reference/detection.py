#!/usr/bin/env python3
"""Evidence of changes by "Detection" of docs/statistics.md, computed without Assay's code, for the tests of operator/core/src/sweep/detect.

Every night is computed from all nights up to it, with two-pass sums.  Usage: detection.py >../data/detection.json
"""

import json
import math
import random
from statistics import median

BEFORE, AFTER, WINDOW, PRIOR, CLIPPED_AFTER, LATEST, SHRUNK = 3, 2, 60, 4.0, 5, 60, 2.0
NEAR, FEWEST, RESTLESS = 20, 4, 1.2


def clip(before, value):
    if len(before) < CLIPPED_AFTER:
        return value
    latest = before[-LATEST:]
    centre = median(latest)
    spread = 3 * 1.4826 * (1 + 100 / len(latest) ** 2) * median(abs(own - centre) for own in latest)
    return value if spread == 0 else min(max(value, centre - spread), centre + spread)


def variance(near):
    squares = sorted((b - a) ** 2 for a, b in zip(near, near[1:]))
    return math.fsum(squares[:-1]) / (2 * (len(squares) - 1)) if len(squares) >= FEWEST else 0


def restlessness(raw):
    variances = [variance(raw[max(0, t - NEAR) : t + NEAR + 1]) for t in range(len(raw))]
    known = sorted(own for own in variances if own > 0)
    return [max(own / known[len(known) // 2] / RESTLESS, 1) if known else 1 for own in variances]


def weights(values, errors):
    usual = median(errors)
    of_errors = [error**2 + SHRUNK * usual**2 if usual else 1 for error in errors]
    raw = [1 / (own * ratio) for own, ratio in zip(of_errors, restlessness(values))]
    return [len(raw) * own / math.fsum(raw) for own in raw]


def mean(values, weights):
    return math.fsum(v * w for v, w in zip(values, weights)) / math.fsum(weights)


def candidates(raw, clipped, errors, start):
    """(night, log likelihood, shift as measured) of every candidate on the last of the nights."""
    t, w = len(raw), weights(raw, errors)
    found = []
    for k in range(max(BEFORE, start, t - AFTER + 1 - WINDOW), t - AFTER + 1):
        b, c = math.fsum(w[:k]), math.fsum(w[k:])
        mean_b, mean_c = mean(clipped[:k], w[:k]), mean(clipped[k:], w[k:])
        v = b * c / (b + c)
        rss = math.fsum(w[i] * (clipped[i] - (mean_b if i < k else mean_c)) ** 2 for i in range(t))
        r = (mean_c - mean_b) ** 2 * v / rss
        log = -0.5 * math.log(1 + PRIOR * v) + (t - 1) / 2 * (math.log(1 + r) - math.log(1 + r / (1 + PRIOR * v)))
        found.append((k, log, mean(raw[k:], w[k:]) - mean(raw[:k], w[:k])))
    return found


def case(name, values, errors, start=0):
    clipped = []
    for t, value in enumerate(values):
        clipped.append(clip(values[:t], value))
    sums = []
    for t in range(1, len(values) + 1):
        found = candidates(values[:t], clipped[:t], errors[:t], start)
        sums.append(math.fsum(math.exp(log) for _, log, _ in found))
    return {
        "name": name,
        "effects": values,
        "standardErrors": errors,
        "restartedAfter": start,
        "sums": sums,
        "candidates": [{"night": k, "logLikelihood": log, "shift": shift} for k, log, shift in found],
    }


def main():
    draw = random.Random(27)
    noise = lambda sd: round(draw.gauss(0, sd), 7)
    equal = lambda nights: [0.01] * nights
    uneven = lambda nights: [round(0.01 * draw.uniform(0.5, 1.8), 7) for _ in range(nights)]
    step = lambda nights, at, by: [round(noise(0.0112) - (by if night >= at else 0), 7) for night in range(nights)]
    outliers = step(40, 30, 0.03)
    outliers[12], outliers[20] = 0.08, -0.09
    cases = [
        case("a step of 3 % after 20 nights, all of one precision", step(30, 20, 0.03), equal(30)),
        case("nights of unequal precision, and two far out", outliers, uneven(40)),
        case("a step early on", step(9, 5, 0.05), uneven(9)),
        case("more nights than can be the first bad one", step(90, 200, 0.0), uneven(90)),
        case("more exact nights than others", step(16, 10, 0.05), [0.0] * 10 + uneven(6)),
        case("a suspicion that was refuted", step(24, 8, 0.02), equal(24), start=15),
        case("nights that scatter more than those before", [noise(0.01 if night < 40 else 0.03) for night in range(60)], equal(60)),
    ]
    print(json.dumps(cases, indent=1))


main()
