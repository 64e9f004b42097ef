"""Settings for all tests: examples that repeat, and two threads whatever the machine has.

Folders are named after the rooms of src/widen: a test is where its subject is. `house` has tests
of the tree, the documents and the digests; `shared` is what several files import (pytest's
`pythonpath`). Markers say what a test needs: pyproject.toml lists them, tests/gpu/README.md
explains those of GPUs.

`covering(n)` thins a product of parameters: any n values that occur together still do so in
`make test`, in as few cases as a greedy choice finds; the other cases are `slow`.
"""

from __future__ import annotations

import os
from collections import defaultdict

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

from covering import covering
from interpreter import work_less
from widen.stages.compiling import notices

if not torch.cuda.is_available():
    from triton.runtime import interpreter

    work_less(interpreter)

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("repeatable")


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items):
    """Cases of a test marked `covering` that a smaller set of them covers are slow."""
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("covering"):
            cases[item.path, item.originalname].append(item)
    for given in cases.values():
        (count,) = given[0].get_closest_marker("covering").args
        values = [
            {name: repr(value) for name, value in item.callspec.params.items()} for item in given
        ]
        chosen = covering(values, count)
        for index, item in enumerate(given):
            if index not in chosen:
                item.add_marker(pytest.mark.slow)


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


@pytest.fixture
def late(monkeypatch, own_kernels):
    """A set of kernels, by file and name, that other processes compile; names of what is launched.

    Kernels that are compiled for layouts and moduli are such, if a test puts them there.
    """
    from widen.gpu.replay.launch import Launching

    names, launched = set(), []

    def name_of(launching):
        function = launching.kernel.fn
        return f"{function.__module__.rpartition('.')[2]}.{function.__name__}"

    def make(self, make=Launching.make):
        launched.append(name_of(self))
        make(self)

    monkeypatch.setattr(Launching, "waits_for_compiler", lambda self: name_of(self) in names)
    monkeypatch.setattr(Launching, "is_coming", lambda self: True)
    monkeypatch.setattr(Launching, "make", make)
    return names, launched
