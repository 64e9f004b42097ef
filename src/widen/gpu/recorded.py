"""Calls whose launches were recorded: what tells kinds of calls apart, and their recordings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from widen.encoded import Encoded
from widen.formats import Format
from widen.formats.arrays import Wide, meaningful, new_planes
from widen.gpu.batches import given_back, in_one_block, is_half, planes
from widen.gpu.encode import held
from widen.gpu.operands import Tensor
from widen.gpu.planned import is_captured
from widen.gpu.replay import private
from widen.gpu.replay.issuing import Recording
from widen.gpu.replay.recording import Recorder
from widen.options import Options
from widen.stages.compiling.once import Once
from widen.stages.problem import Call, Scalars
from widen.words import Words


class CallRecordings:
    """Recordings of one kind of call, by the choice they were made with."""

    def __init__(self) -> None:
        self.by_choice: dict[Any, Recording] = {}
        self.last: Any = None
        self.fmt: Format | None = None  # of results
        self.half = self.wide = False
        self.failures = 0

    @property
    def hopeless(self) -> bool:
        """Whether calls of this kind are not worth recording."""
        return self.failures >= 3 and not self.by_choice

    def again(self, operands: Sequence[Tensor], out: Any, *, apart: bool = False) -> Any:
        """The result for these operands by launches that were recorded, or None.

        It is computed `apart` where it cannot be in `out`, and copied.
        """
        recording = self.by_choice.get(self.last)
        if recording is None:
            return None
        apart |= self.half
        found, choice = recording.issue(operands, None if apart or out is None else planes(out))
        if choice is not None:
            self.last = choice.key
        if found is None:
            return None
        if out is not None and not apart:
            return out
        result: Any = found[0]
        if self.wide:
            wide: Any = self.fmt
            result = Words.of(wide, found)
        elif not apart:
            return result
        assert self.fmt is not None
        return given_back(self.fmt, result, out)

    def keep(self, recorder: Recorder, fmt: Format, dims: tuple[int, ...] = ()) -> None:
        """Keep what was recorded of a call, whose result is of this format, and this shape."""
        self.fmt, self.half, self.wide = fmt, is_half(fmt), recorder.results > 1
        make = None
        if self.wide:
            wide: Any = fmt
            make = partial(_new_planes, wide, (wide.parts, *dims), recorder.device)
        recording = recorder.recording(make)
        self.failures += recording is None and not recorder.postponed
        if recording is not None:
            key = None if recording.choice is None else recording.choice.key
            self.by_choice[key] = recording  # by its own, whatever other threads have chosen last
            self.last = key


def _new_planes(fmt: Wide, shape: tuple[int, ...], place: torch.device) -> Sequence[Tensor]:
    return new_planes(fmt, shape, place)


class Recordings:
    """Recordings of all kinds of calls."""

    MOST = 2048
    """Of tens of kilobytes each: when there are more kinds of calls, all are dropped."""

    def __init__(self) -> None:
        self._by_key: Once[CallRecordings] = Once(self.MOST)

    def known(self, key: Any) -> CallRecordings | None:
        """Those of the calls with this key, if there were any."""
        try:
            return self._by_key.get(key)
        except TypeError:  # an argument that has no hash, and will be refused
            return None

    def of(self, key: Any) -> CallRecordings | None:
        """The same, old or new."""
        try:
            return self._by_key.made(key, CallRecordings)
        except TypeError:
            return None


_recordings = Recordings()


def replayed(a: Any, b: Any, scalars: Scalars, out: Any, options: Options) -> Any:
    """The result by launches recorded of a call of this kind, which was checked, or None."""
    if private.is_traced() or private.is_forward_mode():
        return None
    kind = kind_of(a, b, scalars, out, options)
    if kind is None:
        return None
    recordings = _recordings.known(kind.key)
    if recordings is None:
        return None
    operands = kind.operands
    device = operands[0].device
    try:
        if private.is_current(device.index):
            return recordings.again(operands, out, apart=kind.apart)
        with torch.cuda.device(device):
            return recordings.again(operands, out, apart=kind.apart)
    except torch.OutOfMemoryError:
        return None  # it will be explained


def recordings_of(
    call: Call, scalars: Scalars, out: Any, options: Options
) -> tuple[CallRecordings, list[Tensor]] | None:
    """The recordings of a call whose launches may be issued again, and its operands; or None."""
    if not private.available() or torch.version.hip or not options.plain:
        return None  # they are issued again by NVIDIA's driver
    kind = kind_of(call.left, call.right, scalars, out, options)
    if kind is None:
        return None
    recordings = _recordings.of(kind.key)
    return None if recordings is None or recordings.hopeless else (recordings, kind.operands)


class Kind(NamedTuple):
    """What kind of call it is: all that its launches depend on; what they read.

    The result is computed `apart` from where the caller wants it: an operand lives there, which is
    read again if a guess was wrong, or kernels cannot write there.
    """

    key: Any
    operands: list[Tensor]
    apart: bool


def kind_of(a: Any, b: Any, scalars: Scalars, out: Any, options: Options) -> Kind | None:
    """The kind of a call, or None if its launches might depend on more."""
    ours, theirs = key_of_operand(a), key_of_operand(b)
    if ours is None or theirs is None:
        return None
    operands, compared = [*tensors_of(a), *tensors_of(b)], [*_readable(a), *_readable(b)]
    scaled: Any = None
    if scalars.c is not None or scalars.alpha != 1 or isinstance(scalars.alpha, complex):
        addend = None
        if scalars.c is not None:
            addend = _key_of_array(scalars.c)
            if addend is None:
                return None
            more = planes(scalars.c)
            operands += more
            compared += more
        scaled = repr(scalars.alpha), repr(scalars.beta), addend
    result, apart = None, False
    if out is not None:
        result = _key_of_array(out)
        if result is None:
            return None
        own = planes(out)
        apart = are_shared(compared, own) or not in_one_block(out)
        if not apart:
            compared += own
    layout = _layout(compared)
    captured = options.plan is not None and is_captured(operands[0].device)  # then nobody waits
    key = ours, theirs, scaled, layout, result, apart, _key_of_options(options), captured
    return Kind(key, operands, apart)


def _key_of_options(options: Options) -> Any:
    """That of the options, soon: the hash of a format of words takes some microseconds."""
    dtype = options.dtype
    if isinstance(dtype, Wide):
        accuracy = options.accuracy
        return (
            accuracy, type(accuracy), dtype.name, options.unit, options.system, options.workspace,
            options.plan,
        )  # fmt: skip
    return options.key


def key_of_operand(x: Any) -> Any:
    """All that launches depend on of an operand, but for its place; None if there might be more."""
    if isinstance(x, Encoded):
        if x.device is None:
            return None  # it will be refused
        operand = held(x).operand
        words = operand.words
        strides = meaningful(words.shape, words.stride())
        kept = (operand.fmt, words.shape, strides, x.unit, x.system)
        return x.side, x.dims, x.contract, x.fmt, x.layout.planes, x.device, kept
    return _key_of_array(x)


def _key_of_array(x: Any) -> Any:
    """The same of a tensor, or of `Words` of tensors."""
    if type(x) is Words:
        keys = [_key_of_tensor(plane) for plane in x.planes]
        return None if None in keys else (x.format.name, *keys)
    return _key_of_tensor(x)


def _key_of_tensor(x: Any) -> Any:
    if type(x) not in TENSORS or x.is_conj() or x.is_neg():
        return None
    if x.requires_grad and torch.is_grad_enabled():
        return None  # it goes another way
    shape = x.shape
    strides = None if x.is_contiguous() else meaningful(shape, x.stride())
    return shape, strides, x.dtype, x.device, x.data_ptr() % 16


TENSORS = (torch.Tensor, torch.nn.Parameter)


def tensors_of(x: Any) -> list[Tensor]:
    """All tensors that launches read of an operand."""
    return held(x).tensors if isinstance(x, Encoded) else planes(x)


def _readable(x: Any) -> list[Tensor]:
    """Those of its tensors that others may lie in."""
    return [held(x).planes] if isinstance(x, Encoded) else planes(x)


def _storage(x: Tensor) -> int:
    return x.untyped_storage().data_ptr()


def are_shared(some: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    """Whether any of these lives in the memory of any of those."""
    return not {*map(_storage, some)}.isdisjoint(map(_storage, others))


def _layout(tensors: Sequence[Tensor]) -> tuple[tuple[int, int], ...] | None:
    """How tensors lie in one memory: beside which of them, and how far behind; None if none do."""
    storages = [*map(_storage, tensors)]
    if len({*storages}) == len(storages):
        return None
    firsts = [storages.index(storage) for storage in storages]
    return tuple(
        (first, x.data_ptr() - tensors[first].data_ptr())
        for first, x in zip(firsts, tensors, strict=True)
    )
