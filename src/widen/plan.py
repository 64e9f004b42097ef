"""Records: what will run (Plan), how planes are multiplied (Layout), and what ran (Info)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from widen.contract import Contract


class Product(NamedTuple):
    """One product of planes: ``groups[group] += left_planes[left] @ right_planes[right]``."""

    left: int
    right: int
    group: int


@dataclass(frozen=True)
class Layout:
    """How integers are written in planes and how products of planes give X = A'B' again.

    Each part (real, imaginary) of X is ``sum(weight * group)``, reduced to the residue of
    smallest magnitude modulo `modulus` where that is not 0. `multiply` needs `products` alone, so
    it does not know which number system it serves.

    Attributes
    ----------
    system
        The number system's name.
    parts
        1 for real numbers, 2 for complex ones.
    planes
        Planes of the left and of the right operand.
    products
        Every product of planes, with the group it is added to.
    weights
        For each part, one integer per group.
    modulus
        Product of the moduli of a residue system; 0 for digits.
    dropped
        Upper bound of what products that were left out could add to |X|; 0 if none were.
    """

    system: str
    parts: int
    planes: tuple[int, int]
    products: tuple[Product, ...]
    weights: tuple[tuple[int, ...], ...] = field(repr=False)
    modulus: int = field(repr=False)
    dropped: int = field(repr=False)

    @property
    def groups(self) -> int:
        """Number of groups, the exact integer matrices that multiply gives."""
        return len(self.weights[0])

    def write(self, integers: Sequence[int], side: int) -> list[int]:
        """One entry of every plane for a number whose parts are `integers` (the definition)."""
        raise NotImplementedError

    def planes_of(self, shorter: Layout, side: int) -> list[int]:
        """Which planes of this layout are those of a layout of the same kind that has fewer."""
        raise NotImplementedError

    def holds(self, other: Layout, side: int) -> bool:
        """Whether there are as many planes as another layout of the same kind has."""
        return self.planes[side] >= other.planes[side]


@dataclass(frozen=True)
class Blocks:
    """Sizes of the blocks a product is computed in: batch items, rows, columns, inner length."""

    batch: int
    rows: int
    columns: int
    inner: int

    def whole(self, shape: tuple[int, int, int, int]) -> bool:
        """Whether one block holds all rows, columns and batch items of a product (batch, m, k, n).

        >>> Blocks(1, 8, 8, 4).whole((1, 8, 16, 8))
        True
        """
        return self.batch >= shape[0] and self.rows >= shape[1] and self.columns >= shape[3]


@dataclass(frozen=True)
class Plan:
    """Every choice of a product, frozen; ``print(plan)`` says what would run and why.

    Attributes
    ----------
    shape
        (batch, m, k, n).
    contract
        The promise.
    result
        The name of the result's format.
    unit
        What multiplies.
    layout
        The planes and the products of them.
    depth
        Inner length after which the unit's exact accumulator is emptied.
    cap
        For "correct": rows are quantised to about this many bits before the final rounding is
        tried, or exactly where that is no wider. ``None``: every row and column is kept exactly.
    bits
        Bits that |X| may need, so that nothing wraps.
    blocks
        Block sizes.
    workspace
        Bytes that a block may take.
    why
        The reasons, one a line.
    symmetric
        Whether the right operand is the left one transposed (and perhaps conjugated), and this is
        used: of the blocks of the result those on and above the diagonal are computed.

    Examples
    --------
    >>> import numpy as np, widen
    >>> p = widen.plan(np.eye(3), np.eye(3), accuracy="correct")
    >>> print(p)
    widen plan: 3 x 3 times 3 x 3, float64 result...
    """

    shape: tuple[int, int, int, int]
    contract: Contract
    result: str
    unit: str
    layout: Layout
    depth: int
    cap: int | None
    bits: float
    blocks: Blocks
    workspace: int
    why: tuple[str, ...]
    symmetric: bool = False

    @property
    def system(self) -> str:
        """Name of the number system.

        >>> import numpy as np, widen
        >>> p = widen.plan(np.eye(3), np.eye(3), accuracy="correct")
        >>> p.system
        'residues'
        """
        return self.layout.system

    @property
    def products(self) -> int:
        """Number of exact products of planes.

        >>> import numpy as np, widen
        >>> p = widen.plan(np.eye(3), np.eye(3), accuracy="correct")
        >>> p.products >= 1
        True
        """
        return len(self.layout.products)

    def __str__(self) -> str:
        batch, m, k, n = self.shape
        size = f"{m} x {k} times {k} x {n}" + (f", batch of {batch}" if batch != 1 else "")
        blocks = self.blocks
        if self.unit == "native":
            return "\n".join(
                [
                    f"widen plan: {size}, {self.result} result",
                    f"  contract  {self.contract}: {self.contract.promise}",
                    "  unit      native: the ordinary product",
                    *(f"  because   {reason}" for reason in self.why),
                ]
            )
        lines = [
            f"widen plan: {size}, {self.result} result",
            f"  contract  {self.contract}: {self.contract.promise}",
            f"  system    {self.system}: {self.layout.planes[0]} and {self.layout.planes[1]} "
            f"planes for |X| < 2^{self.bits:.1f}",
            f"  unit      {self.unit}: {self.products} exact products, "
            f"accumulator emptied every {min(self.depth, max(k, 1))} of {k}",
            f"  blocks    {blocks.rows} rows x {blocks.columns} columns x {blocks.inner} inner, "
            f"within {self.workspace / 1e6:.3g} MB",
        ]
        return "\n".join(lines + [f"  because   {reason}" for reason in self.why])


@dataclass(frozen=True)
class Info:
    """What ran, and what is proven about the result; ``print(info)`` reads it aloud.

    Attributes
    ----------
    plan
        The plan that ran (for several batches: that of the last).
    bound
        Certified absolute error of each element, an array or tensor of the result's shape (complex
        results: the bound of the error's modulus); 0 where the result is proven to be exact and
        nowhere else, infinite where the result overflowed, NaN where it is NaN. With
        ``info="largest"`` a float: the largest over all finite elements, NaN if there are elements
        but no finite ones.
    repaired
        Elements that were not certified and became the correctly rounded ones.
    products
        Exact products of planes that ran, blocks and repairs not counted twice.
    workspace
        Most bytes of workspace in use at one time, by our own count.
    seconds
        Wall-clock time by stage.
    not_finite
        Elements of the result that are infinite or NaN, which no bound speaks of.

    Examples
    --------
    >>> import numpy as np, widen
    >>> c, info = widen.matmul(np.eye(3), np.eye(3), info=True)
    >>> info.repaired, info.bound.shape
    (0, (3, 3))
    """

    plan: Plan
    bound: Any
    repaired: int
    products: int
    workspace: int
    seconds: dict[str, float]
    not_finite: int = 0

    @property
    def exact(self) -> Any:
        """An array of True and False, true where the result is proven to be the exact value.

        With ``info="largest"`` one of them: whether all elements are. False says that there is no
        proof, not that the result is inexact (docs/method.md says what is proven). A 0 that is
        exact is no underflow.

        >>> import numpy as np, widen
        >>> a, b = np.array([[0.1, -0.1], [1e-200, 0.0]]), np.array([[1e-200], [1e-200]])
        >>> c, info = widen.matmul(a, b, accuracy="correct", info=True)
        >>> c.tolist(), info.exact.tolist()
        ([[0.0], [0.0]], [[True], [False]])
        """
        if isinstance(self.bound, float):
            return self.bound == 0 and not self.not_finite
        return self.bound == 0

    @property
    def system(self) -> str:
        """Name of the number system that ran.

        >>> import numpy as np, widen
        >>> c, info = widen.matmul(np.eye(3), np.eye(3), info=True)
        >>> info.system
        'residues'
        """
        return self.plan.system

    @property
    def unit(self) -> str:
        """Name of the unit that ran.

        >>> import numpy as np, widen
        >>> c, info = widen.matmul(np.eye(3), np.eye(3), info=True)
        >>> info.unit
        'fp64'
        """
        return self.plan.unit

    def __str__(self) -> str:
        total = sum(self.seconds.values())
        stages = ", ".join(f"{name} {value * 1e3:.1f}" for name, value in self.seconds.items())
        return "\n".join(
            [
                str(self.plan),
                f"  ran       {self.products} products, {self.repaired} elements repaired, "
                f"{self.workspace / 1e6:.1f} MB of workspace",
                f"  bound     {self._said_of_bounds()}",
                f"  time      {total * 1e3:.1f} ms ({stages})",
            ]
        )

    def _said_of_bounds(self) -> str:
        bound = np.asarray(self.bound.cpu() if hasattr(self.bound, "cpu") else self.bound)
        finite = bound[np.isfinite(bound)]
        if isinstance(self.bound, float):
            largest, any_finite = self.bound, not math.isnan(self.bound)
        else:
            any_finite = bound.size == 0 or bound.size > self.not_finite
            # A bound may be beyond the range where the result is not.
            beyond = bound.size - finite.size > self.not_finite
            largest = math.inf if beyond else float(finite.max(initial=0.0))
        if not any_finite:
            return f"none: all {self.not_finite} elements are infinite or NaN"
        rest = f"; {self.not_finite} others are infinite or NaN" if self.not_finite else ""
        every = "every finite" if self.not_finite else "every"
        if largest == 0:
            return f"{every} element is the exact value, proven{rest}"
        return f"{every} |c - AB| <= {largest:.3g}, proven{rest}"
