"""Certificates on a GPU: which elements keep their contract, and by how much."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from widen.bounds import Certificate
from widen.formats import Format, Part
from widen.gpu import tiles
from widen.gpu.constants import constant
from widen.gpu.kernels.cuda import certify as cuda_kernels
from widen.gpu.kernels.cuda.launcher import is_hopper
from widen.gpu.kernels.triton import error_bounds as kernels
from widen.gpu.kernels.triton import multiply as multiply_kernels
from widen.gpu.kernels.triton import small as small_kernels
from widen.gpu.kernels.triton.numbers import NONZEROS, STEP, SUM, WEIGHT
from widen.gpu.lines import MAGNITUDES, SATURATED, leads_again
from widen.gpu.multiply import are_small, descriptor, launch_small
from widen.gpu.operands import Lines, Tensor, float64_bits
from widen.gpu.replay.driver import is_gpu
from widen.gpu.replay.launch import general, launch, programs
from widen.gpu.replay.recording import listener
from widen.gpu.scaling import Scaling
from widen.stages.compiling.once import once
from widen.stages.error_bounds import Terms, ulps_by_field
from widen.stages.exactness import addend_units, highest_place

FEW_TERMS = 1 << 25
"""Of elements that leads of numbers near the mean leave open: fewer are tested one by one."""


@dataclass(frozen=True)
class Counts:
    """Numbers on the device.

    Attributes
    ----------
    open_terms
        How many terms elements have that are to be repaired, as far as it is known.
    doubtful
        How many elements leading integers have left open.
    """

    open_terms: Tensor
    doubtful: Tensor


def certify(
    left: Tensor, right: Tensor, tables: tuple[Tensor, Tensor], k: int, test: Certificate, *,
    fmt: Format, kept: int, terms: int, counts: Counts, sides: tuple[Lines, Lines],
) -> Tensor:  # fmt: skip
    """Marks (batch, m, n) of elements that are not certified: `look` at the leads of lines.

    Where the first terms of leads, or those near the mean, leave more than a few elements open,
    magnitudes decide: launches that otherwise end at once, so that nobody waits for the device.
    """
    marks = look(left, right, tables, k, test, fmt=fmt, kept=kept, terms=terms, counts=counts)
    if kept == MAGNITUDES or (kept < SATURATED and terms >= k):
        return marks
    few = FEW_TERMS // k
    left, right = leads_again(sides, tables, MAGNITUDES, counts.doubtful, few)
    return look(
        left, right, tables, k, test, fmt=fmt, kept=MAGNITUDES, terms=k, counts=counts,
        before=(marks, few),
    )  # fmt: skip


def look(
    left: Tensor, right: Tensor, tables: tuple[Tensor, Tensor], k: int, test: Certificate, *,
    fmt: Format, kept: int, terms: int, counts: Counts,
    before: tuple[Tensor, int] | None = None,
) -> Tensor:  # fmt: skip
    """Marks (batch, m, n) of elements that one look does not certify.

    At the first `terms` leading integers, (1, batch, lines, pitch), of `kept` bits beside the
    first; or at all magnitudes, as bfloat16, where marks of a look `before` stay as they are if no
    more than so many are doubtful. Where products were left out no line counts as exact in `tables`
    (`units.Engine.fitted`). Weights and steps are in float32 here, so they are counted in units
    near those of lines at their goal.
    """
    _, left_batch, m, _ = left.shape
    _, right_batch, n, _ = right.shape
    batch, unit = max(left_batch, right_batch), fmt.precision
    row_table, column_table = tables
    common = {"rows_table": row_table, "columns_table": column_table, "unit": unit}
    if left.dtype == torch.bfloat16:
        # Sums of k exact products in float32: tensor cores add up to 32 at a time to what is there,
        # and leave out of each what is below 2^-23 of the largest, at most. Those of two parts were
        # rounded down once more.
        error = 2.0**-22 * (k + 16)
        closely = {
            **common, "open_terms": counts.open_terms, "down": 1 - error,
            "up": (1 + error) * (1 + (fmt.parts - 1) * 2.0**-6), "entry": _above(test.entry, -unit),
            "both": _above(test.both, -2 * unit), "dropped": _above(test.dropped, -2 * unit),
            "PLAIN": is_gpu(left.device),
        }  # fmt: skip
        if before is None:
            before = torch.empty((batch, m, n), dtype=torch.uint8, device=left.device), -1
            if are_small(left, right, k):
                launch_small(
                    small_kernels.certify, 1, left, right, k, {**closely, "marks": before[0]}
                )
                return before[0]
        marks, few = before
        kernel, terms = multiply_kernels.certify_closely, k
        more = {**closely, "doubtful": counts.doubtful, "few": few}
        small = batch * m * n < tiles.MANY_ELEMENTS
        tile = tiles.CERTIFY_FEW_CLOSELY if small else tiles.CERTIFY_CLOSELY
    else:
        terms = min(terms, k, tiles.LONGEST_SUM)
        saturated, kept = kept >= SATURATED, kept % SATURATED
        lift = 2 * kept - unit
        both = _above(k * test.both + test.dropped, lift - unit)
        if is_hopper(left.device):
            marks = torch.zeros((batch, m, n), dtype=torch.uint8, device=left.device)
            run = cuda_kernels.launcher(
                left, right, k, terms, unit=unit, lift=lift, saturated=saturated, both=both
            )
            rows = [table[int(row)] for table in tables for row in (STEP, WEIGHT, SUM, NONZEROS)]
            given = (left, right, marks, counts.doubtful, *rows)
            run(*(tensor.data_ptr() for tensor in given))
            recorder = listener()
            if recorder is not None:
                recorder.launched(given, run, tensors=False, bind=run.bind)
            return marks
        marks = torch.empty((batch, m, n), dtype=torch.uint8, device=left.device)
        kernel, tile = multiply_kernels.certify, tiles.CERTIFY
        more = {
            **common, "lift": lift, "both": both, "doubtful": counts.doubtful,
            "SATURATED": saturated,
        }  # fmt: skip
    count = batch * -(-m // tile.rows) * -(-n // tile.columns)
    launch(
        kernel, (programs(left.device, count, tile.warps),),
        {
            **tile.named, **more, "left": descriptor(left, k, tile.rows, tile.inner),
            "right": descriptor(right, k, tile.columns, tile.inner), "marks": marks,
            "m": m, "n": n, "k": terms,
            "batch": batch, "left_batch": left_batch, "right_batch": right_batch,
        },
        warps=tile.warps, stages=tile.stages,
    )  # fmt: skip
    return marks


def _above(x: float, exponent: int) -> float:
    """A float32 that is not below x 2^exponent, 2^-100 at least unless x is 0."""
    if x == 0 or math.isinf(x):
        return x
    mantissa, own = math.frexp(x)
    if own + exponent > 127:
        return math.inf
    return max(math.ldexp(math.ceil(mantissa * 2.0**24), own + exponent - 24), 2.0**-100)


BYTES_AN_ELEMENT = 100
"""Of what is there at one time while the units of an addend are worked out, about."""

MOST_AT_ONCE = 1 << 23
"""Elements whose addends' units are worked out at a time, at most."""


@dataclass
class Largest:
    """The largest bound of a finite element (0 if there is none), and how many there are.

    They stay on the device until they are read.
    """

    bound: Tensor
    finite: Tensor

    @classmethod
    def of_nothing(cls, where: torch.device) -> Largest:
        """Before any element is looked at."""
        return cls(
            torch.zeros((), dtype=torch.float64, device=where),
            torch.zeros((), dtype=torch.int64, device=where),
        )

    def take(self, bounds: Tensor, finite: Tensor) -> None:
        """Look at the largest bounds and the numbers of finite elements of some tiles."""
        self.bound = torch.maximum(self.bound, bounds.amax())
        self.finite = self.finite + finite.sum()


def error_bound(
    tables: tuple[Tensor, Tensor], fmt: Part, out: Tensor, rounded_once: Tensor, terms: Terms,
    *, scaling: Scaling | None, room: int, target: Tensor | None, largest: Largest,
) -> None:  # fmt: skip
    """`error_bounds.bound_of` for `out`, (parts, batch, m, n), into `target` if there is one.

    So many elements at a time as there is room (bytes) for the units of an addend.
    """
    _, batch, m, n = out.shape
    rows, columns = (table.view(len(table), -1, k) for table, k in zip(tables, (m, n), strict=True))
    most = batch * m * n
    if scaling is not None and scaling.addend is not None:
        most = min(room // BYTES_AN_ELEMENT, MOST_AT_ONCE)
    items, height = max(1, most // (m * n)), max(1, most // n)
    for b in range(0, batch, items):
        for i in range(0, m, height):
            block = slice(b, b + items), slice(i, i + height)
            _bounds_of(
                (_cut(rows, *block), _cut(columns, block[0])), fmt, out[:, *block],
                rounded_once[block], terms, units=_units(scaling, block),
                target=None if target is None else target[block], largest=largest,
            )  # fmt: skip


def _bounds_of(
    tables: tuple[Tensor, Tensor], fmt: Part, values: Tensor, rounded_once: Tensor, terms: Terms,
    *, units: Tensor | None, target: Tensor | None, largest: Largest,
) -> None:  # fmt: skip
    """The same for elements of which all is there."""
    parts, batch, m, n = values.shape
    part, item, row, column = values.stride()
    where, tile = values.device, tiles.BOUNDS
    count = batch * -(-m // tile.rows) * -(-n // tile.columns)
    most = torch.empty(count, dtype=torch.float64, device=where)
    finite = torch.empty(count, dtype=torch.int64, device=where)
    target_strides = (0, 0, 0) if target is None else target.stride()
    launch(
        general(kernels.bounds), (count,),
        {
            "values": values, "rounded_once": rounded_once.contiguous().view(torch.uint8),
            "addend_units": finite if units is None else units.contiguous(),
            "target": most if target is None else target, "largest": most, "finite": finite,
            "ulps": _ulps(fmt, where), "rows_table": tables[0], "columns_table": tables[1],
            "m": m, "n": n, "left_batch": tables[0].shape[1] // m,
            "right_batch": tables[1].shape[1] // n, "part_stride": part, "batch_stride": item,
            "row_stride": row, "column_stride": column, "target_batch_stride": target_strides[0],
            "target_row_stride": target_strides[1], "target_column_stride": target_strides[2],
            "both": float64_bits(terms.both), "always": float64_bits(terms.always),
            "factor": float64_bits(terms.factor), "moved": terms.exponent,
            "alpha_unit": terms.unit, "precision": fmt.precision, "lowest": fmt.lowest,
            "highest": highest_place(fmt), "PARTS": parts, "ADDED": units is not None,
            "STORED": target is not None, "ROWS": tile.rows, "COLUMNS": tile.columns,
        },
        warps=tile.warps, exact=True,
    )  # fmt: skip
    largest.take(most, finite)


@once
def _ulps(fmt: Part, where: torch.device) -> Tensor:
    """`error_bounds.ulps_by_field` on a device."""
    return constant(ulps_by_field(fmt), torch.float64, where)


def _units(scaling: Scaling | None, block: tuple[slice, slice]) -> Any:
    """Units of beta c, of some batch items and rows; None if there is no c."""
    if scaling is None or scaling.addend is None:
        return None
    return addend_units(scaling.addend.numbers[:, :, *block].double(), scaling.beta)


def _cut(table: Tensor, batch: slice, lines: slice = slice(None)) -> Tensor:
    """A table of some lines of some batch items; a batch of 1 stays whole."""
    batch = slice(None) if table.shape[1] == 1 else batch
    return table[:, batch, lines].reshape(len(table), -1).contiguous()
