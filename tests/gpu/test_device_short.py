"""Short lines looked at in registers: tables and leads as of lines of any length."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")
from device import ON
from widen.gpu import lines as gpu_lines
from widen.gpu.kernels.triton import numbers
from widen.gpu.products import lines_of
from widen.gpu.short_tiles import SHORT, Side, short_tiles

pytestmark = pytest.mark.device

EXACT = [
    int(getattr(numbers, row))
    for row in ("LARGEST", "SUM", "SQUARES", "DEPTH", "NONZEROS", "DISTANCES")
]
REACH = int(numbers.REACH)
ENOUGH = 61
"""Nobody asks by how much more a line reaches: of subnormal numbers it depends on their company."""

REAL = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def drawn(kind, shape, dtype):
    """Numbers that are hard in some way, of a real format."""
    rng = torch.Generator().manual_seed(len(kind))
    limits = torch.finfo(dtype)
    x = torch.randn(shape, generator=rng, dtype=torch.float64)
    share = torch.rand(shape, generator=rng)
    if kind == "short numbers":  # a float64 whose last word is 0
        x = torch.where(share < 0.3, x, x.bfloat16().double())
    elif kind == "wide":
        x = torch.ldexp(x, torch.randint(-400, 300, shape, generator=rng))
        x = x.clamp(limits.min, limits.max)
    elif kind == "zeros":
        x[share < 0.9] = 0.0
        x[share < 0.4] = -0.0
    elif kind == "specials":
        x[share < 0.02] = float("nan")
        x[share > 0.98] = float("-inf")
    elif kind == "subnormal":
        x[share < 0.3] = limits.smallest_normal / 4
        x[share > 0.9] *= 2.0**-140
        x[..., 0, :] *= limits.smallest_normal / 4
        x[..., 1, :] *= limits.smallest_normal * 2.0**5
    elif kind == "powers":
        x = torch.ldexp(torch.ones(shape), torch.randint(-30, 1, shape, generator=rng)).double()
    return x.to(dtype)


def looked_at(look, sides, kept, before):
    """Tables and leads of operands, in memory that held something before."""
    kind = torch.bfloat16 if kept == gpu_lines.MAGNITUDES else torch.int8
    rows = gpu_lines.ROWS_OF_TABLE
    tables = [torch.full((rows, x.count), before, dtype=torch.int64, device=ON) for x in sides]
    leads = [torch.full((1, *x.shape[:2], x.pitch), before, dtype=kind, device=ON) for x in sides]
    given = None if kept < 0 else leads
    if look is gpu_lines.survey_short:
        zeros = torch.ones(11, dtype=torch.int64, device=ON)
        look(sides, tables, given, kept, zeros)
        assert not zeros.any()
    else:
        look(sides, tables, given, kept)
    return tables, leads


KINDS = ("short numbers", "wide", "zeros", "specials", "subnormal", "powers")


@pytest.mark.covering(2)
@pytest.mark.parametrize("dtype", [*REAL, torch.complex128, torch.complex64], ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("turned", [(False, True), (True, False), (True, True), (False, False)])
@pytest.mark.parametrize("kept", [5, gpu_lines.MAGNITUDES, -1])
@pytest.mark.parametrize("shape", [(1, 3, 33, 9), (2, 9, 16, 2), (1, 2, 5, 3), (1, 4, 150, 5)])
def test_tables_and_leads(dtype, kind, turned, kept, shape):
    """Of both operands: as of lines of any length, whatever was there before; 0 beyond lines."""
    batch, m, k, n = shape
    real = dtype.to_real() if dtype.is_complex else dtype
    sides = []
    for side, count, across in (("left", m, turned[0]), ("right", n, turned[1])):
        x = drawn(kind, (batch, count, k), real)
        if dtype.is_complex:
            x = torch.complex(x, drawn("wide", (batch, count, k), real))
        x = x.to(ON)
        x = x.mT.contiguous().mT if across else x
        sides.append(lines_of(x if side == "left" else x.mT, side, 1 + dtype.is_complex))
    (ours, made), (theirs, wanted) = (
        looked_at(look, sides, kept, before)
        for look, before in ((gpu_lines.survey_short, 77), (gpu_lines.survey, 0))
    )
    for x, y in zip(ours, theirs, strict=True):
        assert torch.equal(x[EXACT], y[EXACT])
        assert torch.equal(x[REACH].clamp(max=ENOUGH), y[REACH].clamp(max=ENOUGH))
    for x, y in zip(made, wanted, strict=True):
        assert kept < 0 or torch.equal(x[..., :k], y[..., :k])
        assert kept < 0 or not x[..., k:].any()


@pytest.mark.parametrize("inner", [1, 16, 17, 100, 512, 1000, 2048])
@pytest.mark.parametrize(
    "sides",
    [
        (Side(8, 1, near=False), Side(8, 1, near=True)),
        (Side(2, 1, near=True), Side(4, 1, near=False)),
        (Side(8, 2, near=True),), (Side(4, 2, near=False),) * 2,
    ],
)  # fmt: skip
def test_tiles_hold_whole_lines(sides, inner):
    """Every thread has one load of a chunk."""
    made = short_tiles(sides, inner)
    assert len({tile.warps for tile in made}) == 1
    for side, tile in zip(sides, made, strict=True):
        assert tile.inner * tile.chunks >= max(16, inner)
        assert tile.lines * tile.inner == 32 * tile.warps * side.across
        assert tile.chunks % 8 == 0 or not side.near
        assert 1 <= tile.warps <= 16 or inner * side.parts > SHORT
