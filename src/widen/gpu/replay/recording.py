"""Launches of a call, kept and issued again for other operands of the same kind.

A product on a GPU is some ten launches. But for addresses their arguments depend on shapes,
strides, formats and the plan alone, and working them out takes Python longer than a small product
takes the GPU. So the first call of a kind is recorded: memory that was taken, launches, and where
their arguments were. Calls after it take memory of the same sizes and issue the same launches.

The plan is then a guess, the one of the last call. What it was decided from is read again while the
device computes, and before the last launches the guess is checked: elements of a wrong one would be
repaired one by one, so the call starts again with a plan that was decided properly. A product with
a second pass has another guess for that, which is checked where the second pass ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from triton.tools.tensor_descriptor import TensorDescriptor

from widen.gpu.code import workers
from widen.gpu.replay import driver
from widen.gpu.replay.memory import TOGETHER, Block, Step, in_time, taken_together
from widen.gpu.replay.reading import Reading

Tensor = torch.Tensor
Run = Callable[..., None]

EMPTY = {torch.ops.aten.empty.memory_format, torch.ops.aten.zeros.default}
"""Operations that take memory; whatever else is not a view cannot be issued again."""


# ── what is noted ────────────────────────────────────────────────────────────────────────────────


class View(NamedTuple):
    """A tensor in a block of memory, `offset` bytes after its beginning."""

    block: int
    offset: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]

    def of(self, blocks: Sequence[Tensor]) -> Tensor:
        """The tensor, in other blocks."""
        block = blocks[self.block]
        start = block.storage_offset() * block.element_size() + self.offset
        made = torch.empty(0, dtype=self.dtype, device=block.device)
        return made.set_(
            block.untyped_storage(), start // self.dtype.itemsize, self.shape, self.stride
        )


class Address(NamedTuple):
    """All that a launch asks of a tensor of bytes."""

    address: int
    dtype: torch.dtype = torch.int8

    def data_ptr(self) -> int:
        """Where it begins."""
        return self.address


Bind = Callable[[list[Any], list[tuple[int, int, int]]], Step | None]
"""What makes a launch of arguments that stay, but for (argument, block, offset) of some."""


@dataclass(frozen=True)
class Guess:
    """What was decided from numbers on the device, and how."""

    numbers: View
    decide: Callable[[Any], Any]
    choice: Any


class Recorder(TorchDispatchMode):
    """Listens to a call: inside ``with Recorder(given):`` memory and launches are noted.

    Anything that could not be issued again (a copy of an operand, a second block) ends it.
    """

    def __init__(self, given: Sequence[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.blocks, self.out, self.given = list(given), given[-1], len(given)
        self.taken: list[Block] = []
        self.held: list[Tensor] = []  # tables that launches point at: they stay as long as these
        self.by_address = True
        self.steps: list[tuple[Step, set[int]]] = []
        self.guess: Guess | None = None  # which is to be checked
        self.checks: list[tuple[int, Guess | None]] = []  # after how many steps, and of what
        self.lost = self.postponed = False

    def __enter__(self) -> Any:
        _listening.recorder = self
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *error: Any) -> None:
        _listening.recorder = None
        super().__exit__(*error)  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in EMPTY:
            self._taken(result, zero=func is torch.ops.aten.zeros.default)
        elif func is torch.ops.aten.clone.default and args[0].is_contiguous():
            self._taken(result, zero=False)
            self.launched((result, args[0]), lambda new, old: new.copy_(old), tensors=True)
        elif not (func.is_view and _is_in(result, args)):
            self.give_up()
        return result

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No. PyTorch would import its compiler to keep it away from here, which takes seconds.

        The compiler never comes here: to it a product is one operator, or a call that it leaves.
        """
        return False

    def give_up(self) -> None:
        """Record nothing more, and hold no memory."""
        self.lost = True
        self.blocks, self.steps, self.taken = [], [], []

    def _taken(self, tensor: Tensor, *, zero: bool) -> None:
        if self.lost:
            return
        self.taken.append(Block(len(self.blocks), tensor.nbytes, zero, tensor.device))
        self.blocks.append(tensor)

    def view(self, tensor: Tensor) -> View | None:
        """Where a tensor is; None if it is a constant, which stays where it is."""
        address = tensor.data_ptr()
        for index in reversed(range(len(self.blocks))):
            block = self.blocks[index]
            if tensor.untyped_storage().data_ptr() == block.untyped_storage().data_ptr():
                shape, stride = tuple(tensor.shape), tensor.stride()
                return View(index, address - block.data_ptr(), tensor.dtype, shape, stride)
        return None

    def launched(
        self, arguments: Sequence[Any], run: Run, *, tensors: bool, bind: Bind | None = None
    ) -> None:
        """Note a launch: ``run(*arguments)`` with tensors in other blocks, or their addresses.

        `bind` may make a faster one.
        """
        if self.lost:
            return
        fixed = list(arguments)
        moved: list[tuple[int, View]] = []
        described: list[tuple[int, View, tuple[list[int], ...]]] = []
        for at, argument in enumerate(fixed):
            if isinstance(argument, TensorDescriptor):
                view = self.view(argument.base)
                assert view is not None
                form = (argument.shape, argument.strides, argument.block_shape)
                described.append((at, view, form))  # not the tensor, which would stay
                fixed[at] = None
            elif isinstance(argument, torch.Tensor):
                view = self.view(argument)
                if view is not None:
                    moved.append((at, view))
                    fixed[at] = None
                elif not tensors:
                    fixed[at] = argument.data_ptr()
                    self.held.append(argument)
        places = [(at, view.block, view.offset) for at, view in moved]
        uses = {view.block for _, view in moved} | {view.block for _, view, _ in described}
        bound = None if bind is None or described else bind(fixed, places)
        self.by_address &= not tensors

        def step(blocks: list[Any], addresses: list[int]) -> None:
            now = fixed.copy()
            if tensors:
                for at, view in moved:
                    now[at] = view.of(blocks)
            else:
                for at, block, offset in places:
                    now[at] = addresses[block] + offset
            for at, view, form in described:
                base = view.of(blocks) if tensors else Address(addresses[view.block] + view.offset)
                now[at] = TensorDescriptor(base, *form)
            run(*now)

        self.steps.append((bound or step, uses))

    def recording(self) -> Recording | None:
        """What was recorded, if it can be issued again."""
        if self.lost:
            return None
        recording = Recording(self.out, self.given - 1, len(self.blocks), self.held)
        before: list[Step] = []
        if self.by_address and 0 < sum(block.size for block in self.taken) <= TOGETHER:
            first, takes = taken_together(self.taken)
            before.append(first)
        else:
            takes = {block.index: block.take for block in self.taken}
        takes[recording.index] = recording.take
        ready = set(range(recording.index))
        begin = 0
        for end, guess in (*self.checks, (len(self.steps), self.guess)):
            steps = before + in_time(self.steps[begin:end], takes, ready)
            recording.parts.append(Part(steps, guess))
            begin, before = end, []
        return recording


def _is_in(result: Any, given: Sequence[Any]) -> bool:
    """Whether all of a result is in memory that was given.

    In inference mode, and inside of operators, PyTorch calls `reshape` a view when it copies.
    """
    there = [x.untyped_storage().data_ptr() for x in given if isinstance(x, torch.Tensor)]
    results = result if isinstance(result, (list, tuple)) else (result,)
    return all(x.untyped_storage().data_ptr() in there for x in results)


class _Listening(threading.local):
    recorder: Recorder | None = None


_listening = _Listening()


def listener() -> Recorder | None:
    """Who records this thread's launches, if anybody does."""
    return _listening.recorder


def quietly() -> Any:
    """A context in which operations of PyTorch are not noted."""
    return _disable_current_modes()


def decided(numbers: Tensor, decide: Callable[[Any], Any]) -> Any:
    """``decide(numbers.tolist())``: waits for the device, once."""
    with quietly():
        known = numbers.tolist()
        choice = decide(known)
    workers.decided_from(known)
    recorder = listener()
    if recorder is not None and not recorder.lost:
        view = recorder.view(numbers)
        assert view is not None
        recorder.guess = Guess(view, decide, choice)
    return choice


def read_here() -> None:
    """Launches from here on keep the device busy while what the guess depends on is read."""
    recorder = listener()
    if recorder is not None and recorder.guess is not None:
        view, device = recorder.guess.numbers, recorder.out.device

        def begin(blocks: list[Any], addresses: list[int]) -> None:
            if device.type == "cuda":
                address = addresses[view.block] + view.offset
                _reading.begin(address, view.shape, view.dtype, device.index)
            else:
                _reading.begin_here(view.of(blocks))

        recorder.steps.append((begin, {view.block}))


def postpone() -> None:
    """Record nothing of this call; the next one of its kind may be recorded."""
    if (recorder := listener()) is not None:
        recorder.give_up()
        recorder.postponed = True


def give_up() -> None:
    """Record nothing of this call."""
    if (recorder := listener()) is not None:
        recorder.give_up()


def check_here() -> None:
    """From here on launches wait until the guess was checked."""
    recorder = listener()
    if recorder is not None:
        recorder.checks.append((len(recorder.steps), recorder.guess))
        recorder.guess = None


def was_checked(change: Callable[[Any], Any]) -> None:
    """The guess that was checked last stands for what is known now: `change` of its choice."""
    recorder = listener()
    if recorder is not None and not recorder.lost:
        steps, guess = recorder.checks[-1]
        assert guess is not None
        recorder.checks[-1] = steps, replace(guess, choice=change(guess.choice))


_reading = Reading()


@dataclass(frozen=True)
class Part:
    """Launches up to the place where a guess is checked, if there is one."""

    steps: list[Step]
    guess: Guess | None


class Recording:
    """The launches of one kind of call.

    `index` is where its result is among the `count` blocks of memory, after the operands.
    """

    def __init__(self, out: Tensor, index: int, count: int, held: list[Tensor]) -> None:
        self.index, self.count, self.held = index, count, held
        self.shape, self.dtype, self.device = tuple(out.shape), out.dtype, out.device
        self.parts: list[Part] = []

    @property
    def choice(self) -> Any:
        """The choice that it was recorded with, the first of them."""
        return next((part.guess.choice for part in self.parts if part.guess is not None), None)

    def take(self, blocks: list[Any], addresses: list[int]) -> None:
        """Take memory for a result, unless there is some."""
        if blocks[self.index] is None:
            blocks[self.index] = torch.empty(self.shape, dtype=self.dtype, device=self.device)
            addresses[self.index] = blocks[self.index].data_ptr()

    def issue(self, operands: Sequence[Tensor], out: Tensor | None) -> tuple[Tensor | None, Any]:
        """Issue the launches for these tensors; give the result, and the choice it should have had.

        There is no result if a recorded choice does not cover what it should have been.
        """
        if self.device.type == "cuda":
            driver.enter(self.device.index)
        missing = self.count - self.index - 1
        blocks: list[Any] = [*operands, out, *[None] * missing]
        addresses = [x.data_ptr() for x in operands]
        addresses += [0 if out is None else out.data_ptr(), *[0] * missing]
        first = None
        for part in self.parts:
            for step in part.steps:
                step(blocks, addresses)
            if part.guess is not None:
                choice = part.guess.decide(_reading.end())
                first = choice if first is None else first
                if not part.guess.choice.covers(choice):
                    return None, first
        return blocks[self.index], first
