"""Few cases of a product of parameters that still try every value, or every pair, together."""

from __future__ import annotations

import itertools
from collections import Counter


def covering(cases, count):
    """Indices of few cases in which all sets of `count` values occur that occur in any case.

    A case is a dictionary of parameters and values. Greedy: the case with the most sets that are
    missing, and of these the one whose values were used least, so that none is tried alone.
    """
    values = [sorted(case.items()) for case in cases]
    sets = [set(itertools.combinations(value, min(count, len(value)))) for value in values]
    missing, chosen, used = set().union(*sets), set(), Counter()

    def gain(index):
        return len(sets[index] & missing), -sum(used[value] for value in values[index])

    while missing:
        best = max(range(len(cases)), key=gain)
        chosen.add(best)
        missing -= sets[best]
        used.update(values[best])
    return chosen
