#!/usr/bin/env python3
"""Shows the figures of `make fleet-bench`: a line for each fleet, or what has changed between two commits.

usage: table.py FILE [LATER]
"""

import csv
import sys

# Writes of Kubernetes follow from those of the operator.
OPERATOR = "writes per trial of assay-e2e"
COLUMNS = [
    ("trials/s", "trials/s", "operator"),
    ("of the control", "trials/s", "ratio"),
    ("busy %", "busy share of the fleet %", "operator"),
    ("of the control %", "busy share of the fleet %", "control"),
    ("gap p50 ms", "gap p50 ms", "operator"),
    ("p99", "gap p99 ms", "operator"),
    ("CPU/trial ms", "CPU of the operator per trial ms", "operator"),
    ("RSS MiB", "peak RSS MiB", "operator"),
    ("writes/trial", OPERATOR, "operator"),
    ("longest reconcile s", "longest reconcile s", "operator"),
]


def read(path):
    """Figures by fleet and name; of what was measured again, the last."""
    fleets = {}
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            values = {side: float(row[side]) if row[side] else None for side in ("control", "operator")}
            both = None not in values.values() and values["control"]
            values["ratio"] = values["operator"] / values["control"] if both else None
            fleets.setdefault(row["fleet"], {})[row["figure"]] = values
    return fleets


def shown(value):
    return "" if value is None else f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def line(cells):
    return f"| {' | '.join(cells)} |"


def table(fleets):
    yield line(["nodes, experiments, trials, s"] + [title for title, _, _ in COLUMNS])
    yield line(["---"] * (1 + len(COLUMNS)))
    for fleet, figures in fleets.items():
        cells = [figures.get(figure, {}).get(side) for _, figure, side in COLUMNS]
        yield line([fleet.replace("/", ", ")] + [shown(cell) for cell in cells])


def comparison(before, after):
    for fleet, figures in after.items():
        if fleet not in before:
            yield f"\n{fleet}: not measured before"
            continue
        yield f"\n{fleet.replace('/', ', ')}\n"
        yield line(["", "before", "after", "ratio", "before/control", "after/control"])
        yield line(["---"] * 6)
        for name in dict.fromkeys([*before[fleet], *figures]):
            old, new = (side.get(name, {}) for side in (before[fleet], figures))
            was, now = old.get("operator"), new.get("operator")
            ratio = now / was if was and now is not None else None
            yield line([name] + [shown(cell) for cell in (was, now, ratio, old.get("ratio"), new.get("ratio"))])


def main(paths):
    if len(paths) not in (1, 2):
        sys.exit(__doc__)
    files = [read(path) for path in paths]
    print("\n".join(table(*files) if len(files) == 1 else comparison(*files)))


if __name__ == "__main__":
    main(sys.argv[1:])
