#!/usr/bin/env python3
"""A noisy neighbour: bursts of CPU time on all CPUs and of writes to the disk, at random moments that a seed decides.

usage: neighbour.py SEED FOLDER

It runs until it is ended, or until whoever started it is gone. The folder is on the disk to disturb; nothing is left in it.
"""

import math
import os
import random
import signal
import sys
import time
from pathlib import Path

# Seconds, from the shortest to the longest; as often below their geometric mean as above.
BURST = (0.2, 30.0)
PAUSE = (0.2, 60.0)
CHUNK = 1 << 20
# The file begins anew at this size.
LARGEST = 256 << 20


def spells(seed, what):
    """Pauses and bursts in turn, without an end."""
    chance = random.Random(f"{seed} {what}")
    between = lambda ends: math.exp(chance.uniform(*map(math.log, ends)))
    while True:
        yield between(PAUSE), between(BURST)


def spin(until, parent):
    while time.monotonic() < until and os.getppid() == parent:
        for _ in range(20_000):
            pass


def burn(until, _folder):
    """Keeps every CPU busy."""
    own, children = os.getpid(), []
    for _ in range(os.cpu_count()):
        child = os.fork()
        if child == 0:
            # Not what the parent does at its end.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            spin(until, own)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def write(until, folder):
    """Writes and syncs as fast as the disk takes it."""
    path, chunk, parent = folder / "neighbour", os.urandom(CHUNK), os.getppid()
    try:
        with open(path, "wb", buffering=0) as file:
            while time.monotonic() < until and os.getppid() == parent:
                if file.tell() >= LARGEST:
                    file.seek(0)
                for _ in range(8):
                    file.write(chunk)
                os.fsync(file.fileno())
    finally:
        path.unlink(missing_ok=True)


def bursts(seed, what, burst, folder):
    parent = os.getppid()
    for pause, length in spells(seed, what):
        until = time.monotonic() + pause
        while time.monotonic() < until:
            time.sleep(min(0.2, pause))
            if os.getppid() != parent:
                return
        burst(time.monotonic() + length, folder)
        if os.getppid() != parent:
            return


def main(seed, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    children = []
    for what, burst in (("cpu", burn), ("disk", write)):
        child = os.fork()
        if child == 0:
            bursts(seed, what, burst, folder)
            os._exit(0)
        children.append(child)
    starter = os.getppid()
    try:
        while os.getppid() == starter:
            time.sleep(0.2)
    finally:
        for child in children:
            os.kill(child, signal.SIGTERM)
        for child in children:
            os.waitpid(child, 0)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(int(sys.argv[1]), Path(sys.argv[2]))
