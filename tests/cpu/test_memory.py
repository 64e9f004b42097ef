"""Memory within the workspace, measured; threads and child processes."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest

import widen
from helpers import assert_same_words, draw_words, kernel_threads
from widen.contract import CONTRACTS
from widen.cpu import memory as scratch_memory
from widen.testing import FAMILIES

MB = 10**6
OBJECTS = 2**16
"""Bytes allowed for Python's own objects, which only the smallest workspaces notice."""

CONTRACT_WORDS = [*CONTRACTS, 40]


def peak(call):
    """Most bytes that NumPy and Python held during a call beyond what they held before it.

    The less of two times: now and then Python takes a block for a table of its own during a call
    (2 MB in one piece were seen), which is no need of the call's and does not come twice.
    """
    call()  # kernels, tables and caches are loaded by now
    found = []
    for _ in range(2):
        scratch_memory._kept.clear()  # of earlier calls, which would hide what this one takes
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            result = call()
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        found.append(most - before - result.nbytes)
    return min(found), result


def within(a, b, workspace, **options):
    """The product, after a check that it stayed within its workspace plus a tenth."""
    extra, result = peak(lambda: widen.matmul(a, b, workspace=workspace, **options))
    assert extra <= 1.1 * workspace + OBJECTS, f"{extra / MB:.2f} MB of {workspace / MB:.2f} MB"
    return result


def pair(m, k, n, family="phi0.1", seed=1, dtype="float64"):
    rng = np.random.default_rng(seed)
    a, b = FAMILIES[family].make(rng, m, k, n)
    if np.dtype(dtype).kind == "c":
        c, d = FAMILIES[family].make(rng, m, k, n)
        a, b = a + 1j * c, b + 1j * d
    return a.astype(dtype), b.astype(dtype)


def same_bits(x, y):
    return x.shape == y.shape and x.dtype == y.dtype and x.tobytes() == y.tobytes()


@pytest.mark.parametrize("workspace", [4 * MB, 16 * MB, 64 * MB])
@pytest.mark.parametrize("accuracy", ["standard", "correct"])
def test_matrices(workspace, accuracy):
    a, b = pair(700, 900, 800)
    result = within(a, b, workspace, accuracy=accuracy)
    assert same_bits(result[:40], widen.matmul(a[:40], b, accuracy=accuracy))


@pytest.mark.parametrize("workspace", [2**16, 2**18, MB])
@pytest.mark.parametrize("accuracy", CONTRACT_WORDS)
def test_small_workspaces(workspace, accuracy):
    a, b = pair(120, 150, 100)
    result = within(a, b, workspace, accuracy=accuracy)
    assert same_bits(result, widen.matmul(a, b, accuracy=accuracy))


@pytest.mark.covering(1)
@pytest.mark.parametrize("shape", [(40, 60_000, 30), (1, 200_000, 1), (3, 50_000, 200)])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_long_rows(shape, dtype):
    a, b = pair(*shape, dtype=dtype)
    # Two single vectors are surveyed at the same time, which was seen to take 9.6 MB here.
    workspace = (12 if shape[0] == shape[2] == 1 else 8) * MB
    for accuracy in ("standard", "correct"):
        result = within(a, b, workspace, accuracy=accuracy)
        assert same_bits(result, widen.matmul(a, b, accuracy=accuracy))


@pytest.mark.parametrize("dtype", ["float32", "float16", ">f8"])
def test_operands_that_are_converted(dtype):
    a, b = pair(500, 600, 400, dtype=dtype)
    for workspace in (4 * MB, 16 * MB):
        within(a, b, workspace)


@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
def test_complex_operands(dtype):
    a, b = pair(300, 400, 250, dtype=dtype)
    for workspace in (4 * MB, 16 * MB):
        within(a, b, workspace)


def test_a_real_operand_with_a_complex_one():
    a, b = pair(600, 900, 20)
    within(a, b + 1j * b, 4 * MB)


@pytest.mark.parametrize("view", ["transposed", "every second", "reversed"])
def test_views_are_not_copied(view):
    a, b = pair(500, 600, 400)
    if view == "transposed":
        a, b = np.asfortranarray(a), np.asfortranarray(b)
    elif view == "every second":
        a, b = np.repeat(a, 2, axis=1)[:, ::2], np.repeat(b, 2, axis=0)[::2]
    else:
        a, b = a[::-1, ::-1], b[::-1, ::-1]
    within(a, b, 4 * MB)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((20, 100, 120), (20, 120, 90)),
        ((20, 100, 120), (120, 90)),
        ((100, 120), (20, 120, 90)),
        ((5, 1, 100, 120), (4, 120, 90)),
        ((2000, 10, 12), (2000, 12, 9)),
    ],
)
def test_batches(left, right):
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal(left), rng.standard_normal(right)
    result = within(a, b, 4 * MB)
    assert same_bits(result, widen.matmul(a, b))


@pytest.mark.parametrize("family", ["graded circulant", "one huge", "graded inner"])
@pytest.mark.parametrize("accuracy", ["standard", "correct"])
@pytest.mark.parametrize("workspace", [MB, 4 * MB])
def test_hostile_data_is_repaired_within_the_workspace(family, accuracy, workspace):
    a, b = pair(120, 300, 100, family)
    result = within(a, b, workspace, accuracy=accuracy)
    assert same_bits(result, widen.matmul(a, b, accuracy=accuracy))
    _, info = widen.matmul(a, b, accuracy=accuracy, workspace=workspace, info=True)
    assert info.repaired > 0


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_hostile_data_of_other_formats(dtype):
    a, b = pair(30, 2000, 12, dtype=dtype)
    a[:, 7] *= 2.0**60
    b[7] *= 2.0**-60
    within(a, b, MB)
    assert widen.matmul(a, b, workspace=MB, info=True)[1].repaired > 0


def test_special_values_within_the_workspace():
    a, b = pair(60, 20_000, 40, dtype="float32")
    a[7, 5], b[9, 9] = np.inf, np.nan
    within(a, b, 4 * MB)


def test_gemm_within_the_workspace():
    a, b = pair(400, 300, 350)
    c = np.random.default_rng(4).standard_normal((400, 350))
    for addend in (c, c.astype("float32"), c[:1]):
        extra, _ = peak(
            lambda addend=addend: widen.gemm(a, b, addend, alpha=-1.0, beta=1.0, workspace=4 * MB)
        )
        assert extra <= 4.4 * MB


def test_encoded_operands_within_the_workspace():
    a, b = pair(400, 300, 350)
    encoded = widen.encode(b, side="right")
    extra, result = peak(lambda: widen.matmul(a, encoded, workspace=4 * MB))
    assert extra <= 4.4 * MB
    assert same_bits(result, widen.matmul(a, b))


def test_a_small_product_takes_little_of_a_large_workspace():
    a, b = pair(64, 64, 64)
    extra, _ = peak(lambda: widen.matmul(a, b))
    assert extra <= 2 * MB


def test_info_counts_the_workspace():
    a, b = pair(300, 300, 300)
    for workspace in (MB, 8 * MB, 64 * MB):
        scratch_memory._kept.clear()
        _, info = widen.matmul(a, b, workspace=workspace, info=True)
        assert 0 < info.workspace <= 1.1 * workspace


def test_scratch_memory_that_is_kept_is_bounded():
    a, b = pair(100, 100, 100)
    widen.matmul(a, b)
    kept = sum(
        buffer.nbytes for memory in scratch_memory._kept for buffer in memory._buffers.values()
    )
    assert kept <= scratch_memory.KEPT
    assert len(scratch_memory._kept) <= 1


# ── threads and processes ────────────────────────────────────────────────────


def test_two_threads_at_once():
    problems = [
        pair(90, 80 + i, 70, family, seed=i) for i, family in enumerate(("phi0.1", "one huge"))
    ]
    accuracies = ["standard", "correct"]
    expected = [
        [widen.matmul(a, b, accuracy=accuracy) for accuracy in accuracies] for a, b in problems
    ]
    wrong, start = [], threading.Barrier(4)

    def work(which):
        a, b = problems[which % 2]
        start.wait()
        for _ in range(5):
            for accuracy, known in zip(accuracies, expected[which % 2], strict=True):
                if not same_bits(widen.matmul(a, b, accuracy=accuracy, workspace=MB), known):
                    wrong.append((which, accuracy))

    threads = [threading.Thread(target=work, args=(which,)) for which in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
        assert not thread.is_alive()
    assert not wrong


def test_an_encoded_operand_is_shared_by_threads():
    a, b = pair(50, 80, 60)
    encoded, expected = widen.encode(b, side="right"), widen.matmul(a, b)
    right = []

    def work():
        right.extend(same_bits(widen.matmul(a, encoded), expected) for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert right == [True] * 30


def in_child(a, b, pipe):
    pipe.send(widen.matmul(a, b, accuracy="correct"))
    pipe.close()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_multiplies():
    a, b = pair(300, 300, 300)  # large enough that threads are at work
    expected = widen.matmul(a, b, accuracy="correct")
    thread = threading.Thread(target=lambda: widen.matmul(a, b))
    thread.start()
    thread.join()
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=in_child, args=(a, b, theirs))
    child.start()
    theirs.close()
    try:
        assert ours.poll(60), "the child hangs"
        result = ours.recv()
    finally:
        child.join(timeout=10)
        if child.is_alive():
            child.kill()
    assert child.exitcode == 0
    assert same_bits(result, expected)
    assert same_bits(widen.matmul(a, b, accuracy="correct"), expected)


@pytest.mark.parametrize("count", [1, 2])
def test_the_number_of_threads_changes_nothing(count):
    a, b = pair(200, 250, 180, "phi2")
    expected = widen.matmul(a, b, accuracy="correct")
    with kernel_threads(count):
        assert same_bits(widen.matmul(a, b, accuracy="correct"), expected)


@pytest.mark.parametrize("name", ["float64x2", "float32x3", "float64_float32", "complex128x2"])
@pytest.mark.parametrize(("workspace", "accuracy"), [(2**18, "standard"), (2 * MB, "correct")])
def test_numbers_of_several_words(name, workspace, accuracy):
    """Converted words, their first words, chunks and exact dot products: all within it."""
    shape = (60, 130, 50) if workspace < MB else (150, 260, 100)
    a, b = draw_words("phi2", shape, 2, name)
    result = within(a, b, workspace, accuracy=accuracy)
    assert_same_words(result[:9], widen.matmul(a[:9], b, accuracy=accuracy))


AFTER_THE_END = """
import atexit, threading, time
import numpy as np, widen
a = np.random.default_rng(0).random((300, 300))
wanted = widen.matmul(a, a)
def work(name):
    time.sleep(0.5)
    print(name, np.array_equal(widen.matmul(a, a), wanted), flush=True)
atexit.register(work, "handler")
threading.Thread(target=work, args=("thread",)).start()
"""


def test_products_after_the_main_thread_has_ended():
    """No thread starts then: those that there are do the work."""
    done = subprocess.run([sys.executable, "-c", AFTER_THE_END], capture_output=True, text=True)
    assert done.stdout.split() == ["thread", "True", "handler", "True"], done.stderr


def test_a_plan_leaves_the_scratch_memory_where_it_was():
    a = np.random.default_rng(0).standard_normal((200, 200))
    widen.matmul(a, a)
    kept = list(scratch_memory._kept)
    assert len(kept) == 1
    widen.plan(a, a)
    assert scratch_memory._kept == kept
