"""Panels of operands in host memory, as they are planned; and numbers staged on their way."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("triton")
from streams import Late, formula
from widen.calls.check import check_call
from widen.formats.arrays import numpy_dtype
from widen.gpu.host import copies, panels
from widen.gpu.host.copies import Copier, Results, Staging, cuts
from widen.gpu.host.panels import Sizes, choose_panels
from widen.gpu.host.sizes import panels_of
from widen.options import Options
from widen.stages.problem import Scalars

pytestmark = pytest.mark.device

RNG = np.random.default_rng(7)


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("piece", [16, 100, 1 << 20])
@pytest.mark.parametrize("name", ["float64", "bfloat16", "complex64"])
def test_staging(monkeypatch, name, piece, pinned):
    """Matrices arrive whole, in whatever pieces, and from memory that needs no staging."""
    monkeypatch.setattr(copies, "WORTH_THREADS", 200)
    link = Late(torch.device("cpu"))
    monkeypatch.setattr(link, "is_quick", lambda x: pinned)
    whole = RNG.standard_normal((3, 6, 11)).astype(numpy_dtype(name))
    with Copier(3) as copier:
        staging = Staging(link, copier, piece)
        for sources in (whole, whole[:1], whole[1:2, ::-1], whole[:, 1:, ::2]):
            target = torch.zeros(sources.shape, dtype=getattr(torch, name))
            mark = staging.send(target, list(sources), link.computed())
            link.wait(mark)
            found = target.view(torch.uint8).numpy().tobytes()
            assert found == np.ascontiguousarray(sources).tobytes()
    assert link.sent == staging.sent


@pytest.mark.parametrize("pinned", [False, True])
def test_rows_that_lie_apart_are_copied_where_they_are(monkeypatch, pinned):
    """In pinned memory, if they are long; both ways."""
    monkeypatch.setattr(copies, "LEAST_ROW", 40)
    link = Late(torch.device("cpu"))
    monkeypatch.setattr(link, "is_quick", lambda x: pinned)
    whole, staged, copy = RNG.standard_normal((6, 11)), [], Copier.copy
    monkeypatch.setattr(Copier, "copy", lambda *given: staged.append(given) or copy(*given))
    with Copier(1) as copier:
        staging, results = (kind(link, copier, 6 * 11 * 8) for kind in (Staging, Results))
        for part in (whole[:, 2:8], whole[::2, :5], whole[1:], whole[:, 3:5], whole[:, ::2]):
            target = torch.zeros((1, *part.shape), dtype=torch.float64)
            link.wait(staging.send(target, [part], link.computed()))
            assert np.array_equal(target[0].numpy(), part)
            back = np.zeros((13, 24))[: part.shape[0], : part.shape[1]]
            results.fetch([target + 1], [[back]])
            results.put()
            assert np.array_equal(back, part + 1)
    assert len(staged) == (3 if pinned else 10)  # short rows, and entries apart


def test_rows_that_overlap_are_not_copied_where_they_are(monkeypatch):
    """The driver refuses them."""
    monkeypatch.setattr(copies, "LEAST_ROW", 40)
    link, flat = Late(torch.device("cpu")), RNG.standard_normal(60)
    monkeypatch.setattr(link, "is_quick", lambda x: True)
    for apart, there in ((9, True), (8, True), (7, False), (5, False), (0, False)):
        rows = np.lib.stride_tricks.as_strided(flat, (4, 8), (8 * apart, 8))
        assert (copies.in_place(rows, link) is not None) == there
    assert copies.in_place(flat.reshape(6, 10)[::-1], link) is None


def test_results_wait_for_two_places():
    link, given = Late(torch.device("cpu")), [RNG.random((1, 2, 3)) for _ in range(5)]
    made = [np.zeros((4, 3))[::2] for _ in given]
    with Copier(1) as copier:
        results = Results(link, copier, 64)
        for x, target in zip(given, made, strict=True):
            results.fetch([torch.from_numpy(x)], [[target]])
            assert len(results.waiting) <= 2
        results.put()
    assert all(np.array_equal(x[0], y) for x, y in zip(given, made, strict=True))


def test_pieces_cover_everything_once():
    for shape in ((1, 1, 1), (5, 3, 4), (2, 7, 1), (1, 2, 50)):
        for most in (0, 1, 5, 12, 1000):
            seen = np.zeros(shape, int)
            for piece in cuts(shape, most):
                seen[piece] += 1
                assert seen[piece].size <= max(most, 1)
            assert (seen == 1).all()


def sizes(m, k, n, batch=1, planes=15):
    line = 8 * k
    return Sizes((batch, m, k, n), (line, line), (0, 0), (k * (planes + 4),) * 2, 17, 8, 16, 0, 14)


@pytest.mark.parametrize("batch", [1, 1000])
@pytest.mark.parametrize("shape", [
    (32768, 32768, 32768), (100000, 64, 100000), (1, 10**6, 5000), (7, 50, 9), (16, 10**6, 16),
    (300000, 300000, 1), (1, 1, 1),
])  # fmt: skip
def test_panels_fit_and_cover_the_result(shape, batch):
    m, _, n = shape
    for workspace in (10**9, 8 * 10**9, 64 * 10**9):
        plan = choose_panels(sizes(*shape, batch), workspace, (batch, 1))
        assert plan.bytes_there() <= workspace
        assert 0 < plan.workspace == workspace - plan.fixed_bytes()
        assert plan.items * np.prod(plan.step) * 8 <= panels.RESULTS
        if plan.counts[0] * plan.counts[1] * batch > 10000:
            continue
        elements = sum(
            len(step.items) * len(range(m)[step.rows]) * len(range(n)[step.columns])
            for step in plan.steps((range(batch), [0] * batch))
        )
        assert elements == batch * m * n


def test_the_product_that_was_asked_for_takes_little_more_than_its_products():
    """n = 32768 with 8 GB: the model has it at 0.5 times the speed in memory, or more."""
    n = 32768
    nothing = np.broadcast_to(np.zeros(()), (n, n))
    call = check_call(nothing, nothing, Options(), 8 * 10**9)
    plan = panels_of(call, Scalars(), Options(), torch.device("cpu"))
    assert 2 * n**3 * plan.sizes.products / panels.RATE / plan.seconds() >= 0.5
    assert plan.bytes_sent(([0], [0])) == formula(plan) <= 7 * 8 * n * n


def test_a_workspace_without_room_for_lines_is_refused():
    with pytest.raises(ValueError, match=r"no room for 16 rows .* give workspace=(\d+)") as error:
        choose_panels(sizes(100, 10**6, 100), 1 << 26, (1, 1))
    enough = int(str(error.value).split("workspace=")[2].split()[0])
    assert choose_panels(sizes(100, 10**6, 100), enough, (1, 1)).bytes_there() <= enough
