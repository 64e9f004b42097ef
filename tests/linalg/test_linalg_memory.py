"""What `linalg` holds at most, against what docs/linalg.md says: in matrices of n² float64."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import widen

linalg = widen.linalg
RNG = np.random.default_rng(1)
N = 128
A = RNG.standard_normal((N, N))
SYMMETRIC = A + A.T
DEFINITE = (A @ A.T + (A @ A.T).T) / 2 + np.eye(N)

CALLS = {
    "solve": (lambda: linalg.solve(A, A[:, :1]), 24),
    "solve, complex": (lambda: linalg.solve(A + 1j * SYMMETRIC, A[:, :1]), 68),
    "inv": (lambda: linalg.inv(A), 38),
    "det": (lambda: linalg.det(A), 54),
    "eigh": (lambda: linalg.eigh(SYMMETRIC), 28),
    "svd": (lambda: linalg.svd(A), 43),
    "cholesky": (lambda: linalg.cholesky(DEFINITE), 72),
}


@pytest.mark.parametrize(
    "name",
    [name if name == "solve" else pytest.param(name, marks=pytest.mark.slow) for name in CALLS],
)
def test_memory_is_what_the_documents_say(name):
    """Some more than they say for n = 200: planes are filled up to whole blocks."""
    call, limit = CALLS[name]
    call()  # compiles
    tracemalloc.start()
    call()
    most = tracemalloc.get_traced_memory()[1] / (8 * N * N)
    tracemalloc.stop()
    assert limit / 4 < most < limit
