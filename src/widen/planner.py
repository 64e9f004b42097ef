"""The planner: format, shape, contract and norms in, a frozen Plan out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from widen import bounds
from widen.contract import Contract
from widen.formats import Format
from widen.plan import Blocks, Layout, Plan
from widen.systems import SYSTEMS, Residues, digits, residues, uneven_digits
from widen.units import RATES, UNITS, Unit

DEFAULT_WORKSPACE = 512 * 2**20
SMALLEST_WORKSPACE = 2**16

LEAST_PLAIN = 64
"""Moduli of entries below this hold fewer than 185 bits: their residues are split in two digits."""

COMFORT = 256 * 2**20
"""Bytes of a block of rows with its groups, where the workspace leaves the choice.

Smaller blocks would stay in the cache, but every change from BLAS to a kernel costs: with 32 MB, a
product at n = 1024 took 1.2 times as long as in one piece.
"""


KEPT = 192 * 2**20
"""Most bytes of scratch memory that stay for the next call, as BLAS libraries keep theirs.

Fresh pages cost about 0.2 ms a megabyte here: at n = 1024 an eighth of a product's time.
"""

LEAST_ROWS = 256
"""Rows of a block that BLAS still multiplies at full speed."""

MOST_THIN, INNER_A_LINE = 16, 64
"""Lines of a thin side, at most, and inner length that each of them asks for.

Thin products on a CPU multiply digits as they are written (`cpu/thin.py`). CPU ms of one thread,
in planes and thin, 2048 x 2048 times so many columns: 4 56 and 18, 8 62 and 27, 16 66 and 47; with
an inner length of 256 there is no difference from 8 columns on (`bench/shapes.py`).
"""

LEAST_INNER, LEAST_THIN = 256, 1 << 16
"""Inner length and entries of the other side, at least."""

THIN_PRODUCTS = 100
"""Products of digits, times lines of the thin side, up to which they are faster than residues."""


@dataclass(frozen=True)
class Needs:
    """What quantised operands need: log2 of their largest 2-norms, and |a'| <= 2^width."""

    norms: tuple[float, float]
    widths: tuple[int, int]

    @property
    def bits(self) -> float:
        """|X| <= 2^bits, by Cauchy and Schwarz; in eighths, so that equal layouts are shared."""
        return math.ceil(8 * max(sum(self.norms), 0.0)) / 8


def residues_of(digit: int, bits: float, parts: int) -> Residues:
    """Residues in planes with entries up to `digit`, in two digits each where entries are small."""
    return residues(digit, bits, parts, split=digit < LEAST_PLAIN)


def choose_layout(
    contract: Contract, fmt: Format, k: int, unit: Unit, system: str | None, needs: Needs, *,
    cap: int | None,
) -> Layout:  # fmt: skip
    """Planes and products that hold X exactly (the triangle: but for what it may leave out)."""
    digit = bounds.plane_digit(unit, k)
    if system in (None, "residues"):
        try:
            return residues_of(digit, needs.bits, fmt.parts)
        except ValueError:
            if system is not None:
                raise
    digit = 1 << (digit.bit_length() - 1)
    limit = bounds.ACCUMULATOR // (max(k, 1) * digit**2)  # each product leaves the unit by itself
    budget = 0
    if system == "triangle" and contract.name != "bits":
        budget = _triangle_budget(contract, fmt, k, cap)
    return digits(digit, needs.widths, fmt.parts, k, max(limit, 1), budget)


def _triangle_budget(contract: Contract, fmt: Format, k: int, cap: int | None) -> int:
    """How much of X the triangle may leave out: an eighth of what quantisation may move it."""
    goal = bounds.goal(contract, fmt.precision, k, fmt.parts, cap)
    return 0 if goal is None else bounds.floor_shift(goal.root, goal.shift - 3)


def first_cap(precision: int, k: int) -> int:
    """Bits to try "correct" with before repairing: the error is then near 2^-11 ulp.

    Rows scaled to 2^cap have an error of X near 2^cap sqrt(k), while a sum with random signs is
    near 2^(2 cap) / sqrt(k): 2^(precision - cap) k ulps.
    """
    return precision + max(k, 1).bit_length() + 11


EXACT_SHARE = {"cpu": 1.0, "gpu": 1.3}
"""For "correct", planes that hold every bit may be so many times those of the first cap.

BLAS takes as long for every plane; on a GPU more of them cost less than what is left open.
"""


def every_bit_is_kept(exact: float, capped: float, wing: str) -> bool:
    """Whether "correct" keeps every bit of both operands, or those up to the first cap.

    Any quantisation will do that leaves little to repair: the cheaper one, given the bits of X that
    planes must hold either way.
    """
    return exact <= EXACT_SHARE[wing] * capped


def typical_needs(contract: Contract, fmt: Format, k: int) -> Needs:
    """What rows of similar magnitudes need, (rand - 0.5) exp(randn / 2) for one.

    Their 2-norm is 1.31 times the mean magnitude times sqrt(k): 0.39 bits; and their largest
    entry is some 16 times the mean.
    """
    goal = bounds.goal(contract, fmt.precision, k, fmt.parts, first_cap(fmt.precision, k))
    assert goal is not None
    norm = math.log2(goal.root) + goal.shift + 0.5
    if goal.norm == 1:
        norm -= 0.5 * math.log2(max(k * fmt.parts, 1))
    width = math.ceil(norm - 0.5 * math.log2(max(k * fmt.parts, 1)) + 4)
    return Needs((norm, norm), (width, width))


def unit_for(name: str | None) -> tuple[Unit, str]:
    """The unit asked for, or the best on a CPU, and why."""
    if name is None:
        return UNITS["fp64"], "fp64 gives the most exact bits a second of BLAS (21 a product)"
    if name not in UNITS:
        raise ValueError(f"unit={name!r} is not known; use one of {', '.join(UNITS)}")
    engine = {"float64": "dgemm", "float32": "sgemm"}[UNITS[name].engine]
    return UNITS[name], f"unit={name!r} was asked for; {engine} runs it on this CPU"


def exact_bits(unit: Unit, precision: int = 53) -> float:
    """Bits of X that a product of planes gives, in residues for a result of this precision.

    0 if there are too few moduli for lines of 4096 entries.

    >>> [(name, round(exact_bits(UNITS[name]), 1)) for name in ("fp64", "int8", "fp16", "fp8")]
    [('fp64', 21.5), ('int8', 7.9), ('fp16', 7.9), ('fp8', 3.1)]
    """
    try:
        layout = residues_of(bounds.plane_digit(unit, 4096), 2.0 * (precision + 1), 1)
    except ValueError:
        return 0.0
    return math.log2(layout.modulus) / len(layout.products)


def unit_on_gpu(name: str | None, gpu: str, precision: int = 53) -> tuple[str, str]:
    """The unit asked for, or the best on a GPU of that name for such results, and why."""
    if name is not None:
        runs = "float64 products run" if name == "fp64" else "tensor cores run"
        return name, f"unit={name!r} was asked for; {runs} it on this GPU"
    if gpu not in RATES:
        return (
            "int8",
            "int8 tensor cores give the most exact bits a second where they were measured",
        )
    rates = RATES[gpu]
    best = max(rates, key=lambda name: rates[name] * exact_bits(UNITS[name], precision=precision))
    return best, f"{best} gives the most exact bits a second on {gpu}"


def is_thin(shape: tuple[int, int, int, int]) -> bool:
    """Whether one side of a product (batch, m, k, n) has few lines and the other is large.

    >>> is_thin((1, 2048, 2048, 1)), is_thin((1, 2048, 2048, 32)), is_thin((1, 64, 64, 1))
    (True, False, False)
    """
    batch, m, k, n = shape
    few, other = sorted((m, n))
    short = few <= min(MOST_THIN, k // INNER_A_LINE)
    return short and k >= LEAST_INNER and batch * other * k >= LEAST_THIN


def check_system(name: str | None) -> str:
    """Check a user's word for a system and say why it is used."""
    if name is None:
        return "residues need one product a plane"
    if name not in SYSTEMS:
        raise ValueError(f"system={name!r} is not known; use one of {', '.join(SYSTEMS)}")
    return f"system={name!r} was asked for"


def make_plan(
    contract: Contract,
    fmt: Format,
    shape: tuple[int, int, int, int],
    needs: Needs,
    *,
    unit: str | None = None,
    system: str | None = None,
    cap: int | None = None,
    workspace: int = DEFAULT_WORKSPACE,
    why: tuple[str, ...] = (),
    thin: bool = False,
) -> Plan:
    """Choose planes, products and blocks for operands with these needs.

    With `thin`, digits if they are few: they need not be written to memory.
    """
    # Rounded as the layout will see them, so that equal plans are made once.
    rounded = Needs((needs.bits, 0.0), needs.widths)
    return _made_plan(
        contract, fmt, shape, rounded, unit=unit, system=system, cap=cap, workspace=workspace,
        why=why, thin=thin,
    )  # fmt: skip


@lru_cache(maxsize=256)
def _made_plan(
    contract: Contract, fmt: Format, shape: tuple[int, int, int, int], needs: Needs, *,
    unit: str | None, system: str | None, cap: int | None, workspace: int, why: tuple[str, ...],
    thin: bool,
) -> Plan:  # fmt: skip
    chosen, unit_reason = unit_for(unit)
    system_reason = check_system(system)
    k = shape[2]
    layout: Layout | None = None
    if thin and system in (None, "digits"):
        uneven = uneven_digits(needs.widths, fmt.parts, int(shape[1] < shape[3]))
        if len(uneven.products) * min(shape[1], shape[3]) <= THIN_PRODUCTS:
            layout = uneven
            system_reason = "one side has few lines: digits are multiplied as they are written"
    if layout is None:
        layout = choose_layout(contract, fmt, k, chosen, system, needs, cap=cap)
    if system is None and isinstance(layout, Residues) and layout.bases:
        short = layout.bases.count(0)
        which = f"{len(layout.moduli) - short} of {len(layout.moduli)} residues are"
        system_reason = f"{which} in two digits of {chosen.name}, for three products each"
    elif system is None and layout.system != "residues" and not thin:
        system_reason = f"the moduli of {chosen.name} do not reach 2^{needs.bits:.0f}"
    digit = bounds.plane_digit(chosen, k)
    return Plan(
        shape=shape,
        contract=contract,
        result=fmt.name,
        unit=chosen.name,
        layout=layout,
        depth=chosen.depth(digit),
        cap=cap,
        bits=needs.bits,
        blocks=choose_blocks(
            shape, room_on_a_cpu(layout, max(k, 1), workspace, len(fmt.part.words))
        ),
        workspace=workspace,
        why=(unit_reason, system_reason, *why),
    )


def line_bytes(layout: Layout, side: int) -> int:
    """Bytes a line takes per unit of inner length: planes, a converted copy, leading integers."""
    return 8 * (layout.planes[side] + 2 * layout.parts + 1)


def element_bytes(layout: Layout, words: int = 1) -> int:
    """Bytes an element of a block takes: groups, a product on its way in, results, marks."""
    return 8 * (layout.groups + words * layout.parts + 4)


@dataclass(frozen=True)
class Room:
    """What the lines and elements of a product take, and how much of it there may be, in bytes.

    Attributes
    ----------
    workspace
        For everything that passes.
    lines
        A row, and a column, in all its planes.
    element
        An element: its groups, a product on its way in, results, marks.
    comfort
        A product that takes no more is computed in one piece; so are as many batch items.
    kept
        Memory that the next call finds again, where there is some.
    most_lines
        Lines that a block may have.
    step
        Sizes above it are multiples of it.
    cuts_inner
        Whether the inner dimension may be cut where the planes of a few full lines do not fit.
    """

    workspace: int
    lines: tuple[int, int]
    element: int
    comfort: int
    kept: int | None = None
    most_lines: int = 1 << 62
    step: int = 1
    cuts_inner: bool = False

    def rounded(self, size: int) -> int:
        """A block's size, a multiple of the step if it is large."""
        return size // self.step * self.step if size > self.step else max(size, 1)


def room_on_a_cpu(layout: Layout, k: int, workspace: int, words: int = 1) -> Room:
    """The room of a product on a CPU."""
    return Room(
        workspace,
        (k * line_bytes(layout, 0), k * line_bytes(layout, 1)),
        element_bytes(layout, words),
        min(COMFORT, workspace),
        kept=KEPT,
        cuts_inner=True,
    )


def choose_blocks(shape: tuple[int, int, int, int], room: Room) -> Blocks:
    """Blocks of a product (batch, m, k, n) that fit the room.

    Planes of columns are kept while blocks of rows pass, so they may take half of the workspace;
    rows, and the groups they give, come in pieces that a cache holds where that matters. Only if
    the planes of a few columns of full length do not fit is the inner dimension cut.
    """
    batch, m, k, n = (max(size, 1) for size in shape)
    (left, right), element, workspace = room.lines, room.element, room.workspace
    whole = max(1, m * left + n * right + m * n * element)
    if whole <= room.comfort and max(m, n) <= room.most_lines:
        items = min(batch, room.comfort // whole, room.most_lines // max(m, n))
        return Blocks(max(1, items), m, n, k)
    columns = room.rounded(min(n, room.most_lines, workspace // (2 * right)))
    row = left + columns * element
    rows = min(m, room.most_lines, (workspace - columns * right) // row)
    if room.kept is not None:
        rows = min(rows, max(64, room.comfort // row))
        held = (room.kept - columns * right) // row
        if held >= LEAST_ROWS:  # a few blocks of rows, whose memory the next call finds again
            rows = min(rows, held)
    enough = columns >= min(n, 128) and rows >= min(m, 32)
    if enough or not room.cuts_inner:
        return Blocks(1, room.rounded(rows), columns, k)
    side = max(1, math.isqrt(workspace // (2 * element)))
    rows, columns = min(m, side, 512), min(n, side, 512)
    entry = rows * (left // k) + columns * (right // k)
    inner = (workspace - rows * columns * element) // entry
    return Blocks(1, rows, columns, max(1, min(k, inner)))


def block_slices(plan: Plan) -> Iterator[tuple[slice, slice, slice]]:
    """(batch, rows, columns) of every block of a plan that is computed, rows passing fastest."""
    batch, m, _, n = plan.shape
    for b in range(0, batch, plan.blocks.batch):
        for j in range(0, n, plan.blocks.columns):
            for i in range(0, j + 1 if plan.symmetric else m, plan.blocks.rows):
                yield (
                    slice(b, min(b + plan.blocks.batch, batch)),
                    slice(i, min(i + plan.blocks.rows, m)),
                    slice(j, min(j + plan.blocks.columns, n)),
                )


def inner_slices(plan: Plan) -> Iterator[slice]:
    """Stretches of the inner dimension of a plan's blocks."""
    k, step = plan.shape[2], plan.blocks.inner
    for start in range(0, k, step):
        yield slice(start, min(start + step, k))
