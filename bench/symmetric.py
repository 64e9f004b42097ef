"""An operand times itself, transposed, beside the general way: `python bench/symmetric.py`.

Both in one run, in turn, medians; the general way gets a copy of the transposed operand. Times are
those of the wall, and those of all processors together, which say more on a busy machine.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # read when NumPy is imported

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median

import numpy as np

import widen


def seconds(call: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the wall and of all processors that a call takes."""
    wall, busy = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - busy


def cases(n: int) -> Iterator[tuple[str, Callable[..., object], tuple[object, object]]]:
    """Names, products of a right operand, and right operands: recognised, and not."""
    rng = np.random.default_rng(n)
    x, identity = rng.standard_normal((n, n)), np.eye(n)
    z = x + 1j * rng.standard_normal((n, n))
    adjoint, turned = z.conj().T, z.conj().T
    turned[0, 0] *= 1 + 2.0**-50  # no adjoint any more: the general way, of the same cost
    for accuracy in ("fast", "standard", "correct"):
        yield accuracy, partial(widen.matmul, x.T, accuracy=accuracy), (x, x.copy())
    words = widen.Words(x, "float64x2") + x[::-1] * 2.0**-60
    products = partial(widen.matmul, words.T, dtype="float64x2")
    yield "float64x2", products, (words, words.copy())
    for name, dtype in (("I - x'x", "float64"), ("I - x'x, float64x2", "float64x2")):
        sums = partial(widen.gemm, x.T, c=identity, alpha=-1.0, beta=1.0, dtype=dtype)
        yield name, sums, (x, x.copy())
    for accuracy in ("standard", "correct"):
        product = partial(widen.matmul, z, accuracy=accuracy)
        yield f"complex, {accuracy}", product, (adjoint, turned)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 1000, 2000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", help="cases with this in their name")
    given = parser.parse_args()
    print("| n | product | half, ms | whole, ms | ratio | of processors' time |")
    print("| --- | --- | --- | --- | --- | --- |")
    for n in given.sizes:
        for name, product, operands in cases(n):
            if given.only not in name:
                continue
            calls = [partial(product, right) for right in operands]
            first, second = (call() for call in calls)
            if isinstance(first, np.ndarray) and not name.startswith("complex"):
                assert first.tobytes() == second.tobytes()
            times = [[seconds(call) for call in calls] for _ in range(given.repeats)]
            half, whole = (median(pair[at][0] for pair in times) for at in (0, 1))
            busy = [median(pair[at][1] for pair in times) for at in (0, 1)]
            print(
                f"| {n} | {name} | {half * 1e3:.0f} | {whole * 1e3:.0f} | {half / whole:.2f} | "
                f"{busy[0] / busy[1]:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
