#!/usr/bin/env python3
"""Writes what a campaign has found so far to docs/evidence.md, from the raw results alone."""

import re
import statistics
from datetime import datetime
from pathlib import Path

import design
import rows as raw
from interval import clopper_pearson

ROOT = Path(__file__).resolve().parent.parent.parent
RAW = ROOT / "docs" / "evidence" / "campaign.jsonl"
PAGE = ROOT / "docs" / "evidence.md"
BEGIN, END = "<!-- campaign: begin -->\n", "<!-- campaign: end -->\n"
# The share of experiments in which a claim may be false, in percent.
PROMISE = 5.0
CLAIMS = ("Win", "Reject", "Tradeoff")
ENVIRONMENTS = {design.AS_IS: "as it is", design.NOISY: "with a noisy neighbour"}
PLANTED = {"stall": "1 run of 8 stalls for 2 s, the others are 5 % faster", "failure": "1 run of 8 fails, the others are 10 % faster"}


def rules():
    """The version of the rules of judgement in the code."""
    text = (ROOT / "operator/core/src/report/mod.rs").read_text()
    return int(re.search(r"^pub const RULES: u32 = (\d+);$", text, re.M)[1])


def table(head, lines):
    """A table; columns after the first are aligned to the right if they have figures."""
    rule = ["---"] + ["--:" if all(re.match(r"[-+±\d]", line[i]) for line in lines) else "---" for i in range(1, len(head))]
    return [f"| {' | '.join(cells)} |" if cells is not rule else f"|{'|'.join(rule)}|" for cells in (head, rule, *lines)]


def count(number, noun):
    return f"{number} {noun}{'' if number == 1 else 's'}"


def verdicts(rows):
    """How often each verdict came out, the most frequent first."""
    seen = [row["verdict"] for row in rows]
    names = sorted(set(seen), key=lambda name: (-seen.count(name), name))
    return ", ".join(f"{seen.count(name)} {name}" for name in names) or "none"


def share(hits, total):
    low, high = (100 * end for end in clopper_pearson(hits, total))
    return low, f"{hits} of {total}", f"{low:.1f} to {high:.1f} %"


def covers(row, truth):
    low, high = row["effect"]["low"], row["effect"]["high"]
    return None if low is None or high is None else low <= truth <= high


def covered(rows, truth):
    known = [hit for hit in (covers(row, truth) for row in rows) if hit is not None]
    return f"{sum(known)} of {len(known)}" if known else "no interval"


def middle(values, form):
    values = [value for value in values if value is not None]
    return form.format(statistics.median(values)) if values else "unknown"


def false_claims(rows):
    lines, missed = [], []
    for environment, name in ENVIRONMENTS.items():
        own = [row for row in rows if row["kind"] == design.AA and row["environment"] == environment]
        if not own:
            lines.append([name, "0", "", "", "not measured", "", ""])
            continue
        of = lambda *names: sum(row["verdict"] in names for row in own)
        low, hits, interval = share(of(*CLAIMS), len(own))
        if low > PROMISE:
            missed.append(name)
        outcome = "missed" if low > PROMISE else "not missed"
        lines.append([name, str(len(own)), str(of("Win")), str(of("Reject", "Tradeoff")), hits, interval, outcome])
    yield from table(["machine", "experiments", "Win", "Reject or Tradeoff", "false claims", "95 % interval", f"at most {PROMISE:.0f} %"], lines)
    yield ""
    for environment, name in ENVIRONMENTS.items():
        own = [row for row in rows if row["kind"] == design.AA and row["environment"] == environment]
        if own:
            yield f"All verdicts {name}: {verdicts(own)}. The 95 % interval of throughput contains 0 in {covered(own, 0.0)}."
            yield ""


def planted(rows):
    lines = []
    for kind, (_, truth) in design.PLANTED.items():
        if truth is None:
            continue
        own = [row for row in rows if row["kind"] == kind]
        right, wrong = ("Win", "Reject") if truth > 0 else ("Reject", "Win")
        if not own:
            lines.append([f"{truth:+.0f} %", "0", "", "", "", "", "not measured"])
            continue
        of = lambda name: f"{sum(row['verdict'] == name for row in own)} of {len(own)}"
        estimate = middle([row["effect"]["estimate"] for row in own], "{:+.1f} %")
        lines.append([f"{truth:+.0f} %", str(len(own)), of(right), of(wrong), covered(own, truth), estimate, verdicts(own)])
    head = ["planted", "experiments", "found", "opposite claimed", "interval contains it", "median estimate", "verdicts"]
    yield from table(head, lines)


def broken(rows):
    lines = []
    for kind, what in PLANTED.items():
        own = [row for row in rows if row["kind"] == kind]
        hit = sum(row["stalled" if kind == "stall" else "failed"] for row in own)
        wins = str(sum(row["verdict"] == "Win" for row in own))
        lines.append([what, str(len(own)), str(hit), wins if own else "", verdicts(own) if own else "not measured"])
    yield from table(["planted", "experiments", "runs hit", "Win", "verdicts"], lines)


def widths(rows):
    lines = []
    for environment, name in ENVIRONMENTS.items():
        for workload in design.WORKLOADS:
            own = [row for row in rows if row["kind"] == design.AA and (row["environment"], row["workload"]) == (environment, workload)]
            if not own:
                continue
            half = [(row["effect"]["high"] - row["effect"]["low"]) / 2 for row in own if covers(row, 0.0) is not None]
            lines.append(
                [
                    f"`{workload}`, {name}",
                    str(len(own)),
                    middle([row["blocks"] for row in own], "{:.0f}"),
                    middle([row["scatterPercent"] for row in own], "{:.1f} %"),
                    middle(half, "±{:.1f} %"),
                    f"±{max(half):.1f} %" if half else "unknown",
                    middle([row["foreignCpuPercent"] for row in own], "{:.1f} %"),
                    middle([row["stealPercent"] for row in own], "{:.1f} %"),
                    middle([row["seconds"] for row in own], "{:.0f} s"),
                ]
            )
    head = ["workload", "experiments", "blocks", "scatter of runs", "interval", "widest", "foreign CPU", "steal", "time"]
    yield from table(head, lines) if lines else ["Nothing was measured yet."]


def machines(rows):
    def text(row):
        machine = row["machine"]
        size = f"{machine['memoryBytes'] / 2**30:.0f} GiB of memory" if machine["memoryBytes"] else "unknown memory"
        disk = " ".join(filter(None, [machine["diskTransport"], machine["diskModel"], machine["disk"]]))
        parts = [f"{machine['onlineCpus']} CPUs ({machine['cpuModel']})", size, f"Linux {machine['kernel']}", f"disk {disk} with {machine['filesystem']}"]
        return ", ".join(parts)

    return sorted({text(row) for row in rows})


def programs(rows):
    named = {f"{row['assay']} of commit {row['commit']}, RocksDB {row['rocksdb']}, rules {row['rules']}" for row in rows}
    return sorted(named)


def state(rows, total, others):
    if len(rows) < total:
        yield f"**This campaign is partial: {len(rows)} of {count(total, 'experiment')}.** It continues with the next `make campaign`."
    else:
        yield f"The campaign is complete: {count(total, 'experiment')}."
    if rows:
        starts = sorted(datetime.fromisoformat(row["started"]) for row in rows)
        days = list(dict.fromkeys(f"{start:%-d %B %Y}" for start in (starts[0], starts[-1])))
        hours = sum(row["seconds"] for row in rows) / 3600
        fates = {name: sum(row["attempts"].get(name, 0) for row in rows) for row in rows for name in row["attempts"]}
        runs = ", ".join(f"{number} {name.lower()}" for name, number in sorted(fates.items(), key=lambda fate: -fate[1]))
        yield f"It took {hours:.1f} hours of measuring ({' to '.join(days)}) and {sum(fates.values())} runs: {runs}."
        yield ""
        yield from (f"- Machine: {machine}" for machine in machines(rows))
        yield from (f"- Programs: {program}" for program in programs(rows))
        loads = [row["load"] for row in rows]
        yield f"- Load when an experiment began: median {statistics.median(loads):.1f}, highest {max(loads):.1f}"
    if others:
        yield ""
        yield f"The raw file also has {count(others, 'result')} of other campaigns (other experiments or rules). They do not count here."


def generated(all_rows, campaign, experiments):
    """What the page says of these rows."""
    of_it = raw.of_campaign(all_rows, campaign, experiments)
    rows = [of_it[experiment.id] for experiment in experiments if experiment.id in of_it]
    others = sum(row.get("campaign") != campaign for row in all_rows)
    parts = [
        ("", state(rows, len(experiments), others)),
        ("### False claims", false_claims(rows)),
        ("### Planted effects", planted(rows)),
        ("### Planted stalls and failures", broken(rows)),
        ("### Noise and the width of intervals", widths(rows)),
    ]
    texts = ["\n".join([*([title, ""] if title else []), *lines]).rstrip() for title, lines in parts]
    return "\n\n".join(texts) + "\n"


def between(page, text):
    """A page with another text between its markers."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def page(all_rows, text):
    experiments = design.campaign()
    return between(text, generated(all_rows, design.digest(experiments, rules()), experiments))


def write():
    PAGE.write_text(page(raw.read(RAW), PAGE.read_text()))


if __name__ == "__main__":
    write()
