"""Panels by the GPU's kernels: a CPU's bits, in the interpreter or on a GPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import widen
from device import ON, moved
from panel_cases import assert_same, matrix_of
from widen.linalg import triangles
from widen.words import elementwise_panels, elementwise_panels_gpu
from widen.words.exchanges import Exchanges

pytestmark = pytest.mark.device

CASES = [
    ("random", (5, 4), 1, 2),
    ("random", (66, 2), 2, 2),
    ("random", (3, 2), 1, 4),
    ("far apart", (5, 3), 1, 3),
    ("ties", (67, 3), 1, 2),
    ("ties", (5, 4), 2, 2),
    ("a column of zeros", (4, 4), 1, 2),
    ("zeros", (3, 3), 1, 2),
    ("infinite", (4, 3), 1, 2),
    ("infinite", (4, 3), 2, 2),
    ("random", (1, 1), 1, 2),
    ("random", (2, 5), 1, 2),
    ("random", (3, 0), 1, 2),
    ("random", (0, 3), 1, 2),
]
LARGE = [("random", (1000, 64), parts, count) for parts, count in ((1, 2), (1, 3), (1, 4), (2, 2))]


def fetched(x):
    return widen.Words.of(x.format, [plane.cpu().numpy() for plane in x.planes])


@pytest.mark.parametrize(("kind", "shape", "parts", "count"), CASES + LARGE * (ON == "cuda"))
def test_a_panel_has_a_cpu_s_bits(kind, shape, parts, count):
    w = matrix_of(kind, shape, parts, count)
    one, other = w.copy(), moved(w)
    with np.errstate(all="ignore"):
        exchanges = elementwise_panels.eliminate(one)
    found = elementwise_panels_gpu.eliminate(other)
    assert exchanges.pivots.tolist() == found.pivots.tolist()
    assert exchanges.order.tolist() == found.order.tolist()
    assert_same(one, fetched(other))


@pytest.mark.parametrize(
    ("shape", "parts", "count"), [((4, 3), 1, 2), ((3, 66), 2, 2), ((3, 2), 1, 3)]
)
@pytest.mark.parametrize("upper", [False, True])
def test_a_substitution_has_a_cpu_s_bits(shape, parts, count, upper):
    t, w = (matrix_of("random", s, parts, count) for s in ((shape[0], shape[0]), shape))
    one, other = w.copy(), moved(w)
    elementwise_panels.substitute(t, one, upper=upper)
    elementwise_panels_gpu.substitute(moved(t), other, upper=upper)
    assert_same(one, fetched(other))


@pytest.mark.parametrize(
    ("shape", "parts", "count"),
    [((5, 3), 1, 2), ((8, 2), 1, 3), ((7, 2), 2, 2)] + [((256, 70), 1, 2)] * (ON == "cuda"),
)
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("chunk", [2, 64] if ON == "cuda" else [2])
def test_a_substitution_in_chunks_of_rows(shape, parts, count, upper, chunk, monkeypatch):
    monkeypatch.setattr(elementwise_panels_gpu, "CHUNK", chunk if shape[0] < 9 else 64)
    for kind in ("random", "infinite", "zeros"):
        t = matrix_of("random", (shape[0], shape[0]), parts, count)
        w = matrix_of(kind, shape, parts, count)
        one, other = w.copy(), moved(w)
        with np.errstate(all="ignore"):
            elementwise_panels.substitute(t, one, upper=upper)
        elementwise_panels_gpu.substitute(moved(t), other, upper=upper)
        assert_same(one, fetched(other))


def lying(x, how):
    """The same numbers of `Words` as parts of larger matrices, in columns, or in planes apart."""
    if how == "scattered":
        return widen.Words.of(x.format, [plane.clone() for plane in x.planes])
    if how == "columns":
        block = torch.stack([plane.mT for plane in x.planes])
        return widen.Words.of(x.format, tuple(block.contiguous().mT))
    block = torch.full((len(x.planes), x.format.parts, *(size + 3 for size in x.shape)), 5.0)
    block = block.to(x.planes[0])
    part = block[..., 1:-2, 2:-1]
    part.copy_(torch.stack(x.planes))
    return widen.Words.of(x.format, tuple(part))


@pytest.mark.parametrize("how", ["part", "columns", "scattered"])
@pytest.mark.parametrize(("parts", "count"), [(1, 2), (2, 2)])
def test_matrices_in_place(how, parts, count):
    """Whatever lies beside them stays as it was."""
    square, w, d = (matrix_of("random", s, parts, count) for s in ((4, 4), (4, 5), (4, 5)))
    panel = matrix_of("ties", (7, 3), parts, count)
    found, wanted = lying(moved(w), how), w.copy()
    elementwise_panels_gpu.substitute(lying(moved(square), how), found, upper=True)
    elementwise_panels.substitute(square, wanted, upper=True)
    assert_same(wanted, fetched(found))
    elementwise_panels_gpu.take_off(found, lying(moved(d), how))
    wanted -= d
    assert_same(wanted, fetched(found))
    found, wanted = lying(moved(panel), how), panel.copy()
    exchanges = elementwise_panels_gpu.eliminate(found)
    assert exchanges.order.tolist() == elementwise_panels.eliminate(wanted).order.tolist()
    assert_same(wanted, fetched(found))
    if how == "part":
        base = found.planes[0]._base
        others = base.numel() - sum(plane.numel() for plane in found.planes)
        assert int((base == 5.0).sum()) >= others


@pytest.mark.parametrize("kind", ["random", "far apart", "infinite", "zeros"])
@pytest.mark.parametrize(("parts", "count"), [(1, 2), (1, 3), (2, 2)])
@pytest.mark.parametrize("shape", [(5, 131), (0, 3), (3, 0)])
def test_differences(kind, parts, count, shape):
    """As in elementwise operations."""
    x, y = (matrix_of(one, shape, parts, count) for one in (kind, "random"))
    found, other = moved(x), moved(y)
    elementwise_panels_gpu.take_off(found, other)
    with np.errstate(all="ignore"):
        assert_same(x - y, fetched(found))


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(("parts", "count"), [(1, 2), (1, 3), (2, 2)])
def test_one_launch_has_the_bits_of_many(parts, count, together, monkeypatch):
    """One program, which meets itself: in the interpreter, no two can wait for one another."""
    monkeypatch.setattr(elementwise_panels_gpu, "_shape", lambda blocks, device: (1, together))
    w = matrix_of("random", (40, 7), parts, count)
    one, other = w.copy(), moved(w)
    exchanges = elementwise_panels.eliminate(one)
    assert exchanges.order.tolist() == elementwise_panels_gpu.eliminate(other).order.tolist()
    assert_same(one, fetched(other))


@pytest.mark.gpu
@pytest.mark.parametrize("together", [False, True])
def test_many_programs_meet_and_have_a_cpu_s_bits(together, monkeypatch):
    shape = elementwise_panels_gpu._shape
    monkeypatch.setattr(
        elementwise_panels_gpu, "_shape", lambda *given: (shape(*given)[0], together)
    )
    w = matrix_of("random", (8192, 128), 1, 2)
    one, other = w.copy(), moved(w)
    exchanges = elementwise_panels.eliminate(one)
    found = elementwise_panels_gpu.eliminate(other)
    assert exchanges.pivots.tolist() == found.pivots.tolist()
    assert_same(one, fetched(other))


@pytest.mark.parametrize(("shape", "parts", "count"), [((11, 9), 1, 2), ((6, 11), 2, 2)])
def test_several_panels_have_a_cpu_s_bits(shape, parts, count, monkeypatch):
    """Exchanges stay where the rows are, and are put together there."""
    monkeypatch.setattr(triangles, "BLOCK", 3)
    monkeypatch.setattr(triangles, "TRIANGLE", 2)
    w = matrix_of("random", shape, parts, count)
    one, other = w.copy(), moved(w)
    wanted = triangles.factor_words(one)
    monkeypatch.setattr(elementwise_panels, "are_served", lambda *given: True)
    found = triangles.factor_words(other)
    assert isinstance(found.pivots, torch.Tensor)
    assert found.pivots.tolist() == wanted.pivots.tolist()
    assert found.order.tolist() == wanted.order.tolist()
    assert_same(one, fetched(other))


def test_exchanges_of_a_cpu_move_rows_of_tensors():
    rows = np.arange(6.0)[:, None]
    exchanges = Exchanges.of(np.array([3, 3]), 6).then(Exchanges.of(np.array([2, 1]), 4))
    assert exchanges.pivots.tolist() == [3, 3, 4, 3]
    assert exchanges.order.tolist() == [3, 0, 4, 1, 2, 5]
    x = moved(widen.Words(rows, "float64x2"))
    exchanges.apply(x)
    assert x.planes[0][0, :, 0].tolist() == exchanges.order.tolist()


def test_which_numbers_are_served_on_a_gpu():
    real, number = (widen.Words(np.ones((2, 2)), name) for name in ("float64x8", "complex128x3"))
    assert not elementwise_panels_gpu.are_served(real)
    assert not elementwise_panels_gpu.are_served(number)
    assert elementwise_panels_gpu.are_served(number.real.astype("float64x4"))
    assert not elementwise_panels.are_served(real.to_torch("cpu"))


@pytest.mark.gpu
def test_a_factorisation_on_a_gpu_has_a_cpu_s_bits():
    a = np.random.default_rng(1).standard_normal((300, 300))
    for name in ("float64x2", "float64x4", "float64x8"):
        lu, pivots = widen.linalg.lu_factor(torch.from_numpy(a).cuda(), dtype=name)
        wanted, order = widen.linalg.lu_factor(a, dtype=name)
        assert (pivots.cpu().numpy() - 1).tolist() == order.tolist()
        assert_same(fetched(lu), wanted)
    assert triangles.BLOCK < 300
