"""The kernels that a call will need, told before anything is computed, and without a GPU.

The stages of a product are run on tensors of a CPU that nothing is computed from: instead of being
launched, kernels are noted (`gpu.replay.launch.watched`). What a plan is decided from is made up,
or is what the call itself has read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from widen.contract import CONTRACTS
from widen.encoded import Encoded
from widen.gpu import outlook
from widen.gpu.code.variants import Variant
from widen.gpu.kernels.triton import quantise, reconstruct
from widen.gpu.limbs import architecture_of, expecting
from widen.gpu.planning import Side
from widen.gpu.replay.launch import watched
from widen.planner import typical_needs
from widen.stages.problem import Call
from widen.words import Words

Needs = list[list[list[int]]]
"""(caps, sides, 8): what `quantise.scale` leaves for each goal that lines are scaled to."""


@dataclass(frozen=True)
class Numbers:
    """What operands are made of, as far as a plan asks.

    Attributes
    ----------
    more_bits
        Bits of X beyond what numbers of similar magnitudes need.
    exact
        Whether "correct" keeps every bit of them.
    hard
        Whether lines spread so widely that magnitudes are looked at.
    zeros
        Whether some are 0.
    many_open, all_open
        Whether so many elements are open that they are computed again together; whether all are.
    """

    more_bits: int = 0
    exact: bool = False
    hard: bool = False
    zeros: bool = False
    many_open: bool = False
    all_open: bool = False


ORDINARY = Numbers()


@dataclass
class Watch:
    """Notes kernels, and leaves what they would have found."""

    call: Call
    numbers: Numbers = ORDINARY
    needs: Needs | None = None
    variants: dict[Variant, None] = field(default_factory=dict)
    _scaled: int = 0

    def __call__(self, variant: Variant, arguments: dict[str, Any]) -> None:
        """Instead of a launch."""
        self.variants[variant] = None
        if variant.kernel is quantise.scale:
            for at, side in enumerate(("left", "right")):
                row = self._row(arguments, at)
                arguments[f"{side}_needs"].copy_(torch.tensor(row))
            self._scaled += 1
        elif self.needs is None and self._many_open and "marks" in arguments:
            arguments["marks"].fill_(int(reconstruct.UNSETTLED))

    @property
    def _many_open(self) -> bool:
        return self.numbers.many_open or self.numbers.all_open

    def _row(self, arguments: dict[str, Any], side: int) -> list[int]:
        """Needs of a side, as `quantise.scale` leaves them."""
        numbers, call = self.numbers, self.call
        everything = math.prod(call.shape)
        terms = everything if numbers.all_open else everything // 2 * numbers.many_open
        if self.needs is not None and self._scaled < len(self.needs):
            known = Side(*self.needs[self._scaled][side])
            more = 0 if self._scaled > 0 else terms
            return list(known._replace(open_terms=max(known.open_terms, more)))
        contract = call.contract
        if self.needs is not None:  # a second pass, which leaves nothing open
            contract, terms = CONTRACTS["correct"], 0
        bits = typical_needs(contract, call.work, call.k).bits + numbers.more_bits
        if arguments["root"] == 1 and arguments["goal_shift"] == 0:  # every bit of the operands
            bits += 0 if numbers.exact else 128
        # As `planner.typical_needs` has it: the largest entry is some 16 times the mean.
        sigma = math.ceil(bits / 2 - 0.5 * math.log2(max(call.k * call.work.parts, 1)) + 3)
        kinds = int(quantise.HARD) * numbers.hard + int(quantise.ZEROS) * numbers.zeros
        hopeless = outlook.SAMPLES * numbers.all_open
        return [round(128 * bits), sigma, 0, 1, 1 << 16, kinds, terms, hopeless]


def kernels_of(
    call: Call, run: Callable[[Call], Any], numbers: Numbers | None = None,
    needs: Needs | None = None,
) -> list[Variant]:  # fmt: skip
    """The kernels that a call launches, in their order; `run` computes it, on a CPU's tensors.

    They are those of the call's GPU, or of the one that is expected (`limbs.expecting`).
    """
    if any(isinstance(x, Encoded) for x in (call.left, call.right)):
        return []  # whose planes are on the GPU
    if numbers is None:
        numbers = ORDINARY if needs is None else numbers_of(call, needs)
    watch = Watch(call, numbers, needs)
    with watched(watch), torch.no_grad(), expecting(architecture_of(call.device)):
        run(replace(call, left=_alike(call.left), right=_alike(call.right)))
    return list(watch.variants)


def numbers_of(call: Call, needs: Needs) -> Numbers:
    """What a call's numbers are like, given their needs: hard lines may need a second pass.

    It takes as many more bits than usual as the first. "correct" has no second pass of this kind.
    """
    sides = [Side(*row) for row in needs[0]]
    if call.contract.correct or not any(side.kinds & int(quantise.HARD) for side in sides):
        return ORDINARY
    usual = typical_needs(call.contract, call.work, call.k).bits
    more = sum(side.norm for side in sides) / 256 - usual
    return Numbers(max(math.ceil(more), 0), hard=True, many_open=True)


def _alike(x: Any) -> Any:
    """An operand of the same kind and layout, on a CPU."""
    if isinstance(x, Words):
        return Words.of(x.format, [_alike(plane) for plane in x.planes])
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)
