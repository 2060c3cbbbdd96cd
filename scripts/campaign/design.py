"""Which experiments a campaign has, and in which order. Pure: the same numbers always give the same campaign."""

import hashlib
import random
from dataclasses import dataclass

BLOCKS = 12
MARGIN = 5
# Two equal arms, or one that differs only by what is planted.
BASELINE, CHANGED = "old", "new"
AS_IS, NOISY = "as-is", "noisy"

# The workload `overwrite` of examples/quickstart.yaml. A trial takes about nine seconds on two idle CPUs.
OVERWRITE = "overwrite"
# Trials of the others take about four seconds on two idle CPUs, of which the window is two.
WORKLOADS = {
    OVERWRITE: """
      keyValue:
        keys: 200000
        valueBytes: {fixed: 400}
        roles:
        - name: writer
          steps: 1400000
          warmupSteps: 300000
          mix: {put: 1}""",
    "keyValue": """
      keyValue:
        keys: 200000
        valueBytes: {fixed: 400}
        roles:
        - {name: client, steps: 350000, warmupSteps: 100000, mix: {put: 1, get: 1}}""",
    "ethrex": """
      ethrex:
        blocks: 32
        warmupBlocks: 16
        mgasPerBlock: 30
        accounts: 100000
        storageSlots: 400000
        commitDepth: 16""",
    "blockstore": """
      blockstore:
        slots: 160
        warmupSlots: 32
        dataShredsPerSlot: 512
        shredsPerBatch: 128
        retainedSlots: 160
        slotsPerPurge: 16""",
    "rethHistory": """
      rethHistory:
        blocks: 300
        warmupBlocks: 40
        mgasPerBlock: 30
        accounts: 100000
        storageSlots: 400000
        kilohashesPerMgas: 30""",
}
# Those whose speed is that of one thread. Where several wait for each other, one that sleeps delays the whole by less than its own time, and
# a planted effect would not be exact.
EXACT = ("keyValue", "ethrex")
# Baselines that flush and compact within a window.
OPTIONS = {
    OVERWRITE: "write_buffer_size: 16777216",
    "keyValue": "write_buffer_size: 8388608",
    "ethrex": "write_buffer_size: 4194304",
    "blockstore": "write_buffer_size: 4194304",
    "rethHistory": "write_buffer_size: 8388608",
}


def share(percent):
    """The time that a config must lose for another one to be so much faster."""
    return f"{percent:.4f}".rstrip("0").rstrip(".")


# What the variable ASSAY_PLANTED of a planted bench says, and the planted effect on the throughput of `new` in percent. To be 10 % slower
# takes 1 / 0.9 of the time; for `new` to be faster, `old` is delayed.
PLANTED = {
    "throughput-10": (f"{CHANGED}:slow={share(100 / 9)}", -10.0),
    "throughput-5": (f"{CHANGED}:slow={share(100 / 19)}", -5.0),
    "throughput+5": (f"{BASELINE}:slow=5", 5.0),
    "throughput+10": (f"{BASELINE}:slow=10", 10.0),
    # The other runs are faster: who looks at the typical run only will recommend it.
    "stall": (f"{BASELINE}:slow=5 {CHANGED}:stall=2000", None),
    "failure": (f"{BASELINE}:slow=10 {CHANGED}:fail", None),
}
AA = "aa"
# The campaign begins with this many experiments of each kind in `FIRST`, in turns, with `OVERWRITE`: does a user's first experiment find harm?
FIRST, EACH_FIRST = (AA, "throughput-10"), 10
# The other workloads: experiments of each kind.
EQUAL = {AS_IS: 40, NOISY: 30}
EACH_PLANTED = 5
# The others run in rounds of the same kinds, so that a part of the campaign is a fair sample.
ROUNDS = 5


@dataclass(frozen=True)
class Experiment:
    id: str
    kind: str
    environment: str
    workload: str
    seed: int

    @property
    def planted(self):
        """What the variable says; nothing for two equal arms."""
        return PLANTED[self.kind][0] if self.kind in PLANTED else ""

    @property
    def truth(self):
        """The true effect on throughput in percent, where there is one number for it."""
        return PLANTED[self.kind][1] if self.kind in PLANTED else 0.0

    @property
    def yaml(self):
        return f"""\
# Written by scripts/campaign.
apiVersion: assay.rocks/v1alpha1
kind: TuningExperiment
metadata: {{name: {self.id.lower().replace("+", "plus").replace("throughput-", "minus")}}}
spec:
  seed: {self.seed}
  baseline: {BASELINE}
  configs:
  - name: {BASELINE}
    columnFamilies: [{{match: ["*"], options: {{{OPTIONS[self.workload]}}}}}]
  - name: {CHANGED}
  scenarios:
  - name: {self.workload.lower()}
    workload:{WORKLOADS[self.workload]}
  repetitions: {BLOCKS}
  objectives: [{{metric: throughput, margin: {MARGIN}%}}]
  placement: {{cpus: 2, environment: Shared}}
"""


def seed_of(campaign_seed, what):
    return int.from_bytes(hashlib.sha256(f"{campaign_seed} {what}".encode()).digest()[:4], "big") // 2


def campaign(seed=1):
    """All experiments in the order in which they run."""

    def experiment(kind, environment, workload, turn):
        name = f"{kind}-{environment}-{workload}-{turn + 1:02}"
        return Experiment(name, kind, environment, workload, seed_of(seed, name))

    first = [experiment(kind, AS_IS, OVERWRITE, turn) for turn in range(EACH_FIRST) for kind in FIRST]
    groups = [(AA, environment, count) for environment, count in EQUAL.items()]
    groups += [(kind, AS_IS, EACH_PLANTED) for kind in PLANTED]
    rounds = [[] for _ in range(ROUNDS)]
    for number, (kind, environment, count) in enumerate(groups):
        workloads = EXACT if kind in PLANTED else tuple(name for name in WORKLOADS if name != OVERWRITE)
        for turn in range(count):
            # Groups begin with different workloads, so that rounds have all of them.
            workload = workloads[(turn + number) % len(workloads)]
            rounds[turn % ROUNDS].append(experiment(kind, environment, workload, turn))
    for number, experiments in enumerate(rounds):
        random.Random(seed_of(seed, f"round {number}")).shuffle(experiments)
    return first + [experiment for experiments in rounds for experiment in experiments]


def digest(experiments, rules):
    """What tells campaigns apart: results of other experiments, or judged by other rules, are of another campaign."""
    text = "\n".join(f"{e.id} {e.kind} {e.environment} {e.planted}\n{e.yaml}" for e in experiments)
    return hashlib.sha256(f"rules {rules}\n{text}".encode()).hexdigest()[:12]
