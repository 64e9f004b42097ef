"""Settings for all tests: examples that repeat, and two threads whatever the machine has.

Folders are named after the rooms of src/widen: a test is where its subject is. `house` has tests of
the tree, the documents and the digests, `shared` what several files import (it is on pytest's path).
Markers say what a test needs: pyproject.toml lists them, tests/gpu/README.md explains those of GPUs.
"""

from __future__ import annotations

import os

# Numba reads this when it is first imported; numba.set_num_threads may then choose 1 or 2.
os.environ["NUMBA_NUM_THREADS"] = str(
    max(2, int(os.environ.get("NUMBA_NUM_THREADS") or os.cpu_count() or 1))
)

# The GPU kernels run in Triton's interpreter where there is no GPU.
import numba
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

import pytest
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

from widen.stages.compiling import notices

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True, scope="session")
def few_threads_per_worker():
    """Where pytest-xdist shares the cores among workers, none shall take them all again."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    numba.set_num_threads(2)
    torch.set_num_threads(1)
    with threadpool_limits(1, user_api="blas"):
        yield


@pytest.fixture(autouse=True)
def compiled_before(monkeypatch):
    """Where kernels are still to be compiled, the command line says no more than elsewhere."""
    for kind in (notices.CPU, notices.GPU, notices.CUDA):
        monkeypatch.setattr(kind, "announced", True)


@pytest.fixture
def own_kernels(monkeypatch):
    """Small products too get GPU kernels compiled for their layout and their moduli."""
    from widen.gpu import tiles

    monkeypatch.setattr(tiles, "SMALL", 0)
