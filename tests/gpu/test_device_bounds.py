"""Certified bounds of elements by a GPU's kernel have the bits of the definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from device import ON, cases
from widen.formats import FORMATS
from widen.gpu import certify
from widen.gpu.kernels.triton import numbers
from widen.gpu.lines import ROWS_OF_TABLE
from widen.gpu.operands import Lines
from widen.gpu.scaling import Scaling
from widen.stages import error_bounds
from widen.stages.exactness import addend_units, last_bit

pytestmark = pytest.mark.device

M, N = (9, 265) if ON == "cpu" else (70, 1300)


def table_of(rng, batch, count):
    """Lines of all kinds: exact, rounded, zero, of any size, norms beyond any format's."""
    shape = (batch, count)
    top, sigma = rng.integers(-1074, 1024, shape), rng.integers(-20, 200, shape)
    sigma = np.where(rng.integers(4, size=shape) == 0, rng.integers(880, 2000, shape), sigma)
    q1 = np.where(rng.integers(5, size=shape) == 0, 0, rng.integers(1 << 15, 1 << 40, shape))
    lost = rng.integers(2, size=shape) == 0
    near = rng.integers(2, size=shape) == 0  # results that may be exact
    scale = np.where(near, rng.integers(-30, 30, shape), sigma - top)
    table = rng.integers(0, 1 << 40, (ROWS_OF_TABLE, batch * count))
    rows = {"SUM": q1, "SIGMA": sigma, "SCALE": scale, "FLAGS": int(numbers.INEXACT) * lost}
    for name, values in rows.items():
        table[int(getattr(numbers, name))] = values.reshape(-1)
    return torch.from_numpy(table).to(ON), error_bounds.losses_of(lost, q1, scale, sigma)


def values_of(rng, fmt, shape):
    """First words of every size, some zero, subnormal or special, (parts, *shape)."""
    word = fmt.part.words[0]
    out = np.ldexp(
        rng.uniform(-1, 1, (fmt.parts, *shape)), rng.integers(word.lowest, word.highest, shape)
    )
    near = rng.integers(3, size=out.shape) == 0
    out[near] = np.ldexp(rng.integers(-(1 << 20), 1 << 20, near.sum()), -10)
    out[rng.integers(9, size=out.shape) == 0] = 0.0
    for special in (-0.0, 5e-324, np.inf, -np.inf, np.nan):
        out[rng.integers(30, size=out.shape) == 0] = special
    single = word.name == "float32" or word.precision < 24
    return out.astype("float32" if single else "float64")


@cases(
    "name", "float64", "complex64", "float64x2", "float16", "complex128x3", "float64_float32",
    "float32x3", "bfloat16", "complex128", "float32", interpreted=6,
)  # fmt: skip
@pytest.mark.parametrize("batches", [(2, 1), (1, 2), (1, 1)])
def test_bounds_have_the_bits_of_the_definition(name, batches):
    fmt, batch = FORMATS[name], max(batches)
    rng = np.random.default_rng([*name.encode(), *batches])
    values = values_of(rng, fmt, (batch, M, N))
    once = rng.integers(4, size=(batch, M, N)) == 0
    tables, losses = zip(
        *(table_of(rng, b, count) for b, count in zip(batches, (M, N), strict=True)), strict=True
    )
    shapes = (batches[0], M, 1), (batches[1], 1, N)
    rows, columns = (x.reshaped(shape) for x, shape in zip(losses, shapes, strict=True))
    strided = torch.from_numpy(values).mT.contiguous().to(ON).mT
    for dropped, alpha, beta in ((0, 1.0, 0.0), (12345, 3e300 - 4e300j, 0.0), (0, 0.5, -3.0)):
        terms = error_bounds.terms_of(1000, fmt.parts, dropped, alpha)
        scaling, units = None, None
        if beta:
            c = np.ldexp(rng.integers(-9, 9, (fmt.parts, batch, M, N)), -12).astype("float64")
            units = addend_units(c[None], beta)
            bits = torch.from_numpy(c.view(np.int64)).to(ON)
            scaling = Scaling(alpha, beta, Lines(bits, FORMATS["float64"]))
            assert int(units.min()) <= last_bit(beta) - 9
        with np.errstate(all="ignore"):
            wanted = error_bounds.bound_of(
                rows, columns, values, fmt.part, once, terms, addend_units=units
            )
        assert (wanted == 0).any() or dropped
        for room, stored in ((1 << 30, True), (certify.BYTES_AN_ELEMENT * 5 * N, True), (1, False)):
            if room == 1 and ON == "cpu":
                room = 1 << 30  # an element at a time would take long
            target = torch.full((batch, N, M), 7.0, dtype=torch.float64, device=ON).mT
            largest = certify.Largest.of_nothing(strided.device)
            certify.error_bound(
                tables, fmt.part, strided, torch.from_numpy(once).to(ON), terms, scaling=scaling,
                room=room, target=target if stored else None, largest=largest,
            )  # fmt: skip
            if stored:
                assert np.array_equal(target.cpu().numpy(), wanted, equal_nan=True)
            known = np.isfinite(values).all(0)
            assert float(largest.bound) == wanted[known].max()
            assert int(largest.finite) == known.sum()
