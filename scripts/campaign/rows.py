"""The raw results: one line of JSON for each experiment, added when it is over."""

import json
import math
import os
import statistics
from datetime import datetime, timezone

# Of a run in which the planted stall was seen, in microseconds.
STALLED = 1_900_000


def read(path):
    """All rows of a file. Whoever was killed while it wrote has left a last line without an end, which is no row."""
    if not path.is_file():
        return []
    whole = path.read_text().split("\n")[:-1]
    rows = []
    for number, line in enumerate(whole, 1):
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            raise SystemExit(f"{path}:{number}: not a row of a campaign ({error}): restore the file from git, or delete the line") from error
    return rows


def of_campaign(rows, campaign, experiments):
    """The rows that count, by experiment: of this campaign, and of experiments that it has."""
    known = {experiment.id for experiment in experiments}
    return {row["id"]: row for row in rows if row.get("campaign") == campaign and row["id"] in known}


def append(path, row):
    """Adds a row, after removing half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab+") as file:
        file.seek(0)
        whole = file.read()
        file.truncate(whole.rfind(b"\n") + 1)
        file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def percent(effect):
    """A log ratio as a change in percent."""
    return None if effect is None else round(100 * math.expm1(effect), 3)


def median(values, digits=3):
    values = [value for value in values if value is not None]
    return round(statistics.median(values), digits) if values else None


def scatter(values):
    """The coefficient of variation in percent."""
    return round(100 * statistics.stdev(values) / statistics.mean(values), 3) if len(values) > 1 else None


def measured(folder, baseline):
    """What a results folder says, for a row."""
    report = json.loads((folder / "report.json").read_text())
    config, trials = report["configs"][0], report["trials"]
    estimate = next((e for e in config["estimates"] if e["metric"] == "throughput"), {})
    interval = estimate.get("interval95") or {}
    records = [json.loads(path.read_text()) for path in sorted(folder.glob("trials/*/record.json"))]
    disturbance = [record["evidence"]["disturbance"] for record in records]
    fates = {}
    for trial in trials:
        fates[trial["state"]] = fates.get(trial["state"], 0) + 1
    own = [t["metrics"]["throughput"] for t in trials if t["state"] == "Valid" and t["trial"]["config"] == baseline and "throughput" in t["metrics"]]
    stalls = [record["metrics"].get("step_latency_max", 0) >= STALLED for record in records if record["spec"]["trial"]["config"] != baseline]
    machine, build = report["setup"]["machines"][0], report["setup"]["builds"][0]
    return {
        "verdict": config["verdict"],
        "reason": config["reason"],
        "labels": config.get("labels", []) + [entry["label"] for entry in report["labels"]],
        "effect": {
            "estimate": percent(estimate.get("estimate")),
            "low": percent(interval.get("low")),
            "high": percent(interval.get("high")),
            "mean": percent(estimate.get("mean")),
        },
        "blocks": report["progress"]["blocksDone"],
        "attempts": fates,
        "stalled": sum(stalls),
        "failed": config["failed"],
        "windowSeconds": median([trial.get("windowSeconds") for trial in trials]),
        "foreignCpuPercent": median([seen.get("foreignCpuPercent") for seen in disturbance]),
        "stealPercent": median([seen.get("stealPercent") for seen in disturbance]),
        "scatterPercent": scatter(own),
        "started": datetime.fromtimestamp(report["setup"]["startedUnixMs"] / 1000, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "rules": report["rules"],
        "assay": report["producedBy"],
        "bench": build["benchVersion"],
        "rocksdb": build["rocksdbVersion"],
        "machine": {
            key: machine.get(key)
            for key in ("cpuModel", "onlineCpus", "memoryBytes", "kernel", "disk", "diskModel", "diskTransport", "filesystem")
        },
    }
