"""Operands that the tests of several papers share."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch

from widen.cli.machines import Cpu
from widen.papers.items import Setting, all_items


class Tensors(Cpu):
    """A machine whose matrices are tensors, as those of a GPU are, which only it can fetch."""

    def reals(self, *given):
        return torch.from_numpy(super().reals(*given))

    def fetch(self, values):
        return values.numpy()


def matrices(m, n, p, phi=1.0, seed=1):
    """Numbers of many magnitudes, more of them as phi grows."""
    random = np.random.default_rng(seed)
    a, b = (
        (random.random(shape) - 0.5) * np.exp(phi * random.standard_normal(shape))
        for shape in ((m, n), (n, p))
    )
    return a, b


def awkward(m, n, p):
    """Rows of zeros, powers of two, ties, one large entry, entries far below the others."""
    a, b = matrices(m, n, p)
    a[0] = 0
    a[1] = 2.0 ** -np.arange(n)
    a[2] = np.where(np.arange(n) % 2, 0.5, 1.5) * 2.0**-6 + 2.0**-13
    a[3, 0] = 1e9
    b[:, 0] = -(2.0**40)
    b[0, 1] = 1e-200
    return a, b


def random_bits(count, seed):
    """float64 of all kinds: any bits, close exponents, subnormal, largest, special, powers."""
    rng = np.random.default_rng(seed)
    sign = rng.integers(0, 2, count) << 63
    fraction = rng.integers(0, 1 << 52, count)
    special = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, np.finfo(float).max, 1.0, -1.0, 2.0**-1022]
    ).view(np.int64)
    kinds = [
        rng.integers(-(1 << 63), (1 << 63) - 1, count),
        sign | (rng.integers(1000, 1060, count) << 52) | (fraction & -(1 << rng.integers(0, 52))),
        sign | (rng.integers(0, 3, count) << 52) | (fraction >> rng.integers(0, 52, count)),
        sign | (rng.integers(2040, 2047, count) << 52) | fraction,
        rng.choice(special, count),
        sign | (rng.integers(1, 2047, count) << 52),
    ]
    return np.choose(rng.integers(0, len(kinds), count), kinds).view(np.float64)


@cache
def outcome(name):
    """What an item gives at its smallest sizes on a CPU, once for all tests."""
    return all_items()[name].run(Setting(Cpu(), quick=True))
