"""The exact interval of a share: C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial limits illustrated in the case of the
binomial", Biometrika 26 (1934), 404-413. Each end is the share at which a count this extreme has a probability of 2.5 %."""

from math import comb


def at_most(count, total, share):
    """The probability of this many hits or fewer."""
    return sum(comb(total, hits) * share**hits * (1 - share) ** (total - hits) for hits in range(count + 1))


def crossing(falls_to, probability):
    """Where a function that falls from 1 to 0 has this value, by halving."""
    low, high = 0.0, 1.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if falls_to(middle) > probability else (low, middle)
    return (low + high) / 2


def clopper_pearson(count, total, level=0.95):
    """Both ends of the interval for a share of which `count` of `total` were seen."""
    tail = (1 - level) / 2
    low = 0.0 if count == 0 else crossing(lambda share: at_most(count - 1, total, share), 1 - tail)
    high = 1.0 if count == total else crossing(lambda share: at_most(count, total, share), tail)
    return low, high
