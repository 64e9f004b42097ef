"""Recorded launches, issued again: at other addresses, on the current stream, with a check.

Where all memory is taken in one piece a call of the driver depends on a few addresses and on the
stream alone. PyTorch gives the same memory again and again, so calls are kept with what they are
given, and made as they are when addresses come back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from widen.gpu.replay import driver, private
from widen.gpu.replay.driver import Call, Movable, Move
from widen.gpu.replay.memory import Arena, Step, View
from widen.gpu.replay.reading import Reading, numbers_of

Tensor = torch.Tensor
Results = Sequence[Tensor]

_reading = Reading()

MOST_KNOWN = 16
"""Numbers whose choices a guess remembers: data that come back ask for no new decision."""


@dataclass(frozen=True)
class Guess:
    """What was decided from numbers on the device, int64, and how."""

    numbers: View
    decide: Callable[[Any], Any]
    choice: Any
    known: dict[bytes, tuple[Any, bool]] = field(default_factory=dict, compare=False)

    def begin(self, device: torch.device, blocks: list[Any], addresses: list[int]) -> None:
        """Begin to read the numbers."""
        view = self.numbers
        if device.type == "cuda":
            size = 8 * math.prod(view.shape)
            _reading.begin(addresses[view.block] + view.offset, size, device.index)
        else:
            _reading.begin_here(view.of(blocks))

    def checked(self) -> tuple[Any, bool]:
        """What should have been chosen, and whether the guess covers it; waits for the numbers."""
        data = _reading.end()
        found = self.known.get(data)
        if found is None:
            choice = self.decide(numbers_of(data, self.numbers.shape))
            found = choice, self.choice.covers(choice)
            if len(self.known) >= MOST_KNOWN:
                self.known.clear()
            self.known[data] = found
        return found


@dataclass(frozen=True)
class Part:
    """Launches up to the place where a guess is checked, if there is one."""

    steps: list[Step]
    guess: Guess | None


class Bound:
    """The calls of a recording for one set of addresses, which are changed for another.

    Whoever uses it has it alone, since arguments are in one place.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self._movers = [[_mover(step) for step in part.steps] for part in parts]
        self._guesses = [part.guess for part in parts]
        self.parts: list[tuple[list[Call], Guess | None]] = []

    def move(self, addresses: list[int], stream: int) -> None:
        """Be for these."""
        calls = ([move(addresses, stream) for move in movers] for movers in self._movers)
        self.parts = list(zip(calls, self._guesses, strict=True))


def _mover(step: Step) -> Move:
    """What gives a step as a call of the driver, or as one of ours, which answers nothing."""
    if isinstance(step, Movable):
        return step.mover()
    return lambda addresses, _: (step, ([], addresses))


class Recording:
    """The launches of one kind of call.

    Parameters
    ----------
    parts
        Launches, and guesses that are checked behind them.
    before, count
        Tensors that are given, which are the first blocks of memory; and all blocks.
    make
        Takes memory for the tensors of a result, the blocks behind those that are given.
    results
        How many they are.
    device
        Where they are.
    arena
        The memory of all other blocks, where that is in one piece.
    held
        Tables that launches point at.
    """

    MOST = 4
    """Sets of addresses that are kept, of some ten kilobytes each."""

    def __init__(
        self, parts: list[Part], *, before: int, count: int, make: Callable[[], Results],
        results: int, device: torch.device, arena: Arena | None, held: list[Tensor],
    ) -> None:  # fmt: skip
        self.parts, self.before, self.count, self.results = parts, before, count, results
        self.make, self.device, self.arena, self.held = make, device, arena, held
        self._stream = private.stream_reader()
        self._bound: dict[tuple[int, ...], Bound] = {}

    @property
    def choice(self) -> Any:
        """The choice that it was recorded with, the first of them."""
        return next((part.guess.choice for part in self.parts if part.guess is not None), None)

    def take(self, blocks: list[Any], addresses: list[int]) -> None:
        """Take memory for a result, unless there is some."""
        if blocks[self.before] is None:
            made = self.make()
            behind = slice(self.before, self.before + self.results)
            blocks[behind], addresses[behind] = made, [x.data_ptr() for x in made]

    def issue(self, operands: Sequence[Tensor], out: Results | None) -> tuple[Results | None, Any]:
        """Issue the launches for these tensors; give the result, and the choice it should have had.

        There is no result if a recorded choice does not cover what it should have been.
        """
        if self.device.type == "cuda":
            driver.enter(self.device.index)
        if self.arena is not None:
            return self._issue_bound(operands, out, self.arena)
        missing = self.count - self.before - self.results
        given = [None] * self.results if out is None else out
        blocks: list[Any] = [*operands, *given, *[None] * missing]
        addresses = [0 if x is None else x.data_ptr() for x in blocks]
        first = None
        for part in self.parts:
            for step in part.steps:
                step(blocks, addresses)
            if part.guess is not None:
                choice, covered = part.guess.checked()
                first = choice if first is None else first
                if not covered:
                    return None, first
        return blocks[self.before : self.before + self.results], first

    def _issue_bound(
        self, operands: Sequence[Tensor], out: Results | None, arena: Arena
    ) -> tuple[Results | None, Any]:
        """The same by calls that are kept."""
        result, room = self.make() if out is None else out, arena.take()
        stream = self._stream(self.device.index)
        key = (
            stream, room.data_ptr(), *[x.data_ptr() for x in operands],
            *[x.data_ptr() for x in result],
        )  # fmt: skip
        bound = self._bound.pop(key, None)  # nobody else has it meanwhile
        if bound is None:
            bound = self._moved(key)
        first = None
        for calls, guess in bound.parts:
            for run, given in calls:
                status = run(*given)
                if status:
                    driver.check(status)
            if guess is not None:
                choice, covered = guess.checked()
                first = choice if first is None else first
                if not covered:
                    self._bound[key] = bound
                    return None, first
        self._bound[key] = bound
        return result, first

    def _moved(self, key: tuple[int, ...]) -> Bound:
        """Calls at other addresses: new ones, or those that were not used for longest."""
        bound = None
        if len(self._bound) >= self.MOST:
            oldest = next(iter([*self._bound]), None)
            bound = self._bound.pop(oldest, None) if oldest is not None else None
        if bound is None:
            bound = Bound(self.parts)
        stream, base, *given = key
        addresses = [*given, *[0] * (self.count - len(given))]
        assert self.arena is not None
        for index, start in self.arena.places:
            addresses[index] = base + start
        bound.move(addresses, stream)
        return bound


def beginning(guess: Guess, device: torch.device) -> Step:
    """The step that begins to read what a guess depends on."""
    return partial(guess.begin, device)
