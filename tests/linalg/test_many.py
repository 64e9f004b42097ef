"""Many elements of solutions against exact ones, and every enclosure on the way; all counted.

`CASES` is what `make test-slow` compares: 200,000 elements bit for bit, 100,000 enclosures.
"""

from __future__ import annotations

import gmpy2
import numpy as np
import pytest
import scipy.linalg

import exact_systems as systems
import widen
from helpers import assert_same_bits
from widen.formats import WORDS
from widen.linalg.refine import Refiner

linalg = widen.linalg


def rng_of(*seed):
    return np.random.default_rng(seed)


FAMILIES = {
    "gaussian": lambda rng, n: systems.gaussian(rng, n)[0],
    "cond 1e6": lambda rng, n: systems.conditioned(rng, n, 6)[0],
    "cond 1e13": lambda rng, n: systems.conditioned(rng, n, 13)[0],
    "cond 1e18": lambda rng, n: systems.conditioned(rng, n, 18)[0],
    "graded": lambda rng, n: systems.graded(rng, n)[0],
    "triangular": lambda rng, n: systems.triangular(rng, n)[0],
    "integers": lambda rng, n: systems.integers(rng, n)[0],
    "bidiagonal": lambda rng, n: systems.bidiagonal(rng, n, 2.0**12),
}
CASES = [
    ("gaussian", "float64", 60, 100, 3),
    *((family, "float64", 24, 200, 4) for family in FAMILIES),
    *((family, name, 16, 160, 1)
      for family in ("gaussian", "cond 1e13") for name in ("float32", *WORDS)
      if name != "float64x16"),  # which is lifted: slow, and tested elsewhere
]  # fmt: skip


def elements_of(case):
    _, _, n, sides, seeds = case
    return n * sides * seeds


def test_enough_is_compared():
    assert sum(map(elements_of, CASES)) >= 200_000
    assert sum(elements_of(case) for case in CASES if case[1] == "float64") >= 100_000
    assert {case[0] for case in CASES} == set(FAMILIES)


def number(planes, i, j):
    """The exact value of words."""
    return sum(gmpy2.mpq(float(plane[0, i, j])) for plane in planes)


def checked_enclosures(seen, exact):
    """How many intervals there are, all of which hold the exact number."""
    count = 0
    for shifts, at, planes, radius in seen:
        for j, column in enumerate(at):
            for i in range(len(radius)):
                power = systems.power_of_two(int(shifts[i, column]))
                middle = number(planes, i, j)
                assert abs(middle * power - exact[i, column]) <= gmpy2.mpq(radius[i, j]) * power
                count += 1
    return count


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[1]} {case[2]}")
def test_elements_are_rounded_once_and_enclosed_before(case, monkeypatch):
    family, name, n, sides, seeds = case
    seen = []
    step = Refiner._step

    def watched(self, now, width):
        after, radius = step(self, now, width)
        planes = [plane.copy() for plane in after.x.planes]
        shifts = self.system.exponents(slice(None))
        seen.append((shifts, after.at.tolist(), planes, radius.copy()))
        return after, radius

    monkeypatch.setattr(Refiner, "_step", watched)
    elements = enclosures = 0
    for seed in range(seeds):
        rng = rng_of(n, seed, 5)
        a, b = FAMILIES[family](rng, n), rng.standard_normal((n, sides))
        found = linalg.solve(a, b, dtype=name)
        exact = systems.exact_solution(a, b)
        wanted = systems.rounded(exact, name)
        planes = [plane[0] for plane in found.planes] if name in WORDS else [found]
        for plane, words in zip(planes, wanted if name in WORDS else [wanted], strict=True):
            assert_same_bits(plane.astype(float), words)
        elements += exact.size
        enclosures += checked_enclosures(seen, exact)
        seen.clear()
    assert elements == elements_of(case)
    assert enclosures >= elements  # each was enclosed once or more


# ── matrices of known answer ─────────────────────────────────────────────────


@pytest.mark.parametrize("n", [1, 4, 9, 13])
def test_inverses_that_scipy_knows(n):
    exact = scipy.linalg.invpascal(n, exact=True)
    wanted = np.array([[float(int(v)) for v in row] for row in exact])
    assert_same_bits(linalg.inv(scipy.linalg.pascal(n, exact=True).astype(float)), wanted + 0.0)
    # Hilbert's matrix in words, 1/(i + j + 1) exactly to 863 bits: the inverse is integers.
    hilbert = widen.Words([[f"1/{i + j + 1}" for j in range(n)] for i in range(n)], "float64x16")
    integers = scipy.linalg.invhilbert(n, exact=True)
    found = linalg.inv(hilbert, dtype="float64")
    assert_same_bits(found, np.array([[float(int(v)) for v in row] for row in integers]))


@pytest.mark.parametrize("n", [2, 5, 8])
def test_systems_that_scipy_knows(n):
    wanted = np.array(
        [[float(int(v)) for v in row] for row in scipy.linalg.invhilbert(n, exact=True)]
    )
    assert_same_bits(
        linalg.inv(wanted, dtype="float64"), 1.0 / (np.arange(n)[:, None] + np.arange(n) + 1)
    )
    a = scipy.linalg.hadamard(8).astype(float)
    assert_same_bits(linalg.inv(a), a / 8)
    assert linalg.det(scipy.linalg.pascal(n, exact=True).astype(float)) == 1
