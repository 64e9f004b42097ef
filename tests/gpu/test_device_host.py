"""Products on a GPU of operands in host memory: the bits of every other way, and bytes as planned.

Without a GPU the panels are computed in Triton's interpreter, and copies are plain ones. `Late`
copies as a GPU's streams may: as late as somebody waits for it, so a wait that is missing shows.
"""

from __future__ import annotations

import math
import threading
import time
from contextlib import nullcontext

import numpy as np
import pytest
import torch

pytest.importorskip("triton")
import widen
from device import ON
from helpers import ACCURACIES, assert_same_bits, assert_same_words, draw, draw_words
from streams import Late, Stream, formula
from widen.cli import main
from widen.formats import PLAIN
from widen.gpu.host import copies, products
from widen.gpu.host import sizes as sizing
from widen.gpu.host.copies import Link
from widen.gpu.host.panels import Panels
from widen.words import Words

pytestmark = pytest.mark.device

SHAPE = (5, 7, 4)
RNG = np.random.default_rng(7)
A, B, C = RNG.standard_normal((5, 7)), RNG.standard_normal((7, 4)), RNG.standard_normal((5, 4))


@pytest.fixture(autouse=True)
def device(monkeypatch):
    """The device that runs kernels here is what is asked for as "cuda"."""
    if ON == "cpu":
        monkeypatch.setattr(products, "device_named", lambda name: "cpu")


class Cut:
    """Panels of a given size, in place of those that the plan would choose."""

    def __init__(self, kept=0, step=(3, 2), items=1):
        self.kept, self.step, self.items = kept, step, items

    def __call__(self, sizes, workspace, own):
        step, slots = self.step, ((1, 2), (2, 1))[self.kept]
        if self.items > 1:
            step, slots = sizes.count, (2, 2)
        step = tuple(min(pair) for pair in zip(step, sizes.count, strict=True))
        self.panels = Panels(sizes, self.kept, self.items, step, slots, workspace)
        return self.panels


def slow(value):
    """A value that `make test-slow` alone takes."""
    return pytest.param(value, marks=pytest.mark.slow)


@pytest.fixture
def assert_same(monkeypatch):
    """Whether a product in panels is the product of a CPU, bit for bit, and says the same of it."""

    def check(a, b, *c, cut=None, **options):
        monkeypatch.setattr(sizing, "choose_panels", cut or Cut())
        function = widen.gemm if c or "alpha" in options else widen.matmul
        found, info = function(a, b, *c, device="cuda", workspace="1GB", info=True, **options)
        wanted, other = function(a, b, *c, info=True, **options)
        assert type(found) is type(wanted)
        assert np.shape(found) == np.shape(wanted)
        if isinstance(wanted, Words):
            assert_same_words(found, wanted)
        else:
            assert_same_bits(np.asarray(found), np.asarray(wanted))
        assert np.array_equal(info.bound, other.bound, equal_nan=True)
        assert (info.not_finite, info.plan.result) == (other.not_finite, other.plan.result)
        batch, m, k, n = info.plan.shape
        assert (batch * m * n, k) == (math.prod(np.shape(found)), a.shape[-1])
        return info

    return check


@pytest.mark.slow
@pytest.mark.parametrize("accuracy", ACCURACIES)
@pytest.mark.parametrize("name", list(PLAIN))
@pytest.mark.parametrize("kept", [0, 1])
def test_every_format_and_contract(assert_same, name, accuracy, kept):
    step = ((5, 2), (3, 4))[kept]
    info = assert_same(*draw("phi2", SHAPE, 3, name), accuracy=accuracy, cut=Cut(kept, step))
    said = f"operands stay in host memory: {step[0]} rows and {step[1]} columns at a time"
    assert said in info.plan.why[-1]


@pytest.mark.parametrize("accuracy", ["standard", slow("correct")])
@pytest.mark.parametrize("name", ["float64x2", slow("complex128x2")])
def test_several_words(assert_same, name, accuracy):
    a, b = draw_words("phi2", (3, 5, 4), 3, name)
    assert_same(a, b, accuracy=accuracy, cut=Cut(1, (3, 2)))


@pytest.mark.slow
@pytest.mark.parametrize("names", [("float64", "complex64"), ("complex128", "float32")])
def test_a_real_operand_and_a_complex_one(assert_same, names):
    assert_same(*draw("phi2", (3, 4, 2), 3, *names), cut=Cut(0, (2, 1)))


@pytest.mark.parametrize("dtype", ["float16", slow("float64x3"), slow("complex128")])
def test_results_of_other_formats(assert_same, dtype):
    assert_same(A[:3], B[:, :2], dtype=dtype, cut=Cut(0, (2, 1)))


BATCHES = RNG.standard_normal((3, 2, 3, 5)), RNG.standard_normal((2, 5, 2))


@pytest.mark.parametrize("operands", [
    (A[0], B), slow((A, B[:, 0])), slow((A[0], B[:, 0])), slow(BATCHES),
    slow((BATCHES[0], BATCHES[1][0])), slow((BATCHES[0][0, 0], BATCHES[1])),
    slow((BATCHES[0][0], BATCHES[1][0, :, 0])),
], ids=lambda x: " ".join(str(y.shape) for y in x))  # fmt: skip
@pytest.mark.parametrize("items", [2, slow(1)])
def test_vectors_and_batches(assert_same, operands, items):
    assert_same(*operands, cut=Cut(1, (3, 2), items if max(x.ndim for x in operands) > 2 else 1))


@pytest.mark.slow
def test_no_elements_and_nothing_to_sum(assert_same):
    for m, k, n in ((0, 3, 4), (3, 0, 4), (3, 4, 0)):
        added = np.full((m, n), 1.5)
        assert_same(np.ones((m, k)), np.ones((k, n)))
        assert_same(np.ones((m, k)), np.ones((k, n)), added, beta=2.0)
    assert_same(np.ones((0, 3, 4)), np.ones((4, 2)))


WIDE = RNG.standard_normal((14, 20)), RNG.standard_normal((20, 12))


@pytest.mark.parametrize("operands", [
    (WIDE[0][::-2, ::-3][:3], WIDE[1][::3][:7][:, ::-6]),
    slow((WIDE[1].T[:3, :7], WIDE[0].T[:7, :2])),
    slow(
        (np.broadcast_to(WIDE[0][0, :7], (3, 7)).astype(">f8"), np.broadcast_to(B[:, :1], (7, 2)))
    ),
    slow((torch.from_numpy(A[:3] + 1j).conj(), torch.from_numpy(B.T[:2] - 2j).mH)),
], ids=["reversed", "transposed", "repeated and swapped bytes", "conjugates"])  # fmt: skip
def test_any_layout(assert_same, operands):
    assert_same(*operands, cut=Cut(0, (2, 1)))


@pytest.mark.parametrize("accuracy", ["standard", slow("correct")])
def test_special_values(assert_same, accuracy):
    a, b = draw("phi2", SHAPE, 3)
    a[1, 2], b[3, 1], a[4], a[2] = np.nan, np.inf, 1e308, 0
    assert assert_same(a, b, accuracy=accuracy, cut=Cut(0, (5, 2))).not_finite > 0


@pytest.mark.parametrize("given", [
    {"c": C[0], "alpha": -1.5, "beta": 0.3}, slow({"c": C[:, :1], "beta": 2.0, "dtype": "float16"}),
    slow({"c": C + 1j * C, "beta": 1.0, "dtype": "complex128"}),
    slow({"c": C, "alpha": 0.0, "beta": 2.0}),
    slow({"c": np.float64(1.5), "alpha": -1.0, "beta": 1.0, "accuracy": "correct"}),
    slow({"c": None, "alpha": 3.0}),
], ids=range(6))  # fmt: skip
def test_gemm(assert_same, given):
    options = dict(given)
    c = options.pop("c")
    a = A * np.nan if options.get("alpha") == 0 else A
    assert_same(a, B, c, **options, cut=Cut(1, (3, 4)))


@pytest.mark.slow
def test_a_vector_is_added(assert_same):
    assert_same(A, B[:, 0], C[:, 0], beta=1.0)
    assert_same(A[0], B, C[0], beta=1.0)


@pytest.mark.slow
def test_out_may_be_anything_of_the_right_size(monkeypatch):
    monkeypatch.setattr(sizing, "choose_panels", Cut(0, (5, 2)))
    there = {"device": "cuda", "workspace": "1GB"}
    wanted, square = widen.matmul(A, B), A[:, :5].copy()
    for out in (np.zeros((4, 10)).T[::2], torch.zeros(5, 4).double()):
        found = widen.matmul(
            *(torch.from_numpy(x) if isinstance(out, torch.Tensor) else x for x in (A, B)),
            out=out, **there,
        )  # fmt: skip
        assert found is out
        assert_same_bits(np.asarray(out), wanted)
    itself = widen.matmul(square, square)
    assert_same_bits(widen.matmul(square, square, out=square, **there), itself)
    added, once = C.copy(), widen.gemm(A, B, C, beta=1.0)
    assert widen.gemm(A, B, added, beta=1.0, out=added, **there) is added
    assert_same_bits(added, once)


def test_integers_and_the_largest_bound():
    a, b = RNG.integers(-9, 9, (3, 7)), RNG.integers(-9, 9, (7, 4))
    there = {"device": "cuda", "workspace": "1GB"}
    assert np.array_equal(widen.matmul(a, b.tolist(), **there), a @ b)
    _, info = widen.matmul(A, B, info="largest", **there)
    assert info.bound == widen.matmul(A, B, info="largest")[1].bound


# ── copies ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(ON == "cuda", reason="a GPU has streams of its own")
@pytest.mark.parametrize("cut", [Cut(0, (2, 1)), slow(Cut(1, (1, 2)))], ids="ab")
def test_bytes_sent_are_those_of_the_plan(monkeypatch, cut):
    """And of the formula; copies that are late, in pieces of a few numbers, change nothing."""
    links = []
    late = lambda device: links.append(Late(device)) or links[-1]  # noqa: E731
    monkeypatch.setattr(products, "Link", late)
    monkeypatch.setattr(sizing, "choose_panels", cut)
    monkeypatch.setattr(products, "PIECE", 48)
    found = widen.gemm(A, B, C, beta=1.0, device="cuda", workspace="1GB")
    assert_same_bits(found, widen.gemm(A, B, C, beta=1.0))
    plan, link = cut.panels, links[-1]
    assert link.sent == plan.bytes_sent(([0], [0])) == formula(plan) + C.nbytes
    assert link.fetched == C.nbytes


@pytest.mark.skipif(ON == "cuda", reason="a GPU has streams of its own")
def test_copies_on_streams_wait_for_what_they_must(monkeypatch):
    """`Streams` itself, on streams that are not there: the events that each one waits for."""
    computing, made = Stream(None), []
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: computing)
    monkeypatch.setattr(
        torch.cuda, "Stream", lambda device: made.append(Stream(device)) or made[-1]
    )
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(copies.Streams, "staging", Link.staging)
    monkeypatch.setattr(products, "Link", copies.Streams)
    monkeypatch.setattr(sizing, "choose_panels", Cut(0, (5, 2)))
    found = widen.gemm(A, B, C, beta=1.0, device="cuda", workspace="1GB")
    assert_same_bits(found, widen.gemm(A, B, C, beta=1.0))
    sending, fetching = made
    arrived = [event for event in computing.waited if event in sending.recorded]
    assert len(arrived) == 6  # rows, columns and c, for each of two panels
    assert set(sending.waited) <= set(computing.recorded)
    assert len(fetching.waited) == 2
    for event in fetching.waited:  # recorded when all that the panel reads had been waited for
        assert event in computing.recorded
        assert event.number > min(one.number for one in arrived)
    assert [stream.synchronized for stream in (sending, fetching, computing)] == [1, 1, 1]


@pytest.mark.skipif(ON == "cuda", reason="a GPU has streams of its own")
def test_a_panel_is_not_overwritten_before_it_is_read(monkeypatch):
    """All that may be sent before a product has come when it begins.

    Rows of one entry: their numbers are read when the planes are made already.
    """
    a = np.eye(4, 7) * A[:4, :1]
    multiply = products.Product._multiply

    def later(self, *given):
        time.sleep(0.1)  # for the helper, which copies a few numbers
        return multiply(self, *given)

    monkeypatch.setattr(products.Product, "_multiply", later)
    monkeypatch.setattr(sizing, "choose_panels", Cut(0, (2, 1)))
    found = widen.matmul(a, B[:, :2], device="cuda", workspace="1GB")
    assert_same_bits(found, widen.matmul(a, B[:, :2]))


@pytest.mark.slow
def test_planes_that_are_more_than_usual_are_counted_anew(assert_same):
    """A row with outliers needs more than there was room for; the second attempt has room."""
    a = np.where(np.arange(7) == 3, 1.0, 1e-14) * A
    cut, rooms = Cut(0, (5, 2)), []

    def choose(sizes, *given):
        rooms.append(sizes.kept_entry)
        return cut(sizes, *given)

    assert_same(a, B, cut=choose)
    assert len(rooms) == 2
    assert rooms[0] < rooms[1]


@pytest.mark.slow
def test_real_panels_of_a_small_workspace():
    """Chosen by the plan itself."""
    a, b = RNG.standard_normal((33, 9)), RNG.standard_normal((9, 20))
    found, info = widen.matmul(a, b, device="cuda", workspace=1 << 16, info=True)
    assert_same_bits(found, widen.matmul(a, b))
    assert info.workspace <= 1 << 16
    assert "17 rows and 20 columns" in info.plan.why[-1]


# ── what cannot be ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(ON == "cuda", reason="there is a GPU")
def test_without_a_gpu_the_error_says_so(monkeypatch):
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"device='cuda': PyTorch .* sees no GPU here"):
        widen.matmul(A, B, device="cuda")
    with pytest.raises(ValueError, match="device='tpu': expected None or 'cpu', 'cuda'"):
        widen.matmul(A, B, device="tpu")
    assert_same_bits(widen.matmul(A, B, device="cpu"), widen.matmul(A, B))


def test_without_pytorch_the_error_says_so(monkeypatch):
    from widen.calls import dispatch

    dispatch._of_host_memory.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "widen.gpu.host", None)
    with pytest.raises(ImportError, match=r"pip install 'widen\[torch\]'"):
        widen.matmul(A, B, device="cuda")


def test_what_cannot_be_sent_is_refused():
    there = {"device": "cuda", "workspace": "1GB"}
    encoded = widen.encode(B, side="right")
    with pytest.raises(TypeError, match="b was encoded on a CPU, and device='cuda'"):
        widen.matmul(A, encoded, **there)
    with pytest.raises(ValueError, match="plan= and device='cuda' do not go together"):
        widen.matmul(A, B, plan=widen.plan(A, B), device="cuda")
    with pytest.raises(ValueError, match=r"c has shape \(3,\), which does not broadcast"):
        widen.gemm(A, B, np.ones(3), beta=1.0, **there)
    x = torch.from_numpy(A).requires_grad_()
    with pytest.raises(TypeError, match="cannot have device="):
        widen.matmul(x, torch.from_numpy(B), **there)
    with pytest.raises(ValueError, match=r"shape \(5, 5\) .* the result needs shape \(5, 4\)"):
        widen.matmul(A, B, out=np.zeros((5, 5)), **there)


def test_a_workspace_that_is_too_small_is_refused():
    with pytest.raises(ValueError, match="no room for 5 rows and 4 columns of 70000 numbers"):
        widen.matmul(np.ones((5, 70000)), np.ones((70000, 4)), device="cuda", workspace=1 << 16)


def test_tensors_on_another_device_are_refused(monkeypatch):
    from widen.calls import dispatch

    monkeypatch.setattr(products, "device_named", lambda name: "cuda:1")
    assert dispatch._where_it_runs("cuda:1", "cuda:1") == "cuda:1"
    for device in ("cuda:1", "cpu"):
        with pytest.raises(ValueError, match=f"'{device}' but the operands are on cuda:0; leave"):
            dispatch._where_it_runs("cuda:0", device)


def test_an_error_on_the_way_leaves_no_copy_behind(monkeypatch):
    """Memory is given back when nobody reads or writes it any more; the error comes through."""
    links, done = [], []
    monkeypatch.setattr(sizing, "choose_panels", Cut())
    late = lambda device: links.append(Late(device)) or links[-1]  # noqa: E731
    monkeypatch.setattr(products, "Link", late)

    def interrupt(share):
        done.append(share)
        if len(done) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        widen.matmul(A, B, device="cuda", workspace="1GB", progress=interrupt)
    assert all(link.waiting == [] for link in links)
    assert not [x for x in threading.enumerate() if x.name.startswith("widen-")]
    assert done == [0.25, 0.5]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, x in (("A", A), ("B", B), ("C", C)):
        np.save(f"{name}.npy", x)
    return tmp_path


ON_GPU = ("-d", "cuda", "-w", "1GB")


def test_files(folder, capsys):
    assert main(["matmul", "A.npy", "B.npy", "-o", "P.npy", *ON_GPU]) == 0
    assert "operands stay in host memory" in capsys.readouterr().out
    assert_same_bits(np.load("P.npy"), widen.matmul(A, B))
    assert main(["gemm", "A.npy", "B.npy", "C.npy", "-o", "P.npy", *ON_GPU]) == 0
    assert_same_bits(np.load("P.npy"), widen.gemm(A, B, C, beta=1.0))


def test_an_interrupted_product_of_files_leaves_none(folder, monkeypatch, capsys):
    def failing(self, *given):
        raise torch.OutOfMemoryError("out of it")

    monkeypatch.setattr(products.Product, "_multiply", failing)
    before = sorted(path.name for path in folder.iterdir())
    assert main(["matmul", "A.npy", "B.npy", "-o", "P.npy", *ON_GPU]) == 2
    assert "too little free memory for a workspace of 1 GB" in capsys.readouterr().err
    assert sorted(path.name for path in folder.iterdir()) == before


def test_resuming_with_a_gpu_what_a_cpu_began(folder, monkeypatch):
    """Panels stay as large as they were; eight at most where a GPU begins."""
    from widen.cli import resume

    monkeypatch.setattr(resume, "LEAST_ROWS", 1)
    monkeypatch.setattr(resume, "MOST_PANELS", 3)
    monkeypatch.setattr(resume, "MOST_ON_A_GPU", 2)  # not asked for what was begun
    compute, shapes = widen.matmul, []

    def counted(left, *given, **named):
        if named.get("info"):
            shapes.append((left.shape[0], named.get("device")))
            if len(shapes) == 2:
                raise KeyboardInterrupt
        return compute(left, *given, **named)

    monkeypatch.setattr(widen, "matmul", counted)
    main(["matmul", "A.npy", "B.npy", "-o", "P.npy", "--resume"])
    assert not (folder / "P.npy").exists()
    assert main(["matmul", "A.npy", "B.npy", "-o", "P.npy", "--resume", *ON_GPU]) == 0
    assert shapes == [(2, None), (2, None), (2, "cuda"), (1, "cuda")]
    assert_same_bits(np.load("P.npy"), compute(A, B))
    assert resume.Cut(A, B, (5, 4)).step(resume.MOST_ON_A_GPU) == 3
