"""Contracts on the families of bench/families.py, in every format: exact values, and definition."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

import defined
import widen
import widen.testing as wt
from exact_words import assert_words_kept, enough, exact_values, rounded
from helpers import ROOT, dtype_of, same_bits, word_arrays, words_near
from widen.contract import CONTRACTS
from widen.formats import FORMATS, PLAIN, computed_in

FAMILIES = runpy.run_path(str(Path(ROOT, "bench", "families.py")))["FAMILIES"]
WIDE = ["float64x2", "float32x3", "float64_float32", "complex128x2", "complex64x2"]

families = pytest.mark.parametrize("family", FAMILIES)


def draw(family, shape, name):
    """Matrices of a family in a format."""
    rng, fmt = np.random.default_rng(1), FORMATS[name]
    make = FAMILIES[family]
    pair = wt.complex_pair(make, rng, *shape) if fmt.parts == 2 else make.make(rng, *shape)
    if name in PLAIN:
        return [wt.as_format(x, dtype_of(name)) for x in pair]
    return [words_near(rng, x, fmt) for x in pair]


@families
@pytest.mark.parametrize("name", PLAIN)
def test_contracts_and_bounds(family, name):
    a, b = draw(family, (7, 40, 9), name)
    u = computed_in(FORMATS[name]).name  # of float32 for a half
    for accuracy in CONTRACTS:
        found, info = widen.matmul(a, b, accuracy=accuracy, info=True)
        assert wt.check_contract(found, a, b, accuracy, dtype=u) == 0
        assert wt.violations(found, info.bound, a, b) == 0


@pytest.mark.covering(2)
@families
@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("accuracy", [x for x in CONTRACTS if x != "correct"])
def test_bits_of_the_definition(family, name, accuracy):
    a, b = draw(family, (4, 24, 5), name)
    found = widen.matmul(a, b, accuracy=accuracy)
    given = [x.astype(complex if FORMATS[name].parts == 2 else float) for x in (a, b)]
    wanted = defined.matmul(*given, CONTRACTS[accuracy], FORMATS[name].part, enough)
    assert same_bits(found, wanted.values.astype(found.dtype))


@pytest.mark.covering(2)
@families
@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("accuracy", CONTRACTS)
def test_words(family, name, accuracy):
    a, b = draw(family, (3, 24, 4), name)
    found, fmt = assert_words_kept(a, b, accuracy), FORMATS[name]
    if accuracy == "correct":
        wanted = rounded(exact_values(a, b), fmt)
    else:
        given = [word_arrays(x) for x in (a, b)]
        wanted = defined.matmul(*given, CONTRACTS[accuracy], fmt.part, enough).values
    assert all(same_bits(*pair) for pair in zip(word_arrays(found), wanted, strict=True))
