"""Products of odd sizes on a GPU, compared with the CPU: what `make sanitize` watches.

Every kernel runs on a few awkward shapes, those for small products and (`tiles.SMALL` set to 0)
those compiled for one layout and one list of moduli. `--processes` compiles them all side by side.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import sys
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np

UNITS = ("int8", "fp16", "bf16", "fp8", "fp64")
SHAPES = ((3, 17, 5), (65, 129, 70))


def operands(shape: tuple[int, int, int], dtype: str) -> list[np.ndarray[Any, Any]]:
    """Matrices with a row to be repaired, and in the larger shapes an infinity."""
    m, k, n = shape
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    a[m // 2] *= 2.0 ** rng.integers(-100, 100, k)
    a[0, 0] = np.inf if m > 3 else a[0, 0]
    with np.errstate(all="ignore"):
        return [x.astype(dtype) for x in (a, b)]


def contract(shape: tuple[int, int, int], dtype: str, accuracy: str | int, small: int) -> None:
    """A product, and alpha A B + beta C into the same memory."""
    import torch

    import widen
    from widen.gpu import tiles

    tiles.SMALL = small
    a, b = operands(shape, dtype)
    left, right = (torch.from_numpy(x).cuda() for x in (a, b))
    found, wanted = (widen.matmul(*pair, accuracy=accuracy) for pair in ((left, right), (a, b)))
    assert np.array_equal(found.cpu().numpy(), wanted, equal_nan=True)
    given = {"alpha": -1.0, "beta": 0.5, "accuracy": accuracy}
    widen.gemm(left, right, found, out=found, **given)
    assert np.array_equal(found.cpu().numpy(), widen.gemm(a, b, wanted, **given), equal_nan=True)


def unit(shape: tuple[int, int, int], name: str, system: str) -> None:
    """A product by a unit and a system."""
    import torch

    import widen

    a, b = operands(shape, "float64")
    left, right = (torch.from_numpy(x).cuda() for x in (a, b))
    found = widen.matmul(left, right, unit=name, system=system)
    assert np.array_equal(found.cpu().numpy(), widen.matmul(a, b), equal_nan=True)


def several_words(shape: tuple[int, int, int], name: str, accuracy: str) -> None:
    """A product of numbers of several words, and alpha A B + beta C."""
    import torch

    import widen

    rng = np.random.default_rng(2)
    m, k, n = shape

    def drawn(size: tuple[int, int]) -> widen.Words:
        scales = 2.0 ** -(25 * np.arange(17))[:, None, None]
        words = rng.standard_normal((17, *size)) * scales
        words[:, size[0] // 2] *= 2.0 ** rng.integers(-30, 30, size[1])
        return widen.Words.from_words(words, name)

    def moved(x: widen.Words) -> widen.Words:
        return widen.Words.of(x.format, [torch.from_numpy(np.array(p)).cuda() for p in x.planes])

    a, b, c = drawn((m, k)), drawn((k, n)), drawn((m, n))
    for found, wanted in (
        (
            widen.matmul(moved(a), moved(b), accuracy=accuracy),
            widen.matmul(a, b, accuracy=accuracy),
        ),
        (widen.gemm(moved(a), moved(b), moved(c), beta=0.5), widen.gemm(a, b, c, beta=0.5)),
    ):
        for ours, theirs in zip(found.planes, wanted.planes, strict=True):
            assert np.array_equal(ours.cpu().numpy(), theirs)


def many_repairs() -> None:
    """Elements enough, and open, for repair by exact products."""
    import torch

    import widen

    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((95, 60)), rng.standard_normal((60, 97))
    a *= np.exp(4 * rng.standard_normal(a.shape))
    b *= np.exp(4 * rng.standard_normal(b.shape))
    found = widen.matmul(torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda())
    assert np.array_equal(found.cpu().numpy(), widen.matmul(a, b))


def halves(shape: tuple[int, int, int]) -> None:
    """Halves, however small."""
    import torch

    import widen
    from widen.gpu import multiply as gpu_multiply

    a, b = operands(shape, "float64")
    with mock.patch.object(gpu_multiply, "OPERATIONS_A_BYTE", 0):
        found = widen.matmul(
            torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda().mT.contiguous().mT
        )
    assert np.array_equal(found.cpu().numpy(), widen.matmul(a, b), equal_nan=True)


def batches(shape: tuple[int, int, int], dtype: str) -> None:
    """Matrices of which several fit a tile."""
    import torch

    import widen
    from widen.gpu import tiles

    tiles.SMALL = 0
    with np.errstate(invalid="ignore"):  # an infinity times a complex number
        pair = [np.stack([x * (item + 1) for item in range(7)]) for x in operands(shape, dtype)]
    found = widen.matmul(*(torch.from_numpy(x).cuda() for x in pair))
    assert np.array_equal(found.cpu().numpy(), widen.matmul(*pair), equal_nan=True)


def planned(shape: tuple[int, int, int], accuracy: str) -> None:
    """A plan made beforehand: what it cannot hold or certify is repaired on the device."""
    import torch

    import widen

    a, b = operands(shape, "float64")
    plan = widen.plan(a.shape, b.shape, accuracy=accuracy, device="cuda")
    found = widen.matmul(torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda(), plan=plan)
    wanted = widen.matmul(a, b, accuracy=accuracy)
    assert np.array_equal(found.cpu().numpy(), wanted, equal_nan=True)


def elementwise(name: str) -> None:
    """Operations on numbers of several words, one by one."""
    import torch

    import widen

    rng = np.random.default_rng(3)
    on_cpu = [np.array(rng.standard_normal(1001)) for _ in range(2)]
    x, y = (widen.Words(z, name) / 3 for z in on_cpu)
    u, v = (widen.Words(torch.from_numpy(z).cuda(), name) / 3 for z in on_cpu)
    for found, wanted in ((u + v, x + y), (u * v, x * y), (u / v, x / y),
                          (abs(u).sqrt(), abs(x).sqrt()), (u.sum(), x.sum())):  # fmt: skip
        for ours, theirs in zip(found.planes, wanted.planes, strict=True):
            assert np.array_equal(ours.cpu().numpy(), theirs)


def papers(shape: tuple[int, int, int], name: str) -> None:
    """A product by the algorithm of a paper."""
    import torch

    import widen
    from widen.papers.dgemm_fp8 import dgemm_fp8tc, dgemm_fp16tc
    from widen.papers.ozimmu import ozimmu
    from widen.papers.tensor_core_dgemm import dgemm_tc
    from widen.papers.triple_single import blocked_matmul, ozaki_matmul

    a, b = (np.random.default_rng(4).standard_normal(s) for s in (shape[:2], shape[1:]))

    def triples(x: Any) -> widen.Words:
        return widen.Words(x, "float32x3")

    product: Callable[[Any, Any], Any] = {
        "000": lambda x, y: dgemm_tc(x, y, mode="cr"),
        "002": lambda x, y: ozimmu(x, y, 6, "h"),
        "003-blocked": lambda x, y: blocked_matmul(triples(x), triples(y)).planes[-1],
        "003-sliced": lambda x, y: ozaki_matmul(triples(x), triples(y), 9).planes[-1],
        "004-fp8": lambda x, y: dgemm_fp8tc(x, y, fp64emu=True),
        "004-fp16": lambda x, y: dgemm_fp16tc(x, y, k_block=16),
    }[name]
    found = product(torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda())
    assert np.array_equal(found.cpu().numpy(), product(a, b))


PAPERS = ("000", "002", "003-blocked", "003-sliced", "004-fp8", "004-fp16")


def jobs() -> list[tuple[Callable[..., None], tuple[Any, ...]]]:
    """Everything that is run."""
    every = itertools.product(
        SHAPES, ("float64", "float32", "complex128"), ("standard", "correct", 40), (1 << 17, 0)
    )
    units = itertools.product(SHAPES, UNITS, ("residues", "digits"))
    words = itertools.product(
        ((3, 17, 5), (33, 65, 40)), ("float64x2", "complex64x2", "float64_float32", "float64x16"),
        ("standard", "correct"),
    )  # fmt: skip
    return [*((contract, given) for given in every), *((unit, given) for given in units),
            *((several_words, given) for given in words),
            *((batches, ((5, 33, 9), dtype)) for dtype in ("float64", "complex128")),
            *((batches, ((33, 17, 40), dtype)) for dtype in ("float64", "float32")),
            *((planned, given) for given in itertools.product(SHAPES, ("standard", "correct"))),
            *((elementwise, (name,)) for name in ("float64x2", "float32x3", "float64x4")),
            *((papers, given) for given in itertools.product(SHAPES, PAPERS)),
            *((halves, (shape,)) for shape in SHAPES), (many_repairs, ())]  # fmt: skip


def work(job: tuple[Callable[..., None], tuple[Any, ...]]) -> None:
    """Run one."""
    job[0](*job[1])


def main() -> None:
    """Run everything, in one process unless more are asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--every", type=int, default=1, help="run only every so manieth job")
    parser.add_argument("--first", type=int, default=0, help="number of the first of these")
    given = parser.parse_args()
    begun, chosen = time.monotonic(), jobs()[given.first :: given.every]
    if given.processes == 1:
        for at, job in enumerate(chosen):
            work(job)
            print(f"{at + 1} of {len(chosen)}", end="\r", file=sys.stderr)
    else:
        with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
            pool.map(work, chosen, chunksize=1)
    print(f"{len(chosen)} jobs agree with the CPU, in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
