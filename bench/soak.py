"""Random products on a GPU against the CPU, bit for bit: `python bench/soak.py --cases 2000`.

Shapes, batches, strides, formats, contracts and families of matrices are drawn from a seed and the
case's number, so that any case can be repeated (`--first 417 --cases 1`). Some are large enough for
the kernels that are compiled for one layout and one list of moduli. Every product is computed again
with its lines in another order, by launches that were recorded if they were; half of all cases in
inference mode. Several processes share the GPU: most of the time is the CPU's, and the compiler's
where kernels are new. A line says how far it is; the last one says how many cases were done, and
how many differ.
"""

from __future__ import annotations

import argparse
import faulthandler
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

import numpy as np

FORMATS = (
    "float64", "float32", "complex128", "float16", "complex64", "float64x2", "float32x3",
    "complex128x2",
)  # fmt: skip
ACCURACIES = ("standard", "correct", "fast", 45, 20)
LAYOUTS = ("plain", "transposed", "stepped", "offset")
SIZES, LARGE_SIZES, LARGE = (1, 90), (360, 620), 0.05
"""Of shapes, those of large ones, and how many are large."""

BATCHES = ((), ()), ((3,), ()), ((), (2,)), ((2,), (2,)), ((2, 1), (3,)), ((1, 2), (2, 1))
BATCHED = 0.3
"""Axes before the matrices of either operand, and how many of the others have some."""

Operand = Any  # an array or Words


@dataclass(frozen=True)
class Case:
    """One product: neighbours differ in format and contract, so that processes compile apart."""

    seed: int
    number: int

    def draw(self) -> tuple[dict[str, Any], Operand, Operand]:
        """What it is called, and its operands."""
        import widen.testing as wt

        rng = np.random.default_rng([self.seed, self.number])
        name = FORMATS[self.number % len(FORMATS)]
        accuracy = ACCURACIES[self.number // len(FORMATS) % len(ACCURACIES)]
        sizes = LARGE_SIZES if rng.random() < LARGE else SIZES
        m, k, n = (int(size) for size in rng.integers(*sizes, 3))
        family = list(wt.FAMILIES)[int(rng.integers(len(wt.FAMILIES)))]
        layouts = [LAYOUTS[int(rng.integers(len(LAYOUTS)))] for _ in range(2)]
        batches = BATCHES[0]
        if sizes == SIZES and rng.random() < BATCHED:
            batches = BATCHES[int(rng.integers(1, len(BATCHES)))]

        def pair() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
            if name.startswith("complex"):
                return wt.complex_pair(wt.FAMILIES[family], rng, m, k, n)
            return wt.FAMILIES[family].make(rng, m, k, n)

        items = [pair() for _ in range(max(math.prod(batch) for batch in batches))]
        operands = []
        for side, batch in enumerate(batches):
            matrices = np.stack([item[side] for item in items[: math.prod(batch)]])
            with np.errstate(all="ignore"):
                operands.append(in_format(rng, matrices.reshape(*batch, *matrices.shape[1:]), name))
        said = {"case": self.number, "format": name, "accuracy": accuracy, "family": family}
        said |= {"shape": (m, k, n), "batches": batches, "layouts": layouts}
        return said | {"inference": bool(rng.random() < 0.5)}, *operands

    def on_gpu(self) -> list[np.ndarray[Any, Any]]:
        """The product on the GPU, twice, in arrays: one, or one for each word.

        The second time rows and columns come last first, and so do those of its result.
        """
        import torch

        import widen

        said, *operands = self.draw()
        found: list[np.ndarray[Any, Any]] = []
        for turned in (False, True):
            x, y = (
                laid_out(operand, layout, axis if turned else None)
                for operand, layout, axis in zip(operands, said["layouts"], (-2, -1), strict=True)
            )
            with torch.inference_mode(said["inference"]):
                product = planes_of(widen.matmul(x, y, accuracy=said["accuracy"]))
            arrays = [plane.cpu().numpy() for plane in product]
            found += [z[..., ::-1, ::-1] for z in arrays] if turned else arrays
        return found

    def differs(self) -> dict[str, Any] | None:
        """What the case is, if the GPU's bits are not the CPU's."""
        import widen

        said, a, b = self.draw()
        wanted = planes_of(widen.matmul(a, b, accuracy=said["accuracy"]))
        wrong = sum(differing(*pair) for pair in zip(self.on_gpu(), 2 * wanted, strict=True))
        return said | {"elements": wrong} if wrong else None


def in_format(rng: np.random.Generator, x: np.ndarray[Any, Any], name: str) -> Operand:
    """An array in a format; numbers of several words get random ones after the first."""
    import widen
    import widen.testing as wt
    from widen import formats

    if name in formats.PLAIN:
        return wt.as_format(x, np.dtype(name))
    precisions = [word.precision for word in formats.FORMATS[name].part.words]
    words = [x.astype("c8" if x.dtype.kind == "c" else "f4") if precisions[0] == 24 else x]
    for precision in precisions[:-1]:
        words.append(words[-1] * 2.0**-precision * rng.uniform(-0.5, 0.5, x.shape))
    return widen.Words.from_words(np.array(words), name)


def planes_of(x: Operand) -> list[Any]:
    """The arrays of `Words`, or the one array."""
    import widen

    return list(x.planes) if isinstance(x, widen.Words) else [x]


def laid_out(x: Operand, layout: str, turned: int | None = None) -> Any:
    """The same numbers on the GPU, with other strides, and an axis turned round."""
    import torch

    import widen

    tensor = torch.from_numpy(np.stack(planes_of(x))).cuda()
    if turned is not None:
        tensor = tensor.flip(turned)
    *outer, rows, columns = tensor.shape
    if layout == "transposed":
        tensor = tensor.mT.contiguous().mT
    elif layout == "stepped":
        room = tensor.new_zeros((*outer, 2 * rows, 3 * columns))
        room[..., ::2, 1::3] = tensor
        tensor = room[..., ::2, 1::3]
    elif layout == "offset":
        room = tensor.new_zeros(tensor.numel() + 3)
        room[3:] = tensor.ravel()
        tensor = room[3:].view(tensor.shape)
    return widen.Words.of(x.format, list(tensor)) if isinstance(x, widen.Words) else tensor[0]


def differing(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> int:
    """Numbers (parts of them) whose bits differ; every NaN is the same."""
    assert (x.shape, x.dtype) == (y.shape, y.dtype)
    ours, theirs = (z.view(z.real.dtype) for z in map(np.ascontiguousarray, (x, y)))
    same = ours.view(f"u{ours.itemsize}") == theirs.view(f"u{ours.itemsize}")
    return int((~(same | (np.isnan(ours) & np.isnan(theirs)))).sum())


def work(case: Case) -> dict[str, Any] | None:
    """`Case.differs`; a failure is a difference too."""
    try:
        return case.differs()
    except Exception as error:  # the report says which case it was, and the soak goes on
        return case.draw()[0] | {"error": f"{type(error).__name__}: {error}"}


def cases(count: int, first: int, seed: int) -> list[Case]:
    """So many cases, from a number on."""
    return [Case(seed, number) for number in range(first, first + count)]


def compile_one(what: str | Case) -> None:
    """Compile a CPU kernel, or what a case needs on the GPU."""
    if isinstance(what, str):
        from widen.cpu.warm import prepare_all

        prepare_all([what])
    else:
        what.on_gpu()


def watched(task: Callable[[Any], Any], what: Any, limit: float) -> Any:
    """What a task gives; one that takes longer than its limit says where it is, and all is over."""
    faulthandler.dump_traceback_later(limit, exit=True)
    try:
        return task(what)
    finally:
        faulthandler.cancel_dump_traceback_later()


def run(chosen: list[Case], processes: int, limit: float) -> Iterator[dict[str, Any] | None]:
    """The cases' outcomes as they come.

    Compilers run first, each process at something else: caches on disk then have it all. A process
    that dies ends the soak (`BrokenProcessPool`).
    """
    if processes == 1:
        yield from (watched(work, case, limit) for case in chosen)
        return
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from widen.cpu.warm import LONGEST_FIRST

    first = [*LONGEST_FIRST, *chosen[: len(FORMATS) * len(ACCURACIES)]]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, spawn, faulthandler.enable) as pool:
        compiled = [pool.submit(watched, compile_one, what, limit) for what in first]
        for done, outcome in enumerate(as_completed(compiled), 1):
            outcome.result()
            print(f"compiled {done} of {len(first)}", end="\r", file=sys.stderr, flush=True)
        found = [pool.submit(watched, work, case, limit) for case in chosen]
        try:
            yield from (outcome.result() for outcome in as_completed(found))
        finally:
            pool.shutdown(cancel_futures=True)


def main() -> int:
    """Run the soak; 1 if anything differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after these")
    parser.add_argument("--limit", type=float, default=200, help="seconds that a case may take")
    given = parser.parse_args()
    begun, said, done, wrong = time.monotonic(), 0.0, 0, 0
    for outcome in run(cases(given.cases, given.first, given.seed), given.processes, given.limit):
        done += 1
        if outcome is not None:
            wrong += 1
            print(f"differs, seed {given.seed}: {outcome}", flush=True)
        spent = time.monotonic() - begun
        if spent >= said + 10:
            said = spent
            print(f"{done} of {given.cases} after {spent:.0f} s", flush=True)
        if spent > given.seconds:
            break
    print(f"{done} of {given.cases} cases in {time.monotonic() - begun:.0f} s, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
