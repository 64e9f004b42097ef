"""A block of the result: the lines it is made of, and how its elements are rounded, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from widen import bounds
from widen.bounds import Certificate
from widen.formats import Format
from widen.gpu.operands import Lines, Numbers, Target, Tensor
from widen.gpu.scaling import Scaling


@dataclass(frozen=True)
class ResultBlock:
    """What reconstruction and repair know of a block of the result.

    Attributes
    ----------
    sides, tables
        The rows and the columns, and their tables.
    fmt, out
        The format of the elements, and where they go: bits (parts, batch, m, n).
    test
        The certificate that the contract asks for, if any.
    scaling
        alpha, beta and c, or None for the product alone.
    wide
        Whether numbers of several words are read or written.
    """

    sides: tuple[Lines, Lines]
    tables: tuple[Tensor, Tensor]
    fmt: Format
    out: Target
    test: Certificate | None = None
    scaling: Scaling | None = None
    wide: bool = False

    @property
    def numbers(self) -> Numbers:
        """`out` as numbers of one word or of several."""
        return self.out if isinstance(self.out, Numbers) else Numbers(self.out[None], None)

    @property
    def named(self) -> dict[str, Any]:
        """Shape, tables and format, as kernels name them."""
        parts, _, m, n = self.out.shape
        left, right = self.sides
        rows, columns = self.tables
        word = self.fmt.part.words[0]
        return {
            "m": m, "n": n, "left_batch": left.shape[0], "right_batch": right.shape[0],
            "rows_table": rows, "columns_table": columns, "PARTS": parts,
            "PRECISION": word.precision, "LOWEST": word.lowest, "HIGHEST": word.highest,
        }  # fmt: skip

    @property
    def named_test(self) -> dict[str, Any]:
        """The certificate of single elements, as kernels name it."""
        k, test = self.sides[0].shape[2], self.test
        shift, both, always = (0, 0, 0) if test is None else (test.shift, test.both, test.always)
        return {
            "tested": test is not None, "kept": bounds.lead_bits(k), "shift": shift, "both": both,
            "always": min(always, 1 << 61),
        }  # fmt: skip


def named_elements(out: Tensor) -> dict[str, Any]:
    """Elements of one word and their strides, as kernels name them."""
    part, batch, row, column = out.stride()
    return {
        "out": out, "part_stride": part, "batch_stride": batch, "row_stride": row,
        "column_stride": column,
    }  # fmt: skip
