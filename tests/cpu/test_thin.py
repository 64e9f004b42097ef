"""Thin products: digits that are multiplied as they are written give the bits of all other ways."""

from __future__ import annotations

import numpy as np
import pytest

import defined
import widen
import widen.testing as wt
from helpers import assert_same_bits, draw
from widen import planner
from widen.contract import as_contract
from widen.cpu import certify, encode, stages, thin
from widen.cpu import multiply as cpu_multiply
from widen.cpu.batches import lines, stack
from widen.cpu.lines import needs, quantise, survey
from widen.cpu.memory import Scratch
from widen.formats import FORMATS
from widen.stages.problem import Problem
from widen.systems import residues
from widen.units import UNITS

ACCURACIES = ["fast", "standard", "correct", 40]
SHAPES = [(9, 5, 1), (1, 7, 140), (3, 600, 2), (1, 1100, 1), (150, 30, 4)]


@pytest.fixture
def thin_however_small(monkeypatch):
    """Every product one side of which has few lines."""
    monkeypatch.setattr(planner, "LEAST_INNER", 1)
    monkeypatch.setattr(planner, "LEAST_THIN", 1)


def in_residues(rows, columns):
    """A layout that holds the products of these lines."""
    norms = [
        max((sum(x * x for x in map(abs, (y for number in line.integers for y in number)))
             for line in side), default=0) for side in (rows, columns)
    ]  # fmt: skip
    return residues(1 << 20, (norms[0] * norms[1]).bit_length() / 2 + 2, len(rows[0].integers[0]))


@pytest.mark.usefixtures("thin_however_small")
@pytest.mark.parametrize("accuracy", ACCURACIES)
@pytest.mark.parametrize("family", wt.FAMILIES)
def test_the_definition(family, accuracy):
    a, b = draw(family, (6, 9, 2), 1)
    found = widen.matmul(a, b, accuracy=accuracy)
    wanted = defined.matmul(a, b, as_contract(accuracy), FORMATS["float64"].part, in_residues)
    assert_same_bits(found, wanted.values)


def both_ways(monkeypatch, a, b, **options):
    """A product as it comes, and in planes that are written to memory."""
    found, info = widen.matmul(a, b, info=True, **options)
    with monkeypatch.context() as patched:
        patched.setattr(stages, "_may_be_thin", lambda problem: False)
        wanted, usual = widen.matmul(a, b, info=True, **options)
    assert_same_bits(found, wanted)
    assert_same_bits(info.bound, usual.bound)
    return info, usual


@pytest.mark.usefixtures("thin_however_small")
@pytest.mark.covering(2)
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "complex128", "complex64"])
@pytest.mark.parametrize("family", wt.FAMILIES)
@pytest.mark.parametrize("accuracy", ["standard", 40])
@pytest.mark.parametrize("shape", SHAPES)
def test_all_formats_and_orders(monkeypatch, dtype, family, accuracy, shape):
    result = "float32" if dtype == "bfloat16" else dtype
    for order in "CF":
        a, b = (np.array(x, order=order) for x in draw(family, shape, 2, dtype))
        info, usual = both_ways(monkeypatch, a, b, accuracy=accuracy, dtype=result)
        assert info.repaired == usual.repaired


@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_products_of_some_size(monkeypatch, accuracy):
    rng = np.random.default_rng(3)
    a = rng.standard_normal((300, 1000)) * np.exp(2 * rng.standard_normal((300, 1000)))
    a[3], a[4, 5], a[7, 7:9], a[9] = 0, np.inf, np.nan, a[9] * 1e-310
    v = rng.standard_normal((1000, 2))
    v[:990, 1] = 0
    for x, y in [(a, v), (a, v[:, 0]), (v.T, a.T), (v[:, 1], np.ascontiguousarray(a.T))]:
        info, _ = both_ways(monkeypatch, x, y, accuracy=accuracy)
        assert info.plan.system == "digits"
    batches = np.stack([a[:100], a[100:200]])
    both_ways(monkeypatch, batches, v, accuracy=accuracy)
    both_ways(monkeypatch, batches, np.stack([v, v[::-1]]), accuracy=accuracy)
    both_ways(monkeypatch, a[::-2, ::3], v[::3], accuracy=accuracy)
    both_ways(monkeypatch, a, v, accuracy=accuracy, workspace=1 << 20)


def test_long_dot_products(monkeypatch):
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal((2, 200_003))
    for accuracy in ACCURACIES:
        info, _ = both_ways(monkeypatch, x, y, accuracy=accuracy)
        assert info.plan.system == "digits"
    assert widen.matmul(x, y, accuracy="correct") == wt.correctly_rounded(x[None], y[:, None])[0, 0]


def test_gemm(monkeypatch):
    rng = np.random.default_rng(5)
    a, v, c = (rng.standard_normal(shape) for shape in ((256, 300), 300, 256))
    found = widen.gemm(a, v, c, alpha=-0.3, beta=1e10)
    monkeypatch.setattr(stages, "_may_be_thin", lambda problem: False)
    assert_same_bits(found, widen.gemm(a, v, c, alpha=-0.3, beta=1e10))


def test_plans_say_so():
    plan = widen.plan((2048, 2048), (2048,))
    assert plan.system == "digits"
    assert "one side has few lines: digits are multiplied as they are written" in plan.why
    assert widen.plan((2048, 2048), (2048, 16)).system == "residues"
    assert widen.plan((2048, 2048), (2048,), system="residues").system == "residues"
    assert widen.plan((2048, 2048), (2048,), unit="int8").system == "residues"
    assert widen.plan((2048, 2048), (2048,), dtype="float64x2").system == "residues"


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("few", [0, 1])
def test_groups_and_magnitudes(few, order):
    """Those of planes in memory: the same digits are added up."""
    pair = draw("phi2", (140, 700, 3), 6)
    pair = pair if few else tuple(x.T for x in reversed(pair))
    sides = [
        lines(stack(np.array(x, order=order)[None]), side, 1)
        for x, side in zip(pair, ("left", "right"), strict=True)
    ]
    problem = Problem(*sides, as_contract("standard"), FORMATS["float64"], 1 << 30)
    goal = problem.goal(None)
    quantised = [quantise(survey(side, goal), goal) for side in sides]
    needed = needs(*quantised, 700)
    layout = planner.choose_layout(
        problem.contract, problem.fmt, 700, UNITS["fp64"], "digits", needed, cap=None
    )
    shape = (layout.groups, 1, pair[0].shape[0], pair[1].shape[1])
    found, wanted = np.empty(shape), np.empty(shape)
    unwritten = tuple(map(thin.Unwritten, sides, quantised, (1 << 24, 1 << 24)))
    thin.multiply(unwritten, layout, found, Scratch())
    planes = [
        encode.encode(*side, layout, at)
        for at, side in enumerate(zip(sides, quantised, strict=True))
    ]
    cpu_multiply.multiply(
        *planes, layout.products, UNITS["fp64"], 700, groups=wanted, partial=np.empty(shape[1:])
    )
    weights = [int(weight) for weight in layout.weights[0]]
    for i, j in np.ndindex(shape[2:]):
        ours, theirs = (
            sum(w * int(g) for w, g in zip(weights, groups[:, 0, i, j], strict=True))
            for groups in (found, wanted)
        )
        assert ours == theirs
    again = found.copy()
    thin.multiply(unwritten, layout, again, Scratch(), add=True)
    assert_same_bits(again, 2 * found)
    sums = thin.magnitude_products(unwritten, Scratch())
    ours, theirs = (
        certify.magnitudes(*side, np.float64) for side in zip(sides, quantised, strict=True)
    )
    assert np.allclose(sums, ours @ theirs.swapaxes(1, 2), rtol=2.0**-40, atol=0)


def test_encoded_operands_keep_their_planes():
    rng = np.random.default_rng(7)
    a, v = rng.standard_normal((300, 400)), rng.standard_normal(400)
    wanted = widen.matmul(a, v)
    assert_same_bits(widen.matmul(widen.encode(a, side="left"), v), wanted)
    assert_same_bits(widen.matmul(a, widen.encode(v, side="right")), wanted)
