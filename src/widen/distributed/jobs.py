"""A call of sharded operands, checked and planned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch.distributed.tensor import Replicate, Shard

from widen.calls import check, dispatch
from widen.cpu.partial import width_of
from widen.distributed.boxes import Placements, boxes, count
from widen.distributed.operands import Sharded, sharded
from widen.distributed.plans import DistributedPlan, Shapes, choose
from widen.formats import PLAIN
from widen.formats.arrays import format_of_array
from widen.options import Options
from widen.plan import Plan
from widen.planner import make_plan, typical_needs
from widen.stages.problem import Call, Scalars
from widen.systems import Residues
from widen.words import Words


@dataclass(frozen=True)
class Job:
    """A checked call of sharded operands, and its plan."""

    call: Call
    left: Sharded
    right: Sharded
    addend: Sharded | None
    scalars: Scalars
    options: Options
    plan: DistributedPlan

    @property
    def said(self) -> str:
        """What was asked for, which must be the same in all processes."""
        call, scalars = self.call, self.scalars
        operands = [x for x in (self.left, self.right, self.addend) if x is not None]
        operands_said = ", ".join(
            f"{x.name} {x.shape} {format_of_array(x.local).name} {list(x.placements)}"
            for x in operands
        )
        extra = "" if scalars.trivial else f", alpha={scalars.alpha}, beta={scalars.beta}"
        if scalars.c is not None and self.addend is None:
            extra += f", c={scalars.c}"
        return (
            f"{operands_said}, accuracy={call.contract}, result {call.fmt.name} "
            f"{list(self.plan.wanted)}, unit={call.unit}, system={call.system}, "
            f"workspace={call.workspace}, info={self.options.info}{extra}"
        )


def job_of(
    a: Sharded, b: Sharded, scalars: Scalars, out: Any, options: Options,
    out_placements: Placements | None,
) -> Job:  # fmt: skip
    """Check a call, and plan it."""
    if options.plan is not None:
        raise TypeError("plan= is not served for DTensors; leave it out")
    addend = None
    if scalars.c is not None and not isinstance(scalars.c, (float, complex, int)):
        addend = sharded(scalars.c, "c")
        if addend.mesh != a.mesh:
            raise ValueError("c lies on another mesh than a and b; redistribute it")
    complex_scalars = isinstance(scalars.alpha, complex) or isinstance(scalars.beta, complex)
    if scalars.c is not None:
        complex_scalars |= (
            isinstance(scalars.c, complex)
            if addend is None
            else format_of_array(addend.local).parts == 2
        )
    place = str(a.planes[0].device)
    room = dispatch.workspace_of("numpy" if place == "cpu" else place, options.workspace)
    call = check.check_call(
        _stand_in(a), _stand_in(b), options, room, complex_scalars=complex_scalars
    )
    dispatch.wing_of(place).check_unit(call.unit, a.planes[0].device if place != "cpu" else None)
    if addend is not None:
        _check_broadcast(addend.shape, call.dims)
    if out is not None:
        target = sharded(out, "out")
        if (target.shape, format_of_array(target.local).name) != (call.dims, call.fmt.name):
            raise ValueError(
                f"out has shape {target.shape} and format {format_of_array(target.local).name}; "
                f"the result has {call.dims} and {call.fmt.name}"
            )
        if out_placements is None:
            out_placements = target.placements
    left, right = a.with_matrix_axes("left"), b.with_matrix_axes("right")
    shapes = _shapes(call, left, right, scalars, options)
    gone = gone_axes(call)
    wanted = None if out_placements is None else _with_axes(out_placements, gone, shapes.result)
    held = (left.placements, right.placements)
    chosen, result = choose(shapes, held, wanted)
    if wanted is None:  # an axis that a vector takes away cannot be cut
        wanted = tuple(Replicate() if isinstance(p, Shard) and p.dim in gone else p for p in result)
    words = tuple(form.word for form in chosen)
    lefts, rights = tuple(f.left for f in chosen), tuple(f.right for f in chosen)
    likely = _likely(call)
    plan = DistributedPlan(
        shapes, words, held, lefts, rights, result, wanted, False, likely
    )  # fmt: skip
    plan = replace(plan, panels=_in_panels(call, plan))
    return Job(call, left, right, addend, scalars, options, plan)


def _stand_in(x: Sharded) -> Any:
    """A tensor (or words) of the whole shape that takes no memory, to be checked."""
    if x.words is None:
        return x.planes[0].new_empty(()).expand(x.shape)
    return Words.of(
        x.words, [p.new_empty((p.shape[0], *[1] * x.ndim)).expand(-1, *x.shape) for p in x.planes]
    )


def _check_broadcast(shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
    pairs = zip(reversed(shape), reversed(dims), strict=False)
    if len(shape) > len(dims) or any(x not in (1, y) for x, y in pairs):
        raise ValueError(f"c has shape {shape}, which does not broadcast to the result's {dims}")


def _shapes(
    call: Call, left: Sharded, right: Sharded, scalars: Scalars, options: Options
) -> Shapes:
    result = (*call.batch, call.m, call.n)
    widths = {"float64": 8, "float32": 4}
    words = sum(widths.get(word.name, 2) for word in call.fmt.part.words)
    size = words * call.fmt.parts
    served = call.system in (None, "residues") and options.info is False and scalars.alpha != 0
    packed = None
    if served:
        packed = (_packed_on_gpu if is_on_gpu(left) else _packed_on_cpu)(call, scalars)
    return Shapes(
        left.shape, right.shape, result,
        (left.bytes_an_element, right.bytes_an_element, size), packed, tuple(left.mesh.shape),
    )  # fmt: skip


def is_on_gpu(x: Sharded) -> bool:
    """Whether an operand lies on GPUs."""
    return x.planes[0].device.type == "cuda"


def _packed_on_cpu(call: Call, _: Scalars) -> int | None:
    """Bytes in which an element's exact part travels; None where that is not served."""
    if call.unit not in (None, "fp64"):
        return None
    needs = typical_needs(call.contract, call.work, call.k)
    return call.work.parts * width_of(needs.bits) + call.contract.certified_by_data


def _packed_on_gpu(call: Call, scalars: Scalars) -> int | None:
    """The same of residues of int8; numbers of several words are not served."""
    given = (call.left, call.right, scalars.c)
    if call.unit not in (None, "int8") or call.k == 0 or call.fmt.name not in PLAIN:
        return None
    if any(isinstance(x, Words) for x in given):
        return None
    plan = _likely(replace(call, unit="int8", system="residues"))
    assert isinstance(plan.layout, Residues)
    return call.work.parts * len(plan.layout.moduli) + call.contract.certified_by_data


def _with_axes(placements: Placements, gone: list[int], result: tuple[int, ...]) -> Placements:
    """Placements of a result without the axes that vectors take away, as those of matrices."""
    kept = [axis for axis in range(len(result)) if axis not in gone]
    of_matrices: list[Any] = []
    for placement in placements:
        if isinstance(placement, Shard):
            if not -len(kept) <= placement.dim < len(kept):
                raise ValueError(f"{placement} is no placement of a result with {len(kept)} axes")
            of_matrices.append(Shard(kept[placement.dim]))
        elif placement.is_replicate():
            of_matrices.append(Replicate())
        else:
            raise ValueError(f"a result cannot be placed as {placement}; use Shard or Replicate")
    return tuple(of_matrices)


def _likely(call: Call) -> Plan:
    """The plan of lines of similar magnitudes."""
    needs = typical_needs(call.contract, call.work, call.k)
    return make_plan(
        call.contract, call.work, call.shape, needs, unit=call.unit, system=call.system,
        workspace=call.workspace,
    )  # fmt: skip


def _in_panels(call: Call, plan: DistributedPlan) -> bool:
    """Whether gathered operands would not fit the workspace, and can pass in panels instead.

    On a mesh of two axes, both operands cut by both.
    """
    shapes = plan.shapes
    if shapes.packed is None or sorted(plan.forms) != ["columns", "rows"]:
        return False
    rows, columns = plan.forms.index("rows"), plan.forms.index("columns")
    nd = len(shapes.left), len(shapes.right)
    ours, theirs = plan.held
    if (ours[rows], ours[columns]) != (Shard(nd[0] - 2), Shard(nd[0] - 1)):
        return False
    if (theirs[rows], theirs[columns]) != (Shard(nd[1] - 2), Shard(nd[1] - 1)):
        return False
    taken = max(
        shapes.bytes[0] * count(x) + shapes.bytes[1] * count(y)
        for x, y in zip(
            boxes(shapes.left, plan.left, shapes.mesh),
            boxes(shapes.right, plan.right, shapes.mesh),
            strict=True,
        )
    )
    return taken > call.workspace // 2 and len(shapes.left) == len(shapes.right) == 2


def gone_axes(call: Call) -> list[int]:
    """Axes of the result as a matrix that it does not have, because a or b is a vector."""
    nd = len(call.batch) + 2
    sides = ((nd - 2, call.left), (nd - 1, call.right))
    return [axis for axis, x in sides if len(x.shape) == 1]
