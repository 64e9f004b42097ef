"""The GPU's stages give the CPU's bits: on a GPU, or in Triton's interpreter on small shapes."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import widen
import widen.testing as wt
from device import ON, own_kernels, product, surveyed, tensor
from helpers import assert_same_bits, draw, slow_except
from widen import bounds, definition
from widen.contract import CONTRACTS, as_contract
from widen.formats import FORMATS
from widen.gpu import certify as gpu_certify
from widen.gpu import constants as gpu_constants
from widen.gpu import encode as gpu_encode
from widen.gpu import lines as gpu_lines
from widen.gpu import multiply as gpu_multiply
from widen.gpu import planning as gpu_planning
from widen.gpu import stages as gpu_stages
from widen.gpu import tiles
from widen.gpu.clock import Clock
from widen.gpu.kernels.triton import numbers
from widen.gpu.kernels.triton.reconstruct import REPAIRED
from widen.gpu.planning import SHORT_LEAD_BITS
from widen.gpu.products import lines_of
from widen.planner import first_cap
from widen.stages.problem import Problem
from widen.systems import residues
from widen.systems.moduli import balanced

pytestmark = pytest.mark.device

# Triton's interpreter takes seconds for a product: small shapes there, and fewer of them.
SHAPES = [(3, 9, 4)] if ON == "cpu" else [(1, 1, 1), (5, 19, 6), (70, 200, 130)]
HARD = [
    ("phi4", "fast"), ("graded against", "correct"), ("cancellation", 40), ("extremes", "fast"),
    ("zero lines", "correct"), ("phi1", 40),
]  # fmt: skip
OTHERS = HARD if ON == "cpu" else list(itertools.product(wt.FAMILIES, ["fast", "correct", 40]))
families = pytest.mark.parametrize("family", wt.FAMILIES)
# Whole products of other families than HARD; planes of all of them are looked at below.
SOME = ["phi0.5", "integers", "ties", "one huge", "subnormals", "graded inner"]


def assert_as_on_a_cpu(a, b, accuracy, dtype="float64"):
    _, found = product(a, b, accuracy, dtype)
    assert_same_bits(found, widen.matmul(a, b, accuracy=accuracy, dtype=dtype))


@pytest.mark.parametrize("family", slow_except(SOME, wt.FAMILIES))
def test_families(family):
    for shape in SHAPES:
        assert_as_on_a_cpu(*draw(family, shape, 1), "standard")


@own_kernels
@pytest.mark.parametrize(("family", "accuracy"), OTHERS)
def test_other_contracts(family, accuracy):
    shape = (2, 5, 2) if ON == "cpu" else SHAPES[-1]
    assert_as_on_a_cpu(*draw(family, shape, 2), accuracy)


def test_what_does_not_fit_any_planes_is_computed_from_the_same_integers():
    assert_as_on_a_cpu(*draw("extremes", (2, 9, 2), 2), 200)


@own_kernels
@pytest.mark.parametrize("names", [
    ("float32", "float32", "float32"), ("float32", "float64", "float64"),
    ("float16", "float32", "float32"), ("bfloat16", "bfloat16", "float32"),
    ("complex128", "complex128", "complex128"), ("complex64", "float32", "complex64"),
])  # fmt: skip
@pytest.mark.parametrize("family", ["phi1"] if ON == "cpu" else wt.FAMILIES)
def test_formats(names, family):
    left, right, result = names
    a, b = draw(family, SHAPES[-1], 3, left, right)
    for accuracy in ("standard",) if ON == "cpu" else ("standard", "correct", "fast", 30):
        assert_as_on_a_cpu(a, b, accuracy, result)


def test_subnormal_formats():
    assert_as_on_a_cpu(
        *draw("subnormals", (2, 5, 2), 3, "float16", "bfloat16"), "correct", "float32"
    )


@pytest.mark.parametrize("accuracy", ["standard", "correct"])
def test_special_values(accuracy):
    rng = np.random.default_rng(4)
    a, b = rng.random((5, 6)), rng.random((6, 3))
    a[1, 2], a[2, 3], a[2, 4], b[4, 1], b[2, 2], a[3], a[4] = (
        np.inf, np.nan, 0, -np.inf, 0, 0, 5e-324,
    )  # fmt: skip
    assert_as_on_a_cpu(a, b, accuracy)
    if accuracy == "standard":
        z = np.empty((2, 6), complex)
        z.real, z.imag = a[:2], a[1:3]
        assert_as_on_a_cpu(z, b + 0j, accuracy, "complex128")


@pytest.mark.covering(1)
@pytest.mark.parametrize("accuracy", ["fast", "standard", 10])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_lines_of_one_entry(accuracy, dtype):
    """Of length 1, or among zeros: float64 operands, of which a float32 keeps less."""
    shape = (3, 1, 4) if ON == "cpu" else (6, 1, 7)
    a, b = draw("phi0", shape, 7, "complex128" if dtype == "complex64" else "float64")
    wanted = widen.matmul(a, b, accuracy="correct", dtype=dtype)
    assert_same_bits(product(a, b, accuracy, dtype)[1], wanted)
    longer = np.zeros((len(a), 3), a.dtype)
    longer[:, 1:2] = a
    assert_same_bits(product(longer, np.repeat(b, 3, 0), accuracy, dtype)[1], wanted)


@own_kernels
def test_batches_share_an_operand():
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((3, 2, 6)), rng.standard_normal((1, 6, 2))
    for x, y in ((a, b), (b.swapaxes(1, 2), a.swapaxes(1, 2)), (a, np.repeat(b, 3, 0))):
        assert_as_on_a_cpu(x, y, "standard")


@own_kernels
def test_strides_do_not_matter():
    rng = np.random.default_rng(6)
    a, b = rng.standard_normal((4, 14)), rng.standard_normal((14, 3))
    wanted = product(a, b)[1]
    wide = np.zeros((8, 28))
    wide[::2, 1::2] = a
    assert_same_bits(product(wide[::2, 1::2], np.asfortranarray(b))[1], wanted)
    assert_same_bits(product(np.asfortranarray(a), b)[1], wanted)


def test_blocks_do_not_matter():
    rng = np.random.default_rng(7)
    a, b = rng.standard_normal((4, 20)), rng.standard_normal((20, 3))
    plan, found = product(a, b, workspace=3000)
    assert plan.blocks.rows < 4 or plan.blocks.columns < 3
    assert_same_bits(found, product(a, b)[1])


def test_a_block_has_fewer_lines_than_bulk_copies_count():
    room = {"device": "cuda", "workspace": "400GB"}
    tall, wide = ((1 << 27) - 1, 16), (16, (1 << 27) - 1)
    for a, b in [(tall, (16, 16)), ((16, 16), wide), ((4096, 40000, 16), (16, 16))]:
        plan = widen.plan(a, b, accuracy="correct", dtype="float64x2", **room)
        blocks = plan.blocks
        assert blocks.batch * max(blocks.rows, blocks.columns) * plan.layout.planes[0] < 1 << 31
        assert min(blocks.batch, blocks.rows, blocks.columns) > 0


def test_a_plan_of_nothing():
    for a, b in [((0, 5), (5, 0)), ((0, 3, 5), (5, 3)), ((3, 0), (0, 3))]:
        plan = widen.plan(a, b, device="cuda", workspace="1GB")
        assert (plan.shape[1], plan.shape[3]) == (a[-2], b[-1])


def test_tables_stay_where_they_are():
    """A captured graph points at them."""
    place = torch.device(ON)
    held = gpu_constants.encoding((256, 255, 253), place)[1]
    for count in range(1, 400):
        gpu_constants.encoding((256, 2 * count + 1), place)
    assert gpu_constants.encoding((256, 255, 253), place)[1] is held


@own_kernels
@pytest.mark.parametrize(
    "accuracy", slow_except(["standard", "correct"], ["fast", "standard", "correct", 40])
)
def test_a_plan_made_beforehand_keeps_its_contract(accuracy):
    """Planes for ordinary rows; what they cannot hold is repaired."""
    a, b = draw("phi1", (3, 6, 1) if ON == "cpu" else (3, 12, 2), 8)
    plan, found = product(a, b, accuracy)
    assert_same_bits(product(a, b, accuracy, plan=plan)[1], found)
    a[1, 3], a[2] = 1e300, a[2] * 1e-290
    wanted = widen.matmul(a, b, accuracy=accuracy)
    assert_same_bits(product(a, b, accuracy, plan=plan)[1], wanted)


# ── stage by stage, against the definition ───────────────────────────────────────────────────


def weighed(table, i, k):
    """What the table of lines of k numbers says for certificates of line i."""
    names = ("WEIGHT", "STEP", "NONZEROS", "AHEAD", "STOP")
    rows = [table[int(getattr(numbers, name)), i].cpu() for name in names]
    weight, step = (float(row.view(torch.float64)) for row in rows[:2])
    nonzeros, ahead, stop = map(int, rows[2:])
    return bounds.Weighed(weight, step, nonzeros, k - ahead if nonzeros else 0, stop)


@families
@pytest.mark.parametrize("accuracy", ["standard"] if ON == "cpu" else [*CONTRACTS, 40])
def test_lines_and_planes(family, accuracy):
    contract = as_contract(accuracy)
    a, b = draw(family, (4, 11, 3) if ON == "cpu" else (6, 11, 5), 9)
    layout = residues(128, 50.0, 1)
    for x, side in ((a, "left"), (b, "right")):
        cap = first_cap(53, 11) if contract.correct else None
        operand, table, goal, test = surveyed(x, side, contract, cap)
        gpu_lines.find_spans([operand], [table])
        planes = gpu_encode.encode_bytes([operand], [table], layout)[0].cpu().numpy()
        for i, line in enumerate(x if side == "left" else x.T):
            wanted = definition.quantise_line(definition.numbers(line), goal)
            row = {
                name: int(table[int(getattr(numbers, name)), i])
                for name in ("SUM", "SQUARES", "SCALE", "SIGMA", "FLAGS", "NONZEROS")
            }
            assert (row["SUM"], row["SQUARES"]) == (wanted.q1, wanted.q2)
            assert (row["SCALE"], row["SIGMA"]) == (wanted.exponent, wanted.sigma)
            assert bool(row["FLAGS"] & int(numbers.INEXACT)) == (not wanted.exact)
            assert row["NONZEROS"] == wanted.nonzeros
            if test is not None:
                assert weighed(table, i, 11) == wanted.weighed(test)
            if abs(row["SIGMA"]) < 300:
                for plane, p in zip(planes[:, 0, i], layout.moduli, strict=True):
                    integers = [numbers_[0] for numbers_ in wanted.integers]
                    assert plane[:11].tolist() == [balanced(x, p) for x in integers]


@families
@pytest.mark.parametrize("operand", ["float64", "float32"])
def test_magnitudes(family, operand):
    """What certificates sum are the definition's short magnitudes."""
    a, b = draw(family, (4, 11, 3), 9, operand)
    test = bounds.certificate(CONTRACTS["standard"], 53, 11, 1, 0)
    for x, side in ((a, "left"), (b, "right")):
        operand = lines_of(tensor(x), side, 1)
        leads = gpu_lines.survey_all([operand], test, gpu_lines.MAGNITUDES, [None]).leads[0]
        assert leads.dtype == torch.bfloat16
        for i, line in enumerate(x if side == "left" else x.T):
            exact = definition.numbers(line)
            top = definition.quantise_line(exact, None).top
            found = leads[0, 0, i, :11].double().tolist()
            assert found == [definition._short(number, top) for number in exact]


@families
@pytest.mark.parametrize("operand", ["float64", "float32", "complex128"])
def test_saturated_leads(family, operand):
    """Leading integers about a line's mean; what is beyond them leads with its own first bits."""
    k, parts = 11, 1 + (operand == "complex128")
    a, b = draw(family, (4, k, 3), 9, operand)
    kept = SHORT_LEAD_BITS[parts]
    test = bounds.certificate(CONTRACTS["standard"], 53, k, parts, 0)
    sides = [lines_of(tensor(x), side, parts) for x, side in ((a, "left"), (b, "right"))]
    tables = gpu_lines.survey_all(sides, test, kept, [None]).tables
    doubtful = torch.zeros(1, dtype=torch.int64, device=ON)
    made = gpu_lines.leads_again(sides, tables, gpu_lines.SATURATED + kept, doubtful)
    for x, leads in zip((a, b.T), made, strict=True):
        for i, line in enumerate(x):
            exact = definition.numbers(line)
            known = definition.quantise_line(exact, None)
            drop = max(14 + known.nonzeros.bit_length() - known.q1.bit_length(), 0)
            wanted = []
            for number in exact:
                lead = 0
                for part in map(abs, filter(None, number)):
                    own = bounds.floor_log2_ratio(*part.as_integer_ratio())
                    lead += math.floor(part * Fraction(2) ** (kept - max(own, known.top - drop)))
                wanted.append(lead)
            assert leads[0, 0, i, :k].tolist() == wanted


@own_kernels
@pytest.mark.covering(1)
@pytest.mark.parametrize("few", [0, 1 << 25])
@pytest.mark.parametrize(
    ("family", "dtype"), [("phi2", "float64"), ("phi4", "complex128"), ("one huge", "float32")]
)
def test_leads_near_the_mean(monkeypatch, family, dtype, few):
    """They give the same bits, whether magnitudes decide after them or single elements."""
    monkeypatch.setattr(gpu_planning, "LEAST_WORK", 0)
    monkeypatch.setattr(gpu_certify, "FEW_TERMS", few)
    taken = []
    monkeypatch.setattr(
        gpu_certify, "look",
        lambda *given, look=gpu_certify.look, **named: taken.append(named["kept"]) or
        look(*given, **named)
    )  # fmt: skip
    monkeypatch.setattr(gpu_planning, "HEAVY", 0)  # short lines often are
    monkeypatch.setattr(tiles, "VERY_SHORT", 64)
    shape = (5, 70, 6) if ON == "cpu" else (70, 200, 130)
    a, b = draw(family, shape, 4, dtype)
    assert_as_on_a_cpu(a, b, "standard", dtype)
    assert taken == [
        gpu_lines.SATURATED + SHORT_LEAD_BITS[1 + (dtype == "complex128")],
        gpu_lines.MAGNITUDES,
    ]


def test_constants_of_three_moduli_at_a_time():
    for bits in range(1, 340, 3):
        layout = residues(128, float(bits), 1)
        modulus = layout.modulus
        basis, pieces, taken, inverse = gpu_constants.reconstruction(layout)
        words = len(basis[0]) - 3
        rest = [sum(word << 32 * i for i, word in enumerate(row[3:])) for row in basis]
        weights = [x * y for row, y in zip(basis, rest, strict=True) for x in row[:3] if x]
        assert weights == [modulus // p for p in layout.moduli]
        assert sum(piece << 16 * i for i, piece in enumerate(pieces)) == modulus
        # Sums of complex numbers, at most 6 P for each of three moduli, fit an int64.
        assert 18 * len(basis) * modulus >> 32 * (words - 1) < 2**63
        assert taken == words + 1 or 1 << 32 * (words + 1 - taken) + 12 <= modulus
        assert inverse == 2.0 ** (32 * words) / modulus


@settings(max_examples=6)
@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(2, 6))
def test_residues_are_multiplied_exactly(seed, k, bits):
    """Bytes of the product are (sum w) mod p for the largest digits and equal signs as well."""
    rng = np.random.default_rng(seed)
    layout = residues(128, 8.0 * bits, 1)
    shape = (len(layout.moduli), 1, 3, -(-k // 16) * 16)
    ours = rng.choice(np.array([-128, 127, 5], np.int8), shape)
    theirs = np.full_like(ours, -128)
    found = gpu_multiply.multiply(
        torch.from_numpy(ours).to(ON), torch.from_numpy(theirs).to(ON), layout, k
    )
    for z, p in enumerate(layout.moduli):
        sums = ours[z, 0, :, :k].astype(int) @ theirs[z, 0, :, :k].astype(int).T
        inverse = pow(layout.modulus // p, -1, p)
        assert found[z, 0, :, :3].cpu().tolist() == (sums * inverse % p).tolist()


@own_kernels
def test_repair_counts_what_it_repairs():
    a, b = draw("one huge", (4, 6, 3), 10)
    problem = Problem(
        *(lines_of(tensor(x), side, 1) for x, side in ((a, "left"), (b, "right"))),
        CONTRACTS["standard"], FORMATS["float64"], 1 << 30,
    )  # fmt: skip
    out = torch.empty((1, 1, 4, 3), dtype=torch.int64, device=ON)
    prepared = gpu_stages.quantise(problem, Clock(timed=False))
    everything = (slice(0, 1), slice(0, 4), slice(0, 3))
    stages = prepared.stages(everything, out)
    marks = stages.certify()
    groups = stages.multiply(stages.encode(slice(0, 6)), None)
    marks = stages.repair(stages.reconstruct(groups, marks))
    _, info = widen.matmul(a, b, info=True)
    assert int(prepared.repaired[0]) == info.repaired == int((marks == int(REPAIRED)).sum())
    assert set(itertools.chain(*marks[0].tolist())) <= {0, int(REPAIRED)}
