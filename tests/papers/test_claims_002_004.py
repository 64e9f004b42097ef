"""Every rule about a claim of papers 002 and 004 says yes, no, and that it cannot tell."""

from __future__ import annotations

from itertools import product

import pytest

from paper_operands import outcome
from widen.papers.dgemm_fp8 import future as fp8_future
from widen.papers.dgemm_fp8 import items as fp8
from widen.papers.dgemm_fp8 import speed as fp8_speed
from widen.papers.dgemm_fp8.algorithm import INPUTS, minimum_products
from widen.papers.dgemm_fp8.items import TABLE_3
from widen.papers.ozimmu import future, items, speed_items
from widen.papers.ozimmu.accuracy import FP64, Errors
from widen.papers.ozimmu.algorithm import VARIANTS

YES, NO, OPEN = "holds", "does not hold", "not decided here"


def verdicts(claims):
    return [claim.verdict for claim in claims]


def test_a_cpu_decides_no_claim_of_speed():
    timed = ("002-table1", "002-fig6-11", "002-fig12-13", "002-fig14", "004-table1-2", "004-fig1",
             "004-fig2", "004-fig4", "004-future-blocks")  # fmt: skip
    for name in timed:
        assert set(verdicts(outcome(name).claims)) == {OPEN}


def test_claims_that_any_machine_decides():
    assert verdicts(outcome("004-table3").claims) == [YES, YES, YES]
    assert verdicts(outcome("004-fig5").claims) == [YES, OPEN, OPEN]
    assert verdicts(outcome("002-future-blocks").claims) == [YES, YES]
    assert outcome("004-fig3").claims[0].verdict == YES
    assert outcome("004-fig3").claims[2].verdict == YES


# ── paper 002 ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("measured", "hopper", "wanted"),
    [
        ({"FP64": 30.0, "INT8": 1800.0}, True, YES),
        ({"FP64": 60.0, "INT8": 1500.0}, True, NO),
        ({"FP64": 60.0, "INT8": 6000.0}, True, NO),
        ({"FP64": 30.0, "INT8": 1800.0}, False, OPEN),
        ({"FP64": 0.1}, False, OPEN),
    ],
)
def test_ratio_of_int8_and_fp64(measured, hopper, wanted):
    assert verdicts(items.specification_claims(measured, hopper, "")) == [wanted]


def slices_needed(*counts):
    """Errors in which so many slices reach FP64's, by phi."""
    return {
        float(phi): {FP64: 1e-14} | {("ozimmu", k): 1e-15 if k >= count else 1e-9
                                      for k in range(5, 12)}
        for phi, count in enumerate(counts)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("counts", "wanted"),
    [((8, 8, 9), [YES, YES]), ((6, 8, 9), [NO, YES]), ((8, 7, 9), [YES, NO]), ((9, 9), [NO, NO]),
     ((8, 99), [YES, YES]), ((99, 99), [NO, NO])],
)  # fmt: skip
def test_slices_needed(counts, wanted):
    assert verdicts(items.slices_claims(slices_needed(*counts), "")) == wanted


def variants_drawn(relative=2.0, against=2.0, apart=1.0, floor=1e-21):
    """Draws in which RN and H err so many times less than ozIMMU and EF, and EF is apart."""
    own = {FP64: [Errors(1e-17, 1e-17)] * 3}
    for way, k in product(VARIANTS, range(7, 12)):
        by = (1.0, 1.0) if way in ("ozimmu", "ef") else (relative, against)
        base = 128.0**-k * (apart if way == "ef" else 1.0)
        own[way, k] = [
            Errors(base / by[0] * x + floor, base / by[1] * x + floor) for x in (0.5, 1.0, 2.0)
        ]
    return {(0.0, 64): own, (2.0, 64): own}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, [YES, YES]),
        ({"relative": 0.7}, [YES, NO]),
        ({"against": 0.7}, [YES, NO]),
        ({"apart": 3.0}, [NO, YES]),
        ({"floor": 1e-9}, [OPEN, OPEN]),
    ],
)
def test_more_accurate_by_both_measures(given, wanted):
    assert verdicts(items.accuracy_claims(variants_drawn(**given), "")) == wanted


def test_one_phi_that_contradicts_is_enough():
    found = variants_drawn()
    found[0.0, 64] = variants_drawn(relative=0.5)[0.0, 64]
    assert verdicts(items.accuracy_claims(found, "")) == [YES, NO]


def test_a_gain_that_may_be_chance_is_not_decided():
    """One draw in three for it, the others against it, as one draw of the largest error goes."""
    found = variants_drawn()
    for own, (way, k) in product(found.values(), product(("rn", "h"), range(7, 12))):
        base = 128.0**-k
        own[way, k] = [Errors(base * x, base * x) for x in (0.2, 1.2, 2.4)]
    assert verdicts(items.accuracy_claims(found, "")) == [YES, OPEN]


@pytest.mark.parametrize(
    ("nine", "ten", "h", "wanted"),
    [
        ([3.0, 3.0], [0.1, 0.1], [1.0, 3.0], [YES, NO]),
        ([1.0, 3.0], [0.1, 0.1], [3.0, 3.0], [NO, NO]),
        ([3.0, 3.0], [0.4, 0.4], [0.5, 0.5], [YES, YES]),
        ([3.0, 3.0], [0.1, 0.1], [3.0, 3.0], [OPEN, NO]),
    ],
)
def test_a_slice_saved(nine, ten, h, wanted):
    errors = {FP64: [1.0, 1.0], ("ozimmu", 9): nine, ("ozimmu", 10): ten, ("h", 9): h}
    own = {method: [Errors(x, x) for x in given] for method, given in errors.items()}
    other = {method: [Errors(1.0, 1.0)] for method in errors}
    assert verdicts(items.saved_slice_claims({(2.0, 64): own, (0.0, 64): other}, 2.0, "")) == wanted


def test_the_bound():
    assert [items.bound_claim(x, "").verdict for x in (0.3, 1.0, 1.01)] == [YES, YES, NO]


def test_blocks_beyond_two_to_the_17():
    names = ["ozIMMU-7", "ozIMMU_H-7"]
    found = {(p, n + more): 1.0 for p in (17, 18, 19) for n in names for more in ("", ", blocks")}
    lost = {(p, n): 100.0 for p in (18, 19) for n in names}
    assert verdicts(future.block_claims(found, "")) == [NO, YES]
    assert verdicts(future.block_claims(found | lost, "")) == [YES, YES]
    worse = {(19, "ozIMMU_H-7, blocks"): 5.0}
    assert verdicts(future.block_claims(found | lost | worse, "")) == [YES, NO]


def breakdown_rows(masks=45.0, grouped=15.0, split=10.0, n=8192):
    """Rows in which adding takes so many ms, of 100 with the rest."""
    rows = []
    for record in VARIANTS.values():
        added = grouped if record.grouped else masks
        own = split if record.name == "ozIMMU_H" else 10.0
        rows.append([record.name, n, 8, own, 0.0, 90.0 - added, added, 0.0])
    return rows


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, [YES, YES, YES, YES]),
        ({"masks": 20.0}, [NO, YES, YES, YES]),
        ({"masks": 70.0}, [NO, YES, YES, YES]),
        ({"grouped": 30.0}, [YES, NO, YES, YES]),
        ({"masks": 14.0}, [NO, NO, NO, YES]),
        ({"split": 40.0}, [YES, YES, YES, NO]),
    ],
)
def test_time_breakdowns(given, wanted):
    rows = breakdown_rows(**given)
    assert verdicts(speed_items.breakdown_claims(rows, True)) == wanted
    assert set(verdicts(speed_items.breakdown_claims(rows, False))) == {OPEN}
    small = breakdown_rows(**given, n=1024)
    assert set(verdicts(speed_items.breakdown_claims(small, True))) == {OPEN}


def test_times_of_additions_are_compared_and_not_shares():
    """EF adds for longer than ozIMMU in one case, though its share of a longer time is less."""
    rows = breakdown_rows()
    longer = breakdown_rows(n=4096)
    longer[2] = ["ozIMMU_EF", 4096, 8, 10.0, 0.0, 500.0, 46.0, 0.0]
    assert verdicts(speed_items.breakdown_claims(rows + longer, True))[2] == NO


def speeds(gain=1.4, three=3.0, level=1.0, at_11=1.6):
    found = {}
    for n in (2048, 4096, 16384):
        found["FP64", n, 0] = 50.0
        for k, ratio in ((3, three), (5, level), (6, level / gain), (8, 0.5), (11, 0.3)):
            more = at_11 if (n, k) == (2048, 11) else gain
            for record in VARIANTS.values():
                found[record.name, n, k] = 50.0 * ratio * (more if record.grouped else 1)
    return found


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, [YES, YES, YES, YES, YES]),
        ({"three": 2.0}, [NO, YES, YES, YES, YES]),
        ({"level": 0.5}, [YES, NO, YES, YES, YES]),
        ({"level": 2.0}, [YES, NO, YES, YES, YES]),
        ({"gain": 0.95}, [YES, YES, NO, YES, NO]),
        ({"gain": 1.1}, [YES, YES, YES, YES, NO]),
        ({"at_11": 1.2}, [YES, YES, YES, NO, YES]),
    ],
)
def test_throughput(given, wanted):
    assert verdicts(speed_items.throughput_claims(speeds(**given), True)) == wanted
    assert set(verdicts(speed_items.throughput_claims(speeds(**given), False))) == {OPEN}


def test_a_gain_at_4096_alone_is_not_enough():
    found = speeds()
    found["ozIMMU_H", 16384, 8] = 0.97 * found["ozIMMU", 16384, 8]
    assert verdicts(speed_items.throughput_claims(found, True))[2::2] == [NO, NO]


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({}, [YES, YES]),
        ({"speed": {("ef", 7): 10.0}}, [NO, YES]),
        ({"speed": {("h", 7): 10.0}}, [NO, YES]),
        ({"speed": {("h", 9): 10.0, ("ef", 9): 10.0}}, [YES, NO]),
        ({"errors": {("ef", 7): Errors(1e-9, 1.0)}}, [NO, YES]),
        ({"errors": {("h", 7): Errors(1.0, 1e-9)}}, [NO, YES]),
    ],
)
def test_speed_against_accuracy(change, wanted):
    methods = list(product(VARIANTS, range(6, 11)))
    speed = {m: (60.0 if VARIANTS[m[0]].grouped else 50.0) - 8 * (m[1] - 6) for m in methods}
    speed |= {FP64: 50.0} | change.get("speed", {})
    errors = {m: Errors(100.0 ** -m[1], 100.0 ** -m[1]) for m in methods} | change.get("errors", {})
    errors[FP64] = Errors(1e-16, 1e-16)
    assert verdicts(speed_items.trade_claims(speed, errors, True, "")) == wanted
    assert verdicts(speed_items.trade_claims(speed, errors, False, "")) == [OPEN, OPEN]


# ── paper 004 ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("rates", "hopper", "wanted"),
    [
        ((30.0, 900.0, 1800.0), True, [YES, YES]),
        ((60.0, 700.0, 1400.0), True, [NO, YES]),
        ((30.0, 900.0, 1000.0), False, [OPEN, NO]),
        ((30.0, 900.0, 2500.0), True, [YES, NO]),
    ],
)
def test_ratios_of_formats(rates, hopper, wanted):
    measured = dict(zip(("FP64", "FP16", "FP8"), rates, strict=True)) | {"FP8, our kernel": 1.0}
    assert verdicts(fp8.ratio_claims(measured, hopper, "")) == wanted
    assert verdicts(fp8.ratio_claims({"FP64": 1.0, "FP32": 2.0}, False, "")) == [OPEN, OPEN]


def test_table_3_and_what_ran():
    ours = minimum_products()
    ran = {(*types, 8): (TABLE_3[8][at], 1e-16) for at, types in enumerate(INPUTS)}
    assert verdicts(fp8.table_claims(ours, ran)) == [YES, YES, YES]
    off = ours | {8: (26, *ours[8][1:])}
    assert verdicts(fp8.table_claims(off, ran)) == [NO, YES, YES]
    assert verdicts(fp8.table_claims(ours, ran | {("fp6", "fp16", 8): (195, 0.0)})) == [
        YES,
        NO,
        YES,
    ]
    wrong = ran | {("fp6", "fp16", 8): (196, 1e-4)}
    assert verdicts(fp8.table_claims(ours, wrong)) == [YES, YES, NO]


def raw_rates(full=0.95, at_1024=0.97, at_256=0.7):
    peaks = fp8_speed.PEAKS
    found = {(name, None, 8192): full * peak for name, peak in peaks.items()}
    drops = {256: at_256, 1024: at_1024}
    return found | {("FP16", k, 8192): x * found["FP16", None, 8192] for k, x in drops.items()}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [({}, [YES, YES]), ({"full": 0.7}, [NO, YES]), ({"at_1024": 0.8}, [YES, NO]),
     ({"at_256": 0.95}, [YES, NO])],
)  # fmt: skip
def test_raw_products(given, wanted):
    assert verdicts(fp8_speed.raw_claims(raw_rates(**given), True, True)) == wanted
    assert verdicts(fp8_speed.raw_claims(raw_rates(**given), True, False)) == [OPEN, wanted[1]]
    assert verdicts(fp8_speed.raw_claims(raw_rates(**given), False, True)) == [OPEN, OPEN]


@pytest.mark.parametrize(
    ("fp8_at_8192", "kept", "wanted"), [(1.2, 0.9, [YES, YES]), (0.9, 0.75, [NO, NO])]
)
def test_rates_of_versions(fp8_at_8192, kept, wanted):
    rate = {}
    for m, gain in ((4096, 0.5), (8192, fp8_at_8192), (16384, 1.26)):
        for name, x in (("FP16TC", 1.0), ("FP8TC", gain)):
            rate[name, m], rate[f"{name}, FP64emu", m] = x, kept * x
        rate["FP8TC, digits 16 and 8", m] = 0.1
    assert verdicts(fp8_speed.rate_claims(rate, True)) == wanted
    assert verdicts(fp8_speed.rate_claims(rate, False)) == [OPEN, OPEN]


def test_accuracy_of_versions():
    good = [[1024, 9.0, 1.0, 1.0, 1.0, 1.0], [4096, 9.0, 1.0, 1.0, 2.0, 2.0]]
    assert verdicts(fp8.error_claims(good, 1024, True, "")) == [YES, YES, YES]
    assert verdicts(fp8.error_claims(good, 1024, False, "")) == [YES, YES, NO]
    worse = [good[0], [4096, 9.0, 10.0, 1.0, 10.0, 0.5]]
    assert verdicts(fp8.error_claims(worse, 1024, True, "")) == [NO, NO, YES]


def test_stages():
    rows = [[4096, "x", 9.0, 1.0, 9.0], [8192, "x", 1.0, 8.0, 1.0], [8192, "y", 1.0, 9.0, 1.0]]
    assert fp8_speed.stage_claim(rows, True).verdict == YES
    assert fp8_speed.stage_claim([*rows, [8192, "z", 3.0, 5.0, 2.0]], True).verdict == NO
    assert fp8_speed.stage_claim(rows, False).verdict == OPEN
    ours = [8192, "x, digits 16 and 8", 3.0, 5.0, 2.0]  # no version of the paper's
    assert fp8_speed.stage_claim([*rows, ours], True).verdict == YES


def block_rows(products=(49, 64, 64, 81, 81), gemm=(5, 6, 6, 8, 8), added=(5, 3, 1, 1, 1)):
    sizes = (1024, 2048, 4096, 8192, 16384)
    return [[memory, *row[:2], 99, 1.0, *row[2:]] for memory in ("8GB", "1GB")
            for row in zip(sizes, products, gemm, added, strict=True)]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, [YES, YES, YES]),
        ({"products": (49, 64, 65, 81, 81)}, [NO, YES, YES]),
        ({"gemm": (9, 6, 6, 8, 8)}, [YES, NO, YES]),
        ({"added": (1, 3, 1, 1, 2)}, [YES, NO, NO]),
        ({"gemm": (5, 6, 6, 8, 2), "added": (5, 3, 1, 1, 1)}, [YES, NO, NO]),
    ],
)
def test_blocks_of_figure_5(given, wanted):
    rows = block_rows(**given)
    assert verdicts(fp8_speed.block_claims(rows, True, "")) == wanted
    assert verdicts(fp8_speed.block_claims(rows, False, "")) == [wanted[0], OPEN, OPEN]


def test_the_automatic_block():
    seconds = {(8192, 1024): 1.2, (8192, 4096): 1.0, (8192, 8192): 1.3}
    for chosen, wanted in ((4096, YES), (1024, NO)):
        claims = fp8_future.automatic_claims(seconds, {8192: chosen}, True, "")
        assert verdicts(claims) == [wanted]
        assert claims[0].future
    assert verdicts(fp8_future.automatic_claims(seconds, {8192: 4096}, False, "")) == [OPEN]


def test_fp8_in_groups():
    names = ("ordinary product", "FP16TC", "FP8TC", "FP8 in groups")
    rate = {(name, 8192): x for name, x in zip(names, (60.0, 8.0, 6.0, 9.0), strict=True)}
    errors = {(name, 8192): x for name, x in zip(names, (9e-15, 1e-16, 1e-16, 2e-16), strict=True)}
    assert verdicts(fp8_future.group_claims(rate, errors, True)) == [YES, YES]
    assert verdicts(fp8_future.group_claims(rate, errors, False)) == [YES, OPEN]
    slower, worse = {("FP8 in groups", 8192): 7.0}, {("FP8 in groups", 8192): 1e-14}
    assert verdicts(fp8_future.group_claims(rate | slower, errors, True)) == [YES, NO]
    assert verdicts(fp8_future.group_claims(rate, errors | worse, True)) == [NO, YES]
