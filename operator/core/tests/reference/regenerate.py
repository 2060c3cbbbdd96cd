#!/usr/bin/env python3
"""Whole verdicts by the rules of docs/statistics.md, computed without Assay's code, and written into reference-cases.json.

Inputs and primitives stay as they are: the p values of each comparison are computed again and compared with those in the file. What
changes is printed, case by case.  Usage: regenerate.py [FILE]
"""

import json
import math
import sys
from itertools import combinations_with_replacement
from pathlib import Path
from statistics import mean, median, stdev

ALPHA, FUTILITY = 0.05, 0.025
FILE = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent / "data/reference-cases.json")


def centre(values):
    return median((a + b) / 2 for a, b in combinations_with_replacement(values, 2))


def midranks(values):
    """Twice the ranks of values rounded to 12 decimals."""
    rounded = [round(value, 12) for value in values]
    ordered = sorted(rounded)
    below = {}
    for i, value in enumerate(ordered):
        below.setdefault(value, i)
    count = {value: ordered.count(value) for value in below}
    return [2 * below[value] + count[value] + 1 for value in rounded]


def at_least(choices, seen):
    """Share of sums of one choice for each block that are at least `seen`."""
    sums = {0: 1.0}
    for choice in choices:
        following = {}
        for total, share in sums.items():
            for term in choice:
                following[total + term] = following.get(total + term, 0.0) + share / len(choice)
        sums = following
    return math.fsum(share for total, share in sums.items() if total >= seen)


def signed_rank(own, base, up):
    sign = 1 if up else -1
    differences = [[sign * round(c - b, 12) for b in runs] for c, runs in zip(own, base)]
    flat = [x for block in differences for x in block]
    ranks = iter(midranks([abs(x) for x in flat]))
    scores = [sum(next(ranks) * ((x > 0) - (x < 0)) for x in block) for block in differences]
    return at_least([(score, -score) for score in scores], sum(scores))


def aligned_rank(own, base, up):
    sign = 1 if up else -1
    blocks = [[sign * c] + [sign * b for b in runs] for c, runs in zip(own, base)]
    ranks = iter(midranks([x - centre(block) for block in blocks for x in block]))
    ranked = [[next(ranks) for _ in block] for block in blocks]
    return at_least(ranked, sum(block[0] for block in ranked))


def p_value(own, base, shift, up):
    own = [c - shift for c in own]
    p = signed_rank(own, base, up)
    return p if len(base[0]) == 1 else max(p, aligned_rank(own, base, up))


def interval(own, base, level):
    """Effects that the test keeps on both sides; None where even the far end is kept."""
    keeps = (1 - level) / 2
    effects = [c - b for c, runs in zip(own, base) for b in runs]
    inside = centre(effects)

    def end(outside, up):
        if p_value(own, base, outside, up) > keeps:
            return None
        near, far = inside, outside
        for _ in range(40):
            middle = (near + far) / 2
            near, far = (middle, far) if p_value(own, base, middle, up) > keeps else (near, middle)
        return (near + far) / 2

    return [end(min(effects) - 1, True), end(max(effects) + 1, False)]


def estimates(metric, own, base):
    """What is printed beside the p values."""
    estimate = centre([c - b for c, runs in zip(own, base) for b in runs])
    return {
        "n": len(own),
        "estimate": estimate,
        "estimate_pct": 100 * math.expm1(estimate) if metric["scale"] == "log" else None,
        "sd_block": stdev(c - mean(runs) for c, runs in zip(own, base)),
        "ci90": interval(own, base, 0.90),
        "ci95": interval(own, base, 0.95),
    }


def sign_flips(differences, steps=200_000):
    whole = math.fsum(abs(x) for x in differences)
    if not whole:
        return 1.0
    scores = [round(x / whole * steps) for x in differences]
    return at_least([(score, -score) for score in scores], sum(scores))


def transform(metric, value):
    sign = 1 if metric["direction"] == "higher" else -1
    return sign * (math.log(value) if metric["scale"] == "log" else value)


def effect_of(metric, margin):
    return math.log1p(margin) if metric["scale"] == "log" else margin


def shares(looks, exponent, claims):
    """What each look may spend on so many claims: nothing where even their smallest p value is not enough."""
    found, spent = [], 0.0
    for n in looks:
        share = (n / looks[-1]) ** exponent - spent
        if claims * 0.5**n <= ALPHA * share or n == looks[-1]:
            spent += share
        else:
            share = 0.0
        found.append(share)
    return found


def t_quantile(p, freedom):
    """The quantile of Student's t, by Simpson's rule on its density and bisection."""
    c = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    # In u = atan(x) the tail is a finite integral.
    density = lambda u: c * (1 + math.tan(u) ** 2 / freedom) ** (-(freedom + 1) / 2) / math.cos(u) ** 2

    def below(x, steps=2000):
        high = math.atan(x)
        h = high / steps
        inner = sum((4 if i % 2 else 2) * density(i * h) for i in range(1, steps))
        return 0.5 + h / 3 * (density(0) + inner + density(high))

    low, high = 0.0, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < p else (low, middle)
    return high


def is_required(metric):
    return metric["role"] in ("primary", "guardrail")


def claims(metric, own, base, alone):
    """One-sided p values of a comparison; those of a scenario besides, where it is one."""
    eps = effect_of(metric, metric["margin"])
    p = {
        "better": p_value(own, base, 0, True),
        "worse": p_value(own, base, 0, False),
        "noninferior": p_value(own, base, -eps, True),
        "nogain": p_value(own, base, eps, False),
    }
    p["equivalent"] = max(p["noninferior"], p["nogain"])
    if alone and is_required(metric):
        primary = metric["role"] == "primary"
        lost = eps if primary else effect_of(metric, 2 * metric["margin"])
        p["scenario"] = p["equal_scenario"] = p_value(own, base, -lost, True)
        cost = (lambda x: math.exp(-x)) if metric["scale"] == "log" else (lambda x: -x)
        pairs = [(cost(c), mean(map(cost, runs))) for c, runs in zip(own, base)]
        allowed = (lambda b: b * math.exp(lost)) if metric["scale"] == "log" else (lambda b: b + lost)
        p["total"] = sign_flips([allowed(b) - c for c, b in pairs])
        p["total_worse"] = sign_flips([c - b for c, b in pairs])
    return p


def total_effect(metric, own, base):
    cost = (lambda x: math.exp(-x)) if metric["scale"] == "log" else (lambda x: -x)
    mine, theirs = sum(map(cost, own)), sum(mean(map(cost, runs)) for runs in base)
    return math.log(theirs / mine) if metric["scale"] == "log" else (theirs - mine) / len(own)


def holm(ps):
    order = sorted(range(len(ps)), key=ps.__getitem__)
    out, largest = [0.0] * len(ps), 0.0
    for i, index in enumerate(order):
        largest = max(largest, min(1.0, (len(ps) - i) * ps[index]))
        out[index] = largest
    return out


def bh(ps):
    order = sorted(range(len(ps)), key=ps.__getitem__, reverse=True)
    out, least = [0.0] * len(ps), 1.0
    for i, index in enumerate(order):
        least = min(least, ps[index] * len(ps) / (len(ps) - i))
        out[index] = least
    return out


class Family:
    """Units on metrics: {unit: {metric: p over the looks}}. Nothing fails in these cases, so each unit's claim to that has p = 1."""

    # What depends on the size of the family.
    CORRECTED = ("p_better_adj", "p_worse_adj")

    def __init__(self, metrics, units, adjust):
        self.metrics, self.units, self.adjust = metrics, units, adjust
        self.now, self.seq, self.n, self.values, self.mean = {}, {}, {}, {}, {}

    def n_min(self):
        primaries = sum(m["role"] == "primary" for m in self.metrics)
        return math.ceil(math.log2(len(self.units) * primaries / ALPHA))

    def plan(self, looks):
        """What each look may spend, by claim."""
        primaries = sum(m["role"] == "primary" for m in self.metrics)
        required = sum(map(is_required, self.metrics))
        units = len(self.units)
        kinds = {
            "better": shares(looks, 2, units * primaries),
            "worse": shares(looks, 3, units * (required + 1)),
            "scenario": shares(looks, 2, 1),
        }
        equal = shares(looks, 3, 1)
        equal_kinds = ("noninferior", "equivalent", "equal_scenario")
        kinds |= {claim: equal for claim in equal_kinds}
        kinds |= {claim: kinds["scenario"] for claim in ("total", "total_worse")}
        self.shares = {n: {claim: share[i] for claim, share in kinds.items()} for i, n in enumerate(looks)}

    def take(self, unit, metric, own, base, alone, look):
        key, now = (unit, metric["name"]), claims(metric, own, base, alone)
        before = self.seq.get(key, {})
        share = self.shares[look]
        spent = lambda claim, p: p / share[claim] if share[claim] else 1.0
        self.seq[key] = {
            claim: p if claim == "nogain" else min(before.get(claim, 1.0), spent(claim, p)) for claim, p in now.items()
        }
        self.now[key], self.n[key], self.values[key] = now, len(own), (own, base)
        self.mean[key] = total_effect(metric, own, base) if alone else None

    def likely_harm(self, unit):
        """Required metrics of which all of a simultaneous interval of the mean lies beyond the margin."""
        required = [m for m in self.metrics if is_required(m)]
        found = []
        for m in required:
            own, base = self.values[unit, m["name"]]
            gaps = [c - mean(runs) for c, runs in zip(own, base)]
            if len(gaps) < 2:
                continue
            t = t_quantile(1 - ALPHA / (len(self.units) * len(required)) / 2, len(gaps) - 1)
            if mean(gaps) + t * stdev(gaps) / math.sqrt(len(gaps)) < -effect_of(m, m["margin"]):
                found.append(m["name"])
        return found

    def lost_means(self, unit):
        required = [m for m in self.metrics if is_required(m)]
        return [m["name"] for m in required if self.mean[unit, m["name"]] < -effect_of(m, m["margin"])]

    def correct(self):
        def family(claim, makes, failures=0):
            keys = [(u, m["name"]) for u in self.units for m in self.metrics if makes(m)]
            keys = [key for key in keys if claim in self.seq[key]]
            adjusted = self.adjust([self.seq[key][claim] for key in keys] + [1.0] * failures)
            return dict(zip(keys, adjusted))

        self.better = family("better", lambda m: m["role"] == "primary")
        self.worse = family("worse", is_required, len(self.units))
        self.total_worse = family("total_worse", is_required)

    def status(self, unit, metric):
        key = (unit, metric["name"])
        if self.seq[key]["equivalent"] <= ALPHA:
            return "EQUIVALENT"
        if self.better.get(key, 1) <= ALPHA:
            return "BETTER"
        if self.worse.get(key, 1) <= ALPHA:
            return "WORSE"
        return "NON_INFERIOR" if self.seq[key]["noninferior"] <= ALPHA else "UNRESOLVED"

    def outcome(self, unit):
        required = [m for m in self.metrics if is_required(m)]
        status = {m["name"]: self.status(unit, m) for m in required}
        primary = [m["name"] for m in required if m["role"] == "primary"]
        better = [m for m in primary if status[m] == "BETTER"]
        worse = [m for m in status if status[m] == "WORSE"]
        unresolved = [m for m in status if status[m] == "UNRESOLVED"]
        equivalent = all(status[m] == "EQUIVALENT" for m in primary)
        if better and worse:
            return "TRADEOFF", f"{','.join(better)} better; {','.join(worse)} worse"
        if worse:
            return "REJECT", "Harm:" + ",".join(worse)
        if better and not unresolved:
            return "WIN", "Better:" + ",".join(better)
        if equivalent and not unresolved:
            return "NEUTRAL", "Equivalent"
        if harmed := self.likely_harm(unit):
            return "INCONCLUSIVE", "LikelyHarm:" + ",".join(harmed)
        if better or equivalent:
            return "INCONCLUSIVE", "GuardrailUnresolved:" + ",".join(unresolved)
        if any(self.n[unit, m] < self.n_min() for m in primary):
            return "INCONCLUSIVE", "TooFewBlocks"
        if all(self.now[unit, m]["nogain"] <= FUTILITY for m in primary):
            return "INCONCLUSIVE", "NoGain"
        return "INCONCLUSIVE", "Underpowered"

    def tail(self, unit):
        """Required metrics whose mean does not hold: worse, or open."""
        found = {"worse": [], "open": []}
        for name in (m["name"] for m in self.metrics if is_required(m)):
            if self.seq[unit, name]["total"] > ALPHA:
                found["worse" if self.total_worse[unit, name] <= ALPHA else "open"].append(name)
        return found


def cell_outcome(cells, unit):
    verdict, reason = cells.outcome(unit)
    if verdict == "WIN":
        tail = cells.tail(unit)
        for kind, instead in (("worse", "TRADEOFF"), ("open", "INCONCLUSIVE")):
            if tail[kind]:
                return instead, "SlowTail:" + ",".join(tail[kind])
    if verdict == "NEUTRAL" and cells.lost_means(unit):
        return "INCONCLUSIVE", "SlowTail:" + ",".join(cells.lost_means(unit))
    return verdict, reason


def overall_outcome(together, cells, scenarios, config):
    verdict, reason = together.outcome(config)
    units = {s: (s, config) for s in scenarios}
    own = {s: cell_outcome(cells, units[s]) for s in scenarios}
    against = [s for s in scenarios if own[s][0] in ("REJECT", "TRADEOFF")]
    if verdict == "WIN":
        against = [s for s in against if not own[s][1].startswith("SlowTail")]
    if against and verdict == "WIN":
        return "TRADEOFF", "worse in " + ",".join(against)
    if against and verdict in ("NEUTRAL", "INCONCLUSIVE"):
        return "REJECT", "worse in " + ",".join(against)
    if verdict == "INCONCLUSIVE" and not reason.startswith("LikelyHarm"):
        harmed = {s: own[s][1].removeprefix("LikelyHarm:") for s in scenarios if own[s][1].startswith("LikelyHarm")}
        if harmed:
            named = dict.fromkeys(m for found in harmed.values() for m in found.split(","))
            return "INCONCLUSIVE", f"LikelyHarm:{','.join(named)} in {','.join(harmed)}"
    if verdict == "NEUTRAL":
        primaries = [m["name"] for m in cells.metrics if m["role"] == "primary"]
        proven = lambda s: all(cells.seq[units[s], m].get("equal_scenario", 0) <= ALPHA for m in primaries)
        if len(scenarios) > 1 and (unproven := [s for s in scenarios if not proven(s)]):
            return "INCONCLUSIVE", "ScenarioUnresolved:" + ",".join(unproven)
        lost = {s: cells.lost_means(units[s]) for s in scenarios if cells.lost_means(units[s])}
        if lost:
            named = ",".join(dict.fromkeys(m for found in lost.values() for m in found))
            return "INCONCLUSIVE", f"SlowTail:{named}" + (f" in {','.join(lost)}" if len(scenarios) > 1 else "")
        weighted = lambda m: mean(cells.mean[units[s], m["name"]] for s in scenarios)
        lost = [m["name"] for m in cells.metrics if is_required(m) and weighted(m) < -effect_of(m, m["margin"])]
        return ("INCONCLUSIVE", "SlowTail:" + ",".join(lost)) if lost else (verdict, reason)
    if verdict != "WIN":
        return verdict, reason
    tails = {s: cells.tail(units[s]) for s in scenarios}
    where = lambda places: " in " + ",".join(places) if len(scenarios) > 1 else ""
    said = lambda kind: ",".join(dict.fromkeys(m for s in scenarios for m in tails[s][kind]))
    if said("worse"):
        return "TRADEOFF", f"SlowTail:{said('worse')}{where([s for s in scenarios if tails[s]['worse']])}"
    if len(scenarios) > 1:
        holds = lambda s: all(cells.seq[units[s], m["name"]].get("scenario", 0) <= ALPHA for m in cells.metrics)
        if unproven := [s for s in scenarios if not holds(s)]:
            return "INCONCLUSIVE", "ScenarioUnresolved:" + ",".join(unproven)
    if said("open"):
        return "INCONCLUSIVE", f"SlowTail:{said('open')}{where([s for s in scenarios if tails[s]['open']])}"
    return verdict, reason


def judge(metrics, scenarios, configs, data, looks, stop_on, cells_adjust):
    """Families as the last look left them, the trace of looks, and where each config stopped."""
    blocks = len(data[scenarios[0]][metrics[0]["name"]]["base"])
    planned = looks or [blocks]
    together = Family(metrics, configs, holm)
    cells = Family(metrics, [(s, c) for s in scenarios for c in configs], cells_adjust)
    stopped, trace = {}, []
    together.plan(planned)
    cells.plan(planned)
    for n in planned:
        for config in (c for c in configs if c not in stopped):
            for metric in metrics:
                own, base = {}, {}
                for s in scenarios:
                    values = data[s][metric["name"]]
                    own[s] = [transform(metric, v) for v in values[config][:n]]
                    base[s] = [[transform(metric, v) for v in runs] for runs in values["base"][:n]]
                    cells.take((s, config), metric, own[s], base[s], True, n)
                mixed = [mean(own[s][b] for s in scenarios) for b in range(n)]
                m0 = len(base[scenarios[0]][0])
                mixed_base = [[mean(base[s][b][j] for s in scenarios) for j in range(m0)] for b in range(n)]
                together.take(config, metric, mixed, mixed_base, False, n)
        together.correct()
        cells.correct()
        overall = {c: overall_outcome(together, cells, scenarios, c) for c in configs}
        is_futile = together.shares[n]["worse"] > 0
        settled = lambda outcome: outcome[0] != "INCONCLUSIVE" or (is_futile and outcome[1] == "NoGain")
        for c in configs:
            # A scenario's veto against what is open itself stops nothing.
            done = settled(overall[c]) and settled(together.outcome(c))
            if stop_on == "cells":
                done = done and all(settled(cell_outcome(cells, (s, c))) for s in scenarios)
            if c not in stopped and (done or n == planned[-1]):
                stopped[c] = n
        words = {c: {"verdict": v, "reason": r} for c, (v, r) in overall.items()}
        trace.append({"n": n, "overall": words, "stopped": sorted(stopped)})
        if len(stopped) == len(configs):
            break
    return together, cells, overall, trace, stopped


def put(at, expected, key, value):
    """Replaces an expectation, and says so if it was another."""
    old = expected[key]
    if isinstance(value, float) and abs(old - value) <= 1e-9:
        return
    elif old == value:
        return
    print(f"{at} {key}: {old} -> {value}")
    expected[key] = value


def put_conclusion(at, expected, family, unit, outcome):
    if "verdict" in expected:
        put(at, expected, "verdict", outcome[0])
        put(at, expected, "reason", outcome[1])
    for metric in family.metrics:
        name, key = metric["name"], (unit, metric["name"])
        if name in expected.get("status", {}):
            put(at, expected["status"], name, family.status(unit, metric))
        effect = expected.get("metrics", {}).get(name, {})
        computed = {f"p_{claim}": p for claim, p in family.now[key].items()}
        computed |= {f"p_{claim}_seq": min(1.0, p) for claim, p in family.seq[key].items()}
        computed |= {"p_better_adj": family.better.get(key), "p_worse_adj": family.worse.get(key)}
        stopped_elsewhere = effect.get("n", family.n[key]) != family.n[key]
        if stopped_elsewhere:
            computed |= estimates(metric, *family.values[key])
        for field in list(effect):
            if field in family.CORRECTED or field.endswith("_seq") or stopped_elsewhere:
                if computed.get(field) is not None:
                    put(f"{at} {name}", effect, field, computed[field])
            elif field.startswith("p_") and abs(computed[field] - effect[field]) > 1e-9:
                sys.exit(f"{at} {name} {field}: {computed[field]} instead of {effect[field]}: rules do not change that")


def main():
    cases = json.loads(FILE.read_text())
    for case in cases["cells"]:
        if "invalid_blocks" in case:
            continue
        data = {m: {"base": v["base"], "cand": v["cand"]} for m, v in case["data"].items()}
        judged = judge(case["metrics"], ["s"], ["cand"], {"s": data}, None, "overall", holm)
        put_conclusion(case["name"], case["expect"], judged[1], ("s", "cand"), cell_outcome(judged[1], ("s", "cand")))
    named = {case["name"]: case for case in cases["experiments"]}
    for case in cases["experiments"]:
        source = (named[case["experiment_ref"]] if "experiment_ref" in case else case)["experiment"]
        metrics, scenarios, configs = source["metrics"], source["scenarios"], source["configs"]
        adjust = {"holm": holm, "bh": bh}[case["cells_adjust"]]
        looks, stop_on = case.get("looks"), case.get("stop_on", "overall")
        together, cells, overall, trace, stopped = judge(
            metrics, scenarios, configs, source["data"], looks, stop_on, adjust
        )
        expected = case["expect"]
        for config in configs:
            if config in expected.get("overall", {}):
                put_conclusion(f"{case['name']} {config}", expected["overall"][config], together, config, overall[config])
            if "stopped_at" in expected:
                put(case["name"] + " stopped_at", expected["stopped_at"], config, stopped[config])
            for s in scenarios:
                if (cell := expected.get("cells", {}).get(f"{s}/{config}")) is not None:
                    unit = (s, config)
                    put_conclusion(f"{case['name']} {s}/{config}", cell, cells, unit, cell_outcome(cells, unit))
        if "trace" in expected:
            for old, new in zip(expected["trace"], trace):
                put(f"{case['name']} trace {new['n']}", old, "overall", new["overall"])
                put(f"{case['name']} trace {new['n']}", old, "stopped", new["stopped"])
            if len(expected["trace"]) != len(trace):
                put(case["name"], expected, "trace", trace)
    cases["generator"] = "verdict_reference.py, whole verdicts by regenerate.py"
    FILE.write_text(json.dumps(cases, indent=1) + "\n")


main()
