"""Systems for `linalg.solve`, alone and shared by processes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

import exact_systems as systems
import widen
from sharded_cases import digest, full, here, mesh_of, placed


@dataclass(frozen=True)
class Case:
    """A system, where its operands lie, and what is asked for."""

    name: str
    a: torch.Tensor
    b: torch.Tensor
    placements: tuple
    options: dict = field(default_factory=dict)


def told(error):
    """An error as tests compare it."""
    return f"{type(error).__name__}: {error}"


def alone(cases):
    """Digests of solutions, or errors, of one process."""
    found = []
    for case in cases:
        try:
            found.append(digest(widen.linalg.solve(case.a, case.b, **case.options)))
        except np.linalg.LinAlgError as error:
            found.append(told(error))
    return found


def shared(cases, mesh_shape):
    """The same of the processes of a mesh."""
    mesh = mesh_of(mesh_shape)
    if not here(mesh):
        return None
    found = []
    for case in cases:
        da, db = (
            placed(x, mesh, p) for x, p in zip((case.a, case.b), case.placements, strict=True)
        )
        try:
            x = widen.linalg.solve(da, db, **case.options)
        except np.linalg.LinAlgError as error:
            found.append(told(error))
            continue
        if not isinstance(x, widen.Words):
            assert x.placements == tuple(case.placements[1]) or x.ndim != db.ndim
        found.append(digest(full(x)))
    return found


FAMILIES = {
    "gaussian": systems.gaussian,
    "cond 1e13": lambda rng, n: systems.conditioned(rng, n, 13),
    "cond 1e18": lambda rng, n: systems.conditioned(rng, n, 18),
    "integers": systems.integers,
    "graded": systems.graded,
    "tied": systems.tied,
    "triangular": systems.triangular,
    "hilbert": lambda rng, n: (systems.hilbert(n), np.eye(n)),
    "unimodular": lambda rng, n: (systems.unimodular(rng, n, 20 * n), np.eye(n)),
    "bidiagonal": lambda rng, n: (systems.bidiagonal(rng, n, 2.0**12), np.ones((n, 1))),
    "subnormal": systems.subnormal,
    "huge": systems.huge,
    "far apart": systems.far_apart,
    "near ties": systems.near_ties,
}
"""Conditions up to 1e40, ties, zeros, results out of range, exponents too far apart to scale."""

SINGULAR = {
    "ones": np.ones((6, 6)),
    "rank 2 of 3": np.arange(9.0).reshape(3, 3),
    "a row of zeros": np.diag([1.0, 2.0, 0.0, 3.0]) + np.eye(4, k=-3),
    "a column of zeros": np.eye(5)[:, [0, 1, 2, 3, 3]] * [1.0, 1.0, 1.0, 1.0, 0.0]
    + np.eye(5, k=1) * 0,
    "an outer product": np.outer(np.arange(1.0, 41), np.arange(1.0, 41)),
    "tiny": np.array([[1.0, 2.0], [2.0, 4.0]]) * 2.0**-1060,
}


def tensors(pair):
    return tuple(torch.from_numpy(np.ascontiguousarray(x)) for x in pair)


def memory(n, sides, mesh_shape):
    """The most memory that NumPy's arrays take at a time during a solution, in bytes."""
    import tracemalloc

    mesh = mesh_of(mesh_shape)
    if not here(mesh):
        return None
    from torch.distributed.tensor import Shard

    rng = np.random.default_rng(n)
    a, b = tensors((rng.standard_normal((n, n)), rng.standard_normal((n, sides))))
    da, db = (placed(x, mesh, [Shard(0)] * mesh.ndim) for x in (a, b))
    tracemalloc.start()
    try:
        widen.linalg.solve(da, db, accuracy="correct")
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
