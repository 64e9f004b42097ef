"""The families of bench/families.py, and bench/soak.py without a GPU."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import widen
import widen.testing as wt

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def soak(monkeypatch):
    monkeypatch.syspath_prepend(BENCH)
    return import_module("soak")


@pytest.mark.parametrize("shape", [(1, 1, 1), (4, 1, 3), (2, 9, 5), (8, 3, 2)])
def test_families_have_any_shape(shape, soak):
    m, k, n = shape
    for family in soak.HARD.values():
        a, b = family.make(np.random.default_rng(1), m, k, n)
        assert (a.shape, b.shape) == ((m, k), (k, n))
        assert np.isfinite(a).all()
        assert np.isfinite(b).all()


def test_every_element_of_a_residual_cancels(soak):
    a, b = soak.HARD["cancelling"].make(np.random.default_rng(1), 20, 30, 10)
    assert (abs(a @ b) < 1e-13 * (abs(a) @ abs(b))).all()


def test_every_format_meets_every_contract_and_family(soak):
    count = len(soak.FORMATS) * len(soak.ACCURACIES) * len(soak.HARD)
    kinds = {case.kind for case in soak.cases(count, families="hard", device="cpu")}
    assert len(kinds) == count
    assert len(soak.cases(1)[0].table) == len(soak.HARD) + len(wt.FAMILIES)


def test_a_difference_is_one(soak):
    """Bits of one element changed, on the way from the definition."""
    case = soak.cases(1, families="hard", device="cpu")[0]
    said, a, b = case.draw()
    product = widen.matmul(a, b, accuracy=said["accuracy"])
    assert soak.undefined(a, b, product, said["accuracy"]) == 0
    product[..., 0, 0] = np.nextafter(product[..., 0, 0], 9)
    assert soak.undefined(a, b, product, said["accuracy"]) == 1


def test_the_cpu_has_the_bits_of_the_definition(soak):
    outcomes = [soak.work(case) for case in soak.cases(45, families="hard", device="cpu")]
    assert [x for x in outcomes if soak.is_wrong(x)] == []
    assert all(x["undefined"] == 0 for x in outcomes)
