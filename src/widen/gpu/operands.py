"""What the kernels of a GPU read and write: lines of operands, numbers of results, groups."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from struct import pack, unpack
from typing import Any

import torch

from widen.formats import BINARY, Binary, Part, arrays
from widen.gpu import tiles
from widen.gpu.short_tiles import ShortTile

Tensor = torch.Tensor

Piece = slice | Tensor
"""Some rows or columns: a stretch, or their numbers."""

ALL = slice(None)

INTEGERS = {8: torch.int64, 4: torch.int32, 2: torch.int16}
"""Integers that hold a float's bits, by size."""


LOOSE = {
    False: frozenset({"lines", "inner", "line_stride"}),
    True: frozenset({"lines", "inner", "inner_stride"}),
}
"""What kernels need not know of sizes and strides, unless lines are `even`; by `lines_near`."""


@dataclass(frozen=True)
class Lines:
    """An operand as lines, the bits of its floats: a view (parts, batch, lines, inner).

    Numbers of several words, all of one format, have them in `block`, (words, parts, batch, lines,
    inner); `bits` are the first. Words that were given in a narrower format lie as many bits apart
    as that has, `narrow`.
    """

    bits: Tensor
    fmt: Binary
    block: Tensor | None = None
    narrow: int | None = None

    @cached_property
    def word_bits(self) -> int:
        """By how many bits a word lies below the one before it, at least."""
        return self.narrow or self.fmt.precision

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """(batch, lines, inner)."""
        _, batch, count, inner = self.bits.shape
        return batch, count, inner

    @cached_property
    def words(self) -> Tensor:
        """All words, (words, parts, batch, lines, inner)."""
        return self.bits[None] if self.block is None else self.block

    @property
    def numbers(self) -> Tensor:
        """The same as floats."""
        return self.words.view(getattr(torch, self.fmt.name))

    @cached_property
    def count(self) -> int:
        """Lines of all batch items."""
        return self.bits.shape[1] * self.bits.shape[2]

    @cached_property
    def lines_near(self) -> bool:
        """Whether neighbouring lines lie closer in memory than neighbours within a line."""
        return arrays.lines_near(self.bits.shape, self.bits.stride())

    @property
    def paired(self) -> Lines:
        """The same with the parts of a number side by side, as `load_parts` reads them."""
        if self.bits.shape[0] == 1 or self.bits.stride(0) == 1:
            return self  # not kept: it would hold itself, and the operand's memory
        return self._copied_pairs

    @cached_property
    def _copied_pairs(self) -> Lines:
        return Lines(self.bits.movedim(0, -1).contiguous().movedim(-1, 0), self.fmt)

    @cached_property
    def fields(self) -> tuple[int, int]:
        """Widths of a float's fields, fraction and exponent."""
        return self.fmt.precision - 1, self.fmt.highest.bit_length()

    @property
    def named_bits(self) -> dict[str, Any]:
        """First words and their strides, as kernels name them."""
        part, batch, line, inner = self.bits.stride()
        return {
            "bits": self.bits, "part_stride": part, "batch_stride": batch, "line_stride": line,
            "inner_stride": inner,
        }  # fmt: skip

    @property
    def named_pairs(self) -> dict[str, Any]:
        """The same where parts are side by side (`paired`), and no stride tells where they are."""
        _, batch, line, inner = self.bits.stride()
        return {
            "bits": self.bits, "batch_stride": batch, "line_stride": line, "inner_stride": inner,
        }  # fmt: skip

    @property
    def named_words(self) -> dict[str, Any]:
        """All words and their strides, as kernels name them."""
        word, part, batch, line, inner = self.words.stride()
        return {
            "bits": self.words, "word_stride": word, "part_stride": part, "batch_stride": batch,
            "line_stride": line, "inner_stride": inner,
        }  # fmt: skip

    @property
    def named_fields(self) -> dict[str, Any]:
        """Widths of a float's fields, as kernels name them."""
        fraction, exponent = self.fields
        return {"FRACTION": fraction, "EXPONENT": exponent}

    @cached_property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        return self.words.nbytes

    @cached_property
    def small(self) -> bool:
        """Whether kernels compiled for its layout are not worth their compilation."""
        return self.bits[0].numel() <= tiles.SMALL

    @cached_property
    def pitch(self) -> int:
        """Bytes from line to line of a plane: a multiple of 16, as bulk copies need it."""
        return -(-self.bits.shape[3] // 16) * 16

    @cached_property
    def even(self) -> bool:
        """Whether kernels read several numbers at a time: rows (or columns) of a multiple of 16."""
        (_, lines, inner), (line_stride, inner_stride) = self.shape, self.bits.stride()[2:]
        sizes = (lines, inner_stride) if self.lines_near else (inner, line_stride)
        return all(size % 16 == 0 for size in sizes)

    def loose(self, *, even: bool) -> frozenset[str]:
        """Sizes and strides of which kernels take nothing for granted."""
        return frozenset() if even else LOOSE[self.lines_near]

    def blocks(self, tile: tiles.LineTile | ShortTile) -> int:
        """Tiles that all lines have, one beside another."""
        batch, count, _ = self.shape
        return batch * -(-count // tile.lines)

    def like(self, words: Tensor) -> Lines:
        """Other numbers of the same kind, (words, parts, batch, lines, inner)."""
        block = None if self.block is None else words
        return Lines(words[0], self.fmt, block, self.narrow)

    def cut(self, batch: slice, lines: Piece) -> Lines:
        """Some lines, a view if it can be. A batch of 1 stays whole."""
        batch = ALL if self.bits.shape[1] == 1 else batch
        part = self.bits[:, batch, lines]
        if part.shape == self.bits.shape:
            return self
        block = None if self.block is None else self.block[:, :, batch, lines]
        return Lines(part, self.fmt, block, self.narrow)


def on_sides(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    """What kernels of two operands are given of both, each as a kernel of one names it.

    >>> on_sides({"count": 1, "LINES": 2}, {"count": 3, "LINES": 4})
    {'left_count': 1, 'LEFT_LINES': 2, 'right_count': 3, 'RIGHT_LINES': 4}
    """
    names = _names_on_sides(tuple(left), tuple(right))
    return dict(zip(names, (*left.values(), *right.values()), strict=True))


def loose_on_sides(left: Lines, right: Lines) -> frozenset[str]:
    """`Lines.loose` of both, as kernels of two operands name them.

    Of small ones either both are even, or none is taken to be: half as many kernels.
    """
    even = left.even, right.even
    if max(left.bits.numel(), right.bits.numel()) <= tiles.ALIKE:
        even = (all(even),) * 2
    ours, theirs = (x.loose(even=known) for x, known in zip((left, right), even, strict=True))
    both = {"inner"} & ours & theirs  # which both have
    sides = {f"left_{x}" for x in ours} | {f"right_{x}" for x in theirs}
    return frozenset(both | (sides - {"left_inner", "right_inner"}))


@cache
def _names_on_sides(left: tuple[str, ...], right: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        f"{side.upper() if name.isupper() else side}_{name}"
        for side, names in (("left", left), ("right", right))
        for name in names
    )


def as_lines(matrices: Tensor, side: str, parts: int, fmt: Binary) -> Lines:
    """An operand (batch, m, k) or (batch, k, n) as its rows or columns, a view if it can be."""
    if parts == 2 and not matrices.is_complex():
        matrices = torch.complex(*_wide(matrices, torch.zeros_like(matrices)))
    return Lines(bits_of(matrices if side == "left" else matrices.mT, parts), fmt)


def _wide(*parts: Tensor) -> list[Tensor]:
    """Complex tensors have parts of float32 or float64 (complex32 is not for arithmetic)."""
    return [x.float() if x.dtype in (torch.float16, torch.bfloat16) else x for x in parts]


def bits_of(x: Tensor, parts: int) -> Tensor:
    """The bits of a tensor's floats, parts first, a view."""
    split = torch.view_as_real(x.resolve_conj()).movedim(-1, 0) if parts == 2 else x[None]
    return stepped(split.resolve_neg().view(INTEGERS[split.element_size()]))


def stepped(x: Tensor) -> Tensor:
    """The same view, 0 as the stride of axes of one entry.

    Kernels are told strides, and compiled anew for such that are 1 or multiples of 16.
    """
    steps = arrays.meaningful(x.shape, x.stride())
    return x if steps == x.stride() else x.as_strided(x.shape, steps)


def lines_of_words(words: list[Tensor], side: str, parts: int) -> Lines:
    """Numbers of several words, planes (parts, batch, m, k) or (parts, batch, k, n), as lines.

    Words of one format that lie at equal distances are looked at in place; others are copied, a
    float32 after a float64 as a float64, and imaginary parts that there are not as zeros.
    """
    widest = max((x.dtype for x in words), key=lambda dtype: dtype.itemsize)
    same = [x.to(widest) for x in words]
    if same[0].shape[0] < parts:
        same = [torch.cat([x, torch.zeros_like(x)]) for x in same]
    block = in_place(same)
    block = block if side == "left" else block.mT
    bits = stepped(block.view(INTEGERS[block.element_size()]))
    return Lines(bits[0], BINARY[str(widest).removeprefix("torch.")], bits)


def in_place(words: list[Tensor]) -> Tensor:
    """Words on a leading axis, a view if they lie at equal distances in one memory."""
    first = words[0]
    size = first.element_size()
    distances = {y.data_ptr() - x.data_ptr() for x, y in itertools.pairwise(words)}
    storage = {x.untyped_storage().data_ptr() for x in words}
    alike = {(x.shape, arrays.meaningful(x.shape, x.stride())) for x in words}
    step = max(distances, default=0)
    if len(words) == 1:
        return first[None]
    if len(distances) == len(storage) == len(alike) == 1 and step > 0 and step % size == 0:
        shape, steps = (len(words), *first.shape), (step // size, *first.stride())
        return first.as_strided(shape, steps, first.storage_offset())
    return torch.stack(words)


@dataclass(frozen=True)
class Numbers:
    """A result of several words, bits (words, parts, batch, m, n).

    A float32 that comes last after float64 words is `second`, (parts, batch, m, n).
    """

    block: Tensor
    second: Tensor | None

    @property
    def shape(self) -> torch.Size:
        """(parts, batch, m, n)."""
        return self.block.shape[1:]

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return self.block.device

    @property
    def named(self) -> dict[str, Any]:
        """Words and their strides, as kernels name them; something to point at for `second`."""
        word, part, batch, row, column = self.block.stride()
        return {
            "out": self.block, "word_stride": word, "part_stride": part, "batch_stride": batch,
            "row_stride": row, "column_stride": column, "words": len(self.block),
            "second": self.block[0] if self.second is None else self.second,
            "MIXED": self.second is not None,
        }  # fmt: skip

    def cut(self, batch: slice, rows: slice, columns: slice) -> Numbers:
        """A block of it."""
        second = None if self.second is None else self.second[:, batch, rows, columns]
        return Numbers(self.block[:, :, batch, rows, columns], second)


Target = Tensor | Numbers


def tensors_of(out: Target) -> list[Tensor]:
    """The tensors of a result, (..., batch, m, n)."""
    if isinstance(out, Numbers):
        return [out.block] if out.second is None else [out.block, out.second]
    return [out]


def room_like(out: Target, dims: tuple[int, ...]) -> Target:
    """Room for a result of the same kind, (batch, m, n)."""
    made = [
        torch.empty((*x.shape[:-3], *dims), dtype=x.dtype, device=x.device) for x in tensors_of(out)
    ]
    if isinstance(out, Numbers):
        return Numbers(made[0], None if out.second is None else made[1])
    return made[0]


def cut(out: Target, batch: slice, rows: slice, columns: slice) -> Target:
    """A block of a result."""
    if isinstance(out, Numbers):
        return out.cut(batch, rows, columns)
    return out[:, batch, rows, columns]


@dataclass(frozen=True)
class Groups:
    """Residues of X: bytes by moduli up to 256, and 16-bit numbers by moduli in two digits."""

    short: Tensor
    long: Tensor

    @property
    def nbytes(self) -> int:
        """Bytes of both."""
        return self.short.nbytes + self.long.nbytes


FLOATS = {8: torch.float64, 4: torch.float32}
"""Formats of results, by size."""


def first_words(out: Target, fmt: Part) -> Tensor:
    """The first words of a result, (parts, batch, m, n), as floats."""
    bits = out.block[0] if isinstance(out, Numbers) else out
    if fmt.precision < BINARY["float32"].precision:
        return halves_of(bits, fmt.name).float()
    return bits.view(FLOATS[bits.element_size()])


def halves_of(bits: Tensor, name: str) -> Tensor:
    """Results that are halves, from what kernels write of them.

    They write the bits of a magnitude into the low half of 32, and its sign into the highest.
    """
    low, high = bits.contiguous()[..., None].view(torch.int16).unbind(-1)
    return (low | high).view(getattr(torch, name))


# ── some rows or columns of what is known of all of them ─────────────────────────────────────────


def cut_table(whole: Tensor, shape: tuple[int, ...], batch: slice, piece: Piece) -> Tensor:
    """The table of some of the lines of an operand of this shape, (batch, lines, ...)."""
    count, size = shape[:2]
    if _is_all(piece, size) and (count == 1 or _is_all(batch, count)):
        return whole
    columns = _items(whole.view(-1, count, size), batch)[:, :, piece]
    return columns.reshape(whole.shape[0], -1).contiguous()


def cut_planes(whole: Tensor, batch: slice, piece: slice) -> Tensor:
    """Some lines of planes (planes, batch, lines, pitch), a copy unless they are all."""
    return _items(whole, batch)[:, :, piece].contiguous()


def picked(x: Tensor, rows: Piece, columns: Piece) -> Tensor:
    """Some rows and columns, the last two axes, a view if it can be."""
    return x[..., rows, :][..., columns]


def _items(x: Tensor, batch: slice) -> Tensor:
    return x if x.shape[1] == 1 else x[:, batch]


def _is_all(piece: Piece, size: int) -> bool:
    return isinstance(piece, slice) and piece.start in (None, 0) and piece.stop in (None, size)


def float64_bits(x: float) -> int:
    """What kernels are given of a number: as a number it would become a float32."""
    return int(unpack("q", pack("d", x))[0])
