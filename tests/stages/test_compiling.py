"""Kernels compiled, kept on disk and announced: damaged files, no folder, forks, the logger."""

from __future__ import annotations

import errno
import importlib
import logging
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from numba.core import caching

from widen.cli import main, matmul
from widen.cli.progress import progress_bar
from widen.cpu.kernels import cache
from widen.stages.compiling import kept
from widen.stages.compiling import notices as notices_of_kernels
from widen.stages.compiling.notices import Notices

SIGNATURE = numba.void(numba.int64, numba.int64, numba.float64[::1])


def doubled(begin, end, x):
    for i in range(begin, end):
        x[i] *= 2


def tripled(begin, end, x):
    for i in range(begin, end):
        x[i] *= 3


def of_a_new_process(function=doubled):
    """A kernel as another process would get it, and whether it was read from disk."""
    kernel = cache.Kernel(function, [SIGNATURE])
    x = np.array([1.0, 2.0, 3.0])
    kernel(0, 2, x)
    factor = 2 if function is doubled else 3
    assert x.tolist() == [factor, 2 * factor, 3]
    return sum(kernel._dispatcher.stats.cache_hits.values()) == 1


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache of its own, and a process that has said nothing yet."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "CPU", Notices("compiling kernels, once"))
    cache._say_once.cache_clear()
    yield tmp_path
    cache._say_once.cache_clear()


def the_file(folder):
    (path,) = folder.rglob("*.nbc")
    return path


# ── damaged files ────────────────────────────────────────────────────────────


def flipped(at):
    def change(whole):
        place = at % len(whole)
        return whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]

    return change


BYTES = {
    "empty": lambda whole: b"",
    "shorter than its digest": lambda whole: whole[:20],
    "half": lambda whole: whole[: len(whole) // 2],
    "without its last byte": lambda whole: whole[:-1],
    "longer": lambda whole: whole + b"\0",
    "zeros": lambda whole: bytes(len(whole)),
    "random": lambda whole: np.random.default_rng(0).bytes(len(whole)),
    "a bit of the digest": flipped(3),
    "the first bit of the code": flipped(kept.DIGEST),
    "a bit in the middle": flipped(9999),
    "the last bit": flipped(-1),
    "of Numba's own cache": lambda whole: whole[kept.DIGEST :],
}
"""What becomes of a file."""


@pytest.mark.parametrize("damage", BYTES)
def test_a_damaged_file_is_compiled_again_and_replaced(folder, damage):
    assert not of_a_new_process()
    path = the_file(folder)
    whole = path.read_bytes()
    assert of_a_new_process()
    path.write_bytes(BYTES[damage](whole))
    assert not of_a_new_process()
    assert the_file(folder) == path
    assert of_a_new_process()


def odd_key(data):
    key, found = pickle.loads(data)
    return pickle.dumps(((*key[:2], "other code"), found))


def other_processor(data):
    (signature, _, code), found = pickle.loads(data)
    return pickle.dumps(((signature, ("x86_64", "another", "+avx999"), code), found))


CONTENT = {
    "no pickle": lambda data: b"no pickle",
    "something else": lambda data: pickle.dumps(7),
    "no kernel": lambda data: pickle.dumps((pickle.loads(data)[0], ("no", "kernel"))),
    "another function": odd_key,
    "another processor": other_processor,
}
"""What a file that is whole may have in it."""


@pytest.mark.parametrize("content", CONTENT)
def test_a_whole_file_that_holds_something_odd_is_replaced(folder, content):
    of_a_new_process()
    path = the_file(folder)
    stamp = cache._stamp(Path(__file__).parent)
    data = kept.read(path, stamp)
    kept.write(path, stamp, CONTENT[content](data))
    assert not of_a_new_process()
    assert of_a_new_process()


def test_a_change_in_any_source_of_the_kernels_compiles_them_again(folder, monkeypatch):
    of_a_new_process()
    sources = Path(cache.__file__).parent
    changed = folder / "sources"
    changed.mkdir()
    for path in sources.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        (changed / path.name).write_text(text + "#\n" * (path.name == "floats.py"), "utf-8")
    monkeypatch.setattr(cache, "__file__", str(changed / "cache.py"))
    monkeypatch.setattr(cache, "_stamp", cache._stamp.__wrapped__)
    assert not of_a_new_process()


@pytest.mark.parametrize("library", [cache.numba, cache.llvmlite, np])
def test_another_version_of_a_library_compiles_again(folder, monkeypatch, library):
    of_a_new_process()
    monkeypatch.setattr(library, "__version__", "999")
    monkeypatch.setattr(cache, "_stamp", cache._stamp.__wrapped__)
    assert not of_a_new_process()
    assert of_a_new_process()


def test_a_signature_never_gets_the_code_of_another(folder):
    """Numba's cache numbers files, and two processes that count at once mix them up."""
    kernel = cache.compiled(doubled)
    kernel(0, 1, np.ones(1))
    kernel(0, 1, np.ones(1, np.float32))
    one, other = sorted(folder.rglob("*.nbc"))
    other.write_bytes(one.read_bytes())
    again = cache.compiled(doubled)
    for kind in ("float64", "float32"):
        x = np.ones(1, kind)
        again(0, 1, x)
        assert x[0] == 2
    assert sum(again.stats.cache_hits.values()) == 1


def test_readers_see_all_of_a_file_or_nothing(tmp_path):
    path, contents = tmp_path / "file", [bytes([i]) * 100_000 for i in (1, 2)]
    kept.write(path, b"stamp", contents[0])

    def replace():
        for turn in range(60):
            kept.write(path, b"stamp", contents[turn % 2])

    writers = [threading.Thread(target=replace) for _ in range(2)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert kept.read(path, b"stamp") in contents
    assert kept.read(path, b"another") is None
    assert list(tmp_path.iterdir()) == [path]


# ── folders that cannot be written ───────────────────────────────────────────


def test_a_full_disk_is_told_once_and_the_product_goes_on(folder, monkeypatch, caplog):
    def full(*given):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(kept, "write", full)
    assert not of_a_new_process()
    assert not of_a_new_process(tripled)
    (record,) = [x for x in caplog.records if x.levelno == logging.WARNING]
    text = record.getMessage()
    assert record.name == "widen"
    assert str(folder) in text
    assert os.strerror(errno.ENOSPC) in text
    assert "NUMBA_CACHE_DIR" in text


def test_a_folder_in_the_place_of_a_file_is_told_once(folder, caplog):
    of_a_new_process()
    path = the_file(folder)
    path.unlink()
    path.mkdir()
    assert not of_a_new_process()
    assert not of_a_new_process()
    assert [x.levelno for x in caplog.records].count(logging.WARNING) == 1
    assert [x.name for x in path.parent.iterdir()] == [path.name]


def unusable(self):
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def test_no_folder_at_all_is_told_once(folder, monkeypatch, caplog):
    monkeypatch.setattr(caching._CacheLocator, "ensure_cache_path", unusable)
    assert not of_a_new_process()
    assert not of_a_new_process()
    assert not of_a_new_process(tripled)
    (record,) = [x for x in caplog.records if x.levelno == logging.WARNING]
    for tried in (folder, Path(__file__).parent / "__pycache__"):
        assert str(tried) in record.getMessage()
    assert "NUMBA_CACHE_DIR" in record.getMessage()
    assert list(folder.rglob("*")) == []


NO_FOLDER = """
from numba.core.caching import _CacheLocator
def unusable(self): raise OSError("read-only")
_CacheLocator.ensure_cache_path = unusable
import numpy as np
from widen.papers.multiple_double.algorithm import sum_parts
for _ in range(2):
    assert sum_parts([np.ones((2, 2, 2))], 2)[0].tolist() == [[2, 2], [2, 2]]
"""


def test_who_has_set_up_no_logging_is_told_too():
    done = subprocess.run([sys.executable, "-c", NO_FOLDER], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    assert "NUMBA_CACHE_DIR" in line
    assert done.stdout == ""


@pytest.mark.parametrize("gone", ["FunctionCache", "_cache_file"])
def test_with_another_numba_its_own_cache_serves(folder, monkeypatch, gone):
    if gone == "FunctionCache":
        monkeypatch.delattr(caching, gone)
    else:
        other = type("Other", (), {"__init__": lambda self, function: None})
        monkeypatch.setattr(caching, "FunctionCache", other)
    assert not of_a_new_process()
    assert of_a_new_process()
    assert list(folder.rglob("*.nbi"))


# ── what is said ─────────────────────────────────────────────────────────────


def test_the_logger_tells_of_kernels_that_are_compiled(folder, caplog):
    caplog.set_level(logging.INFO, "widen")
    of_a_new_process()
    of_a_new_process(tripled)
    texts = [record.getMessage() for record in caplog.records]
    assert texts[0] == "compiling kernels, once"
    assert [text.split(" is ready after ")[0] for text in texts[1:]] == [
        "test_compiling.doubled",
        "test_compiling.tripled",
    ]
    assert "(kernels so far: 2, in " in texts[2]
    caplog.clear()
    assert of_a_new_process()
    assert caplog.records == []  # nothing is compiled


def test_the_logger_tells_of_gpu_kernels(caplog, monkeypatch):
    launches = importlib.import_module("widen.gpu.replay.launch")
    caplog.set_level(logging.INFO, "widen")
    monkeypatch.setattr(launches, "GPU", Notices("compiling GPU kernels"))
    monkeypatch.setattr(launches.torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(launches, "architecture_of", lambda device: 90)
    driver = SimpleNamespace(enter=lambda device: None, load=lambda *given, **named: 7)
    monkeypatch.setattr(launches, "driver", driver)
    monkeypatch.setattr(launches.store, "copies", lambda key, architecture: ())
    code = launches.Code("doubled", 128, 0, (), {}, 0, b"")
    monkeypatch.setattr(launches.workers, "compiled", lambda *given: code.to_bytes())
    names = ("begin", "end", "x")
    params = [SimpleNamespace(do_not_specialize=True)] * 3
    kernel = SimpleNamespace(fn=doubled, params=params, arg_names=names, __name__="doubled")
    for warps in (4, 4, 8):
        how = launches.Compilation(warps, 3, False, None)
        launching = launches.Launching(kernel, (1,), (1, 2, 3), (), how, (True,) * 3)
        assert launches._loaded(launching)._function == 7
    texts = [record.getMessage().split(" is ready")[0] for record in caplog.records]
    assert texts == ["compiling GPU kernels", *["test_compiling.doubled"] * 2]


def test_a_damaged_cuda_kernel_is_compiled_again(tmp_path, caplog, monkeypatch):
    from widen.gpu.kernels.cuda import compiler

    library = SimpleNamespace(nvrtcVersion=lambda: (0, 13, 0))
    compiled = []
    monkeypatch.setattr(compiler, "import_module", lambda name: library)
    monkeypatch.setattr(compiler.driver, "version", lambda: 13000)
    monkeypatch.setattr(compiler, "_cache_directory", lambda: tmp_path)
    monkeypatch.setattr(compiler, "_compiled", lambda *given: compiled.append(given) or b"cubin")
    caplog.set_level(logging.INFO, "widen")
    for damaged in (False, True, False):
        if damaged:
            (path,) = tmp_path.iterdir()
            path.write_bytes(path.read_bytes()[:-1])
        assert compiler._binary(compiler.FOLDER / "residues.cuh", ("--option",)) == b"cubin"
    assert len(compiled) == 2
    assert [record.getMessage().split(" is")[0] for record in caplog.records] == ["multiply.cu"] * 2


def test_the_library_sets_up_no_logging():
    code = (
        "import logging, widen; print(logging.getLogger('widen').handlers, logging.root.handlers)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "[]"]


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("asked", [True, False])
def test_one_line_on_a_terminal_says_so_where_nobody_has_asked(
    capsys, caplog, monkeypatch, terminal, asked
):
    monkeypatch.setattr(notices_of_kernels, "PATIENCE", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    caplog.set_level(logging.INFO if asked else logging.WARNING, "widen")
    notices = Notices("compiling kernels, once")
    for name in ("one", "two"):
        started = notices.start(name)
        if notices._timer is not None:
            notices._timer.join()
        notices.finish(name, started)
    shown = "widen: compiling kernels, once …\n" if terminal and not asked else ""
    captured = capsys.readouterr()
    assert (captured.err, captured.out) == (shown, "")


def test_the_progress_bar_says_that_kernels_are_compiled(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    notices, said = Notices("compiling kernels, once (half a minute)"), threading.Event()
    with progress_bar("A × B", 0.0):
        for name in ("one", "two"):
            started = notices.start(name)
            said.wait(0.15)  # the bar is drawn ten times a second
            notices.finish(name, started)
    shown = capsys.readouterr().err
    assert "compiling kernels, once: 0 done" in shown
    assert "compiling kernels, once: 1 done" in shown


def test_without_a_terminal_one_line_says_so(capsys):
    notices = Notices("compiling kernels, once (half a minute)")
    for _ in range(2):
        with progress_bar("A × B", 0.0):
            for name in ("one", "two"):
                notices.finish(name, notices.start(name))
    assert capsys.readouterr().err == "widen: compiling kernels, once (half a minute) …\n"


def test_the_command_line_says_so_wherever_it_happens(tmp_path, capsys, monkeypatch):
    """The dtype of the result is asked first, and kernels are compiled for that already."""
    monkeypatch.chdir(tmp_path)
    np.save("A.npy", np.eye(2))
    notices = Notices("compiling kernels, once (half a minute)")

    def compiles(*given, asked=matmul.dtype_of_product):
        notices.finish("one", notices.start("one"))
        return asked(*given)

    monkeypatch.setattr(matmul, "dtype_of_product", compiles)
    assert main(["matmul", "A.npy", "A.npy", "-o", "C.npy"]) == 0
    assert capsys.readouterr().err == "widen: compiling kernels, once (half a minute) …\n"


def test_the_command_line_shows_warnings_as_its_own_lines(capsys):
    with progress_bar("A × B", 60.0):
        logging.getLogger("widen").warning("set NUMBA_CACHE_DIR")
    assert capsys.readouterr().err == "widen: set NUMBA_CACHE_DIR\n"
    logger = logging.getLogger("widen")
    assert (logger.handlers, logger.level) == ([], logging.NOTSET)


# ── forks ────────────────────────────────────────────────────────────────────

FORK = """
import logging, os, signal, sys, threading
import numba, numpy as np, widen
from widen.papers.multiple_double.algorithm import sum_parts

compiling = threading.Event()
class Watch(logging.Handler):
    def emit(self, record):
        compiling.set()
logger = logging.getLogger("widen")
logger.addHandler(Watch())
logger.setLevel(logging.INFO)

def add():
    return sum_parts([np.ones((2, 2, 2))], 2)[0].tolist() == [[2, 2], [2, 2]]

kept, numba.config.CACHE_DIR = numba.config.CACHE_DIR, sys.argv[1]
thread = threading.Thread(target=add)
thread.start()
assert compiling.wait(60)
child = os.fork()
if child == 0:
    signal.alarm(120)  # a child that hangs does not stay
    numba.config.CACHE_DIR = kept
    a = np.random.default_rng(0).random((200, 200))  # large enough for several threads
    right = np.allclose(widen.matmul(a, a), a @ a, rtol=1e-12)
    os._exit(0 if right and add() else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
thread.join()
assert add()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_forked_while_a_thread_compiles_multiplies(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK, tmp_path],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


FORK_EARLY = """
import os, signal, sys, threading, time
import numpy as np, widen

importing = threading.Event()
class Slow:
    def find_spec(self, name, path, target=None):
        if name == "widen.cpu.products":  # the first that is imported of the wing
            importing.set()
            time.sleep(0.5)
sys.meta_path.insert(0, Slow())
multiply = lambda: widen.matmul(np.eye(3), np.eye(3)).tolist() == np.eye(3).tolist()
thread = threading.Thread(target=multiply)
thread.start()
assert importing.wait(60)
child = os.fork()
if child == 0:
    signal.alarm(60)  # a child that hangs does not stay
    os._exit(0 if multiply() else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
thread.join()
assert multiply()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_forked_while_a_thread_makes_the_first_call_multiplies():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK_EARLY],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_no_lock_stays_held_by_a_thread_that_a_child_does_not_have():
    """Every lock of a product, held for a moment by another thread while this one forks."""
    from widen.cpu import threads

    locks = [lock for lock in threads._locks() if lock is not None]
    assert len(locks) == 4  # ours, Numba's and LLVM's
    for lock in locks:
        held, free = threading.Event(), threading.Event()

        def hold(lock=lock, held=held, free=free):
            lock.acquire()
            held.set()
            free.wait(0.2)
            lock.release()

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        child = os.fork()
        if child == 0:
            inner = getattr(lock, "_lock", lock)  # Numba's has no timeout
            os._exit(0 if inner.acquire(timeout=5) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        thread.join()
        assert threads._at_fork.held == []
