"""Every unit and system on a GPU gives the CPU's bits; in Triton's interpreter on small shapes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import widen
from device import ON, surveyed, tensor
from helpers import assert_same_bits, draw
from widen import bounds, definition
from widen.contract import CONTRACTS, as_contract
from widen.formats import FORMATS
from widen.gpu import encoder as gpu_encoder
from widen.gpu import lines as gpu_lines
from widen.gpu import operands as gpu_operands
from widen.gpu import products as gpu_products
from widen.gpu import recorded as gpu_recorded
from widen.gpu import stages as gpu_stages
from widen.gpu import units as gpu_units
from widen.gpu.batches import copied
from widen.gpu.clock import Clock
from widen.gpu.products import lines_of
from widen.gpu.units import Engine
from widen.planner import Needs, choose_layout, exact_bits, unit_on_gpu
from widen.stages.problem import Encoding, Problem
from widen.stages.run import encode_operand, run
from widen.systems import residues
from widen.units import RATES, UNITS

pytestmark = pytest.mark.device

CHOICES = [
    choice
    for choice in itertools.product(gpu_units.STORAGE, ("residues", "digits"))
    if choice != ("int8", "residues")
]
choices = pytest.mark.parametrize(("unit", "system"), CHOICES)
TRIANGLES = [(unit, "triangle") for unit in gpu_units.STORAGE]
SHAPES = [(5, 7, 3)] if ON == "cpu" else [(5, 7, 3), (33, 70, 20), (130, 1100, 67)]
FEW = ("phi1", "graded against")


def engine_for(unit, system, bits, widths, k, parts=1):
    """An engine that holds so much."""
    half, fmt = bits / 2, FORMATS["float64" if parts == 1 else "complex128"]
    layout = choose_layout(
        CONTRACTS["standard"], fmt, k, UNITS[unit], system, Needs((half, half), widths), cap=None
    )
    depth = UNITS[unit].depth(bounds.plane_digit(UNITS[unit], k))
    return Engine(unit, layout, depth, bits, k)


def product(a, b, unit, system, accuracy="standard", dtype="float64", plan=None, workspace=1 << 30):
    """The product of NumPy arrays by the GPU's stages; and its plan."""
    fmt = FORMATS[dtype]
    left, right = (
        x if isinstance(x, widen.Encoded) else lines_of(tensor(x), side, fmt.parts)
        for x, side in ((a, "left"), (b, "right"))
    )
    dims = [x.dims if isinstance(x, widen.Encoded) else x.shape for x in (a, b)]
    shape = (*np.broadcast_shapes(dims[0][:-2], dims[1][:-2]), dims[0][-2], dims[1][-1])
    out = torch.full(shape, torch.nan, dtype=getattr(torch, dtype), device=ON)
    problem = Problem(left, right, as_contract(accuracy), fmt, workspace, unit, system, plan)
    bits = gpu_operands.bits_of(out.reshape(problem.shape[0], *shape[-2:]), fmt.parts)
    ran = run(gpu_stages, problem, bits, Clock(timed=False))
    assert ran.unit == unit
    # A triangle that leaves nothing out is all digits.
    assert ran.system in ((system, "digits") if system == "triangle" else (system,))
    return ran, out.cpu().numpy()


def assert_as_on_a_cpu(a, b, unit, system, accuracy="standard", dtype="float64", **more):
    _, found = product(a, b, unit, system, accuracy, dtype, **more)
    assert_same_bits(found, on_a_cpu(a, b, unit, system, accuracy=accuracy, dtype=dtype))


def on_a_cpu(a, b, unit, system, **more):
    """The CPU's product; of the triangle alone that is one of its unit."""
    if system == "triangle":
        more |= {"unit": unit, "system": system}
    return widen.matmul(a, b, **more)


@pytest.mark.parametrize("unit", gpu_units.STORAGE)
def test_every_small_product(unit):
    """Every pair of digits up to 16, and pairs of the largest ones; sums shorter than a step."""
    top = UNITS[unit].digit - (unit == "int8")
    some = torch.cat([torch.arange(-16, 17), torch.tensor([top, -top, top - 1, top // 2])])
    values = some.double().clamp(-top, top)
    planes = torch.zeros((1, 1, len(values), 16), dtype=torch.float64)
    planes[0, 0, :, 3] = values
    held = planes.to(gpu_units.STORAGE[unit]).to(ON)
    exact = held.double().cpu()
    engine = Engine(unit, residues(128, 1.0, 1), 16, 1.0, 16)
    found = engine.products(held, held)[..., : len(values)].double().cpu()
    assert torch.equal(found, exact @ exact.mT)
    assert torch.equal(exact[0, 0, :33, 3], values[:33])


# ── stage by stage ───────────────────────────────────────────────────────────────────────────


@choices
@pytest.mark.parametrize("family", ["phi4", "zero lines", "cancellation"])
def test_planes(unit, system, family):
    """Planes are those of the definition, for integers of 60 bits and more as well."""
    contract = CONTRACTS["correct"]
    a, b = draw(family, (4, 11, 3), 9)
    for at, (x, side) in enumerate(((a, "left"), (b, "right"))):
        operand, table, goal, _ = surveyed(x, side, contract, 70)
        lines = x if at == 0 else x.T
        defined = [definition.quantise_line(definition.numbers(line), goal) for line in lines]
        width = max(line.sigma for line in defined) + 1
        assert (53 if family == "zero lines" else 60) < width <= bounds.highest(goal)
        engine = engine_for(unit, system, 2.0 * (width + 4), (width, width), 11)
        planes = engine.encode([operand], [table], [at])[0]
        assert planes.dtype == gpu_units.STORAGE[unit]
        wanted = definition.encode(defined, engine.layout, at)
        assert planes[:, 0, :, :11].double().tolist() == wanted
        assert planes.double().abs().max() <= bounds.plane_digit(UNITS[unit], 11)


def largest_planes(unit, layout, k, signs, rng, lines=3):
    """Planes of largest digits, with the last one smaller so that the last bit counts."""
    digit = bounds.plane_digit(UNITS[unit], k)
    shape = (2, 1, lines, -(-k // 16) * 16)
    ours, theirs = np.full(shape, digit), np.full(shape, digit)
    if unit == "int8":
        ours, theirs = -ours, -theirs  # 128 is no int8
    theirs[..., k - 1] += 1 if unit == "int8" else -1
    if signs == "alternating":
        ours[..., 1::2] *= -1
    elif signs == "random":
        ours *= rng.choice([-1, 1], shape)
    ours, theirs = (np.clip(x, -digit, 127 if unit == "int8" else digit) for x in (ours, theirs))
    return ours, theirs


@pytest.mark.parametrize("signs", ["equal", "alternating", "random"])
@pytest.mark.parametrize("unit", gpu_units.STORAGE)
def test_products_are_exact(unit, signs):
    """Largest digits over several depths of the accumulator, every product of a list."""
    rng = np.random.default_rng(3)
    for k in (300,) if ON == "cpu" else (300, 5000, 300_000):
        engine = engine_for(unit, "digits", 60.0, (12, 12), k)
        ours, theirs = largest_planes(unit, engine.layout, k, signs, rng)
        counts = engine.layout.planes
        planes = [
            torch.from_numpy(np.concatenate([x] * (-(-count // 2)))[:count]).to(ON)
            for x, count in zip((ours, theirs), counts, strict=True)
        ]
        found = engine.products(*(x.to(gpu_units.STORAGE[unit]) for x in planes))[..., :3].cpu()
        exact = [x.cpu().numpy()[:, 0, :, :k].astype(np.int64) for x in planes]
        wanted = np.zeros((engine.layout.groups, 3, 3), np.int64)
        for x, y, group in engine.layout.products:
            wanted[group] += exact[0][x] @ exact[1][y].T
        assert found[:, 0].long().tolist() == wanted.tolist()


@pytest.mark.covering(1)
@choices
@pytest.mark.parametrize("parts", [1, 2])
def test_bytes_are_the_residues_of_x(unit, system, parts):
    rng = np.random.default_rng(parts)
    engine = engine_for(unit, system, 112.0, (54, 54), 2, parts)
    lines = [
        [tuple(int(x) for x in rng.integers(-(2**53), 2**53, parts)) for _ in range(2)]
        for _ in range(5)
    ]
    rows, columns = (
        [definition.Line(tuple(line), 0, 0, 0, 0, exact=True) for line in some]
        for some in (lines[:3], lines[3:])
    )
    layout, carrier = engine.layout, engine.carrier
    planes = definition.encode(rows, layout, 0), definition.encode(columns, layout, 1)
    exact = definition.multiply(*planes, layout.products)
    groups = torch.zeros((layout.groups, 1, 3, 16), dtype=engine.sums)
    groups[:, 0, :, :2] = torch.tensor(exact)
    found = engine.as_residues(groups.to(ON))[:, 0, :, :2].tolist()
    count = len(carrier.moduli)
    x = definition.integers(exact, layout)
    for (i, j), (at, p) in itertools.product(
        itertools.product(range(3), range(2)), enumerate(carrier.moduli)
    ):
        w = pow(carrier.modulus // p, -1, p)
        streams = [found[stream * count + at][i][j] for stream in range(2 * parts - 1)]
        assert all(0 <= byte < p for byte in streams)
        if parts == 1:
            assert streams[0] == x[i][j][0] * w % p
        else:
            rr, ii, ss = streams
            assert (rr - ii) % p == x[i][j][0] * w % p
            assert (ss - rr - ii) % p == x[i][j][1] * w % p


# ── whole products ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("unit", "system"), CHOICES + TRIANGLES[: 1 if ON == "cpu" else None])
@pytest.mark.parametrize("accuracy", ["standard"] if ON == "cpu" else [*CONTRACTS, 40])
def test_contracts(unit, system, accuracy):
    for shape, family in itertools.product(SHAPES, FEW[:1] if ON == "cpu" else FEW):
        assert_as_on_a_cpu(*draw(family, shape, 1), unit, system, accuracy)


OTHERS = [("fp8", "residues"), ("fp16", "triangle")] if ON == "cpu" else CHOICES + TRIANGLES


@pytest.mark.covering(1)
@pytest.mark.parametrize(("unit", "system"), OTHERS)
@pytest.mark.parametrize("accuracy", ["correct", 40])
def test_other_contracts(unit, system, accuracy):
    assert_as_on_a_cpu(*draw("graded against", (3, 9, 2), 2), unit, system, accuracy)


@pytest.mark.parametrize(("unit", "system"), OTHERS)
def test_complex_numbers_and_batches(unit, system):
    a, b = draw("phi1", (2, 6, 3), 3, "complex128")
    assert_as_on_a_cpu(a, b, unit, system, "standard", "complex128")
    stack = np.stack([a.real, a.imag])
    assert_as_on_a_cpu(stack, b.real[None], unit, system)


@pytest.mark.parametrize(("unit", "system"), OTHERS)
def test_special_values_and_blocks(unit, system):
    a, b = draw("phi1", (3, 6, 2), 4)
    a[1, 2], b[3, 1], a[2] = np.inf, np.nan, 0
    little = 1500 if ON == "cuda" else {"fp8": 4400, "fp16": 2000}[unit]  # two blocks or so
    plan, found = product(a, b, unit, system, workspace=little)
    assert plan.blocks.rows < 3 or plan.blocks.columns < 2
    assert_same_bits(found, on_a_cpu(a, b, unit, system))


@pytest.mark.covering(1)
@pytest.mark.parametrize(("unit", "system"), OTHERS)
@pytest.mark.parametrize("accuracy", ["standard", 40])
def test_a_plan_made_beforehand_keeps_its_contract(unit, system, accuracy):
    """Planes for ordinary rows; what they cannot hold is marked, and computed by itself."""
    a, b = draw("phi1", (3, 12, 2), 8)
    plan = gpu_products.typical_plan(
        Encoding("left", as_contract(accuracy), FORMATS["float64"], unit, system),
        (1, 3, 12, 2),
        1 << 30,
    )
    assert_as_on_a_cpu(a, b, unit, system, accuracy, plan=plan)
    a[1, 3], a[2] = 1e300, a[2] * 1e-290
    assert_as_on_a_cpu(a, b, unit, system, accuracy, plan=plan)


def encoded(x, side, accuracy="standard", unit=None, system=None):
    """What `widen.encode` makes of a matrix on a GPU."""
    fmt = FORMATS["float64"]
    lines = lines_of(copied(tensor(x)), side, 1)
    return encode_operand(
        gpu_encoder, lines, x.shape, [Encoding(side, as_contract(accuracy), fmt, unit, system)]
    )


def test_planes_keep_their_cap_whatever_the_plan_says():
    """A plan of the same operands as arrays may keep every bit; planes were made with fewer."""
    a, b = draw("phi1", (2, 7, 3), 9)
    b = np.ldexp(b, np.random.default_rng(9).integers(-22, 1, b.shape))
    wanted = widen.matmul(a, b, accuracy="correct")
    plan, found = product(a, b, "int8", "residues", "correct")
    assert plan.cap is None
    assert_same_bits(found, wanted)
    right = encoded(b, "right", "correct")
    table = right.held.table.clone()
    assert_same_bits(product(a, right, "int8", "residues", "correct", plan=plan)[1], wanted)
    assert torch.equal(right.held.table, table)


def test_calls_with_other_planes_are_of_another_kind():
    b = draw("phi1", (5, 7, 6), 10)[1]
    kinds = [
        gpu_recorded.key_of_operand(encoded(x, "right", unit=unit, system=system))
        for x in (b, np.asfortranarray(b))
        for unit, system in (("int8", "residues"), ("int8", "digits"), ("fp8", "residues"))
    ]
    assert len(set(kinds)) == 6
    assert (
        gpu_recorded.key_of_operand(encoded(b, "right", unit="int8", system="residues")) == kinds[0]
    )


def test_more_lines_than_tables_have_places_for():
    one = torch.zeros((1, 1), dtype=torch.float16, device=ON)
    tall = lines_of(one.expand(gpu_lines.MOST_LINES, 1), "left", 1)
    problem = Problem(
        tall, lines_of(one, "right", 1), as_contract("fast"), FORMATS["float32"], 1 << 30
    )
    with pytest.raises(ValueError, match="give parts of them"):
        gpu_stages.quantise(problem, Clock(timed=False))


@pytest.mark.covering(1)
@pytest.mark.parametrize(("unit", "system"), OTHERS)
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_encoded(unit, system, dtype):
    a, b = draw("phi2", (2, 5, 2), 5, dtype)
    fmt, contract = FORMATS[dtype], CONTRACTS["standard"]
    left, right = (
        encode_operand(
            gpu_encoder,
            lines_of(tensor(x), side, fmt.parts),
            x.shape,
            [Encoding(side, contract, fmt, unit, system)],
        )
        for x, side in ((a, "left"), (b, "right"))
    )
    assert (left.unit, left.system) == (unit, system)
    wanted = on_a_cpu(a, b, unit, system)
    assert_same_bits(product(a, right, unit, system, dtype=dtype)[1], wanted)
    assert_same_bits(product(left, right, unit, system, dtype=dtype)[1], wanted)


def test_what_a_gpu_does_not_have_is_refused():
    with pytest.raises(ValueError, match="unit='fp32' does not run on a GPU; use one of 'int8'"):
        gpu_products.check_unit("fp32")
    for unit in (None, *gpu_units.STORAGE):
        gpu_products.check_unit(unit)


def test_a_gpu_without_fp8_says_so(monkeypatch):
    place = torch.device("cuda", 99)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
    assert gpu_units.available(place) == ("int8", "fp16", "bf16", "fp64")
    gpu_products.check_unit("bf16", place)
    with pytest.raises(ValueError, match="unit='fp8' does not run on a GPU; use one of 'int8'"):
        gpu_products.check_unit("fp8", place)


@pytest.mark.parametrize("gpu", [*RATES, "another one"])
def test_the_planner_takes_the_most_exact_bits_a_second(gpu):
    unit, reason = unit_on_gpu(None, gpu)
    assert unit == "int8"
    assert (gpu in reason) == (gpu in RATES)
    for asked in gpu_units.STORAGE:
        assert unit_on_gpu(asked, gpu)[0] == asked
    for rates in RATES.values():
        assert set(rates) == set(gpu_units.STORAGE)
        assert max(rates, key=lambda name: rates[name] * exact_bits(UNITS[name])) == unit
