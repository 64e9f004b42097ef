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
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from triton.tools.tensor_descriptor import TensorDescriptor

from widen.gpu.code import workers
from widen.gpu.replay.issuing import Guess, Part, Recording, Results, beginning
from widen.gpu.replay.memory import (
    TOGETHER,
    Arena,
    Block,
    Clearing,
    Copying,
    Step,
    View,
    in_time,
)

Tensor = torch.Tensor
Run = Callable[..., Any]

EMPTY = {torch.ops.aten.empty.memory_format, torch.ops.aten.zeros.default}
"""Operations that take memory."""

UNSAFE_VIEW = torch.ops.aten._unsafe_view.default
"""What makes a copy one of another shape, where `reshape` copies."""

COPIES = {torch.ops.aten.clone.default, torch.ops.aten._to_copy.default}
"""Those that copy a tensor; what else is not a view cannot be issued again, but for stacks."""


# ── what is noted ────────────────────────────────────────────────────────────────────────────────


class Address(NamedTuple):
    """All that a launch asks of a tensor of bytes."""

    address: int
    dtype: torch.dtype = torch.int8

    def data_ptr(self) -> int:
        """Where it begins."""
        return self.address


Bind = Callable[[list[Any], list[tuple[int, int, int]]], Step | None]
"""What makes a launch of arguments that stay, but for (argument, block, offset) of some."""


class Recorder(TorchDispatchMode):
    """Listens to a call: inside ``with Recorder(given):`` memory and launches are noted.

    Anything that could not be issued again (arithmetic of PyTorch, a second block) ends it. The
    last of the tensors that are given, `results` of them, are those of the result.
    """

    def __init__(self, given: Sequence[Tensor], results: int = 1) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.blocks, self.results, self.before = list(given), results, len(given) - results
        self.device = given[-1].device
        self.forms = [(tuple(x.shape), x.dtype) for x in given[self.before :]]
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
        elif func in COPIES and _is_dense(result) and result.device == args[0].device:
            self._taken(result, zero=False)
            self._copied(result, args[0])
        elif func is torch.ops.aten.stack.default and not any(args[1:]) and not kwargs:
            self._taken(result, zero=False)
            self.launched(
                (result, *args[0]), lambda new, *old: torch.stack(old, out=new), tensors=True
            )
        elif not ((func.is_view or func is UNSAFE_VIEW) and _is_in(result, args)):
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

    def _copied(self, new: Tensor, old: Tensor) -> None:
        """Note a copy of a tensor: of its bytes, or of its numbers."""
        to, come = self.view(new), self.view(old)
        alike = new.dtype == old.dtype and new.is_contiguous() and old.is_contiguous()
        if to is None or come is None or not alike or new.device.type != "cuda":
            self.launched((new, old), lambda new, old: new.copy_(old), tensors=True)
            return
        if self.lost:
            return
        places = (to.block, to.offset), (come.block, come.offset)
        self.steps.append((Copying(*places, new.nbytes, new.device.index), {to.block, come.block}))

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

    def recording(self, make: Callable[[], Results] | None = None) -> Recording | None:
        """What was recorded, if it can be issued again; `make` takes memory for a result.

        Unless it is given, that is for tensors like those that were recorded.
        """
        if self.lost:
            return None
        size = sum(block.size for block in self.taken)
        arena = None
        if self.by_address and self.device.type == "cuda" and size <= TOGETHER:
            arena = Arena.of(self.taken, self.device)
        parts: list[Part] = []
        recording = Recording(
            parts, before=self.before, count=len(self.blocks), make=make or self._maker(),
            results=self.results, device=self.device, arena=arena, held=self.held,
        )  # fmt: skip
        if arena is not None:
            takes: dict[int, Step] = {x.index: Clearing(x) for x in self.taken if x.zero}
        else:
            takes = {block.index: block.take for block in self.taken}
            result = range(self.before, self.before + self.results)
            takes |= dict.fromkeys(result, recording.take)
        ready, begin = set(range(self.before)), 0
        for end, guess in (*self.checks, (len(self.steps), self.guess)):
            parts.append(Part(in_time(self.steps[begin:end], takes, ready), guess))
            begin = end
        return recording

    def _maker(self) -> Callable[[], Results]:
        device, forms = self.device, self.forms
        return lambda: [torch.empty(shape, dtype=dtype, device=device) for shape, dtype in forms]


def _is_dense(x: Tensor) -> bool:
    """Whether a tensor has a place in memory for every entry, and no others."""
    last = sum((size - 1) * step for size, step in zip(x.shape, x.stride(), strict=True))
    return last + 1 == x.numel()


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
        guess = recorder.guess
        recorder.steps.append((beginning(guess, recorder.device), {guess.numbers.block}))


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
