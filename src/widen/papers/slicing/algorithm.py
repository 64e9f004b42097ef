"""The Ozaki scheme with a new shift each slice: what papers 000 and 004 have in common.

Slices, all or some of their products, and a sum: Algorithms 1 to 3 of paper 000 and equations 1 to
10 of paper 004 differ in the constant that is added, in how many slices are taken, in which
products, and in the order of the sum. Blocks are outer-product-wise (rows of A, columns of B).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import index
from typing import Any

from widen.calls import check
from widen.papers.arrays import addend, matrix
from widen.units import UNITS

STAGES = ("split_left", "split_right", "multiply", "sum")

BYTES = {"fp16": 2, "fp8": 1, "fp64": 8}

NOTHING = -(1 << 20)
"""Top of a line of zeros."""

LANES, ROW_LANES = 128, 32
"""How sums of an estimate are gathered, along lines and over them (the kernels): one order."""

Order = Callable[[int, int, bool], list[tuple[int, int]]]
"""Which products of how many slices, in which order; fast or all."""


def gamma(k: int, precision: int, sums: int) -> int:
    """ceil(precision - (sums - log2 k) / 2), in integers (paper 004, equation 1).

    >>> gamma(4096, 53, 24), gamma(7168, 53, 24)
    (47, 48)
    """
    return -(-(2 * precision - sums + (max(k, 1) - 1).bit_length()) // 2)


@dataclass(frozen=True)
class Scheme:
    """How numbers are sliced, and in what arithmetic the products are added.

    A slice of a line whose largest magnitude is at most 2^c holds integers t, |t| <= 2^bits, that
    stand for t 2^(c - bits), with bits = precision - rho.

    Attributes
    ----------
    unit
        What multiplies slices.
    bits
        Of slices of A and of slices of B.
    constant
        1 or 0.75: sigma = constant 2^(rho + c).
    precision
        Of the numbers and of the sum: 53 or 24.
    emulated
        Slice and add with integer instructions only.
    """

    unit: str
    bits: tuple[int, int]
    constant: float
    precision: int
    emulated: bool = False

    def __post_init__(self) -> None:
        if 1 << max(self.bits) > max(UNITS[self.unit].digit, 2**26 * (self.unit == "fp64")):
            raise ValueError(f"{self.unit} holds no integers up to 2^{max(self.bits)}")

    @property
    def largest(self) -> int:
        """Largest product of two entries."""
        return 1 << sum(self.bits)

    @property
    def usual(self) -> tuple[int, int]:
        """Slices of A and of B that full mantissas of similar magnitudes need.

        With 0.75 a slice takes a bit more off than it holds, the sign.
        """
        left, right = (-(-self.precision // (b + (self.constant != 1))) for b in self.bits)
        return left, right


@dataclass
class Slices:
    """Slices of some lines: planes of integers, the exponents c of every line, bits of a slice."""

    bits: int
    planes: list[Any] = field(default_factory=list)
    tops: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Ran:
    """What ran: printed by the reproduction, and there to be looked at.

    Attributes
    ----------
    slices
        Slices of A and of B, block by block.
    products
        Products of slices, block by block.
    fast
        Whether products of lowest order were left out, block by block.
    block
        Rows, columns and inner length of a block.
    seconds
        Time by stage: splitting A, splitting B, products, sums.
    """

    slices: tuple[tuple[int, int], ...]
    products: tuple[int, ...]
    fast: tuple[bool, ...]
    block: tuple[int, int, int]
    seconds: dict[str, float]


def left_over(top: Any) -> bool:
    """Whether any line has something left."""
    return bool((top != NOTHING).any())


def take(verbs: Any, lines: Any, scheme: Scheme, side: int, count: int | None = None) -> Slices:
    """Slice lines of A (side 0) or B (1) until nothing is left, or `count` times (Algorithm 1)."""
    work = verbs.lines(lines)
    slices, top = Slices(scheme.bits[side]), verbs.tops(work)
    while (count is None or len(slices.planes) < count) and left_over(top):
        plane, following, _ = verbs.split(
            work, top, slices.bits, scheme.constant, scheme.unit, emulated=scheme.emulated
        )
        slices.planes.append(plane)
        slices.tops.append(top)
        top = following
    return slices


def halved(lanes: Any) -> Any:
    """The sum over lanes, the first axis: the second half is added to the first until one is left.

    One order for every device.
    """
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = lanes[:half] + lanes[half:]
    return lanes[0]


def block_size(size: int, largest: int) -> int:
    """The paper's rule, ceil(n / ceil(n / largest)) (000, section 4.2).

    >>> block_size(10240, 3584), block_size(7168, 3584), block_size(100, 3584)
    (3414, 3584, 100)
    """
    return -(-size // -(-size // max(largest, 1))) if size else 0


def largest_block(k: int, scheme: Scheme, memory: int) -> int:
    """Largest block whose slices and products fit into memory (000, section 4.3).

    (s_A + s_B) k b slices' entries and s_A s_B b^2 products, with the usual number of slices, and
    working copies of both operands; fewer than the actual slices of hard data need: the sums are
    then made in strips of columns.
    """
    squared = math.prod(scheme.usual) * (8 if scheme.unit == "fp64" else 4)
    linear = k * (sum(scheme.usual) * BYTES[scheme.unit] + 16)
    return int((math.isqrt(linear * linear + 4 * squared * memory) - linear) // (2 * squared))


def sum_of_products(
    verbs: Any, left: Slices, right: Slices, pairs: list[tuple[int, int]], scheme: Scheme,
    out: Any, *, memory: int, account: Any, nearest: bool = False,
) -> None:  # fmt: skip
    """Write the sum of products in the order given, or the correctly rounded one (`nearest`)."""
    m, n = out.shape
    if not pairs:
        out[...] = 0
        return
    ours = verbs.exponents(left.tops, [p for p, _ in pairs], left.bits)
    theirs = verbs.exponents(right.tops, [q for _, q in pairs], right.bits)
    each = len(pairs) * m * (8 if scheme.unit == "fp64" else 4)
    strip = max(min(memory, verbs.ROOM) // max(each, 1) // 16 * 16, 16)
    for start in range(0, n, strip):
        columns = slice(start, min(start + strip, n))
        with account.stage("multiply"):
            products = verbs.multiply(
                left.planes, right.planes, pairs, scheme.unit, scheme.largest, columns
            )
        with account.stage("sum"):
            of_columns = verbs.contiguous(theirs[:, columns])
            if nearest:
                out[:, columns] = verbs.nearest(products, ours, of_columns)
            else:
                out[:, columns] = verbs.accumulate(
                    products, ours, of_columns, scheme.precision, emulated=scheme.emulated
                )


def run(
    given: Operands, scheme: Scheme, order: Order, memory: int | str, block: int | None,
    info: bool, *, left: Callable[[Any], tuple[Slices, bool]] | None = None,
    most: int | None = None, k_block: int | None = None, nearest: bool = False,
) -> Any:  # fmt: skip
    """Block by block: A is split once a row of blocks, B for every block; multiply, sum.

    `left` splits rows of A and says whether fast mode applies; then B gets as many slices, or
    `most`. Blocks of the inner dimension are products of their own, added one after the other.
    """
    verbs, (m, k, n) = given.verbs, given.shape
    room, block = check.workspace_bytes(memory, "memory"), length(block, "block")
    depth = min(k_block or k, k)
    largest = min(block or max(m, n), max(largest_block(depth, scheme, room), 1))
    rows, columns = block_size(m, largest), block_size(n, largest)
    account = verbs.clock(info)
    account.seconds = dict.fromkeys(STAGES, 0.0)
    slices, counts, fasts = [], [], []
    with verbs.at(given.a):
        out = verbs.zeros(m, n, scheme.precision, given.a)
        inner = range(0, k if m * n else 0, depth or 1)
        for h, i in itertools.product(inner, range(0, m, rows or 1)):
            with account.stage("split_left"):
                ours = given.a[i : i + rows, h : h + depth]
                mine, fast = left(ours) if left else (take(verbs, ours, scheme, 0), False)
            for j in range(0, n, columns):
                with account.stage("split_right"):
                    theirs = given.b[h : h + depth, j : j + columns].T
                    count = (most or len(mine.planes)) if fast else None
                    other = take(verbs, theirs, scheme, 1, count)
                size = (len(mine.planes), len(other.planes))
                pairs, target = order(*size, fast), out[i : i + rows, j : j + columns]
                sums = verbs.zeros(*target.shape, scheme.precision, given.a) if h else target
                sum_of_products(
                    verbs,
                    mine,
                    other,
                    pairs,
                    scheme,
                    sums,
                    memory=room,
                    account=account,
                    nearest=nearest,
                )
                with account.stage("sum"):
                    if h:
                        target[...] = verbs.add(target, sums, emulated=scheme.emulated)
                slices.append(size)
                counts.append(len(pairs))
                fasts.append(fast)
        with account.stage("sum"):
            if given.alpha != 1 or given.beta:
                out = verbs.combine(
                    out, given.alpha, given.beta, given.c, scheme.precision,
                    emulated=scheme.emulated,
                )  # fmt: skip
        result = given.back(out)
        if not info:
            return result
        verbs.read(account)
    ran = Ran(tuple(slices), tuple(counts), tuple(fasts), (rows, columns, depth), account.seconds)
    return result, ran


# ── arguments ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Operands:
    """Checked operands: matrices of one library, and the verbs that serve it."""

    a: Any
    b: Any
    c: Any
    alpha: float
    beta: float
    verbs: Any
    back: Callable[[Any], Any]

    @property
    def shape(self) -> tuple[int, int, int]:
        """(m, k, n)."""
        return (*self.a.shape, self.b.shape[1])


def length(value: Any, name: str) -> int | None:
    """A length as an int (sizes often come as NumPy's integers), or None."""
    if value is None:
        return None
    size = 0 if isinstance(value, bool) or not hasattr(value, "__index__") else index(value)
    if size < 1:
        raise ValueError(f"{name}={value!r} is not a size; give a positive integer")
    return size


def operands(
    a: Any, b: Any, dtype: str, *, alpha: Any, beta: Any, c: Any,
    verbs_of: Callable[[bool], Any], verbs: Any = None,
) -> Operands:  # fmt: skip
    """Look at the arguments of a product, and find the verbs that serve it, on a GPU or not.

    `verbs` serve tensors where there is no GPU (tests).
    """
    place = check.library(a=a, b=b, c=c)
    a, b = matrix(a, "a", dtype), matrix(b, "b", dtype)
    check.result_dims(tuple(a.shape), tuple(b.shape))
    alpha, beta, c = addend(alpha, beta, c, dtype, (a.shape[0], b.shape[1]))
    back: Callable[[Any], Any] = _same
    if verbs is None:
        verbs = verbs_of(place.startswith("cuda"))
        if place == "cpu":
            from widen.calls.cpu_tensors import as_array, as_tensor

            a, b = as_array(a), as_array(b)
            c, back = None if c is None else as_array(c), as_tensor
    return Operands(a, b, c, alpha, beta, verbs, back)


def _verbs_of(gpu: bool) -> Any:
    if gpu:
        from widen.papers.slicing import gpu as on_gpu

        return on_gpu
    from widen.papers.slicing import cpu as on_cpu

    return on_cpu


def checked(
    a: Any, b: Any, dtype: str, alpha: Any = 1.0, beta: Any = 0.0, c: Any = None, *,
    verbs: Any = None,
) -> Operands:  # fmt: skip
    """The operands of papers 000 and 004, which must be finite."""
    given = operands(a, b, dtype, alpha=alpha, beta=beta, c=c, verbs_of=_verbs_of, verbs=verbs)
    for name, x in (("a", given.a), ("b", given.b)):
        if not given.verbs.finite(x):
            raise ValueError(
                f"{name} holds an infinity or a NaN, which cannot be sliced; use widen.matmul"
            )
    return given


def _same(x: Any) -> Any:
    return x
