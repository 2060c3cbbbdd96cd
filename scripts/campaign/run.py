#!/usr/bin/env python3
"""Measures on this machine how often Assay claims what is not there, and how often it finds what was planted. Takes hours, and continues
after any interruption where it was: each finished experiment is a line of docs/evidence/campaign.jsonl, and `assay run` continues an
unfinished one. docs/evidence.md is written anew after each.

usage: run.py [--count N] PLANTED-BENCH
"""

import argparse
import ctypes
import fcntl
import hashlib
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import design
import page
import rows as raw

ROOT = page.ROOT
ASSAY, BENCH = ROOT / "bin" / "assay", ROOT / "bin" / "assay-bench"
WORK = ROOT / "target" / "campaign"
# Exit codes of `assay run` with a verdict.
JUDGED = (0, 10, 11)
INTERRUPTED = 130
# So many experiments in a row without a verdict end the campaign.
PATIENCE = 3
# How long an experiment takes, in seconds, while none of its kind was measured.
GUESS = 100


def say(text):
    print(f"campaign: {text}", flush=True)


def ends_with_us():
    """Of what this process starts: it is asked to end when this process is killed, so that it does not disturb the next campaign."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def locked():
    """Only one campaign measures. What it has started holds the lock too, until it has ended."""
    WORK.mkdir(parents=True, exist_ok=True)
    lock = os.open(WORK / "lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("another campaign is running or about to end; waiting for it")
        fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def commit():
    git = lambda *arguments: subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    # What the campaign writes itself is no change.
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/evidence.md", ":!docs/evidence")
    return git("rev-parse", "--short=12", "HEAD") + (" with changes" if changed else "")


def folder(campaign, benches):
    """Where results are kept until their row is written. A bench that was built anew can't continue what another one began."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in benches)).hexdigest()[:12]
    own = WORK / f"{campaign}-{digest}"
    for other in WORK.iterdir():
        if other.is_dir() and other != own:
            shutil.rmtree(other)
    own.mkdir(exist_ok=True)
    return own


def measure(experiment, own, planted_bench, lock):
    """Runs an experiment, or what is left of it. Returns its row, or nothing if there is no verdict."""
    file, out = own / f"{experiment.id}.yaml", own / experiment.id
    file.write_text(experiment.yaml)
    load, began, spent = os.getloadavg()[0], time.monotonic(), own / f"{experiment.id}.seconds"
    # A session of its own: Ctrl-C in the terminal is for us to pass on.
    start = lambda command, **more: subprocess.Popen(command, cwd=ROOT, preexec_fn=ends_with_us, pass_fds=(lock,), start_new_session=True, **more)
    bench = planted_bench if experiment.planted else BENCH
    neighbour = None
    if experiment.environment == design.NOISY:
        neighbour = start([sys.executable, Path(__file__).parent / "neighbour.py", str(experiment.seed), own / "neighbour"])
    environment = {**os.environ, "ASSAY_PLANTED": experiment.planted}
    try:
        with open(own / f"{experiment.id}.log", "w") as log:
            command = [ASSAY, "run", file, "--out", out, "--bench", bench]
            assay = start(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
            try:
                code = assay.wait()
            except KeyboardInterrupt:
                assay.send_signal(signal.SIGINT)
                code = assay.wait()
                raise
            finally:
                # What an interrupted part took counts as well.
                seconds = time.monotonic() - began + (float(spent.read_text()) if spent.is_file() else 0)
                spent.write_text(str(seconds))
    finally:
        if neighbour:
            neighbour.terminate()
            neighbour.wait()
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    if code not in JUDGED:
        last = (own / f"{experiment.id}.log").read_text().strip().splitlines()[-3:]
        say(f"{experiment.id}: no verdict (exit code {code}): {' '.join(last)}")
        return None
    row = {"kind": experiment.kind, "environment": experiment.environment, "workload": experiment.workload, "seed": experiment.seed}
    return {**row, **raw.measured(out, design.BASELINE), "seconds": round(seconds), "load": round(load, 2)}


def left(experiments, known):
    """The time for these experiments, in seconds, by what such ones have taken."""
    taken = {}
    for row in known.values():
        taken.setdefault((row["environment"], row["workload"]), []).append(row["seconds"])
    return sum(statistics.mean(taken.get((e.environment, e.workload), [GUESS])) for e in experiments)


def in_words(seconds):
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("planted_bench", metavar="PLANTED-BENCH", type=Path)
    arguments.add_argument("--count", type=int, help="measure at most so many experiments")
    options = arguments.parse_args()
    planted_bench = options.planted_bench.resolve()
    for program in (ASSAY, BENCH, planted_bench):
        if not program.is_file():
            sys.exit(f"campaign: no program at {program}: use `make campaign`, which builds it")
    lock = locked()
    # A service manager's stop is as good as Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    experiments = design.campaign()
    campaign = design.digest(experiments, page.rules())
    known = raw.of_campaign(raw.read(page.RAW), campaign, experiments)
    own, of = folder(campaign, [BENCH, planted_bench]), commit()
    due = [experiment for experiment in experiments if experiment.id not in known]
    say(f"{len(known)} of {len(experiments)} experiments are done; about {in_words(left(due, known))} left; Ctrl-C is safe")
    failures = 0
    for number, experiment in enumerate(due[: options.count]):
        say(f"{experiment.id}: begins, load {os.getloadavg()[0]:.1f}")
        row = measure(experiment, own, planted_bench, lock)
        if not row:
            failures += 1
            if failures == PATIENCE:
                sys.exit(f"campaign: {PATIENCE} experiments in a row have no verdict: fix what they name, then run `make campaign` again")
            continue
        failures = 0
        row = {"campaign": campaign, "id": experiment.id, "commit": of, **row}
        raw.append(page.RAW, row)
        page.write()
        known[experiment.id] = row
        for path in own.glob(f"{experiment.id}*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        effect = row["effect"]
        interval = f"{effect['low']:+.1f} to {effect['high']:+.1f} %" if None not in (effect["low"], effect["high"]) else "no interval"
        say(
            f"{experiment.id}: {row['verdict']} ({row['reason']}), {interval}, {row['seconds']} s; "
            f"{len(known)} of {len(experiments)} done, about {in_words(left(due[number + 1 :], known))} left"
        )
    missing = len(experiments) - len(known)
    say("complete" if missing == 0 else f"{missing} experiments are left: run `make campaign` again")
    sys.exit(0 if missing == 0 or options.count else 1)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        say("interrupted; run `make campaign` again to continue")
        sys.exit(INTERRUPTED)
