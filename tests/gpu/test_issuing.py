"""Calls of the driver, made again at other addresses: with a driver of our own, on a CPU."""

from __future__ import annotations

import ctypes
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch

from widen.gpu.replay import driver, issuing
from widen.gpu.replay.driver import Launch
from widen.gpu.replay.issuing import Guess, Part, Recording
from widen.gpu.replay.memory import Arena, Block, Clearing, Copying, View, in_time

CPU = torch.device("cpu")
SIZE = 64


def numbers_at(address):
    return (ctypes.c_int64 * SIZE).from_address(address)


class Driver:
    """What the CUDA driver is asked for, done at once; kernels are functions of words."""

    def __init__(self, monkeypatch):
        self.launched, self.streams, self.current = [], [], threading.local()
        self.kernels = {1: self.add, 2: self.twice}
        monkeypatch.setattr(driver, "calls", lambda: self)
        monkeypatch.setattr(driver, "stream", lambda device: self.stream(device))
        monkeypatch.setattr(issuing.private, "stream_reader", lambda: self.stream)

    def stream(self, device):
        return getattr(self.current, "stream", 5)

    def cuLaunchKernelEx(self, config, function, pointers, extra):
        words = [ctypes.c_uint64.from_address(pointers[at]).value for at in range(len(pointers))]
        self.streams.append(config._obj.stream)
        return self.kernels[function.value](*words)

    def cuMemsetD8Async(self, address, value, size, stream):
        ctypes.memset(address, value, size)
        return 0

    def cuMemcpyDtoDAsync_v2(self, to, come, size, stream):
        ctypes.memmove(to, come, size)
        return 0

    def add(self, x, y, out, factor):
        """out += x + factor y."""
        a, b, c = map(numbers_at, (x, y, out))
        for at in range(SIZE):
            c[at] += a[at] + factor * b[at]
        return 0

    def twice(self, x, out):
        a, c = map(numbers_at, (x, out))
        for at in range(SIZE):
            c[at] = 2 * a[at]
        return 0


class Choice(SimpleNamespace):
    def covers(self, other):
        return self.key >= other.key


def recording_of(guessed=None, decided=None):
    """2 (a + 3 b), by way of zeros and a copy; a guess of the sum's first number, if wanted."""
    first, second = Block(3, 8 * SIZE, True, CPU), Block(4, 8 * SIZE, False, CPU)
    steps = [
        (Launch(1, (1, 1, 1), 32, 0, arguments=[0, 0, 0, 3],
                moved=[(0, 0, 0), (1, 1, 0), (2, 3, 0)], device=0), {0, 1, 3}),
        (Copying((4, 0), (3, 0), 8 * SIZE, 0), {3, 4}),
    ]  # fmt: skip
    guess = None
    if guessed is not None:
        guess = Guess(View(4, 0, torch.int64, (1, 2), (2, 1)), decided, Choice(key=guessed))

        def begin(_, addresses):
            data = numbers_at(addresses[4])
            issuing._reading.begin_here(torch.tensor(data[:2]))

        steps.append((begin, {4}))
    last = Launch(2, (1, 1, 1), 32, 0, arguments=[0, 0], moved=[(0, 4, 0), (1, 2, 0)], device=0)
    ready = {0, 1}
    parts = [Part(in_time(steps, {3: Clearing(first)}, ready), guess), Part([last], None)]
    return Recording(
        parts, before=2, count=5, make=lambda: [torch.empty(SIZE, dtype=torch.int64)], results=1,
        device=CPU, arena=Arena.of([first, second], CPU), held=[],
    )  # fmt: skip


def numbers(seed):
    return torch.arange(SIZE) * seed + 7


def test_the_same_calls_at_other_addresses(monkeypatch):
    ours, recording = Driver(monkeypatch), recording_of()
    kept = []
    for seed in range(20):
        a, b = numbers(seed), numbers(seed + 1)
        out = torch.empty(SIZE, dtype=torch.int64) if seed % 3 == 0 else None
        (found,), choice = recording.issue([a, b], None if out is None else [out])
        assert choice is None
        assert torch.equal(found, 2 * (a + 3 * b))
        assert out is None or found is out
        kept.append((a, b, found))  # so that addresses are others
        assert len(recording._bound) <= Recording.MOST
    assert len(recording._bound) == Recording.MOST
    assert set(ours.streams) == {5}
    assert all(torch.equal(found, 2 * (a + 3 * b)) for a, b, found in kept)


def test_calls_that_come_back_are_not_made_anew(monkeypatch):
    Driver(monkeypatch)
    recording, (a, b) = recording_of(), (numbers(1), numbers(2))
    out, room = torch.empty(SIZE, dtype=torch.int64), torch.empty(2048, dtype=torch.uint8)
    monkeypatch.setattr(Arena, "take", lambda self: room)
    moved = []
    move = issuing.Bound.move
    monkeypatch.setattr(
        issuing.Bound, "move", lambda self, *given: moved.append(given) or move(self, *given)
    )
    for seed in range(5):
        a.copy_(numbers(seed))
        recording.issue([a, b], [out])
        assert torch.equal(out, 2 * (a + 3 * b))
    assert len(moved) == len(recording._bound) == 1


def test_streams_have_calls_of_their_own(monkeypatch):
    ours, recording = Driver(monkeypatch), recording_of()
    a, b, out = numbers(1), numbers(2), torch.empty(SIZE, dtype=torch.int64)
    for stream in (5, 9, 5):
        ours.current.stream = stream
        ours.streams.clear()
        recording.issue([a, b], [out])
        assert set(ours.streams) == {stream}


def test_threads_do_not_share_arguments(monkeypatch):
    Driver(monkeypatch)
    recording = recording_of()

    def work(seed):
        a, b = numbers(seed), numbers(3 * seed)
        wanted = 2 * (a + 3 * b)
        return all(torch.equal(recording.issue([a, b], None)[0][0], wanted) for _ in range(40))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(16)))
    assert len(recording._bound) <= Recording.MOST + 8


def test_a_guess_is_checked_and_its_choice_remembered(monkeypatch):
    Driver(monkeypatch)
    asked = []

    def decide(read):
        asked.append(read)
        return Choice(key=read[0][0])

    recording = recording_of(100, decide)
    for value, calls in ((4, 1), (4, 1), (25, 2), (26, 3), (4, 3)):
        a = b = torch.full((SIZE,), value)
        result, choice = recording.issue([a, b], None)
        assert len(asked) == calls
        assert choice.key == 4 * value
        assert (result is None) == (4 * value > 100)
        if result is not None:
            assert torch.equal(result[0], 8 * a)
    assert asked == [[[16, 16]], [[100, 100]], [[104, 104]]]
    for value in range(100, 140):
        recording.issue([torch.full((SIZE,), value)] * 2, None)
    assert len(recording.parts[0].guess.known) <= issuing.MOST_KNOWN


def test_what_the_driver_refuses_is_an_error(monkeypatch):
    ours, recording = Driver(monkeypatch), recording_of()
    ours.kernels[2] = lambda *_: 700
    with pytest.raises(RuntimeError, match="the CUDA driver answered 700"):
        recording.issue([numbers(1), numbers(2)], None)


def test_memory_in_one_piece():
    blocks = [Block(4, 100, True, CPU), Block(2, 513, False, CPU), Block(7, 0, False, CPU)]
    arena = Arena.of(blocks, CPU)
    assert (arena.size, arena.places) == (1536, ((4, 0), (2, 512), (7, 1536)))
    assert arena.take().nbytes == 1536
    nothing = Arena.of([], CPU)
    assert (nothing.size, nothing.places, nothing.take().nbytes) == (0, (), 0)
