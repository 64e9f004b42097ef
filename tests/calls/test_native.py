"""native=True: the ordinary product where it is allowed, and never unasked."""

from __future__ import annotations

import json

import numpy as np
import pytest

import widen
import widen.testing as wt
from helpers import ROOT, assert_same_bits, draw
from widen.calls.native import faster

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((20, 30)), RNG.standard_normal((30, 10))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_ordinary_product_runs_and_says_so(dtype):
    a, b = A.astype(dtype), B.astype(dtype)
    c, info = widen.matmul(a, b, accuracy="fast", native=True, info=True)
    assert_same_bits(c, a @ b)
    assert info.unit == "native"
    assert "the ordinary product" in str(info)
    assert (wt.exact_error(c, a, b) <= info.bound).all()
    assert wt.check_contract(c, a, b, "fast") == 0


def test_out_is_filled():
    out = np.empty((20, 10))
    assert widen.matmul(A, B, accuracy="fast", native=True, out=out) is out
    assert_same_bits(out, A @ B)


@pytest.mark.parametrize("accuracy", ["standard", "correct", 40])
def test_other_contracts_are_not_its_to_keep(accuracy):
    assert_same_bits(
        widen.matmul(A, B, accuracy=accuracy, native=True), widen.matmul(A, B, accuracy=accuracy)
    )


@pytest.mark.parametrize("family", ["extremes", "subnormals", "graded against"])
def test_data_that_may_over_or_underflow_is_not_for_it(family):
    a, b = draw(family, (5, 9, 4), 1)
    _, info = widen.matmul(a, b, accuracy="fast", native=True, info=True)
    assert info.unit != "native"
    assert_same_bits(
        widen.matmul(a, b, accuracy="fast", native=True), widen.matmul(a, b, accuracy="fast")
    )


def test_special_values_complex_numbers_and_encoded_operands_are_not_for_it():
    a = A.copy()
    a[0, 0] = np.nan
    for x, y in ((a, B), (A + 0j, B), (A, widen.encode(B, side="right", accuracy="fast"))):
        _, info = widen.matmul(x, y, accuracy="fast", native=True, info=True)
        assert info.unit != "native"


def test_nobody_gets_it_unasked():
    assert widen.matmul(A, B, accuracy="fast", info=True)[1].unit == "fp64"


def test_it_is_taken_where_it_was_faster():
    """Of the last rows measured on a GPU: "fast" in float64, and "standard" in float32."""
    lines = (ROOT / "bench/results/gpu.jsonl").read_text(encoding="utf-8").splitlines()
    rows = {}
    for row in map(json.loads, lines):
        wanted = {"float64": "fast", "float32": "standard"}.get(row["dtype"])
        if (row["accuracy"], row["unit"], row["encoded"]) == (wanted, None, False):
            shape = tuple(row[name] for name in ("batch", "m", "k", "n"))
            rows[row["dtype"], shape] = row["ratio_to_native"]
    assert len(rows) > 12
    for (dtype, shape), ratio in rows.items():
        assert faster(dtype, *shape) == (ratio < 1), (dtype, shape, ratio)
