"""Machine code of GPU kernels: found by its content alone, and launched as its record says."""

from __future__ import annotations

import ast
import ctypes
import importlib
import os
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("triton")
from helpers import ROOT
from widen.gpu.code import compiler, records, store, variants, workers
from widen.gpu.code.records import Code, TensorMap, Unsuitable
from widen.gpu.code.variants import Compilation, Variant
from widen.gpu.replay import driver
from widen.gpu.replay import launch as gpu_launch
from widen.stages.compiling import packs

STARTED = variants.STARTED
HOW = Compilation(4, 3, False, None)
CODE = Code("double", 128, 0, ((0, ""), (2, "")), {}, 2, b"machine code")


@pytest.fixture
def places(tmp_path, monkeypatch):
    """An empty home and no shipped code."""
    monkeypatch.setattr(store, "SHIPPED", tmp_path / "shipped")
    monkeypatch.setattr(store, "directory", lambda: tmp_path / "kept")
    store.pack_of.cache_clear()
    yield tmp_path
    store.pack_of.cache_clear()


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """A kernel in a file of its own, which was written long ago."""
    monkeypatch.syspath_prepend(str(tmp_path / "sources"))
    (tmp_path / "sources").mkdir()
    yield Written(tmp_path / "sources" / "written_kernel.py")
    sys.modules.pop("written_kernel", None)
    variants.sources.cache_clear()


class Written:
    """A module that is written and imported, again and again."""

    def __init__(self, path):
        self.path = path

    def __call__(self, body, *, age=1000.0):
        self.path.write_text(f"def double(x):\n    {body}\n")
        os.utime(self.path, times=(variants.STARTED - age,) * 2)
        sys.modules.pop("written_kernel", None)
        importlib.invalidate_caches()
        variants.sources.cache_clear()
        module = importlib.import_module("written_kernel")
        return SimpleNamespace(fn=module.double)


# ── keys ─────────────────────────────────────────────────────────────────────


def test_a_key_is_of_all_that_code_depends_on(kernel):
    double = kernel("return 2 * x")
    base = Variant(double, ("i32",), (1, True), HOW)
    others = [
        base._replace(types=("i64",)),
        base._replace(types=("i32:16",)),
        base._replace(constants=(1, False)),
        base._replace(constants=(1, 1)),
        base._replace(how=HOW._replace(warps=8)),
        base._replace(how=HOW._replace(exact=True)),
        base._replace(how=HOW._replace(registers=128)),
    ]
    keys = [base.key(90), base.key(80), *(other.key(90) for other in others)]
    assert len(set(keys)) == len(keys)
    assert base.key(90) == Variant(kernel("return 2 * x"), *base[1:]).key(90)
    assert base.key(90) != Variant(kernel("return 3 * x"), *base[1:]).key(90)


def test_a_file_written_since_it_was_imported_has_no_lasting_key(kernel):
    variant = Variant(kernel("return 2 * x"), ("i32",), (), HOW)
    found = variant.key(90)
    kernel("return 2 * x", age=STARTED - time.time())
    first = variant.key(90)
    variants.sources.cache_clear()
    assert len({found, first, variant.key(90)}) == 3


def test_every_file_that_a_kernel_imports_is_in_its_key():
    """As Python's own parser finds them, for every file of kernels."""
    folder = ROOT / "src" / "widen" / "gpu" / "kernels" / "triton"
    for path in folder.glob("[a-z]*.py"):
        module = f"widen.gpu.kernels.triton.{path.stem}"
        importlib.import_module(module)
        texts = {}
        variants._gather(module, texts)
        for name in [*texts]:
            for node in ast.walk(ast.parse(texts[name])):
                if isinstance(node, ast.ImportFrom) and node.module.startswith("widen"):
                    assert node.module in texts, (name, node.module)
                assert not (isinstance(node, ast.Import) and node.names[0].name == "widen")


# ── the store ────────────────────────────────────────────────────────────────

KEY, OTHER = "5" * 64, "6" * 64


def test_what_is_kept_is_found_by_other_processes(places):
    assert store.find(KEY, 90) is None
    store.keep(KEY, b"code")
    assert store.find(KEY, 90) == b"code"
    assert store.find(OTHER, 90) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: bytes(len(data)),
        lambda data: data[:-2] + bytes([data[-2] ^ 1]) + data[-1:],
        lambda data: bytes([data[0] ^ 1]) + data[1:],
    ],
)
def test_damaged_files_are_not_there_and_are_replaced(places, damage):
    store.keep(KEY, b"code")
    path = store.directory() / KEY
    path.write_bytes(damage(path.read_bytes()))
    assert store.find(KEY, 90) is None
    store.keep(KEY, b"code")
    assert store.find(KEY, 90) == b"code"


def test_code_under_another_s_name_is_not_there(places):
    """Of another architecture, or of sources that changed: it has another key."""
    store.keep(KEY, b"code")
    (store.directory() / KEY).rename(store.directory() / OTHER)
    assert store.find(OTHER, 90) is None


def test_shipped_code_comes_first_and_serves_its_architecture_alone(places):
    packs.write(store.SHIPPED / "sm_90.pack", {KEY: b"shipped"})
    store.keep(KEY, b"kept")
    assert store.find(KEY, 90) == b"shipped"
    assert store.find(KEY, 80) == b"kept"


def test_where_nothing_can_be_written_nothing_is_kept(places, monkeypatch):
    (places / "file").write_text("no folder")
    monkeypatch.setattr(store, "directory", lambda: places / "file" / "below")
    store.keep(KEY, b"code")
    assert store.find(KEY, 90) is None

    def homeless():
        raise RuntimeError("no home")

    monkeypatch.setattr(store, "directory", homeless)
    store.keep(KEY, b"code")
    assert store.find(KEY, 90) is None


# ── code that is found, or made ──────────────────────────────────────────────


class Driver:
    """Loads what is not refused."""

    def __init__(self, refused=()):
        self.refused, self.loaded = refused, []

    def enter(self, device):
        pass

    def load(self, binary, name, shared_bytes, *, prefer_shared):
        if binary in self.refused:
            raise RuntimeError("the CUDA driver answered 200")
        self.loaded.append(binary)
        return 7


@pytest.fixture
def made(places, monkeypatch):
    """What is compiled, by a compiler that makes `b"new"`."""
    seen = []

    def compiled(variant, architecture, refused):
        seen.append((variant, architecture, refused))
        data = Code("double", 128, 0, (), {}, 0, b"new").to_bytes()
        store.keep(variant.key(architecture), data)
        return data

    monkeypatch.setattr(workers, "compiled", compiled)
    monkeypatch.setattr(gpu_launch, "architecture_of", lambda device: 90)
    return seen


@pytest.mark.parametrize("state", ["shipped", "kept", "refused", "stale", "foreign", "nowhere"])
def test_code_is_compiled_where_none_is_found_that_is_right(kernel, made, monkeypatch, state):
    variant = Variant(kernel("return 2 * x"), ("i32",), (), HOW)
    key, data = variant.key(90), CODE.to_bytes()
    if state in ("shipped", "refused"):
        packs.write(store.SHIPPED / "sm_90.pack", {key: data})
    elif state == "kept":
        store.keep(key, data)
    elif state == "foreign":
        store.keep(variant.key(80), data)
    elif state == "stale":
        store.keep(key, data)
        variant = Variant(kernel("return 3 * x"), ("i32",), (), HOW)
    device = Driver([CODE.binary] if state == "refused" else [])
    monkeypatch.setattr(gpu_launch, "driver", device)
    loaded = gpu_launch.ready(variant, 0)
    found = state in ("shipped", "kept")
    assert device.loaded == [loaded.code.binary] == [CODE.binary if found else b"new"]
    assert made == ([] if found else [(variant, 90, [data] if state == "refused" else [])])
    assert gpu_launch.ready(variant, 0).code == loaded.code, "it was kept, and is found"
    assert len(made) == (not found)


def test_code_that_does_not_load_is_made_anew_and_replaced(kernel, places, monkeypatch):
    variant = Variant(kernel("return 2 * x"), ("i32",), (), HOW)
    key, new = variant.key(90), Code("double", 64, 0, (), {}, 0, b"new")
    monkeypatch.setattr(compiler, "compiled", lambda *given: new)
    store.keep(key, CODE.to_bytes())
    assert workers.compiled(variant, 90) == CODE.to_bytes(), "another process was first"
    assert workers.compiled(variant, 90, [CODE.to_bytes()]) == new.to_bytes()
    assert store.find(key, 90) == new.to_bytes()


def test_who_begins_at_once_compiles_a_kernel_once(kernel, places, monkeypatch):
    """Turns are locks of files, so threads stand for processes here."""
    variant = Variant(kernel("return 2 * x"), ("i32",), (), HOW)
    seen = []

    def compiled(*given):
        seen.append(given)
        time.sleep(0.1)
        return CODE

    monkeypatch.setattr(compiler, "compiled", compiled)
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: compiler.made(variant, 90), range(8)))
    assert made == [CODE.to_bytes()] * 8
    assert seen == [(variant, 90)]
    assert [path.name for path in store.directory().iterdir()] == [variant.key(90)]


# ── records ──────────────────────────────────────────────────────────────────

PTX = """
.visible .entry residues(
	.param .align 64 .b8 residues_param_0[128],
	.param .u32 residues_param_1,
	.param .u32 residues_param_2,
	.param .u64 residues_param_3,
	.param .u64 residues_param_4,
	.param .u64 .ptr .global .align 1 residues_param_5,
	.param .u32 residues_param_6,
	.param .f32 residues_param_7,
	.param .u8 residues_param_8,
	.param .u64 .ptr .global .align 1 residues_param_9,
	.param .u64 .ptr .global .align 1 residues_param_10
)
.reqntid 128
"""
TYPES = ("tensordesc<i8[128, 64]>", "*u8:16", "=1", "i32", "fp32", "u1")
MAP = TensorMap(kind=0, size=1, swizzle=3, box=(64, 128))


def test_a_kernel_s_parameters_are_read_from_its_assembly():
    assert records.parameter_sizes(PTX, "residues") == [128, 4, 4, 8, 8, 8, 4, 4, 1, 8, 8]
    passed, hidden = records.passing(TYPES, {0: MAP}, PTX, "residues")
    assert passed == (
        (0, "map"), (0, "shape"), (0, "strides"), (1, ""), (3, ""), (4, ""), (5, "")
    )  # fmt: skip
    assert hidden == 2


@pytest.mark.parametrize("types", [TYPES[:-1], (*TYPES, "i32"), ("*i8", *TYPES[1:])])
def test_code_that_is_given_something_else_is_refused(types):
    with pytest.raises(Unsuitable):
        records.passing(types, {0: MAP}, PTX, "residues")
    with pytest.raises(Unsuitable, match="no kernel other"):
        records.parameter_sizes(PTX, "other")


def test_a_record_comes_back_as_it_was():
    passed, hidden = records.passing(TYPES, {0: MAP}, PTX, "residues")
    code = Code("residues", 256, 70_000, passed, {0: MAP}, hidden, b"\x7fELF\n\n\0 more")
    assert Code.from_bytes(code.to_bytes()) == code


def test_arguments_reach_a_kernel_s_parameters(monkeypatch):
    """What the driver is given to read: words, floats of four bytes, addresses, a tensor map."""
    passed, hidden = records.passing(TYPES, {0: MAP}, PTX, "residues")
    code = Code("residues", 256, 70_000, passed, {0: MAP}, hidden, b"")
    seen = {}

    def encode(target, kind, rank, address, sizes, strides, box, *others):
        seen["map"] = kind, rank, address.value, list(sizes), list(strides), list(box), others[1:]
        ctypes.memmove(target, bytes(range(128)), 128)
        return 0

    def launch(config, function, parameters, extra):
        config = config._obj
        sizes = records.parameter_sizes(PTX, "residues")
        seen["launch"] = [*config.grid], [*config.block], config.shared_bytes, config.stream
        seen["given"] = [
            ctypes.string_at(place, size)
            for place, size in zip(parameters, sizes, strict=True)
        ]  # fmt: skip
        return 0

    fake = SimpleNamespace(cuTensorMapEncodeTiled=encode, cuLaunchKernelEx=launch)
    monkeypatch.setattr(driver, "calls", lambda: fake)
    monkeypatch.setattr(driver, "stream", lambda device: 55)
    base, marks = torch.zeros((30, 80), dtype=torch.int8), torch.zeros(3, dtype=torch.uint8)
    matrix = SimpleNamespace(base=base, shape=[30, 72], strides=[80, 1], block_shape=[128, 64])
    issue = gpu_launch._Issue(gpu_launch.Loaded(code, 7), (9, 2), 0)
    assert issue.bind((matrix, marks, 1, -5, 0.5, True), []) is None
    for pointer in (marks, marks.data_ptr()):
        issue(matrix, pointer, 1, -5, 0.5, True)
        at = base.data_ptr()
        assert seen["map"] == (0, 2, at, [72, 30], [80], [64, 128], (0, 3, driver.L2_128B, 0))
        assert seen["launch"] == ([9, 2, 1], [256, 1, 1], 70_000, 55)
        whole = [30, 72, 80, 1, marks.data_ptr(), -5]
        sizes = (4, 4, 8, 8, 8, 4)
        words = [
            x.to_bytes(size, "little", signed=True) for x, size in zip(whole, sizes, strict=True)
        ]
        last = [b"\0\0\0\x3f", b"\1", bytes(8), bytes(8)]
        assert seen["given"] == [bytes(range(128)), *words, *last]


# ── compiled without a GPU, by processes of their own ────────────────────────

SCRIPT = """
    import pickle
    from pathlib import Path
    from widen.gpu.code import store, workers
    from widen.gpu.code.compiler import compiled
    from widen.gpu.code.records import Code
    from widen.gpu.usual import UsualCall, variants_of

    # They read the operands, which both sides' sizes decide.
    READING = {"short_lines.survey", "encode.residues"}
    store.SHIPPED = Path("nowhere")
    thousand = variants_of(UsualCall("float64", (1, 1000, 1000, 1000)))
    names = [variant.name for variant in thousand]
    assert names == [
        "lines.largest", "lines.norms", "short_lines.survey", "quantise.scale", "multiply.certify",
        "planes.residues", "encode.residues", "multiply.residues", "crt.round_any",
        "reconstruct.round_residues", "repair.repair",
    ], names
    more = {*variants_of(UsualCall("float64", (1, 999, 999, 999)))} - {*thousand}
    assert not more, [variant.name for variant in more]
    again = pickle.loads(pickle.dumps(thousand))
    assert [variant.key(90) for variant in again] == [variant.key(90) for variant in thousand]
    shapes = [(m, 500, n) for m in (500, 640, 700) for n in (500, 640, 700)]
    kinds = {
        frozenset(x for x in variants_of(UsualCall("float64", (1, *shape))) if x.name in READING)
        for shape in shapes
    }
    assert [len(kind) for kind in kinds] == [len(READING)], kinds

    counted = variants_of(UsualCall("float64", (1, 1000, 1000, 1000), "correct"))
    (count,) = [variant for variant in counted if variant.name == "repair.count"]
    (multiply,) = [variant for variant in thousand if variant.name == "multiply.residues"]
    workers.ask([count, multiply], 90)
    for variant, architecture in ((count, 90), (multiply, 90), (multiply, 80)):
        code = Code.from_bytes(workers.compiled(variant, architecture))
        assert store.find(variant.key(architecture), architecture) == code.to_bytes()
        assert code.binary[:4] == b"\\x7fELF" and code.hidden == 2
        assert bool(code.maps) == (variant is multiply and architecture == 90)
    assert {key for key in workers._workers._taken} == {multiply.key(80)}
"""


def test_kernels_are_foreseen_and_compiled_by_other_processes(tmp_path):
    """And sizes that are no multiples of 16 share them: 999 needs none that 1000 did not."""
    empty = {"HOME": str(tmp_path), "TRITON_CACHE_DIR": str(tmp_path / "triton")}
    environment = {key: x for key, x in os.environ.items() if key != "TRITON_INTERPRET"} | empty
    environment["PYTHONPATH"] = str(ROOT / "src")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT)], env=environment, capture_output=True,
        text=True, timeout=250, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(list((Path(tmp_path) / ".cache/widen/gpu").iterdir())) == 3


USUAL = """
    from functools import partial

    import torch

    from widen.contract import as_contract
    from widen.formats import FORMATS
    from widen.gpu import products
    from widen.gpu.foresight import Numbers, kernels_of
    from widen.gpu.usual import usual_variants
    from widen.stages.problem import Call

    # What quantise.scale left of random matrices, n = 1000: phi = 0.1 for two words, and phi = 20.
    WORDS = [[[19254, 71, 0, 1091, 0, 0, 0, 0], [19520, 72, 0, 1075, 0, 0, 0, 0]]]
    WIDE = [[[28021, 109, 4, 496411, 1, 1, 1 << 29, 0], [28021, 109, 4, 496528, 1, 1, 1 << 29, 0]]]
    AGAIN = [
        [[81203, 317, 0, 496411, 0, 0, 0, 0], [76050, 297, 0, 496528, 0, 0, 0, 0]],
        [[34552, 134, 4, 496411, 1, 1, 0, 0], [34656, 134, 4, 496528, 1, 1, 0, 0]],
    ]
    usual = set(usual_variants())
    x, y = torch.empty((2, 1000, 1000), dtype=torch.float64)
    for result, accuracy, needs, passes in (
        ("float64x2", "standard", WORDS, 1),
        ("float64", "standard", WIDE + AGAIN, 2),
        ("float64", "correct", AGAIN, 1),
    ):
        contract, fmt = as_contract(accuracy), FORMATS[result]
        call = Call(x, y, (), 1000, 1000, contract, fmt, None, None, 1 << 35)
        numbers = Numbers(many_open=passes > 1)
        found = kernels_of(call, products.run_nowhere, numbers, needs)
        names = [variant.name for variant in found]
        first = "round_any" if result == "float64x2" else "round_residues"
        assert sum(first in name for name in names) == passes, names
        assert not set(found) - usual, [v.name for v in found if v not in usual]
    for info in (True, "largest"):
        found = kernels_of(call, partial(products.run_nowhere, info=info))
        assert "error_bounds.bounds" in [variant.name for variant in found]
        assert not set(found) - usual, [v.name for v in found if v not in usual]
"""


SECOND = """
    import torch

    from widen.contract import as_contract
    from widen.formats import FORMATS
    from widen.gpu import products
    from widen.gpu.foresight import kernels_of
    from widen.stages.problem import Call

    # What quantise.scale left of random matrices, n = 1000: phi = 0.1, and phi = 20.
    PLAIN = [[[13895, 50, 4, 1085, 70297, 0, 0, 0], [13895, 50, 4, 1090, 70634, 0, 0, 0]]]
    WIDE = [[[28020, 109, 4, 495034, 1, 1, 0, 0], [28021, 109, 4, 496499, 1, 1, 0, 0]]]
    x, y = torch.empty((2, 1000, 1000), dtype=torch.float64)
    for accuracy, needs, passes in (
        ("standard", PLAIN, 1), ("standard", WIDE, 2), ("fast", WIDE, 2), ("correct", WIDE * 2, 1)
    ):
        call = Call(
            x, y, (), 1000, 1000, as_contract(accuracy), FORMATS["float64"], None, None, 1 << 35
        )
        found = kernels_of(call, products.run_nowhere, needs=needs)
        names = [variant.name for variant in found]
        assert names.count("reconstruct.round_residues") == passes, (accuracy, names)
        assert ("exact_products.take" in names) == (passes == 2), (accuracy, names)
        # X has 271 bits in the second pass: 9 words of 32.
        limbs = {variant.constants[-2] for variant in found if variant.name == "crt.round_any"}
        assert (16 in limbs) == (passes == 2), (accuracy, limbs)
"""


def run_apart(script):
    """A script in a process whose kernels are compiled, and not interpreted."""
    environment = {key: x for key, x in os.environ.items() if key != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = str(ROOT / "src")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], env=environment, capture_output=True,
        text=True, timeout=250, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_a_second_pass_is_foreseen_as_soon_as_lines_are_seen_to_be_hard():
    run_apart(SECOND)


@pytest.mark.slow
def test_usual_calls_have_the_kernels_of_ordinary_and_of_wide_data():
    """Two words from one, and a second pass over data of phi = 20, which were missing once."""
    run_apart(USUAL)


def test_nobody_waits_for_a_process_that_ended(monkeypatch, kernel, places):
    """Then kernels are compiled here."""
    ended = subprocess.Popen(
        [sys.executable, "-c", ""], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    monkeypatch.setattr(workers, "_started", lambda: ended)
    asked = workers.Workers()
    variant = Variant(kernel("return 2 * x"), ("i32",), (), HOW)
    asked.ask([variant], 90)
    end = asked.take(variant.key(90))
    assert end is None or end.wait(60), "it would be waited for, for ever"
    ended.wait(60)
    assert asked.take(variant.key(90)) is None


def test_another_process_is_asked_once_for_a_kernel(monkeypatch, kernel, places):
    """Until it is there, or that process ends."""
    idle = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    started = []
    monkeypatch.setattr(workers, "_started", lambda: started.append(idle) or idle)
    asked = workers.Workers()
    variant = Variant(kernel("return 2 * x"), ("i32",), (), HOW)
    sent = []
    monkeypatch.setattr(
        asked, "_send", lambda jobs, send=asked._send: sent.append(jobs) or send(jobs)
    )
    assert [asked.compiles(variant, 90) for _ in range(3)] == [True] * 3
    assert [len(jobs) for jobs in sent] == [1]
    end = asked.take(variant.key(90))
    waiting = threading.Thread(target=asked.wait)
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    idle.stdin.close()
    assert end.wait(60)
    waiting.join(60)
    assert not waiting.is_alive()
    asked.wait()
    assert not asked.compiles(variant, 90), "then it is compiled here"
    assert len(sent) == len(started) == 1


def test_who_asks_for_a_kernel_asks_for_the_others_of_its_call(monkeypatch, kernel, places):
    """Once, and once more when the call has read what its plan depends on."""
    asked, told, sent = workers.Workers(), [], []
    variant = Variant(kernel("return 2 * x"), ("i32",), (), HOW)
    more = [variant._replace(constants=(number,)) for number in range(3)]
    monkeypatch.setattr(asked, "_send", lambda jobs: sent.extend(job[1] for job in jobs))
    monkeypatch.setattr(workers.threading, "Thread", Now)

    def foresee(known):
        told.append(known)
        return more[:2] if known is None else more

    with workers.foreseeing(foresee):
        assert asked.compiles(variant, 90)
        assert sent == [variant, *more[:2]]
        workers.decided_from("needs")
        assert asked.compiles(variant, 90), "it was asked for: there is nothing new"
        assert asked.compiles(more[0], 90)
        assert asked.compiles(more[1], 90)
    assert told == [None, "needs"]
    assert sent == [variant, *more]


class Now:
    """A thread that is done when it has started."""

    def __init__(self, target, args, daemon):
        self.work = lambda: target(*args)

    def start(self):
        self.work()
