"""Reconstruction on a GPU: residues to one exact integer, rounded once into the result."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from widen import bounds
from widen.bounds import Certificate
from widen.formats import Binary, Format
from widen.gpu import constants, tiles
from widen.gpu.kernels.triton import crt, crt_scaling
from widen.gpu.kernels.triton import reconstruct as reconstruct_kernels
from widen.gpu.kernels.triton import scaling as scaling_kernels
from widen.gpu.limbs import REGISTERS, limbs_of_bytes
from widen.gpu.limbs import reconstruction as in_limbs
from widen.gpu.operands import Groups, Lines, Numbers, Target, Tensor, float64_bits
from widen.gpu.replay.driver import processors
from widen.gpu.replay.launch import Launching, assembly, general, prepared
from widen.gpu.replay.meanwhile import soonest
from widen.gpu.scaling import Scaling
from widen.systems import Residues


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
        test = self.test
        # Where nothing is tested, numbers of the usual type: kernels are compiled for types.
        numbers = (1.0, 1.0, 0.0) if test is None else (test.entry, test.both, test.dropped)
        entry, both, dropped = map(float64_bits, numbers)
        return {"tested": test is not None, "entry": entry, "both": both, "dropped": dropped}


def named_elements(out: Tensor) -> dict[str, Any]:
    """Elements of one word and their strides, as kernels name them."""
    part, batch, row, column = out.stride()
    return {
        "out": out, "part_stride": part, "batch_stride": batch, "row_stride": row,
        "column_stride": column,
    }  # fmt: skip


def reconstruct(
    groups: Tensor | Groups, layout: Residues, block: ResultBlock, marks: Tensor | None, *,
    slack: bool,
) -> Tensor:  # fmt: skip
    """Round X (or alpha X + beta c) into the block, once; give the marks of what is not final.

    Large results of plain operands have kernels that are compiled for their moduli; small ones, and
    those that are wide or whose operands or addend are, have kernels that serve any list of them,
    as do others that are not large while theirs are being compiled.
    """
    out, scaling = block.out, block.scaling
    if block.wide or math.prod(out.shape[1:]) <= tiles.SMALL:
        return reconstruct_any(groups, layout, block, marks, slack=slack)
    assert isinstance(block.fmt.part, Binary)
    assert isinstance(out, torch.Tensor)
    assert isinstance(groups, torch.Tensor)
    parts, batch, m, n = out.shape
    fresh = marks is None
    if marks is None:
        marks = torch.empty((batch, m, n), dtype=torch.uint8, device=out.device)
    in_words = scaling is not None or slack or block.fmt.part.precision < 24  # halves
    limbs = 0 if in_words else limbs_of_bytes(layout, parts, out.device)
    more: dict[str, Any]
    if scaling is None:
        kernel = reconstruct_kernels.round_residues
        tile, height = tiles.reconstruct_tile(parts, len(layout.moduli), batch, m, n)
        more = {"height": height, "LIMBS": limbs, "ASSEMBLY": assembly(out.device)}
    else:
        kernel = scaling_kernels.round_scaled
        tile, height = tiles.RECONSTRUCT_LONG, tiles.RECONSTRUCT_LONG.rows
        used = tuple(int(x != 0) for x in scaling.numbers)
        more = {**scaling.named(out), "alpha_bits": scaling.alpha_bits, "USED": used}
    if limbs:
        (basis, modulus, inverse), taken = in_limbs(layout, limbs), 0
    else:
        basis, modulus, taken, inverse = constants.reconstruction(layout)
    launching = prepared(
        kernel, (batch * -(-m // height) * -(-n // tile.columns),),
        {
            **block.named, **named_elements(out), **more, "groups": groups, "marks": marks,
            "pitch": groups.shape[-1], "stream": groups.stride(0),
            "limit": constants.limit_of(layout), "always": bounds.least_error(layout.dropped),
            "BASIS": basis, "MODULUS": modulus, "TAKEN": taken, "INVERSE": inverse, "SLACK": slack,
            "MARKED": not fresh, "ROWS": tile.rows, "COLUMNS": tile.columns,
        },
        warps=tile.warps, registers=REGISTERS.get(limbs),
    )  # fmt: skip
    if scaling is None and batch * m * n <= tiles.MEANWHILE:
        any_moduli = partial(_by_any, groups, layout, block, marks, slack=slack, fresh=fresh)
        soonest([launching], lambda: [any_moduli()])
    else:
        launching.make()
    return marks


def reconstruct_any(
    groups: Tensor | Groups, layout: Residues, block: ResultBlock, marks: Tensor | None, *,
    slack: bool,
) -> Tensor:  # fmt: skip
    """The same by the kernels that serve every list of moduli, and numbers of several words."""
    fresh = marks is None
    if marks is None:
        marks = torch.empty(block.out.shape[1:], dtype=torch.uint8, device=block.out.device)
    _by_any(groups, layout, block, marks, slack=slack, fresh=fresh).make()
    return marks


def _by_any(
    groups: Tensor | Groups, layout: Residues, block: ResultBlock, marks: Tensor, *, slack: bool,
    fresh: bool,
) -> Launching:  # fmt: skip
    """What does so; `fresh` marks have nothing yet."""
    out, scaling = block.out, block.scaling
    parts, batch, m, n = out.shape
    # Plans of plain numbers that come here depend on the data: they share the small ones' kernels.
    small = batch * m * n <= tiles.SMALL or len(block.fmt.part.words) == 1
    apart = isinstance(groups, torch.Tensor) and groups.dtype == torch.int32
    table, limbs = constants.any_reconstruction(layout, small, out.device, apart=apart)
    columns, warps, running, registers = tiles.any_tile(limbs, alone=small or scaling is not None)
    programs = min(batch * m * -(-n // columns), processors(out.device) * running)
    short, long = groups, groups
    if isinstance(groups, Groups):
        short, long = groups.short, groups.long
    assert isinstance(short, torch.Tensor)
    assert isinstance(long, torch.Tensor)
    count = layout.bases.count(0) if layout.bases else len(layout.moduli)
    room = parts * limbs if limbs else constants.any_room(table, parts)
    scratch = torch.empty(programs * room * columns, dtype=torch.int32, device=out.device)
    more: dict[str, Any]
    if scaling is None:
        kernel = general(crt.round_any) if small else crt.round_any
        more = {"held": layout.modulus.bit_length()}
    else:
        kernel = crt_scaling.round_any_scaled
        span = room // parts + tiles.FURTHEST_LIMBS
        sums = torch.empty(programs * span * columns, dtype=torch.int64, device=out.device)
        more = {
            "sums": sums, "span_held": span, "alpha_bits": scaling.alpha_bits,
            **scaling.named_words(out.device),
        }  # fmt: skip
    return prepared(
        kernel, (programs,),
        {
            **block.named, **block.numbers.named, **more, "groups": short, "marks": marks,
            "batch": batch, "pitch": short.shape[-1], "stream": short.stride(0),
            "limit": constants.limit_of(layout), "always": bounds.least_error(layout.dropped),
            "slack": int(slack), "marked": int(not fresh), "basis": table, "moduli": count,
            "length": table.shape[1], "scratch": scratch, "room": room,
            "long_groups": long, "long_stream": long.stride(0),
            "long_moduli": len(layout.moduli) - count, "COLUMNS": columns,
            "ASSEMBLY": assembly(out.device), "LIMBS": limbs,
            "LONG": limbs > 0 and len(layout.moduli) > count,
        },
        warps=warps, registers=registers,
    )  # fmt: skip
