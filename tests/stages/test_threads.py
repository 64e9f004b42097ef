"""Many threads ask at once for what is compiled, loaded, tabled or recorded only once."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import triton.language as tl

from widen.stages.problem import Encoding

pytest.importorskip("triton")
from widen.contract import CONTRACTS
from widen.formats import FORMATS
from widen.gpu import constants as gpu_constants
from widen.gpu import products as gpu_products
from widen.gpu import recorded as gpu_recorded
from widen.gpu.code.records import Code
from widen.gpu.recorded import CallRecordings, Recordings
from widen.gpu.replay import launch as gpu_launch
from widen.stages.compiling.once import Once, once
from widen.systems import residues

THREADS = 12
INTERPRETED = not torch.cuda.is_available()
PATIENCE = 0.2
"""Seconds that slow work gives other threads to come in where they must not."""


def at_once(work, count=THREADS):
    """What `work(0)`, `work(1)`, ... give in threads that begin together."""
    start = threading.Barrier(count)

    def begun(index):
        start.wait(timeout=60)
        return work(index)

    with ThreadPoolExecutor(count) as pool:
        return [
            found.result(timeout=120) for found in [pool.submit(begun, i) for i in range(count)]
        ]


# ── the tool ─────────────────────────────────────────────────────────────────


class Slow:
    """Work that others have time to begin as well, unless they wait for it."""

    def __init__(self):
        self.calls, self.second = 0, threading.Event()

    def __call__(self, *_):
        self.calls += 1
        if self.calls > 1:
            self.second.set()
        self.second.wait(PATIENCE)
        return object()


def test_values_are_made_once():
    values, make = Once(), Slow()
    assert len(set(at_once(lambda _: values.made("key", make)))) == make.calls == 1
    function = once(Slow())
    assert len(set(at_once(lambda _: function("key")))) == function.__wrapped__.calls == 1
    assert function("other") is not function("key")
    assert function.__wrapped__.calls == 2


def test_values_of_other_turns_are_made_meanwhile():
    values, meet = Once(), threading.Barrier(2)
    at_once(lambda i: values.made(i, lambda: meet.wait(timeout=60), turn=i), 2)
    order = []
    at_once(lambda i: values.made(-i - 1, lambda: order.extend([i, i]), turn="same"), 4)
    assert order[::2] == order[1::2]


def test_what_fails_is_tried_again():
    values, tries = Once(), []

    def make():
        tries.append(None)
        if len(tries) < 3:
            raise OSError("not yet")
        return "made"

    for _ in range(2):
        with pytest.raises(OSError, match="not yet"):
            values.made(1, make)
    assert values.made(1, make) == values.made(1, make) == "made"
    assert len(tries) == 3


def test_tables_do_not_grow_for_ever():
    values = Once(most=3)
    for key in range(7):
        assert values.made(key, lambda key=key: key) == key
        assert len(values) <= 3


CHILD = """
import os, threading
from widen.stages.compiling.once import Lock, Once
values, locks, held, over = Once(), [Lock(), Lock()], threading.Event(), threading.Event()
def make():
    with locks[0]:
        held.set()
        over.wait()
thread = threading.Thread(target=lambda: values.made(1, make, turn=1))
thread.start()
held.wait()
child = os.fork()
if child == 0:
    with locks[0], locks[1]:
        os._exit(7 if values.made(1, lambda: 7, turn=1) == 7 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
over.set()
thread.join()
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="there is no fork")
def test_a_child_process_does_not_wait_for_its_parents_threads():
    done = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split() == ["7"], done.stderr


# ── kernels and tables of a GPU ──────────────────────────────────────────────


class Driver:
    """A GPU that takes its time to load code, and fails to at first if it is told so."""

    def __init__(self, failures=0):
        self.failures, self.loads, self.asked = failures, 0, threading.Event()
        self.started = []

    def enter(self, device):
        pass

    def load(self, binary, name, shared_bytes, *, prefer_shared):
        self.loads += 1
        self.asked.wait(PATIENCE)
        if self.loads <= self.failures:
            raise MemoryError("no room for a kernel")
        return 7

    def start(self, function, grid, threads, shared_bytes, *, arguments, long, device, together):
        assert not together
        self.started.append((function, grid, threads, arguments))


def with_a_constant(argument, CONSTANT: tl.constexpr):
    """What a kernel is made of."""


class Kernel:
    """A kernel of one argument and one constant."""

    params = (SimpleNamespace(do_not_specialize=False),)
    arg_names = ("argument", "CONSTANT")
    fn, __name__ = staticmethod(with_a_constant), "fake"


@pytest.fixture
def compilations(monkeypatch):
    """As if there were a GPU, and nothing compiled for it: what is compiled."""
    seen = []
    code = Code("fake", 128, 0, ((0, ""),), {}, 2, b"binary").to_bytes()
    monkeypatch.setattr(gpu_launch.workers, "compiled", lambda *given: seen.append(given) or code)
    monkeypatch.setattr(gpu_launch.store, "copies", lambda key, architecture: ())
    monkeypatch.setattr(gpu_launch, "architecture_of", lambda device: 90)
    monkeypatch.setattr(gpu_launch, "_compiled", type(gpu_launch._compiled)())
    monkeypatch.setattr(gpu_launch, "_parameters", {})
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    return seen


def launch(kernel, constant):
    how = gpu_launch.Compilation(4, 3, False, None)
    launching = gpu_launch.Launching(kernel, (1,), (5,), (constant,), how, (False,))
    gpu_launch._loaded(launching)(5)


@pytest.mark.parametrize("keys", [1, THREADS])
def test_a_kernel_is_compiled_and_loaded_once_whatever_threads_do(monkeypatch, compilations, keys):
    device = Driver()
    monkeypatch.setattr(gpu_launch, "driver", device)
    kernel = Kernel()

    def work(index):
        try:
            launch(kernel, index % keys)
        finally:
            device.asked.set()

    at_once(work)
    assert device.loads == len(compilations) == keys
    assert device.started == [(7, (1, 1, 1), 128, [5, 0, 0])] * THREADS


def test_a_kernel_that_was_not_loaded_is_loaded_the_next_time(monkeypatch, compilations):
    device, kernel = Driver(failures=1), Kernel()
    monkeypatch.setattr(gpu_launch, "driver", device)
    with pytest.raises(MemoryError):
        launch(kernel, 0)
    assert device.started == []
    launch(kernel, 0)
    assert device.loads == len(compilations) == 2
    assert len(device.started) == 1


def test_what_has_to_wait_for_a_compiler(monkeypatch, compilations):
    """What is neither loaded nor kept; what code may not take for granted makes no other kernel."""
    kept, kernel = set(), Kernel()
    monkeypatch.setattr(gpu_launch.store, "find", lambda key, _: b"code" if key in kept else None)
    monkeypatch.setattr(gpu_launch, "JITFunction", Kernel)

    def prepared(number, *loose):
        given = {"argument": number, "CONSTANT": 1}
        return gpu_launch.prepared(kernel, (1,), given, loose=frozenset(loose))

    odd, even, loose = prepared(5), prepared(16), prepared(16, "argument")
    assert odd.waits_for_compiler()
    with gpu_launch.watched(lambda variant, named: None):
        assert not odd.waits_for_compiler(), "nothing is launched"
    kept.add(odd.variant.key(90))
    assert not odd.waits_for_compiler()
    assert even.waits_for_compiler(), "its code may take for granted that 16 divides the number"
    assert loose.variant == odd.variant
    assert not loose.waits_for_compiler()
    monkeypatch.setattr(gpu_launch, "driver", Driver())
    even.make()
    assert len(compilations) == 1
    assert not even.waits_for_compiler()


def test_what_is_coming_is_there_or_asked_for(monkeypatch, compilations):
    asked, kept, kernel = [], set(), Kernel()
    monkeypatch.setattr(gpu_launch.store, "find", lambda key, _: b"code" if key in kept else None)
    monkeypatch.setattr(gpu_launch, "JITFunction", Kernel)

    def compiles(variant, architecture):
        asked.append((variant.constants, architecture))
        return variant.constants == (1,)

    monkeypatch.setattr(gpu_launch.workers, "compiles", compiles)
    first, second = (
        gpu_launch.prepared(kernel, (1,), {"argument": 5, "CONSTANT": number}) for number in (1, 2)
    )
    assert first.is_coming()
    assert not second.is_coming(), "nobody compiles it"
    kept.add(second.variant.key(90))
    assert second.is_coming()
    assert asked == [((1,), 90), ((2,), 90)]


LAYOUT = residues(128, 60, 1)
DEVICE = torch.device("cpu")

TABLES = {
    "encoding": lambda: gpu_constants.encoding(LAYOUT.moduli, DEVICE),
    "multiplying": lambda: gpu_constants.multiplying(((7, 3), (11, 5)), DEVICE),
    "any_reconstruction": lambda: gpu_constants.any_reconstruction(LAYOUT, True, DEVICE),
    "words_encoding": lambda: gpu_constants.words_encoding(LAYOUT, 16, 16, DEVICE),
    "remainders": lambda: gpu_constants.remainders(LAYOUT, DEVICE),
    "pairs_of": lambda: gpu_constants.pairs_of(LAYOUT, DEVICE),
}


@pytest.mark.parametrize("name", TABLES)
def test_all_threads_are_given_the_same_table(monkeypatch, name):
    """A captured graph points at it, and what is not kept is overwritten."""
    slow, constant = Slow(), gpu_constants.constant

    def slow_constant(*given):
        slow()
        return constant(*given)

    table = getattr(gpu_constants, name)
    monkeypatch.setattr(gpu_constants, "constant", slow_constant)
    table.cache_clear()
    first, *others = at_once(lambda _: TABLES[name]())
    assert all(other is first for other in others)
    assert table.__name__ == name


def test_threads_share_a_kind_of_call():
    kinds = Recordings()
    assert len(set(at_once(lambda _: kinds.of("key")))) == len(kinds._by_key) == 1


def test_a_recording_is_kept_by_its_own_choice():
    """Whatever another thread, which records the same kind, has chosen meanwhile."""

    class Disturbed(CallRecordings):
        last = property(lambda self: "another's", lambda self, choice: None)

    kind, choice = Disturbed(), SimpleNamespace(key="own")
    recorder = SimpleNamespace(recording=lambda make: SimpleNamespace(choice=choice), results=1)
    kind.keep(recorder, FORMATS["float64"])
    assert list(kind.by_choice) == ["own"]


# ── whole calls ──────────────────────────────────────────────────────────────


def emptied(monkeypatch):
    """Nothing is compiled, tabled or recorded yet."""
    for module in [m for name, m in sys.modules.items() if name.startswith("widen.")]:
        for name, value in list(vars(module).items()):
            if isinstance(value, once):
                value.cache_clear()
            elif isinstance(value, Once):
                monkeypatch.setattr(module, name, Once())
    monkeypatch.setattr(gpu_recorded, "_recordings", Recordings())


def often(request):
    """Python goes from thread to thread every 10 us instead of 5 ms, until the test ends."""
    before = sys.getswitchinterval()
    request.addfinalizer(lambda: sys.setswitchinterval(before))
    sys.setswitchinterval(1e-5)


def encoded(x):
    """Planes of a left operand, and what is known of its lines."""
    wanted = Encoding("left", CONTRACTS["standard"], FORMATS["float64"], None, None)
    made = gpu_products.encode(x, [wanted])
    return made.held.planes[..., : x.shape[1]].cpu().numpy(), made.held.table.cpu().numpy()


def test_first_calls_of_twelve_threads_at_once(monkeypatch, request):
    """Of four shapes: each is given what one thread alone is."""
    if INTERPRETED:
        monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    rng = np.random.default_rng(3)
    given = [rng.standard_normal(shape) for shape in ((1, 1), (2, 5), (3, 2), (1, 9))]
    there = [torch.from_numpy(x).to("cpu" if INTERPRETED else "cuda") for x in given]
    alone = [encoded(x) for x in there]
    emptied(monkeypatch)
    often(request)

    for index, found in enumerate(at_once(lambda index: encoded(there[index % 4]))):
        for ours, theirs in zip(found, alone[index % 4], strict=True):
            assert np.array_equal(ours, theirs)
