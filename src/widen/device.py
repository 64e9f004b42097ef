"""The four stages on a GPU: one plan, one stream, at most one small read of the device."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import torch

from widen import bounds
from widen.backends import cuts
from widen.backends import torch as backend
from widen.backends.clock import Clock
from widen.backends.torch import Lines, Tensor
from widen.backends.torch_scaled import Scaling
from widen.bounds import Certificate
from widen.contract import Contract
from widen.encoded import Encoded
from widen.formats import Format
from widen.plan import Blocks, Layout, Plan
from widen.planner import Needs, block_slices, first_cap, make_plan
from widen.repair_device import MOST_BITS, repair_many
from widen.systems import Residues

EXACT_SHARE = 1.3
"""For "correct", planes that hold every bit may be that many times those of the first cap."""

LEAD_BITS = {1: 6, 2: 5}
"""Leading integers floor(|x| 2^(f - top)) fit an int8, summed over the parts of a number."""

LONG_LEAD_BITS = {1: 13, 2: 12}
"""The same for lines whose largest number is far above the others: integers in two planes."""


@dataclass(frozen=True)
class Problem:
    """A product to compute: operands as lines, and what the caller asked for."""

    left: Lines | Encoded
    right: Lines | Encoded
    contract: Contract
    fmt: Format
    workspace: int
    plan: Plan | None = None
    scaling: Scaling | None = None

    @cached_property
    def sources(self) -> tuple[Lines | Encoded, Lines | Encoded]:
        """Both operands."""
        return self.left, self.right

    @cached_property
    def encoded(self) -> list[Encoded]:
        """The operands that come with their planes."""
        return [source for source in self.sources if isinstance(source, Encoded)]

    @cached_property
    def lines(self) -> tuple[Lines, Lines]:
        """Both operands, encoded or not."""
        ours, theirs = (x.operand if isinstance(x, Encoded) else x for x in self.sources)
        return ours, theirs

    @cached_property
    def shape(self) -> tuple[int, int, int, int]:
        """(batch, m, k, n)."""
        ours, theirs = self.left.shape, self.right.shape
        return max(ours[0], theirs[0]), ours[1], ours[2], theirs[1]

    @cached_property
    def test(self) -> Certificate | None:
        """The certificate that the contract asks for, if any."""
        if not self.contract.certified_by_data:
            return None
        return bounds.certificate(
            self.contract, self.fmt.precision, self.shape[2], self.fmt.parts, 0
        )


@dataclass(frozen=True)
class Prepared:
    """What is known before blocks are computed: tables of lines, leading integers, the plan.

    `many`: a large share of the elements may have to be repaired.
    """

    tables: tuple[Tensor, Tensor]
    leads: tuple[Tensor, Tensor] | None
    kept: int
    terms: int
    plan: Plan
    many: bool = False

    def tables_of(
        self, problem: Problem, block: tuple[slice, slice, slice]
    ) -> tuple[Tensor, Tensor]:
        """The tables of a block's lines."""
        batch, *pieces = block
        ours, theirs = (
            cuts.table(table, side.shape, batch, piece)
            for table, side, piece in zip(self.tables, problem.lines, pieces, strict=True)
        )
        return ours, theirs


def prepare(problem: Problem) -> Prepared:
    """Quantise both operands and plan the planes they need.

    For "correct" any quantisation will do that leaves little to repair: the cheaper one of every
    bit and of the planner's first cap. A plan made beforehand, and an integer contract, need no
    read of the device: what their planes do not hold is marked element by element.
    """
    fmt, contract, k = problem.fmt, problem.contract, problem.shape[2]
    cap = first_cap(fmt.precision, k) if contract.correct else None
    caps = [cap] if problem.encoded or not contract.correct else [None, cap]
    if problem.plan is not None:
        caps = [problem.plan.cap]
    kept = LEAD_BITS[fmt.parts]
    looked_at, needs, leads = _look(problem.sources, problem.test, kept, len(caps))
    choices = [
        _tables(problem, looked_at, limit, needs[at], fresh=at > 0) for at, limit in enumerate(caps)
    ]
    if problem.plan is not None:
        # Batches may have been merged since, so blocks are cut anew.
        blocks = _blocks(problem.shape, problem.plan.layout, problem.workspace)
        plan = replace(problem.plan, shape=problem.shape, blocks=blocks)
        return Prepared(choices[0], leads, kept, k, plan)
    if contract.name == "bits":
        goal = bounds.goal(contract, fmt.precision, k, fmt.parts, None)
        assert goal is not None
        largest = 2 * (math.log2(goal.root) + goal.shift) + 0.01
        return Prepared(choices[0], leads, kept, k, _plan(problem, largest, None))
    read = [[_Side(*side) for side in pair] for pair in needs.tolist()]
    bits = [sum(side.norm for side in pair) / 256 for pair in read]
    taken = 0 if len(caps) == 1 or bits[0] <= min(EXACT_SHARE * bits[1], MOST_BITS) else 1
    terms = _first_look(read[taken], k, fmt.parts)
    many = caps[taken] is not None
    if leads is not None and terms > k:
        kept, many = LONG_LEAD_BITS[fmt.parts], True
        leads = _look(problem.lines, problem.test, kept, 1)[2]
    plan = _plan(problem, bits[taken], caps[taken])
    return Prepared(choices[taken], leads, kept, min(terms, k), plan, many)


def _look(
    sources: Sequence[Lines | Encoded], test: Certificate | None, kept: int, choices: int
) -> tuple[list[Tensor], Tensor, tuple[Tensor, Tensor] | None]:
    """Surveys of operands, room for their needs, and leading integers if a test wants them."""
    fresh = [source for source in sources if not isinstance(source, Encoded)]
    first = sources[0]
    device = first.planes.device if isinstance(first, Encoded) else first.bits.device
    sizes = [backend.ROWS_OF_TABLE * source.count for source in fresh]
    arena = torch.zeros(sum(sizes) + choices * 2 * 5, dtype=torch.int64, device=device)
    starts = [0, *itertools.accumulate(sizes)]
    tables = [
        arena[start:stop].view(backend.ROWS_OF_TABLE, -1)
        for start, stop in itertools.pairwise(starts)
    ]
    leads = None
    if test is not None:
        planes = 1 if kept <= 7 else 2
        leads = [
            torch.empty((planes, *x.shape[:2], x.pitch), dtype=torch.int8, device=device)
            for x in fresh
        ]
    if fresh:
        backend.survey(fresh, tables, leads, kept)
    known = iter(tables)
    found = [x.lines[0] if isinstance(x, Encoded) else next(known) for x in sources]
    both = None
    if leads is not None and len(sources) == 2:
        new = iter(leads)
        ours, theirs = (x.lines[1] if isinstance(x, Encoded) else next(new) for x in sources)
        both = (ours, theirs)
    elif leads is not None:
        both = (leads[0], leads[0])
    return found, arena[starts[-1] :].view(choices, 2, 5), both


def _tables(
    problem: Problem, looked_at: list[Tensor], cap: int | None, needs: Tensor, *, fresh: bool
) -> tuple[Tensor, Tensor]:
    """Lines scaled at a cap."""
    fmt, k = problem.fmt, problem.shape[2]
    goal = bounds.goal(problem.contract, fmt.precision, k, fmt.parts, cap)
    found = [table.clone() if fresh else table for table in looked_at]
    backend.quantise(problem.lines, found, goal, problem.test, needs.unbind())
    return found[0], found[1]


class _Side(NamedTuple):
    """What a side needs, as `kernels.triton.lines.scale` leaves it."""

    norm: int
    sigma: int
    flags: int
    sparse: int
    inverse: int


def _first_look(sides: list[_Side], k: int, parts: int) -> int:
    """Terms of |A||B| that should certify every element of lines that know nothing of each other.

    With V and U shares c and d of the goal, an element needs (1/c + 1/d)/8 of ||a||_1 ||b||_1 / k
    (complex numbers sqrt(2) of it). Leading integers of mean l lose 1/(2 l) to rounding; four
    standard deviations and a tenth more are added. An element that is left open is tested again.
    More terms than there are means that integers this short will not do.
    """
    wanted = sum(side.inverse for side in sides) / 65536 / 8 * math.sqrt(parts)
    for side in sides:
        mean = 2.0 ** (24 + LEAD_BITS[parts] - bounds.NORM_BITS) / max(side.sparse, 1)
        wanted /= max(1 - 0.5 / mean, 0.1)
    terms = wanted * k
    return math.ceil(1.1 * terms + 4 * math.sqrt(terms))


def _plan(problem: Problem, bits: float, cap: int | None) -> Plan:
    eighths = math.ceil(8 * min(max(bits, 0.0), MOST_BITS))
    encoded = problem.encoded
    layout = encoded[0].layout if encoded and problem.fmt.parts == 2 else None
    assert layout is None or isinstance(layout, Residues)
    return cached_plan(
        problem.contract, problem.fmt, problem.shape, eighths, cap, problem.workspace, layout
    )


@lru_cache(maxsize=1024)
def cached_plan(
    contract: Contract, fmt: Format, shape: tuple[int, int, int, int], eighths: int,
    cap: int | None, workspace: int, layout: Residues | None,
) -> Plan:  # fmt: skip
    """The plan for |X| < 2^(eighths/8), or for the layout of an encoded operand."""
    half = eighths / 16
    plan = make_plan(
        contract, fmt, shape, Needs((half, half), (1, 1)), unit="int8", system="residues", cap=cap,
        workspace=workspace,
    )  # fmt: skip
    reasons = ("int8 tensor cores give the most exact bits a second", *plan.why[2:])
    layout = layout or plan.layout  # type: ignore[assignment]
    assert layout is not None
    return replace(plan, layout=layout, blocks=_blocks(shape, layout, workspace), why=reasons)


def _blocks(shape: tuple[int, int, int, int], layout: Layout, workspace: int) -> Blocks:
    """Blocks whose planes, residues and marks fit beside all lines' tables and leading integers.

    Planes of columns stay while blocks of rows pass, and take half of the room.
    """
    batch, m, k, n = shape
    workspace = max(workspace - batch * (m + n) * (k + 15 + 8 * 9), workspace // 4)
    line, element = (layout.planes[0] + 1) * (k + 15), layout.groups + 2
    whole = (m + n) * line + m * n * element
    if whole <= workspace:
        return Blocks(max(1, min(batch, workspace // whole)), m, n, k)
    columns = _rounded(min(n, workspace // (2 * line)))
    rows = _rounded(min(m, (workspace - columns * line) // (line + columns * element)))
    return Blocks(1, rows, columns, k)


def _rounded(size: int) -> int:
    """A block's size, a multiple of the tiles' if it is large."""
    return size // 768 * 768 if size > 768 else max(size, 1)


def run(
    problem: Problem, out: Tensor, ledger: Clock,
    progress: Callable[[float], None] | None = None,
    bound: Callable[[Prepared, tuple[slice, slice, slice], Tensor], None] | None = None,
) -> Plan:  # fmt: skip
    """Compute the product (k >= 1) into the bits `out`, (parts, batch, m, n), block by block."""
    with ledger.stage("quantise"):
        prepared = prepare(problem)
    plan = prepared.plan
    repaired = torch.zeros((), dtype=torch.int32, device=out.device)
    blocks = list(block_slices(plan))
    kept: dict[str, Any] = {}
    for done, block in enumerate(blocks, start=1):
        batch, rows, columns = block
        marks = _compute(
            problem, prepared, block, out[:, batch, rows, columns], kept, repaired, ledger
        )
        if bound is not None:
            bound(prepared, block, marks)
        if progress is not None:
            torch.cuda.current_stream(out.device).synchronize()
            progress(done / len(blocks))
    if ledger.timed:
        ledger.read()
        ledger.repaired += int(repaired)
    return plan


def _compute(
    problem: Problem, prepared: Prepared, block: tuple[slice, slice, slice], out: Tensor,
    kept: dict[str, Any], repaired: Tensor, ledger: Clock,
) -> Tensor:  # fmt: skip
    """Fill a block of the result; give its marks, which say what was repaired."""
    plan, fmt, k, test = prepared.plan, problem.fmt, problem.shape[2], problem.test
    batch, rows, columns = block
    layout = plan.layout
    assert isinstance(layout, Residues)
    pieces = (rows, columns)
    sides = [side.cut(batch, piece) for side, piece in zip(problem.lines, pieces, strict=True)]
    tables = prepared.tables_of(problem, block)
    scaling = None if problem.scaling is None else problem.scaling.cut(*block)
    scaled: Any = scaling or backend
    marks = None
    if prepared.leads is not None and test is not None:
        with ledger.stage("certify"):
            leads = [
                cuts.planes(lead, batch, piece)
                for lead, piece in zip(prepared.leads, pieces, strict=True)
            ]
            marks = backend.certify(
                leads[0], leads[1], tables, k, test, prepared.kept, prepared.terms
            )
    with ledger.stage("encode"):
        if kept.get("columns") != (batch, columns):  # columns stay while blocks of rows pass
            kept.clear()
        left, right = _planes(problem, sides, tables, layout, block, kept.get("planes"))
        kept["columns"], kept["planes"] = (batch, columns), right
    with ledger.stage("multiply"):
        groups = backend.multiply(left, right, layout, k)
    with ledger.stage("reconstruct"):
        batches = (sides[0].shape[0], sides[1].shape[0])
        final: Tensor = scaled.reconstruct(
            groups, layout, tables, batches, fmt.part, out, marks, slack=plan.cap is not None
        )
    used = sum(x.nbytes for x in (*prepared.tables, *(prepared.leads or ()), right, final))
    ledger.workspace = max(ledger.workspace, used + left.nbytes + groups.nbytes)
    del left, groups
    with ledger.stage("repair"):
        if prepared.many:
            room = max(problem.workspace - used, problem.workspace // 4)
            more = repair_many(sides, tables, fmt, out, final, test, repaired, scaling, room)
            ledger.workspace = max(ledger.workspace, used + more)
        scaled.repair(sides[0], sides[1], tables, fmt.part, out, final, test, repaired)
    return final


def _planes(
    problem: Problem, sides: list[Lines], tables: tuple[Tensor, Tensor], layout: Residues,
    block: tuple[slice, slice, slice], right: Tensor | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Planes of a block of rows and of columns (unless these are known), encoded together."""
    batch, *pieces = block
    planes: list[Tensor | None] = [None, right]
    for at, source in enumerate(problem.sources):
        if isinstance(source, Encoded) and planes[at] is None:
            planes[at] = cuts.planes(source.planes[: layout.planes[0]], batch, pieces[at])
    todo = [at for at in range(2) if planes[at] is None]
    if todo:
        new = backend.encode([sides[at] for at in todo], [tables[at] for at in todo], layout)
        for at, made in zip(todo, new, strict=True):
            planes[at] = made
    ours, theirs = planes
    assert ours is not None
    assert theirs is not None
    return ours, theirs


def encode_operand(
    operand: Lines, dims: tuple[int, ...], side: str, contract: Contract, fmt: Format
) -> Encoded:
    """Planes of a whole operand, enough of them for any operand on the other side.

    The other side is scaled to the same goal, and no 2-norm is above a 1-norm, so its norm is known
    before it is seen; "correct" is quantised at the planner's first cap for this reason.
    """
    k = operand.shape[2]
    cap = first_cap(fmt.precision, k) if contract.correct else None
    goal = bounds.goal(contract, fmt.precision, k, fmt.parts, cap)
    assert goal is not None
    test = None
    if contract.certified_by_data:
        test = bounds.certificate(contract, fmt.precision, k, fmt.parts, 0)
    tables, needs, leads = _look([operand], test, LEAD_BITS[fmt.parts], 1)
    backend.quantise([operand], tables, goal, test, needs[0].unbind())
    other = math.log2(goal.root) + goal.shift + 0.01
    bits = min(max(needs[0, 0].tolist()[0], 0) / 256 + other, MOST_BITS)
    shape = (operand.shape[0], operand.shape[1], k, 1)
    layout = cached_plan(contract, fmt, shape, math.ceil(8 * bits), cap, 1 << 40, None).layout
    assert isinstance(layout, Residues)
    planes = backend.encode([operand], tables, layout)[0]
    lines = (tables[0], None if leads is None else leads[0])
    return Encoded(side, dims, contract, fmt, "int8", "residues", operand, lines, layout, planes)
