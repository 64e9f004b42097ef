"""Tile sizes of the GPU kernels, and for Hopper's the choice: waves times the time of a tile."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

CACHE_BYTES = 60 * 10**6
"""Of an H200's L2."""


@dataclass(frozen=True, slots=True)
class Tile:
    """How one block of the Hopper kernel multiplies (`cuda/multiply.cu` has the picture).

    Times are in nanoseconds, measured on an H200 with every multiprocessor busy: of a step of 128
    bytes of K while a slice's operands fit in L2 (`step`) and when they do not (`far_step`), and of
    what a tile costs beside its steps (`overhead`).
    """

    consumers: int  # warpgroups
    blocks: int  # of 64 rows, multiplied by each consumer
    columns: int
    stages: int
    share_left: bool  # the two blocks of a cluster share left's tile, else right's
    step: int
    far_step: int
    overhead: int
    cluster: int = 2

    def __post_init__(self) -> None:
        """A tile must fit: 227 KB of shared memory, the registers of its accumulators."""
        assert self.shared_bytes <= 227 * 1024
        assert self.blocks * self.columns // 2 <= 200
        assert self.left_box <= 256
        assert self.right_box % 64 == 0

    @property
    def rows(self) -> int:
        """Of left and of the product."""
        return 64 * self.blocks * self.consumers

    @property
    def threads(self) -> int:
        """Of a block: the consumers and one producer warpgroup."""
        return 128 * (self.consumers + 1)

    @property
    def shared_bytes(self) -> int:
        """The stages, what aligns them to 1024 bytes, and the barriers."""
        return self.stages * (self.rows + self.columns) * 128 + 1024 + 16 * self.stages

    @property
    def left_box(self) -> int:
        """Rows of left that one copy brings."""
        return self.rows // self.cluster if self.share_left else self.rows

    @property
    def right_box(self) -> int:
        """Rows of right (columns of the product) that one copy brings."""
        return self.columns if self.share_left else self.columns // self.cluster

    def clusters(self, rows: int, columns: int) -> tuple[int, int]:
        """How many clusters high and wide a product of that shape is."""
        high = self.rows * (1 if self.share_left else self.cluster)
        wide = self.columns * (self.cluster if self.share_left else 1)
        return -(-rows // high), -(-columns // wide)

    def cost(self, rows: int, columns: int, inner: int, slices: int, processors: int) -> int:
        """Predicted nanoseconds of the whole launch."""
        high, wide = self.clusters(rows, columns)
        waves = -(-high * wide * slices // (processors // self.cluster))
        step = self.step if (rows + columns) * inner <= CACHE_BYTES else self.far_step
        return waves * (-(-inner // 128) * step + self.overhead)


# 192x256 by three consumers would read shared memory least, but the assembler wants 154 registers
# for 64x256 sums, and 512 threads start with 128.
HOPPER = (
    Tile(2, 2, 192, stages=4, share_left=True, step=896, far_step=1050, overhead=1315),
    Tile(2, 2, 128, stages=4, share_left=True, step=613, far_step=710, overhead=875),
    Tile(2, 1, 256, stages=4, share_left=False, step=608, far_step=690, overhead=955),
    Tile(2, 1, 128, stages=7, share_left=False, step=325, far_step=480, overhead=595),
    Tile(2, 1, 128, stages=7, share_left=True, step=325, far_step=480, overhead=595),
    Tile(2, 1, 64, stages=8, share_left=False, step=327, far_step=500, overhead=400, cluster=1),
)


# A certificate keeps what it knows of columns in shared memory too; two planes, two sets of sums.
HOPPER_CERTIFY = tuple(
    replace(tile, stages=min(tile.stages, 6))
    for tile in HOPPER
    if tile.blocks * tile.columns <= 256
)


@lru_cache(maxsize=1024)
def choose(
    rows: int, columns: int, inner: int, slices: int, processors: int,
    tiles: tuple[Tile, ...] = HOPPER,
) -> Tile:  # fmt: skip
    """The tile of the lowest predicted cost for `slices` products of one shape."""
    return min(tiles, key=lambda tile: tile.cost(rows, columns, inner, slices, processors))


# ── the Triton kernels ───────────────────────────────────────────────────────────────────────────

LONGEST_SUM = (1 << 17) - 128
"""Terms of entries up to 128 that an int32 holds, a multiple of every inner tile."""


@dataclass(frozen=True)
class LineTile:
    """Lines and entries of each that a program reads at a time."""

    lines: int
    inner: int
    warps: int

    @property
    def named(self) -> dict[str, Any]:
        """As kernels name it."""
        return {"LINES": self.lines, "INNER": self.inner}


@dataclass(frozen=True)
class ProductTile:
    """Rows and columns of a product, inner length of a step, and rows of tiles taken together."""

    rows: int
    columns: int
    inner: int = 128
    warps: int = 4
    stages: int = 3
    group: int = 8

    @property
    def named(self) -> dict[str, Any]:
        """As kernels name it."""
        return {
            "ROWS": self.rows, "COLUMNS": self.columns, "INNER": self.inner, "GROUP": self.group,
        }  # fmt: skip


@dataclass(frozen=True)
class RepairTile:
    """Marks that a program looks at together, and terms of a dot product that it adds together."""

    marks: int
    terms: int
    warps: int


def repair_tile(elements: int, *, words: bool) -> RepairTile:
    """By how many there are: of few, every program gets a few only, and has more warps for each.

    Those of several words take long, one after the other.
    """
    if elements < 1 << 16:
        return RepairTile(16, 512, 4)
    return RepairTile(1024, 512, 4) if words else RepairTile(1024, 128, 1)


CLOSE_WARPS = 24
"""Of the kernel that settles single elements in float64, on a processor: it has 80 registers."""


def close_tile(elements: int) -> RepairTile:
    """The same for that kernel. With 1024 marks and 128 terms it would have 162 registers."""
    return RepairTile(16, 256, 4) if elements < 1 << 16 else RepairTile(256, 64, 1)


TAKEN, SETTLED = 1024, 4096
"""Elements of a row, and marks, that a program looks at where another pass has settled some."""

JUDGED = 512
"""Terms of a sampled element that are added together."""

# Of lines whose entries are neighbours and of lines that are, for numbers of one part and of two.
SURVEY = {
    1: (LineTile(2, 512, 4), LineTile(32, 32, 4)),
    2: (LineTile(2, 256, 4), LineTile(32, 8, 4)),
}
ENCODE = {
    1: (LineTile(4, 512, 4), LineTile(16, 128, 4)),
    2: (LineTile(4, 256, 4), LineTile(8, 128, 4)),
}


SMALL = 1 << 17
"""Numbers of an operand, or elements of a result, that are not worth kernels of their own.

Kernels are compiled for the layout of operands, for sizes that are multiples of 16, and for lists
of moduli; small products share a few that know nothing of these.
"""

MEANWHILE = 1 << 21
"""Elements of an operand or of a result up to which slower kernels answer while one is compiled."""

ALIKE = 1 << 20
"""Numbers of an operand up to which one side's sizes that are no multiples of 16 count for both."""

SURVEY_SMALL = {1: LineTile(8, 128, 4), 2: LineTile(4, 64, 4)}


@lru_cache(maxsize=256)
def line_tile(tiles: tuple[LineTile, LineTile], lines_near: bool, inner: int) -> LineTile:
    """The tile for lines that lie near each other or not, with more of them if they are short."""
    tile = tiles[lines_near]
    width = min(tile.inner, max(32, 1 << (inner - 1).bit_length()))
    return LineTile(tile.lines * tile.inner // width, width, tile.warps)


@lru_cache(maxsize=256)
def matrix_tile(
    tiles: tuple[LineTile, LineTile], lines_near: bool, lines: int, inner: int
) -> LineTile:
    """The same, no larger than a matrix is: of a batch, each has its own."""
    tile = tiles[lines_near]
    width = min(tile.inner, max(16, 1 << (inner - 1).bit_length()))
    most = tile.lines * tile.inner // width
    fewer = min(most, 1 << (lines - 1).bit_length())
    return LineTile(fewer, width, max(1, tile.warps * fewer // most))


MULTIPLY = ProductTile(128, 128)

SMALL_EDGE = 64
"""Batches of matrices with so many rows and columns, in 16s, are multiplied several in a tile."""


def small_tile(size: int) -> tuple[int, int]:
    """Edge and warps of a tile for small matrices."""
    return (32, 1) if size <= 32 else (64, 4)


MANY_ELEMENTS = 1 << 22
"""From here on larger tiles still give every multiprocessor some."""

CERTIFY = ProductTile(128, 128)
CERTIFY_CLOSELY = ProductTile(128, 256, inner=64, warps=8, stages=4)
CERTIFY_FEW_CLOSELY = ProductTile(128, 128, inner=64, warps=8)

HALVES = MARK = ProductTile(4, 512, inner=0)
BOUNDS = ProductTile(4, 256, inner=0)
RECONSTRUCT_LONG = ProductTile(1, 128, inner=0)  # long integers: many registers an element

PRODUCTS = {
    "int8": ProductTile(128, 128, warps=8),
    "fp16": ProductTile(128, 128, inner=64, warps=8),
    "bf16": ProductTile(128, 128, inner=64, warps=8),
    "fp8": ProductTile(128, 128, inner=64, warps=8),
}
"""By unit; the inner length is no more than the unit's exact depth."""

ENCODE_ANY, ENCODE_WORDS = LineTile(8, 128, 4), LineTile(2, 64, 4)
BYTES_OF_GROUPS = 256
"""Elements whose groups a program turns into bytes."""


@lru_cache(maxsize=256)
def reconstruct_tile(
    parts: int, moduli: int, batch: int, m: int, n: int
) -> tuple[ProductTile, int]:  # fmt: skip
    """A tile as wide as the rows are, eight numbers a thread, and how many rows a program takes.

    Programs of one warp wait for no other. Long integers take too many registers for eight numbers,
    and want four warps. More rows share what is known of the columns, up to RECONSTRUCT_STEPS
    tiles; programs come in whole waves.
    """
    size, warps = (256 // parts, 1) if moduli <= 16 else (512 // parts, 4)
    columns = min(size, max(16, 1 << (n - 1).bit_length()))
    rows = min(size // columns, 1 << (m - 1).bit_length())
    tile = ProductTile(rows, columns, inner=0, warps=max(1, warps * rows * columns // size))
    steps = batch * -(-m // tile.rows) * -(-n // columns)
    wave = RECONSTRUCT_WARPS // (warps * parts)
    waves = -(-steps // (RECONSTRUCT_STEPS * wave))
    return tile, tile.rows * -(-steps // (wave * waves))


ANY_LIMBS = (4, 5, 6, 7, 8, 10, 12, 14, 16)
FEW_ANY_LIMBS = (4, 8, 16)
"""Lengths of X, in limbs of 32 bits, up to which the kernels for any moduli hold it in registers,
and are compiled for; and for small results."""

ANY = {1: (256, 4, 4, 128), 11: (256, 4, 3, 168), 0: (32, 1, 16, 128)}
"""Of the kernels for any moduli: columns, warps, programs a multiprocessor, registers a thread; by
the least limbs of X in registers, 0: it is in memory.

bench/results/words-h200.md has others.
"""

ANY_ALONE = (128, 4, 8, None)
"""The same with an element a thread: for small results, and for sums that are added to in memory,
which want every element in one thread."""


def any_tile(limbs: int, *, alone: bool) -> tuple[int, int, int, int | None]:
    """Columns, warps, programs a multiprocessor and registers where X has so many limbs."""
    return ANY_ALONE if alone else ANY[max(least for least in ANY if least <= limbs)]


FEW_LIMBS = 2
"""Encoding of numbers of several words, whose integers have so many limbs of 64 bits at most, goes
four bytes at a time; that of longer ones by products of matrices."""

FEW_WORDS = (LineTile(2, 256, 4), LineTile(16, 32, 4))
WORDS = (LineTile(1, 256, 4), LineTile(8, 32, 4))
WORDS_COLUMNS, WORDS_REGISTERS = 16, {4: 128, 8: 128, 16: 168}
"""Tiles of these, the second of 128 elements or more, moduli in a product, and a thread's registers
at most, by the limbs that a product has room for: with fewer, products wait for each other."""

WORDS_LIMBS, FEW_WORDS_LIMBS = (1, 2, 3, 4, 6, 7, 8, 11, 14, 16, 24, 32), (2, 4, 8, 16, 32)
"""Lengths of their integers, in limbs of 64 bits, that encoding is compiled for.

The second are for operands that are small.
"""

DOT_LIMBS = 256
"""Limbs of a sum of products of two floats, times a third, and of one more product of two."""

FURTHEST_LIMBS = 320
"""Limbs of 32 bits by which c, times beta, may lie beyond X, times alpha: both ends together.

Exponents of floats are within 1074, those of rows, columns and both factors too.
"""

RECONSTRUCT_WARPS, RECONSTRUCT_STEPS = 2112, 16
"""Warps that run at a time on an H200, and tiles that a program takes."""

VERY_SHORT = 128
"""Lines up to so long have leading integers of more bits from the start."""

BLOCKS = 1024
"""Programs that keep a large GPU busy with reading."""


def share(inner: int, blocks: int, step: int, parts: int) -> int:
    """Entries of a line that one program reads: BLOCKS programs for each part, if possible.

    At most LONGEST_SHARE steps, so that sums of 16-bit numbers fit an int32.
    """
    pieces = max(1, min(-(-inner // step), parts * BLOCKS // max(blocks, 1)))
    pieces = max(pieces, -(-inner // (LONGEST_SHARE * step)))
    return -(-inner // (pieces * step)) * step


LONGEST_SHARE = 2048


# ── few lines times many, which are read as floats ───────────────────────────────────────────────


@dataclass(frozen=True)
class ThinTile:
    """Lines of both sides that a program multiplies, and entries of a step.

    `stages` - 1 steps are read ahead: with none, entries are sorted in shared memory once more.
    """

    lines: int
    few: int
    inner: int = 64
    warps: int = 2
    stages: int = 2


THIN_LINES, THIN_RATIO = 8, 8
"""Lines of the thin side, at most; the other has so many times more, at least."""

THIN_NUMBERS = 1 << 22
"""Numbers of the other side, at least: fewer are encoded in less than two launches take."""

THIN_TILE = ThinTile(32, 8)
"""Sums of 13 weights of digits are 104 registers of it. Wider ones have not been timed."""

THIN_PROGRAMS = 2048
"""Programs that share the work, some four waves on an H200."""

THIN_RESIDUES = (64, 16)
"""Elements, of many lines times few, whose sums a program turns into residues."""
