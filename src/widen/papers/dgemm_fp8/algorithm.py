"""Paper 004: DGEMM without FP64 arithmetic, on FP8 and FP16 tensor cores.

Mukunoki 2025. `dgemm_fp8tc` is DGEMM-FP8TC, `dgemm_fp16tc` DGEMM-FP16TC; `fp64emu=True` slices and
accumulates with integer instructions only; `minimum_products` is Table 3. What the paper leaves for
later is here too: `automatic_block` chooses inner blocks, `dgemm_fp8_groups` leaves products out
and adds those of equal weight in the accumulator (paper 002's Algorithms 8 and 6). Names of the
paper in the code: gamma, xi, rho (equations 1 to 3), Type1 (float64), Type2 (what is multiplied),
Type3 (what sums are accumulated in).
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from widen.formats import BINARY
from widen.formats.arrays import is_tensor
from widen.papers.ozimmu.algorithm import Recipe, untimed
from widen.papers.ozimmu.algorithm import check as check_slices
from widen.papers.ozimmu.algorithm import run as run_groups
from widen.papers.slicing.algorithm import (
    Operands,
    Scheme,
    block_size,
    checked,
    gamma,
    length,
    run,
)
from widen.units import UNITS

MEMORY = "8GB"
"""Working memory of the paper's figures 2 to 4."""

MANTISSAS = {"fp32": 24, "fp16": 11, "fp8": 4, "fp6": 3}
"""m_TypeX, with the hidden bit: FP8 is E4M3, FP6 E3M2."""

INPUTS = (("fp16", "fp32"), ("fp16", "fp16"), ("fp8", "fp32"), ("fp8", "fp16"), ("fp6", "fp32"),
          ("fp6", "fp16"))  # fmt: skip
"""Columns of Table 3: Type2 and Type3."""

FLOAT_SUMS = 1 << MANTISSAS["fp32"]
"""float32 holds sums of integers up to here."""

BREAK_EVEN = {"cpu": 80, "gpu": 990}
"""Inner length at which writing a product of FP16 slices and adding it to the sum takes as long as
multiplying. On an H200 from the five blocks of bench/results/papers-h200/004-fig5.csv with 8 GB:
408 · 10^12 multiplications a second and 2.4 ps to write 4 bytes and to add them; products and sums
are then within 3 %. 004-future-blocks.csv, whose times have slicing in them, would want 1500 to
1850, which chooses the same blocks. On a core of an EPYC with float32 BLAS: 23 ps a
multiplication, 1.9 ns to write and to add (m = 256)."""

TABLE_3_SIZES = tuple(8 << i for i in range(16))

DOUBLE = BINARY["float64"].precision


def rho(k: int, held: int, accumulate: str) -> int:
    """max(gamma, xi), equations 1 to 3, for inputs of `held` bits.

    >>> rho(4096, 11, "fp32"), rho(4096, 4, "fp32"), rho(4096, 11, "fp16")
    (47, 49, 54)
    """
    if accumulate not in ("fp32", "fp16"):
        raise ValueError(f"accumulate={accumulate!r} is not known; use 'fp32' or 'fp16'")
    return max(gamma(k, DOUBLE, MANTISSAS[accumulate]), DOUBLE - held)


def slices_of(k: int, held: int, accumulate: str) -> int | None:
    """Fewest slices of a full mantissa, or None: rho must leave a slice at least one bit.

    sigma = 0.75 2^(rho + c) is below 2^(rho + c), so its last bit weighs 2^(rho + c - 53): a slice
    takes the leading 54 - rho bits off, the sign included (section 3, condition after equation 8).
    """
    width = DOUBLE + 1 - rho(k, held, accumulate)
    return -(-DOUBLE // width) if width > 0 else None


def minimum_products(
    inputs: str | None = None, accumulate: str = "fp32", k: int | None = None
) -> Any:
    """Minimum number of products for a DGEMM on tensor cores: a cell of Table 3, or all of it.

    Parameters
    ----------
    inputs
        Type2: "fp16", "fp8" (E4M3) or "fp6" (E3M2).
    accumulate
        Type3: "fp32" or "fp16".
    k
        Inner dimension.

    Returns
    -------
    int or None
        The square of the number of slices; None where slicing is not possible. Without arguments
        a dictionary of the rows of Table 3 by k, each a tuple in the order of `INPUTS`.

    Examples
    --------
    >>> minimum_products("fp16", "fp32", 4096), minimum_products("fp8", "fp16", 4096)
    (64, None)
    >>> minimum_products()[16384]
    (81, None, 121, None, 196, None)
    """
    if inputs is None and k is None:
        return {
            size: tuple(minimum_products(*of_types, size) for of_types in INPUTS)
            for size in TABLE_3_SIZES
        }
    if inputs not in ("fp16", "fp8", "fp6"):
        raise ValueError(f"inputs={inputs!r} is not known; use 'fp16', 'fp8' or 'fp6'")
    k = length(k, "k")
    if k is None:
        raise ValueError("k=None is not an inner dimension; give a positive integer")
    slices = slices_of(k, MANTISSAS[inputs], accumulate)
    return None if slices is None else slices * slices


def scheme_of(
    k: int, unit: str, accumulate: str = "fp32", digits: tuple[int, int] | None = None,
    emulated: bool = False,
) -> Scheme:  # fmt: skip
    """Equations 1 to 5 with what the unit really holds: its record sets the digits.

    FP16 holds integers up to 2^11 and sums in float32; FP8 holds them up to 2^4. Hopper's FP8
    accumulator keeps 14 bits, which 64 products of such digits fill: they leave for a float32 then
    (units/fp8.py), so that Type3 is float32 all the same.

    >>> scheme_of(4096, "fp16").bits, scheme_of(4096, "fp8").bits
    ((6, 6), (4, 4))
    """
    powers = [1 << i for i in range(1, UNITS[unit].digit.bit_length())]
    bits = []
    given: Any = (UNITS[unit].digit,) * 2 if digits is None else digits
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise ValueError(f"digits={digits!r} is not a pair; give those of A and B, as (16, 8)")
    for digit in given:
        if digit not in powers:
            raise ValueError(f"{digit!r} is not a largest digit of {unit}; use one of {powers}")
        held = int(digit).bit_length() - 1
        if slices_of(k, held, accumulate) is None:
            raise ValueError(
                f"k = {k} leaves no bit for a slice when sums are accumulated in {accumulate}: "
                f"give k_block={1 << MANTISSAS[accumulate]} or less"
                + (", or accumulate='fp32'" if accumulate == "fp16" else "")
            )
        bits.append(DOUBLE - rho(k, held, accumulate))
    return Scheme(unit, (bits[0], bits[1]), 0.75, DOUBLE, emulated)


def dgemm_fp8tc(
    a: Any, b: Any, alpha: Any = 1.0, beta: Any = 0.0, c: Any = None, *, fp64emu: bool = False,
    accumulate: str = "fp32", k_block: int | str | None = None, memory: int | str = MEMORY,
    block: int | None = None, digits: tuple[int, int] | None = None, info: bool = False,
) -> Any:  # fmt: skip
    """DGEMM-FP8TC: alpha A B + beta C in float64 from products of FP8 (E4M3) slices.

    Parameters
    ----------
    a, b
        float64 matrices (NumPy arrays or PyTorch tensors), finite, of any size.
    alpha, beta, c
        Scalars and the matrix to add.
    fp64emu
        FP64emu: slice and accumulate with integer instructions only. The result has the same bits.
    accumulate
        Type3 in the choice of digits: "fp32" or "fp16".
    k_block
        Length of inner-product-wise blocks; None for one block, "auto" for `automatic_block`.
    memory, block
        Working memory and largest outer-product-wise block (None: no limit).
    digits
        Largest digits of slices of A and of B. (16, 16), the default, are what E4M3 and the unit's
        record allow; a GPU then uses a kernel that empties Hopper's accumulator every 64 terms.
        (16, 8) and (8, 8) take more slices, and the vendor's product, which empties it every 128
        terms, is exact.
    info
        Also return a `Ran`: slices, products, time by stage.

    Examples
    --------
    >>> import numpy as np
    >>> a, b = 1 + np.random.default_rng(0).random((2, 64, 64))
    >>> c, ran = dgemm_fp8tc(a, b, info=True)
    >>> ran.products, bool((dgemm_fp8tc(a, b, fp64emu=True) == c).all())
    ((121,), True)
    """
    given = checked(a, b, "float64", alpha, beta, c)
    how = (accumulate, digits, fp64emu)
    return _run(given, "fp8", how, k_block, memory=memory, block=block, info=info)


def dgemm_fp16tc(
    a: Any, b: Any, alpha: Any = 1.0, beta: Any = 0.0, c: Any = None, *, fp64emu: bool = False,
    accumulate: str = "fp32", k_block: int | str | None = None, memory: int | str = MEMORY,
    block: int | None = None, info: bool = False,
) -> Any:  # fmt: skip
    """DGEMM-FP16TC: alpha A B + beta C in float64 from products of FP16 slices.

    Parameters
    ----------
    a, b, alpha, beta, c, fp64emu, accumulate, k_block, memory, block, info
        As for `dgemm_fp8tc`.

    Examples
    --------
    >>> import numpy as np
    >>> a, b = 1 + np.random.default_rng(0).random((2, 64, 64))
    >>> [dgemm_fp16tc(a, b, k_block=size, info=True)[1].products for size in (None, 16)]
    [(36,), (25, 25, 25, 25)]
    """
    given = checked(a, b, "float64", alpha, beta, c)
    return _run(
        given, "fp16", (accumulate, None, fp64emu), k_block, memory=memory, block=block, info=info
    )


def _run(
    given: Operands, unit: str, how: tuple[str, tuple[int, int] | None, bool],
    k_block: int | str | None, *, memory: int | str, block: int | None, info: bool,
) -> Any:  # fmt: skip
    k = given.shape[1]
    if k_block == "auto":
        place = "gpu" if is_tensor(given.a) else "cpu"
        k_block = automatic_block(k, unit, *how[:2], place=place)
    size = length(k_block, "k_block")
    scheme = scheme_of(min(size or k, k), unit, *how)
    return run(given, scheme, smallest_first, memory, block, info, k_block=size)


def automatic_block(
    k: int, unit: str = "fp16", accumulate: str = "fp32", digits: tuple[int, int] | None = None,
    *, place: str = "gpu",
) -> int:  # fmt: skip
    """Length of inner blocks that takes the least time, by a model of one constant.

    Blocks of length d need p(d) products of slices, each d + c steps long: d multiplications, and c
    of the time it takes to write a product and to add it (`BREAK_EVEN`). p grows with d by steps
    just above powers of two, and in between longer blocks are better, so that only powers of two
    are looked at, and evened out.

    >>> [automatic_block(k) for k in (512, 4096, 16384, 262144)], automatic_block(16384, "fp8")
    ([512, 4096, 4096, 4096], 16384)
    """

    def cost(size: int) -> float:
        try:
            bits = scheme_of(size, unit, accumulate, digits).bits
        except ValueError:  # no bit is left for a slice
            return math.inf
        products = math.prod(-(-DOUBLE // (each + 1)) for each in bits)
        return -(-k // size) * products * (size + BREAK_EVEN[place])

    k = max(k, 1)
    sizes = {block_size(k, 1 << power) for power in range(k.bit_length() + 1)}
    return min(sorted(sizes), key=cost)


def groups_recipe(k: int, slices: int) -> Recipe:
    """How `dgemm_fp8_groups` multiplies: digits to nearest, as many products a sum as it holds.

    Algorithm 8's digits of b bits stay within 2^(b - 1), so E4M3, whose integers reach 16, holds
    those of 5 bits; sums of r k such products are exact in float32 up to r k 2^(2b - 2) = 2^24.

    >>> groups_recipe(4096, 11).addends, groups_recipe(16384, 11).addends, groups_recipe(2**17, 9)
    (16, 4, Recipe(slices=9, bits=4, way='nearest', addends=2, unit='fp8'))
    """
    bits = next((x for x in range(5, 0, -1) if k << 2 * (x - 1) <= FLOAT_SUMS), None)
    if bits is None:
        raise ValueError(f"k = {k} leaves no bit for a slice; give k_block={FLOAT_SUMS} or less")
    return Recipe(slices, bits, "nearest", FLOAT_SUMS // (k << 2 * (bits - 1)), "fp8")


def dgemm_fp8_groups(
    a: Any, b: Any, slices: int = 11, *, alpha: Any = 1.0, beta: Any = 0.0, c: Any = None,
    k_block: int | None = None,
) -> Any:  # fmt: skip
    """FP8 slices in fast mode, products of equal weight added by the tensor cores: 66, not 121.

    11 slices to nearest hold 55 bits of a line's largest entry. Of their products only those are
    made that count: slices p + q <= 12, as in paper 002, whose error bound holds with 5 bits.

    >>> import numpy as np
    >>> a, b = 1 + np.random.default_rng(0).random((2, 64, 64))
    >>> float(abs(dgemm_fp8_groups(a, b) / (a @ b) - 1).max()) < 1e-14
    True
    """
    given = check_slices(a, b, slices, alpha=alpha, beta=beta, c=c)
    return run_groups(given, partial(groups_recipe, slices=slices), untimed, k_block)


def smallest_first(left: int, right: int, fast: bool = False) -> list[tuple[int, int]]:
    """All products, those of the lowest order first.

    The paper optimises the order for accuracy without saying how (section 4): adding small numbers
    before large ones is the classical way.

    >>> smallest_first(2, 2)
    [(1, 1), (0, 1), (1, 0), (0, 0)]
    """
    return sorted(((p, q) for p in range(left) for q in range(right)), key=lambda x: -sum(x))
