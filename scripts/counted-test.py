#!/usr/bin/env python3
"""What counted.py makes of the output of test runners."""

import os
import subprocess
import sys
from pathlib import Path

COUNTED = Path(__file__).resolve().parent / "counted.py"
OK = "test result: ok. {} passed; 0 failed; {} ignored; 0 measured; 0 filtered out; finished in 0.01s"


def check(lines, ci, code, last):
    script = "\n".join(f"echo '{line}'" for line in lines)
    environment = {**os.environ, "CI": ci}
    found = subprocess.run([COUNTED, "make test", "sh", "-c", script], env=environment, capture_output=True, text=True)
    said = found.stdout.splitlines()
    if (found.returncode, said[-len(last) :]) != (code, last):
        sys.exit(f"counted-test: {lines} with CI={ci}: {found.returncode} {said}, not {code} {last}")


first, end = OK.format(3, 0), OK.format(4, 0)
check([first, "a", end, ""], "true", 0, ["a", "make test: 7 passed, 0 failed, 0 not run", end])
database = "deny: NOT RUN: advisory database: no network"
check([database, first], "true", 0, ["make test: 3 passed, 0 failed, 1 not run: advisory database: no network", first])
node = ["NOT RUN: cluster-test: no namespaces", first]
counts = "make test: 3 passed, 0 failed, 1 not run: cluster-test: no namespaces"
check(node, "", 0, [counts, first])
check(node, "true", 1, [counts, "make test: with CI=true everything has to run: cluster-test: no namespaces", first])
ignored = OK.format(1, 2)
check([ignored], "true", 1, ["make test: with CI=true everything has to run: 2 ignored tests", ignored])
check([first.replace("0 failed", "1 failed"), "exit"], "true", 0, ["make test: 3 passed, 1 failed, 0 not run"])
