"""What `make test` leaves to `make test-slow` is covered: every value, every pair."""

from __future__ import annotations

import itertools

import pytest

from covering import covering

AXES = {"family": range(21), "unit": range(6), "system": range(3), "operand": range(2)}
CASES = [dict(zip(AXES, x, strict=True)) for x in itertools.product(*AXES.values())]


@pytest.mark.parametrize(("count", "most"), [(1, 21), (2, 135), (3, 430), (4, 756)])
def test_all_sets_of_values_occur_in_few_cases(count, most):
    chosen = [CASES[index] for index in covering(CASES, count)]
    assert len(chosen) <= most
    for names in itertools.combinations(AXES, count):
        wanted = set(itertools.product(*(AXES[name] for name in names)))
        assert {tuple(case[name] for name in names) for case in chosen} == wanted


def test_values_that_never_occur_together_are_not_asked_for():
    cases = [{"a": x, "b": y} for x, y in ((0, 0), (0, 1), (1, 0))]
    assert covering(cases, 2) == {0, 1, 2}


def test_every_value_is_used_about_as_often():
    cases = [{"a": x, "b": y} for x, y in itertools.product(range(20), range(4))]
    chosen = [cases[index]["b"] for index in covering(cases, 1)]
    assert [chosen.count(value) for value in range(4)] == [5, 5, 5, 5]


def test_one_case_covers_itself():
    """A case that is asked for by its name runs."""
    assert covering([{"a": 3, "b": 1}], 2) == {0}
    assert covering([{"a": 3}], 2) == {0}


@pytest.mark.covering(1)
@pytest.mark.parametrize("letter", ["x", "y", "z"])
@pytest.mark.parametrize("number", range(4))
def test_other_cases_are_slow(request, letter, number):
    """This one has twelve, of which `make test` runs four."""
    cases = [x for x in request.session.items if "test_other_cases_are_slow" in x.name]
    quick = [x for x in cases if not x.get_closest_marker("slow")]
    assert request.node in cases
    assert len(quick) <= 4
    assert f"{number}-{letter}" in request.node.name
