"""Kernels compiled before they are asked for: by whom, how often, and which."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
import threading
from pkgutil import iter_modules

import numba
import numpy as np
import pytest

import widen
from widen.cli import main
from widen.cpu import kernels, warm
from widen.cpu.kernels import cache
from widen.formats import FORMATS
from widen.stages.compiling.notices import Notices
from widen.stages.compiling.turns import Busy, Turn, When

SIGNATURE = numba.void(numba.int64, numba.int64, numba.float64[::1])


def doubled(begin, end, x):
    for i in range(begin, end):
        x[i] *= 2


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "CPU", Notices("compiling kernels, once"))
    return tmp_path


def compilations(kernel):
    return sum(kernel._dispatcher.stats.cache_misses.values())


# ── turns ────────────────────────────────────────────────────────────────────

only_posix = pytest.mark.skipif(os.name != "posix", reason="there are no locks on files")


@only_posix
def test_a_turn_is_one_s_alone_and_leaves_no_file(tmp_path):
    one, other = Turn(tmp_path / "kernel"), Turn(tmp_path / "kernel")
    one.take(wait=False)
    one.take(wait=False)
    with pytest.raises(Busy):
        other.take(wait=False)
    one.leave()
    assert list(tmp_path.iterdir()) == []
    other.take(wait=False)
    with pytest.raises(Busy):
        one.take(wait=False)
    other.leave()
    assert list(tmp_path.iterdir()) == []


@only_posix
def test_who_has_opened_a_file_that_was_removed_has_no_turn(tmp_path, monkeypatch):
    one, other = Turn(tmp_path / "kernel"), Turn(tmp_path / "kernel")
    one.take(wait=False)
    opened = os.open

    def open_then_leave(*given):
        file = opened(*given)
        one.leave()
        return file

    monkeypatch.setattr(os, "open", open_then_leave)
    assert not other._taken()
    monkeypatch.setattr(os, "open", opened)
    other.take(wait=False)
    assert [path.name for path in tmp_path.iterdir()] == ["kernel.turn"]


@only_posix
def test_a_process_that_is_killed_has_its_turn_no_more(tmp_path):
    code = (
        "import sys, pathlib, time; from widen.stages.compiling.turns import Turn;"
        "Turn(pathlib.Path(sys.argv[1])).take(wait=True); print('taken', flush=True);"
        "time.sleep(60)"
    )
    path = tmp_path / "kernel"
    held = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE)
    assert held.stdout.readline() == b"taken\n"
    with pytest.raises(Busy):
        Turn(path).take(wait=False)
    held.send_signal(signal.SIGKILL)
    held.wait()
    held.stdout.close()
    Turn(path).take(wait=True)


def test_nobody_waits_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr("widen.stages.compiling.turns.PATIENCE", 0.0)
    Turn(tmp_path / "kernel").take(wait=False)
    Turn(tmp_path / "kernel").take(wait=True)
    Turn(tmp_path / "file" / "kernel").take(wait=True)


def test_where_nothing_can_be_written_everybody_has_a_turn(tmp_path):
    (tmp_path / "file").write_text("")
    for _ in range(2):
        Turn(tmp_path / "file" / "kernel").take(wait=False)


# ── one compilation for all ──────────────────────────────────────────────────


@only_posix
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_twenty_processes_that_begin_at_once_compile_once(folder):
    gate, gate_end = os.pipe()
    told, tell = os.pipe()
    children = []
    for _ in range(20):
        child = os.fork()
        if child == 0:
            os.close(gate_end)
            os.read(gate, 1)  # until the parent closes its end
            kernel, x = cache.Kernel(doubled, [SIGNATURE]), np.ones(1)
            kernel(0, 1, x)
            os.write(tell, b"%d" % compilations(kernel) if x[0] == 2 else b"!")
            os._exit(0)
        children.append(child)
    os.close(gate_end)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 20
    assert sorted(os.read(told, 100)) == sorted(b"1" + b"0" * 19)
    for end in (gate, told, tell):
        os.close(end)
    assert [path.suffix for path in folder.rglob("*") if path.is_file()] == [".nbc"]


def test_twenty_threads_that_begin_at_once_compile_once(folder):
    kernel, start, values = cache.Kernel(doubled, [SIGNATURE]), threading.Barrier(20), np.ones(20)

    def work(at):
        start.wait()
        kernel(at, at + 1, values)

    threads = [threading.Thread(target=work, args=(at,)) for at in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert compilations(kernel) == 1
    assert values.tolist() == [2] * 20


@only_posix
def test_a_kernel_is_left_to_who_is_at_it(folder):
    first, second = (cache.Kernel(doubled, [SIGNATURE]) for _ in range(2))
    assert not first.prepare("", When.NEVER)
    assert list(folder.rglob("*.nbc")) == []
    turn = _turn_of(first)
    turn.take(wait=False)
    assert not first.prepare("", When.FREE)
    turn.leave()
    assert first.prepare("", When.FREE)
    assert second.prepare("", When.NEVER)
    assert (compilations(first), compilations(second)) == (1, 0)


def _turn_of(kernel):
    """The turn that a kernel takes to be compiled."""
    taken = []

    class Noted(Turn):
        def take(self, *, wait):
            taken.append(self)
            raise Busy

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "Turn", Noted)
        assert not kernel.prepare("", When.FREE)
    found = Turn(kernel.folder / "any")
    found._path = taken[0]._path
    return found


@only_posix
def test_an_interrupted_compilation_leaves_no_turn(folder, monkeypatch):
    kernel = cache.Kernel(doubled, [SIGNATURE])
    kernel.prepare("", When.NEVER)

    def interrupted(*given):
        raise KeyboardInterrupt

    compiler = kernel._dispatcher._compiler
    with monkeypatch.context() as patch:
        patch.setattr(compiler, "compile", interrupted)
        with pytest.raises(KeyboardInterrupt):
            kernel(0, 1, np.ones(1))
    assert [path for path in folder.rglob("*") if path.is_file()] == []
    assert cache.Kernel(doubled, [SIGNATURE]).prepare("", When.FREE)


def test_a_kernel_is_compiled_for_its_own_types_alone(folder):
    kernel = cache.Kernel(doubled, [SIGNATURE])
    with pytest.raises(TypeError, match="No matching definition"):
        kernel(0, 1, np.ones(1, np.float32))
    single = numba.void(numba.int64, numba.int64, numba.float32[::1])
    either, x = cache.Kernel(doubled, [SIGNATURE, single]), np.ones(1, np.float32)
    either(0, 1, x)
    assert x[0] == 2
    assert list(either.waiting) == ["float64"]


# ── what is compiled ─────────────────────────────────────────────────────────


def test_every_kernel_of_products_is_listed_once():
    found = []
    for module in iter_modules(kernels.__path__):
        for name, value in inspect.getmembers(getattr(kernels, module.name)):
            if isinstance(value, cache.Kernel) and value.__module__.endswith(f".{module.name}"):
                found += [f"{module.name}.{name}" + f":{v}" * bool(v) for v in value.variants]
    assert sorted(found) == sorted(warm.LONGEST_FIRST)


KINDS = [
    ("float64", (20, 600, 20), {}),
    ("float64", (20, 600, 20), {"accuracy": "fast"}),
    ("float64", (20, 30, 20), {"accuracy": 40}),
    ("float64", (20, 30, 20), {"accuracy": "correct"}),
    ("float64", (20, 30, 20), {"info": True}),
    ("float64", (20, 30, 20), {"system": "digits"}),
    ("float32", (20, 600, 20), {}),
    ("complex128", (20, 30, 20), {}),
    ("complex64", (20, 30, 20), {"accuracy": "correct"}),
    ("float64", (20, 600, 20), {"dtype": "float64x2"}),
    ("float64", (20, 30, 20), {"alpha": 2.0}),
    ("float64", (300, 600, 1), {}),
    ("float32", (1, 600, 300), {"accuracy": "fast"}),
    ("complex128", (300, 600, 1), {"accuracy": "correct"}),
]


@pytest.mark.parametrize(("dtype", "shape", "options"), KINDS, ids=str)
def test_a_product_uses_the_kernels_that_are_expected(dtype, shape, options, monkeypatch):
    m, k, n = shape
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(size).astype(dtype) for size in ((m, k), (k, n)))
    used, expected = set(), set()
    call, expects = cache.Kernel.__call__, warm.expected

    def noted(kernel, begin, end, *arguments):
        used.add(kernel.name + f":{arguments[0].dtype}" * (len(kernel.variants) > 1))
        call(kernel, begin, end, *arguments)

    def noted_too(*given, **named):
        expected.update(expects(*given, **named))
        return ()

    monkeypatch.setattr(cache.Kernel, "__call__", noted)
    monkeypatch.setattr(warm, "expected", noted_too)
    monkeypatch.setattr(warm, "_expected", type(warm._expected)())
    (widen.gemm if "alpha" in options else widen.matmul)(a, b, **options)
    # Whether a look at magnitudes in float64 must decide depends on the numbers.
    assert used - expected <= {"certify.certify:float64", "magnitudes.magnitudes:float64"}
    # "correct" may have nothing to repair, and every bit of short lines may be kept.
    perhaps = {"reconstruct.in_limbs", "dots.scaled", "dots.partial_sums", "lines.extremes"}
    assert expected - used <= (perhaps if options.get("accuracy") == "correct" else set())


def test_numbers_of_several_words_are_expected_too():
    words, plain = FORMATS["float64x2"], FORMATS["float64"]
    found = warm.expected(
        (words, plain), words, "standard", 30, system=None, scaled=False, bounded=False
    )
    assert {"wide.residues", "wide.rounded", "wide.heads"} <= set(found)
    assert list(found) == [name for name in warm.LONGEST_FIRST if name in found]


FROM_DISK = """
import sys
from widen.cpu import warm
from widen.stages.compiling.notices import CPU
warm.prepare_all(("lines.scale",))
print(CPU.count, [name for name in ("numba.np.linalg", "scipy.linalg") if name in sys.modules])
"""


def test_a_kernel_on_disk_is_read_without_what_compiles(folder):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    for said in ("1 ['numba.np.linalg'", "0 []"):
        found = subprocess.run(
            [sys.executable, "-c", FROM_DISK], env=environment, stdout=subprocess.PIPE, text=True,
            check=True,
        )  # fmt: skip
        assert found.stdout.startswith(said)


# ── workers ──────────────────────────────────────────────────────────────────


@pytest.fixture
def started(folder, monkeypatch):
    """Kernels by name that nobody has compiled, and the lists of workers that would start."""
    made = {name: cache.Kernel(doubled, [SIGNATURE]) for name in ("a.a", "b.b", "c.c")}
    lists = []
    monkeypatch.setattr(warm, "_kernel", lambda name: (made[name], ""))
    monkeypatch.setattr(warm, "_start", lists.append)
    monkeypatch.setattr(warm, "thread_count", lambda: 3)
    return lists


def test_workers_share_what_is_missing(started):
    warm.prepare_all(("a.a", "b.b", "c.c"))
    assert started == [["b.b", "c.c"], ["c.c", "b.b"]]


@pytest.mark.parametrize("why", ["one thread", "another process has some", "no interpreter"])
def test_no_workers_start(started, folder, monkeypatch, why):
    if why == "one thread":
        monkeypatch.setattr(warm, "thread_count", lambda: 1)
    elif why == "no interpreter":
        monkeypatch.setattr(sys, "executable", "")
    else:
        kernel, _ = warm._kernel("a.a")
        kernel.prepare("", When.NEVER)
        turn = Turn(kernel.folder / "workers")
        turn.take(wait=False)
    warm.prepare_all(("a.a", "b.b", "c.c"))
    assert started == []
    assert not any(warm._kernel(name)[0].waiting for name in ("a.a", "b.b", "c.c"))


def test_nothing_starts_where_all_is_on_disk(started):
    warm.prepare_all(("a.a",))  # the same code serves all of them
    warm.prepare_all(("b.b", "c.c"))
    assert started == []


def test_a_worker_whose_parent_is_gone_stops(monkeypatch):
    done = []
    monkeypatch.setattr(warm, "_prepare", lambda name, when: done.append((name, when)))
    warm.work(-1, ["a.a"])
    assert done == []
    warm.work(os.getppid(), ["a.a", "b.b"])
    assert done == [("a.a", When.FREE), ("b.b", When.FREE)]


def test_a_worker_compiles_into_the_same_folder(folder):
    warm._start(["encode.two_digits"])
    (worker,) = (thread for thread in threading.enumerate() if thread.name == "widen worker")
    worker.join(120)
    (path,) = folder.rglob("*.nbc")
    assert path.name.startswith("encode.two_digits.")


# ── the command ──────────────────────────────────────────────────────────────


def test_warm_compiles_what_is_missing_and_then_says_that_all_is_there(
    started, monkeypatch, capsys
):
    monkeypatch.setattr(warm, "LONGEST_FIRST", ("a.a", "b.b", "c.c"))
    for said in ("3 compiled now, 0 were there", "all were there"):
        assert main(["warm"]) == 0
        assert capsys.readouterr().out == f"3 kernels for cpu: {said}\n"
    assert started == [["c.c", "b.b"], ["b.b", "c.c"]]  # from the other end


def test_warm_for_a_device_that_has_nothing_to_compile(capsys):
    assert main(["warm", "--device", "abacus"]) == 2
    assert "--device abacus" in capsys.readouterr().err
