#!/usr/bin/env python3
"""Runs a command and passes on what it says. Before the summary of its last test runner it says how many tests passed and failed, and
what was not run.

What this machine can't run says so in a line `NOT RUN: WHAT: WHY`. With CI=true that is a failure, but for what MAY_BE_MISSING names.

usage: counted.py NAME COMMAND...; summaries begin with the name
"""

import os
import re
import signal
import subprocess
import sys

SUMMARY = re.compile(r"test result: .*?(\d+) passed; (\d+) failed; (\d+) ignored")
NOT_RUN = re.compile(r"NOT RUN: (.+)")
# It is kept on a server of its own, which not every network lets through.
MAY_BE_MISSING = "advisory database: "


def verdict(name, passed, failed, missing):
    said = f"{passed} passed, {failed} failed, {len(missing)} not run"
    return f"{name}: {said}{': ' if missing else ''}{'; '.join(missing)}"


def main(name, command):
    # Ctrl-C goes to the whole group; what the command still says is passed on.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    restore = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)
    passed = failed = 0
    missing, held = [], []
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=restore)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: child.send_signal(number))
    for line in child.stdout:
        text = line.decode(errors="replace").rstrip("\n")
        summary = SUMMARY.search(text)
        # The last summary is held back, and empty lines with it, until something follows.
        if held and text:
            sys.stdout.write("".join(held))
            held = []
        if summary:
            passed, failed = passed + int(summary[1]), failed + int(summary[2])
            if int(summary[3]):
                missing.append(f"{summary[3]} ignored tests")
        elif found := NOT_RUN.search(text):
            missing.append(found[1])
        if summary or not text:
            held.append(text + "\n")
        else:
            print(text, flush=True)
    code = child.wait()
    strict = os.environ.get("CI") == "true"
    refused = [what for what in missing if not what.startswith(MAY_BE_MISSING)] if strict else []
    print(verdict(name, passed, failed, missing), flush=True)
    if refused and code == 0:
        print(f"{name}: with CI=true everything has to run: {'; '.join(refused)}", flush=True)
        code = 1
    while held and held[-1] == "\n":
        held.pop()
    sys.stdout.write("".join(held))
    sys.stdout.flush()
    # A negative code is the signal that ended it.
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
