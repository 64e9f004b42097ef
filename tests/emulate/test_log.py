"""The log: what was taken over, where, how often; what was left alone, and why."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
import torch

import widen
from widen.emulate import log as logs


def square(size=4, dtype=torch.float64):
    return torch.arange(size * size, dtype=dtype).reshape(size, size)


def test_rows_say_where_what_and_how_often():
    a = square() / 7
    with widen.emulate() as log:
        for _ in range(3):
            a @ a
        line = logs.caller(sys._getframe())[1] - 1
        torch.addmm(a, a, a)
    first, second = log.taken
    assert (first.operator, first.count, first.shapes) == ("mm", 3, ((4, 4), (4, 4)))
    assert first.where.endswith(f"{Path(__file__).name}:{line}")
    assert first.dtype == "float64"
    assert first.seconds > 0
    assert 0 < first.bound < 1e-12
    assert second.operator == "addmm"
    assert list(log) == log.rows == [first, second]


def test_a_library_s_line_is_told_from_pytorch_s():
    layer = torch.nn.Linear(4, 4).double()
    with widen.emulate() as log:
        layer(square())
    assert Path(__file__).name in log.rows[0].where


def test_the_table():
    a = square()
    log = widen.emulate().log
    assert str(log) == "widen took over no product.\nNothing was left alone."
    with widen.emulate(min_flops=1000) as log:
        a @ a
        square(9) @ square(9)
        a.long() @ a.long()
        torch.linalg.det(a)
    text = str(log)
    assert "widen took over 1 product, " in text
    assert "9x9, 9x9" in text
    assert "Left alone, 3 operations:" in text
    assert "fewer operations than min_flops=1000" in text
    assert "int64: PyTorch's own product of integers does not round" in text
    assert "a solver or factorisation" in text
    assert max(map(len, text.splitlines())) < 220


def test_a_long_table_is_cut():
    log = logs.Log()
    for size in range(logs.LONGEST + 5):
        log.note(logs.Kind("mm", 0, 0, ((size, 1), (1, 1)), torch.float32, (), ""))
    assert "... and 5 more kinds (log.rows has them all)" in str(log)
    assert "a thread of PyTorch" in str(log)
    assert len(log.rows) == logs.LONGEST + 5


def test_bounds_are_proven_and_may_be_left_out():
    a = square()
    with widen.emulate(accuracy="fast") as log:
        c = a @ a
    wanted = widen.matmul(a, a, accuracy="fast", info="largest")[1].bound
    assert log.rows[0].bound == wanted
    with widen.emulate(accuracy="fast", bounds=False) as log:
        assert torch.equal(a @ a, c)
    assert math.isnan(log.rows[0].bound)
    assert "  -" in str(log)


CHOSEN = {
    "dtypes": lambda: widen.emulate(dtypes=["float32"], missed="raise"),
    "min_flops": lambda: widen.emulate(min_flops=10**6, missed="raise"),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_what_the_caller_left_out_is_listed_and_not_missed(name):
    with CHOSEN[name]() as log:
        square() @ square()
    assert [row.count for row in log.left] == [1]
    assert name in log.left[0].reason


MISSED = {
    "convolution": lambda: torch.nn.functional.conv1d(torch.ones(1, 2, 5), torch.ones(3, 2, 2)),
    "LAPACK": lambda: torch.linalg.eigh(square()),
    "matrix_exp": lambda: torch.linalg.matrix_exp(square()),
    "pinv": lambda: torch.linalg.pinv(square()),
    "bilinear": lambda: torch.nn.functional.bilinear(*[torch.ones(2, 2)] * 2, torch.ones(2, 2, 2)),
    "distances": lambda: torch.cdist(square(), square()),
    "layout": lambda: square().to_sparse_csr() @ square(),
    "sparse": lambda: torch.sparse.mm(square().to_sparse(), square()),
    "affine": lambda: torch.nn.functional.affine_grid(torch.ones(1, 2, 3), [1, 1, 2, 2]),
}


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("name", MISSED)
def test_what_cannot_be_taken_over_is_listed_or_raises(name, inference):
    with torch.inference_mode(inference):
        with widen.emulate() as log:
            MISSED[name]()
        assert any(row.reason for row in log.left)
        message = r"widen.emulate left \w+ alone"
        with pytest.raises(RuntimeError, match=message), widen.emulate(missed="raise"):
            MISSED[name]()


def test_an_operator_of_another_library_is_listed():
    library = torch.library.Library("somebody", "DEF")
    library.define("fused(Tensor x) -> Tensor")
    library.impl("fused", lambda x: x @ x, "CompositeExplicitAutograd")
    with widen.emulate() as log:
        torch.ops.somebody.fused(square())
    assert "an operator of somebody" in log.left[0].reason


def test_nested_tensors_and_operators_that_call_functions_are_listed():
    from torch.nn.attention.flex_attention import flex_attention

    ragged = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)])
    heads = torch.ones(1, 2, 16, 16)
    with widen.emulate() as log:
        torch.nn.functional.linear(ragged, torch.ones(5, 3))
        flex_attention(heads, heads, heads)
    assert any(row.operator == "flex_attention" for row in log.left)
    assert any(row.operator != "flex_attention" for row in log.left)


def test_distances_of_many_rows_are_a_product():
    x, y = torch.randn(40, 3).double(), torch.randn(30, 3).double()
    with widen.emulate(missed="raise") as log:
        found = torch.cdist(x, y)
    assert torch.allclose(found, (x[:, None] - y).norm(dim=-1))
    assert log.taken[0].shapes == ((40, 5), (5, 30))


@pytest.mark.parametrize(("options", "message"), [
    ({"accuracy": "best"}, "accuracy='best' is not known"),
    ({"dtypes": ["int8"]}, "dtypes has 'int8', which widen does not multiply"),
    ({"missed": "ignore"}, "missed='ignore' is not known; use 'log' or 'raise'"),
    ({"min_flops": -1}, "min_flops=-1 is no count"),
])  # fmt: skip
def test_wrong_arguments_say_what_is_right(options, message):
    with pytest.raises(ValueError, match=message):
        widen.emulate(**options)


def test_dtypes_by_name_and_by_object():
    a = square()
    for dtypes in ("float64", torch.float64, ["float64", torch.float32], {torch.float64}):
        with widen.emulate(dtypes=dtypes) as log:
            a @ a
        assert log.taken
