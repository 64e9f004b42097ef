"""Paper 000's claims: every rule holds on data that agree, and fails on data that contradict it."""

from __future__ import annotations

import numpy as np
import pytest

from paper_operands import Tensors, outcome
from widen.cli.machines import Cpu
from widen.papers.items import Setting, all_items
from widen.papers.tensor_core_dgemm import future_items, items, speed_items
from widen.papers.tensor_core_dgemm.algorithm import dgemm_tc
from widen.papers.tensor_core_dgemm.by_row import rows_by_slices

HOLDS, FAILS, OPEN = "holds", "does not hold", "not decided here"


def verdicts(claims):
    return [claim.verdict for claim in claims]


def changed(rows, at, value, line=0):
    """Rows, one of which has another value."""
    return [[*row[:at], value, *row[at + 1 :]] if i == line else row for i, row in enumerate(rows)]


def test_accuracy():
    rows = [[0.1, 64, 1e-12, 1e-13, 0], [1.0, 64, 1e-12, 3e-12, 0]]
    assert verdicts(items.accuracy_claims(rows, "n", True)) == [HOLDS, HOLDS]
    assert verdicts(items.accuracy_claims(changed(rows, 3, 5e-12), "n", True)) == [FAILS, HOLDS]
    assert verdicts(items.accuracy_claims(changed(rows, 4, 1), "n", True)) == [HOLDS, FAILS]
    single = items.accuracy_claims(changed(rows, 3, 1.0), "n", False)
    assert verdicts(single) == [FAILS]


def test_counts():
    rows = [[0.1, 7168, 3584, 11, 9, 66], [1.0, 7168, 3584, 13, 9, 91],
            [2.0, 7168, 3584, 14, 9, 105]]  # fmt: skip

    def rule(rows, decided=True):
        return verdicts(items.count_claims(rows, decided))

    assert rule(rows) == [HOLDS, HOLDS]
    assert rule(changed(rows, 5, 78)) == [FAILS, HOLDS]
    assert rule(changed(rows, 5, 105, 1)) == [HOLDS, HOLDS]  # as many at φ = 1 as at 2
    assert rule(changed(rows, 5, 65, 1)) == [HOLDS, FAILS]
    assert rule(changed(rows, 5, 78, 2)) == [HOLDS, FAILS]
    assert rule([[*row[:5], 66] for row in rows]) == [HOLDS, FAILS]
    assert rule([[row[0], 4096, *row[2:]] for row in rows]) == [OPEN, HOLDS]
    assert rule(rows, decided=False) == [HOLDS, OPEN]


def test_slices_by_row():
    rows = [[0.1, 7168, 3584, "", 66, 66.0, 0.0], [1.0, 7168, 3584, "", 91, 78.2, 0.14]]
    runs = [[0.1, 512, 1e-12, 1e-13, 2e-13, 1.0, 1.1], [1.0, 512, 1e-12, 1e-13, 2e-13, 1.0, 0.9]]

    def rule(rows, runs, decided=True, timed=True):
        return verdicts(future_items.by_row_claims(rows, runs, decided, timed))

    assert rule(rows, runs) == [HOLDS, HOLDS, HOLDS]
    assert rule(changed(rows, 6, -0.2, 1), runs) == [FAILS, HOLDS, HOLDS]
    assert rule(rows, changed(runs, 4, 5e-12)) == [HOLDS, FAILS, HOLDS]
    assert rule(rows, changed(runs, 6, 1.1, 1)) == [HOLDS, HOLDS, FAILS]
    assert rule(rows, runs, decided=False) == [OPEN, HOLDS, HOLDS]
    assert rule(rows, runs, timed=False) == [HOLDS, HOLDS, OPEN]
    assert all(claim.future for claim in future_items.by_row_claims(rows, runs, True, True))


def test_reproducibility():
    rows = [
        ["threads: 1 instead of 2", "DGEMM-TC-DP", 0, 9],
        ["threads: 1 instead of 2", "a @ b", 5, 9],
        ["blocks: of 4", "DGEMM-TC-DP", 3, 9],
        ["blocks: of 4", "DGEMM-TC-CR", 0, 9],
        ["blocks: of 4", "DP-mode by row", 0, 9],
        ["device: the GPU instead of the CPU", "SGEMM-TC-SP", 0, 9],
    ]

    def with_differing(line, count):
        return verdicts(items.reproducibility_claims(changed(rows, 2, count, line), "n"))

    assert verdicts(items.reproducibility_claims(rows, "n")) == [HOLDS] * 4
    assert with_differing(0, 1) == [FAILS, HOLDS, HOLDS, HOLDS]
    assert with_differing(1, 0) == [HOLDS] * 4  # the ordinary product is not the paper's
    assert with_differing(2, 0) == [HOLDS, HOLDS, OPEN, HOLDS]
    assert with_differing(3, 1) == [HOLDS, HOLDS, FAILS, HOLDS]
    assert with_differing(4, 1) == [HOLDS, HOLDS, HOLDS, FAILS]
    assert with_differing(5, 1) == [HOLDS, FAILS, HOLDS, HOLDS]
    assert verdicts(items.reproducibility_claims(rows[2:5], "n")) == [OPEN, OPEN, HOLDS, HOLDS]


# φ, n, GFLOP/s, slices, products, shares of SplitA, SplitB, products, sum, TFLOP/s, ordinary
DP = [[0.1, 1024, 900.0, 9.0, 45.0, 0.05, 0.10, 0.75, 0.10, 90.0, 500.0],
      [1.0, 1024, 800.0, 9.0, 45.0, 0.05, 0.10, 0.75, 0.10, 90.0, 500.0]]  # fmt: skip
CR = [[0.1, 1024, 200.0, 11.0, 121.0, 0.05, 0.05, 0.40, 0.50, 90.0, 500.0],
      [1.0, 1024, 180.0, 12.0, 144.0, 0.05, 0.05, 0.40, 0.50, 90.0, 500.0]]  # fmt: skip


def test_time_of_dp_mode():
    def rule(rows, decided=True):
        return verdicts(speed_items.dp_claims(rows, "n", decided))

    assert rule(DP) == [HOLDS, HOLDS]
    assert rule(changed(DP, 7, 0.4)) == [FAILS, HOLDS]
    assert rule(changed(DP, 6, 0.04)) == [HOLDS, FAILS]
    assert rule(DP, decided=False) == [OPEN, OPEN]
    smaller = [row for row in changed(DP, 1, 7168) if row[1] == 7168]  # the paper's example counts
    larger = [[*row[:1], 10240, *row[2:]] for row in DP]
    assert rule([*changed(smaller, 7, 0.4), *larger]) == [FAILS, HOLDS]


def test_why_cr_mode_is_slower():
    def rule(rows, decided=True):
        return verdicts(speed_items.cr_claims(rows, DP, "n", decided))

    assert rule(CR) == [HOLDS, HOLDS]
    assert rule(changed(CR, 3, 9.0)) == [FAILS, HOLDS]
    assert rule(changed(CR, 4, 45.0)) == [FAILS, HOLDS]
    assert rule(changed(CR, 8, 0.05)) == [HOLDS, FAILS]
    assert rule(CR, decided=False) == [HOLDS, OPEN]
    assert rule(changed(CR, 1, 512)) == [OPEN, HOLDS]


def test_speed_of_sp_mode():
    sp = [[*row[:2], 3000.0, 5.0, 15.0, *row[5:10], 9000.0] for row in DP]

    def rule(rows, decided=True):
        return verdicts(speed_items.sp_claims(rows, DP, "n", decided))

    assert rule(sp) == [HOLDS] * 3
    assert rule(changed(sp, 10, 2000.0)) == [FAILS, HOLDS, HOLDS]
    assert rule(changed(sp, 2, 700.0)) == [HOLDS, FAILS, HOLDS]
    assert rule(changed(sp, 3, 9.0)) == [HOLDS, HOLDS, FAILS]
    assert rule(sp, decided=False) == [OPEN, OPEN, HOLDS]


TITAN = {name: list(rates) for name, rates in speed_items.TITAN.items()}
V100 = {name: list(rates) for name, rates in speed_items.V100.items()}


def table1(found, counts=(66.0, 78.0, 90.0), gap=172.0, decided=True):
    throughputs = [gap * found["cublasDgemm"][0]] * 3
    return verdicts(
        speed_items.table1_claims(found, list(counts), throughputs, "n", decided)
    )  # fmt: skip


def test_table1_of_the_paper_s_own_gpus():
    """The Titan RTX confirms one half of the headline, the V100 the other; each all the rest."""
    assert table1(TITAN) == [HOLDS, HOLDS, HOLDS, OPEN, HOLDS]
    assert table1(V100, gap=16.0) == [HOLDS, HOLDS, OPEN, HOLDS, HOLDS]


def test_table1_can_fail():
    slow = TITAN | {"DGEMM-TC-DP": [300.0, 254.0, 220.0], "DGEMM-TC-CR": [75.0, 64.0, 55.0]}
    assert table1(slow)[2:4] == [FAILS, OPEN]
    assert table1(TITAN, gap=16.0)[2:4] == [OPEN, FAILS]
    assert table1(TITAN, gap=40.0)[2:4] == [OPEN, OPEN]
    assert table1(TITAN, counts=(66.0, 91.0, 105.0))[:2] == [FAILS, HOLDS]
    steep = TITAN | {"DGEMM-TC-DP": [972.0, 705.0, 611.0]}
    assert table1(steep, counts=(66.0, 91.0, 105.0))[:2] == [HOLDS, FAILS]
    assert table1(TITAN | {"DGEMM-TC-CR": [600.0, 193.5, 173.1]})[4] == FAILS
    assert table1(TITAN | {"DGEMM-TC-CR": [100.0, 193.5, 173.1]})[4] == FAILS
    assert table1(TITAN, decided=False) == [OPEN] * 5


def test_counts_are_those_of_what_runs():
    rng = np.random.default_rng(3)
    a, b = (rng.random((2, 300, 300)) - 0.5) * np.exp(2 * rng.standard_normal((2, 300, 300)))
    groups = rows_by_slices(a, b)
    block, by_row = items.products(groups)
    assert (block,) == dgemm_tc(a, b, info=True)[1].products
    assert len(groups) > 1
    assert by_row < block


DECIDED = {
    "000-fig3": [HOLDS, HOLDS],
    "000-counts": [OPEN, OPEN],
    "000-future-rows": [OPEN, HOLDS, OPEN],
    "000-fig8": [HOLDS],
    "000-fig4-5": [OPEN, OPEN],
    "000-fig6-7": [OPEN, OPEN],
    "000-fig9": [OPEN, OPEN, HOLDS],
    "000-table1": [OPEN] * 5,
}


@pytest.mark.parametrize("name", DECIDED)
def test_items_at_their_smallest_sizes(name):
    """On a CPU, at sizes that are not the paper's, exactly so much is decided."""
    claims = outcome(name).claims
    assert verdicts(claims) == DECIDED[name]
    assert all(claim.paper for claim in claims)


@pytest.mark.parametrize("name", [name for name in all_items() if name.startswith("000")])
def test_items_run_on_tensors(name):
    found = all_items()[name].run(Setting(Tensors(), device="cuda", quick=True))
    assert found.rows
    if name == "000-reproducibility":
        assert verdicts(found.claims)[1] == HOLDS


def test_reproducibility_here():
    outcome = all_items()["000-reproducibility"].run(Setting(Cpu(), quick=True))
    threads, cores, blocks, by_row = verdicts(outcome.claims)
    assert threads in (HOLDS, OPEN)  # a machine of one core has nothing to compare
    assert (threads == OPEN) == (not any(row[0].startswith("threads") for row in outcome.rows))
    assert cores == OPEN
    assert blocks == HOLDS
    assert by_row == HOLDS
