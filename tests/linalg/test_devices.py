"""Every function of `linalg` on a GPU: the bits of a CPU.

Without a GPU, the same calls run with every step of `linalg` in PyTorch, on tensors of a CPU: what
a GPU does but for the products themselves.
"""

from __future__ import annotations

import types

import numpy as np
import pytest
import torch

import widen
from helpers import assert_same_bits
from widen.linalg import operands

linalg = widen.linalg


def rng_of(*seed):
    return np.random.default_rng(seed)


def square(n=6):
    return rng_of(1, n).standard_normal((n, n))


def symmetric(n=6):
    return square(n) + square(n).T


def definite(n=6):
    x = np.rint(square(n) * 8)
    return x @ x.T + np.eye(n)


def sides(n=6):
    return rng_of(2, n).standard_normal((n, 2))


CASES = {
    "solve": (square(), sides()),
    "solve a batch": (rng_of(3).standard_normal((6, 4, 4)), rng_of(4).standard_normal((6, 4, 1))),
    "solve zeros and ties": (np.tril(np.rint(square() * 2)) + 4 * np.eye(6), np.eye(6)),
    "inv": (square(),),
    "inv of a batch": (rng_of(5).standard_normal((5, 3, 3)),),
    "solve_triangular": (square(), sides()),
    "lstsq": (rng_of(6).standard_normal((9, 3)), rng_of(7).standard_normal((9, 2))),
    "pinv": (rng_of(8).standard_normal((3, 5)),),
    "det": (square(),),
    "det of more rows": (square(18),),
    "slogdet": (square(),),
    "matrix_rank": (np.ones((4, 3)),),
    "eigvalsh": (symmetric(),),
    "eigvalsh of integers": (np.ones((5, 5)) + 2 * np.eye(5),),
    "eigh": (symmetric(),),
    "svdvals": (rng_of(9).standard_normal((7, 4)),),
    "svd": (rng_of(10).standard_normal((5, 4)),),
    "cond": (square(),),
    "norm": (square(), 2),
    "cholesky": (definite(),),
    "is_positive_definite": (definite(),),
    "is_positive_definite refuted": (np.array([[4.0, 2.0], [2.0, 1.0]]),),
    "qr": (rng_of(11).standard_normal((7, 4)),),
    "lu_factor": (square(),),
}
FORMATS = ["float64", "float32", "float64x2", "complex128"]
WITHOUT_FORMAT = ("slogdet", "matrix_rank", "is_positive_definite")


def called(case, kind, place):
    """What a function returns for operands at a place, as NumPy's arrays."""
    name = case.split()[0]
    given, options = [], {}
    for x in CASES[case]:
        if isinstance(x, np.ndarray):
            x = _complex(case, x) if kind == "complex128" else x
            x = place(x.astype("float32") if kind == "float32" else x)
        given.append(x)
    real = name in ("eigvalsh", "eigh", "svdvals", "svd", "cond", "norm")
    if name not in WITHOUT_FORMAT:
        options["dtype"] = "float64" if real and kind == "complex128" else kind
    found = getattr(linalg, name)(*given, **options)
    return [_on_host(x) for x in (found if isinstance(found, tuple) else (found,))]


def _complex(case, x):
    """The same numbers with imaginary parts, Hermitian where that is meant."""
    if case.split()[0] in ("eigvalsh", "eigh", "cholesky", "is_positive_definite"):
        turned = np.tril(np.ones_like(x), -1)
        return x + 0.5j * (turned - turned.T)
    return x + 1j * x[..., ::-1]


def _on_host(x):
    if isinstance(x, widen.Words):
        return np.stack([np.asarray(torch.as_tensor(plane).cpu()) for plane in x.planes])
    return np.asarray(x.cpu() if isinstance(x, torch.Tensor) else x)


def check(case, kind, place):
    if kind == "complex128" and case == "is_positive_definite refuted":
        pytest.skip("it is not Hermitian with other numbers")
    found, wanted = called(case, kind, place), called(case, kind, lambda x: x)
    assert len(found) == len(wanted)
    values = {"eigh": 0, "svd": 1}.get(case)  # the others are vectors: near, and not rounded once
    for at, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
        if case == "lu_factor" and ours.dtype.kind == "i":
            ours = ours - 1  # PyTorch's pivots count from 1
        if ours.dtype.kind in "bi":
            assert (ours == theirs).all()
        elif values is not None and at != values:
            assert ours.shape == theirs.shape
            near = 4e-7 if kind == "float32" else 1e-15
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=near)
        else:
            assert_same_bits(ours, theirs)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_a_gpu_gives_the_bits_of_a_cpu(case, kind):
    check(case, kind, lambda x: torch.from_numpy(np.ascontiguousarray(x)).cuda())


def quick_or_slow(case, kind):
    """A few cases are part of `make test`."""
    quick = kind == "float64" and case in ("solve a batch", "cond", "det", "matrix_rank", "qr")
    return pytest.param(case, kind, marks=[] if quick else pytest.mark.slow)


@pytest.mark.parametrize(
    ("case", "kind"), [quick_or_slow(case, kind) for case in CASES for kind in FORMATS]
)
def test_every_step_in_pytorch_gives_the_bits_of_numpy(case, kind, monkeypatch):
    known = operands.check
    proxy = types.SimpleNamespace(**vars(known))

    def library(**given):
        place = known.library(**given)
        return "cuda:0" if place == "cpu" else place

    proxy.library = library
    monkeypatch.setattr(operands, "check", proxy)
    check(case, kind, lambda x: torch.from_numpy(np.ascontiguousarray(x)))


def test_every_function_is_in_the_table():
    names = {case.split()[0] for case in CASES}
    assert names == {name for name in linalg.__all__ if name[0].islower()} - {"lu_solve"}
