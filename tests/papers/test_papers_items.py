"""Items of papers 001 and 003 at their smallest sizes: tables, claims that any machine decides."""

from __future__ import annotations

import math
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import widen.papers
from widen.cli.machines import machine
from widen.papers.items import Setting, all_items
from widen.papers.multiple_double import counts

ITEMS = {name: item for name, item in all_items().items() if item.paper in ("001", "003")}


def test_no_paper_is_forgotten():
    """The table holds what the folders hold, each item once, in the order of the papers."""
    files = sorted(Path(widen.papers.__file__).parent.glob("*/*items.py"))
    modules = [import_module(f"widen.papers.{x.parent.name}.{x.stem}") for x in files]
    assert len(modules) >= 6
    assert sorted(x.id for module in modules for x in module.ITEMS) == sorted(all_items())
    numbers = [item.paper for item in all_items().values()]
    assert numbers == sorted(numbers)


@cache
def outcome(name):
    return ITEMS[name].run(Setting(machine("cpu"), quick=True))


@pytest.mark.parametrize("name", ITEMS)
def test_an_item_gives_a_table_and_a_figure_of_it(name):
    found = outcome(name)
    assert found.rows
    assert all(len(row) == len(found.columns) for row in found.rows)
    assert found.claims
    assert (found.figure is None) == (name == "001-norm")
    if found.figure:
        drawn = [y for panel in found.figure.panels for each in panel.series for y in each.y]
        assert drawn
        assert all(math.isfinite(y) and y > 0 for y in drawn)


def test_operations_and_norms_hold():
    for name in ("001-operations", "001-norm"):
        assert all(claim.verdict == "holds" for claim in outcome(name).claims)


def test_the_library_keeps_its_promise_where_the_slides_do_not():
    found = {tuple(row[:3]): row[3] for row in outcome("001-accuracy").rows}
    assert found["double double", "φ = 4", "way 1"] > 1e-30
    assert found["double double", "φ = 4", "widen.matmul"] < 1e-31
    assert found["hexa double", "φ = 4", "widen.matmul"] < 1e-257


def test_more_slices_are_more_accurate_than_the_blocked_product():
    found = {tuple(row[:4]): row[4] for row in outcome("003-fig25").rows}
    for kind in ("numbers of 53 bits", "all words filled"):
        assert found[kind, 64, 32, "12 slices"] < 1e-20
        assert found[kind, 64, 32, "12 slices"] < found[kind, 64, 32, "blocked"]


def test_counts_of_the_kernels():
    assert [counts.addition(words) for words in (2, 4)] == [20, 253]
    assert counts.multiplication(2) == 9
    assert counts.rewritten(16) == (2 * 68**2, 68 * 69)
