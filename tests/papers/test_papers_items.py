"""Items of all papers at their smallest sizes; rules of papers 001 and 003 that data contradict."""

from __future__ import annotations

import math
from fractions import Fraction
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import widen
import widen.papers
from paper_operands import outcome
from widen.papers.items import all_items
from widen.papers.multiple_double import accuracy as md_accuracy
from widen.papers.multiple_double import counts
from widen.papers.multiple_double import items as md
from widen.papers.triple_single import accuracy as ts_accuracy
from widen.papers.triple_single import items as ts
from widen.papers.triple_single.operands import KINDS


def test_no_paper_is_forgotten():
    """The table holds what the folders hold, each item once, in the order of the papers."""
    files = sorted(Path(widen.papers.__file__).parent.glob("*/*items.py"))
    modules = [import_module(f"widen.papers.{x.parent.name}.{x.stem}") for x in files]
    assert len(modules) >= 6
    assert sorted(x.id for module in modules for x in module.ITEMS) == sorted(all_items())
    numbers = [item.paper for item in all_items().values()]
    assert numbers == sorted(numbers)


WITHOUT_A_FIGURE = {"001-norm", "002-table1", "004-table1-2"}


@pytest.mark.parametrize("name", all_items())
def test_an_item_gives_a_table_claims_and_a_figure(name):
    found = outcome(name)
    assert found.rows
    assert all(len(row) == len(found.columns) for row in found.rows)
    assert found.claims
    assert all(claim.where and claim.setup and claim.ours for claim in found.claims)
    assert (found.figure is None) == (name in WITHOUT_A_FIGURE)
    for panel in found.figure.panels if found.figure else ():
        drawn = [y for each in panel.series for y in each.y if y is not None]
        assert drawn
        assert all(math.isfinite(y) and (y > 0 if panel.log_y else y >= 0) for y in drawn)


def test_the_library_keeps_its_promise_where_the_slides_do_not():
    found = {tuple(row[:3]): row[4] for row in outcome("001-accuracy").rows}
    assert found["double double", "φ = 4", "way 1"] > 1e-30
    assert found["double double", "φ = 4", "widen.matmul"] < 1e-31
    assert found["hexa double", "φ = 4", "widen.matmul"] < 1e-257


def test_errors_are_those_of_fractions():
    rng = np.random.default_rng(5)
    a, b = (np.stack([x, x * 2.0**-54]) for x in (rng.random((2, 5)), rng.random((5, 3))))
    c = np.stack([a[0] @ b[0], np.zeros((2, 3))])
    x, y, z = (np.vectorize(Fraction)(w[0]) + np.vectorize(Fraction)(w[1]) for w in (a, b, c))
    wanted = (abs(z - x @ y) / (x @ y)).astype(float)
    median, largest, share = md_accuracy.Exact(a, b).errors(c)
    assert median == pytest.approx(np.median(wanted))
    assert largest == pytest.approx(wanted.max())
    assert share == 100  # the second word is missing


def test_more_slices_are_more_accurate_than_the_blocked_product():
    found = {tuple(row[:4]): row[4] for row in outcome("003-fig25").rows}
    for kind in ("numbers of 53 bits", "all words filled"):
        assert found[kind, 64, 32, "12 slices"] < 1e-20
        assert found[kind, 64, 32, "12 slices"] < found[kind, 64, 32, "blocked"]


# ── operations are counted ───────────────────────────────────────────────────


@pytest.mark.parametrize("words", [2, 4, 8])
@pytest.mark.parametrize("operation", ["add", "multiply", "divide"])
def test_kernels_on_counting_numbers_give_the_kernels_bits(words, operation):
    """What is counted is what runs, and it does not depend on the numbers."""
    rng = np.random.default_rng(words)
    scale = 2.0 ** (-53.0 * np.arange(words))[:, None]
    x, y = (
        widen.Words.from_words(rng.standard_normal((words, 3)) * scale, f"float64x{words}")
        for _ in range(2)
    )
    wanted = {"add": x + y, "multiply": x * y, "divide": x / y}[operation].words
    taken = set()
    for at in range(3):
        found, count = counts.operate(operation, x.words[:, at], y.words[:, at])
        assert found == wanted[:, at].tolist()
        taken.add(count)
    assert taken == {counts.of_kernels(words)[list(counts.OPERATIONS).index(operation)]}


def test_counts_by_hand():
    """AccurateDWPlusDW: two two_sums (12), two fast_two_sums (6), two additions."""
    assert counts.of_pairs() == (20, 9, 18)
    assert counts.rewritten(16) == (2 * 68**2, 68 * 69)


# ── every rule can fail ──────────────────────────────────────────────────────


def verdicts(claims):
    return [claim.verdict for claim in claims]


def test_rules_of_operations():
    slides = md.COSTS
    assert verdicts(md.operations_claims(slides[2], slides)) == ["holds"] * 3
    wrong = {**slides, 16: (925, 11499, 3 * 33041)}
    assert verdicts(md.operations_claims((19, 23, 71), wrong)) == ["does not hold"] * 3
    fused = verdicts(md.operations_claims((20, 9, 18), slides))
    assert fused == ["holds", "not decided here", "holds"]


def test_rule_of_norms():
    theirs = list(md.NORM_ERRORS.values())
    assert verdicts(md.norm_claims([-x for x in theirs])) == ["holds"]
    assert verdicts(md.norm_claims([*theirs[:3], 2e-256])) == ["does not hold"]


def test_rules_of_rates():
    ways = {"way 1": [1, 1, 4, 1, 60.0], "way 2": [1, 1, 4, 1, 61.0]}
    assert verdicts(md.rate_claims(62.0, ways, "", decided=True)) == ["holds"] * 2
    assert verdicts(md.rate_claims(62.0, ways, "", decided=False)) == ["not decided here"] * 2
    ways["way 2"] = [5, 1, 4, 1, 50.0]
    assert verdicts(md.rate_claims(62.0, ways, "", decided=True)) == ["does not hold"] * 2


def errors_001(changed=()):
    """Errors with which every claim about accuracy holds, but for those changed."""
    found = {}
    for at, numbers in enumerate(md_accuracy.NAMES.values()):
        for kind in md_accuracy.INPUTS:
            for product in (*md_accuracy.VARIANTS, md_accuracy.OWN):
                found[numbers, kind, product] = (1e-33, 1e-32)
            found[numbers, kind, "both as they are"] = (1e-33, 1e-20)
        found[numbers, "equal", "way 1"] = (1e-33, 10.0 ** (at - 32))
        found[numbers, "φ = 1", "way 1"] = (1e-33, 1e-20)
        found[numbers, "(-1, 1)", "way 1"] = (1e-33, 1e-25)
    return {**found, **dict(changed)}


@pytest.mark.parametrize(
    ("rule", "changed"),
    [
        (0, {("double double", "equal", "way 2"): (1e-33, 5e-32)}),
        (1, {("double double", "φ = 1", "way 1"): (1e-33, 1e-30),
             ("double double", "(-1, 1)", "way 1"): (1e-33, 1e-30)}),
        (2, {("double double", "(0, 1)", "grouped by exponent"): (1e-33, 1e-29)}),
        (3, {("double double", "φ = 4", "grouped by exponent"): (1e-33, 1e-19)}),
        (4, {("double double", "(-1, 1)", "grouped by sign"): (1e-33, 1e-24)}),
        (5, {("quad double", "(0, 1)", "both as they are"): (1e-33, 1e-34)}),
        (6, {("octo double", "equal", "way 1"): (1e-33, 1e-32)}),
    ],
)  # fmt: skip
def test_rules_of_accuracy(rule, changed):
    assert verdicts(md_accuracy.accuracy_claims(errors_001(), 341, 4096)) == ["holds"] * 7
    contradicted = verdicts(md_accuracy.accuracy_claims(errors_001(changed), 341, 4096))
    assert [at for at, one in enumerate(contradicted) if one == "does not hold"] == [rule]
    few = verdicts(md_accuracy.accuracy_claims(errors_001(changed), 341, 4))
    assert few == ["not decided here"] * 7


def test_rules_of_speeds():
    rates = {("TS", 8): 9.0, ("D+S", 8): 2.0, ("DD", 8): 1.0, ("DF", 8): 20.0, ("double", 8): 10.0}
    assert verdicts(ts.speed_claims(rates, gpu=True)) == ["holds"] * 2
    assert verdicts(ts.speed_claims(rates, gpu=False)) == ["not decided here"] * 2
    slow = {**rates, ("TS", 8): 1.5, ("double", 8): 30.0}
    assert verdicts(ts.speed_claims(slow, gpu=True)) == ["does not hold"] * 2
    fast_float64 = {**slow, ("DD", 8): 15.0}
    assert verdicts(ts.speed_claims(fast_float64, gpu=True)) == ["not decided here"] * 2


def test_rules_of_times():
    rows = [[2048, 1.0, 3.0, 3.0, 3.0, 3.0], [4096, 8.0, 9.0, 9.0, 9.0, 9.0]]
    assert verdicts(ts.time_claims(rows, gpu=True)) == ["holds"] * 2
    assert verdicts(ts.time_claims(rows, gpu=False)) == ["not decided here"] * 2
    rows = [[2048, 1.0, 0.9, 3.0, 3.0, 3.0], [4096, 8.0, 8.0, 24.0, 24.0, 25.0]]
    assert verdicts(ts.time_claims(rows, gpu=True)) == ["does not hold"] * 2


def errors_003(changed=()):
    """Errors as the paper has them, but for those changed, of both kinds of numbers."""
    error = {"blocked": dict(zip(SIZES, (1e-17, 1e-17, 1e-16, 1e-16, 1e-15), strict=True)),
             "9 slices": dict(zip(SIZES, (1e-22, 1e-21, 1e-17, 1e-16, 1e-15), strict=True)),
             "12 slices": dict.fromkeys(SIZES, 1e-20)}  # fmt: skip
    for (name, n), value in dict(changed).items():
        error[name][n] = value
    return {
        (kind, n, name): (by_size[n], 0.0)
        for name, by_size in error.items()
        for n in SIZES
        for kind in KINDS
    }


SIZES = (256, 512, 1024, 2048, 4096)


@pytest.mark.parametrize(
    ("rules", "changed"),
    [
        ([0], {("12 slices", 4096): 1e-19, ("blocked", 4096): 1e-15}),
        ([1], {("9 slices", 1024): 1e-20}),
        ([2], {("9 slices", 4096): 1e-21}),
        ([3], {("blocked", 256): 1e-19}),
        ([3, 4], {("blocked", 4096): 1e-19}),
    ],
)
def test_rules_of_figure_25(rules, changed):
    assert verdicts(ts_accuracy.error_claims(errors_003(), whole=True)) == ["holds"] * 5
    contradicted = verdicts(ts_accuracy.error_claims(errors_003(changed), whole=True))
    assert [at for at, one in enumerate(contradicted) if one == "does not hold"] == rules
    sampled = verdicts(ts_accuracy.error_claims(errors_003(changed), whole=False))
    assert [sampled[at] for at in (0, 1, 3)] == ["not decided here"] * 3


def test_rule_of_fewer_products():
    def rows(error):
        return [
            [kind, 12, orders, 100, 1e-21 if orders is None else error, 0.0, 1.0]
            for kind in KINDS
            for orders in ts_accuracy.ORDERS
        ]

    (claim,) = ts_accuracy.products_claims(rows(2e-21), "", whole=True)
    assert (claim.verdict, claim.future) == ("holds", True)
    assert claim.ours.startswith("12 orders, 100 of 100 products")
    (claim,) = ts_accuracy.products_claims(rows(3e-21), "", whole=True)
    assert claim.verdict == "does not hold"
    assert "15 orders" in claim.ours  # what the most of them cost is told
    (claim,) = ts_accuracy.products_claims(rows(2e-21), "", whole=False)
    assert claim.verdict == "not decided here"
