"""widen.linalg against NumPy (or PyTorch on a GPU) on this machine: `python bench/linalg.py`.

Every time is the best of several, and each is taken right after the ordinary one, since machines
are shared: the ratios are what counts. `--flint` adds python-flint's exact solution at n = 400,
`--batch` batches of small systems, `--spectra` eigenvalues, singular values and factors, `--memory`
what calls hold at most. `--factors` counts CPU seconds of factorisations in words, and does nothing
else. `--cpu` counts CPU seconds in the first table and of batches, for machines that are busy: with
one thread (`OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1`) these are what an idle machine takes.
"""

from __future__ import annotations

import argparse
import tracemalloc
from functools import partial
from time import perf_counter, process_time

import numpy as np

import widen


def conditioned(rng, n, digits):
    """A matrix of condition number 10^digits."""
    u, v = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    return (u * np.logspace(0, -digits, n)) @ v


def timed(function, clock=perf_counter):
    start = clock()
    function()
    return clock() - start


def compared(ordinary, ours, count, clock=perf_counter):
    """Best times of both, taken in turns."""
    pairs = [(timed(ordinary, clock), timed(ours, clock)) for _ in range(count)]
    return tuple(min(times) for times in zip(*pairs, strict=True))


def cases(n, count):
    rng = np.random.default_rng(1)
    b = rng.standard_normal((n, 1))
    matrices = {
        "Gaussian": rng.standard_normal((n, n)),
        "cond 1e8": conditioned(rng, n, 8),
        "cond 1e13": conditioned(rng, n, 13),
    }
    for name, a in matrices.items():
        repeats = count if name != "cond 1e13" else max(1, count // 2)
        yield (f"solve, {name}", np.linalg.solve, widen.linalg.solve, (a, b), repeats)
    a = matrices["Gaussian"]
    yield "inv, Gaussian", np.linalg.inv, widen.linalg.inv, (a,), max(1, count // 2)


def flint_solve(a, b):
    """The exact solution by python-flint, in integers: rows times powers of two."""
    import flint

    def integers(x):
        return flint.fmpz_mat([[int(v) for v in np.ldexp(row, 60).tolist()] for row in x])

    return integers(a).solve(integers(b))


def against_flint(n=400):
    rng = np.random.default_rng(2)
    a, b = (np.round(rng.standard_normal(shape) * 2.0**52) * 2.0**-52 for shape in ((n, n), (n, 1)))
    ours = min(timed(partial(widen.linalg.solve, a, b)) for _ in range(3))
    theirs = timed(partial(flint_solve, a, b))
    print(
        f"\npython-flint's solve at n = {n}: {theirs:.1f} s, widen.linalg.solve {ours:.3f} s, "
        f"{theirs / ours:.0f} times as fast"
    )


def of_batches(clock, count=200):
    print("\n| systems of a batch | np.linalg.solve | widen.linalg.solve | each | alone |")
    print("| --- | --- | --- | --- | --- |")
    rng = np.random.default_rng(3)
    for n in (2, 8, 32, 64):
        a, b = rng.standard_normal((count, n, n)), rng.standard_normal((count, n, 1))
        ours = partial(widen.linalg.solve, a, b)
        ours()
        theirs, own = compared(partial(np.linalg.solve, a, b), ours, 3, clock)
        alone = min(timed(partial(widen.linalg.solve, a[0], b[0]), clock) for _ in range(20))
        print(f"| {count} of n = {n} | {1e3 * theirs:.2f} ms | {1e3 * own:.1f} ms | "
              f"{1e6 * own / count:.0f} µs | {1e6 * alone:.0f} µs |", flush=True)  # fmt: skip


def of_spectra(n=200):
    rng = np.random.default_rng(4)
    a = rng.standard_normal((n, n))
    symmetric, definite = a + a.T, a @ a.T
    definite = (definite + definite.T) / 2
    linalg, words = widen.linalg, "float64x2"
    functions = {
        "eigvalsh": (np.linalg.eigvalsh, linalg.eigvalsh, symmetric),
        "eigh": (np.linalg.eigh, linalg.eigh, symmetric),
        "svdvals": (np.linalg.svdvals, linalg.svdvals, a),
        "svd": (np.linalg.svd, linalg.svd, a),
        "cholesky": (np.linalg.cholesky, linalg.cholesky, definite),
        "is_positive_definite": (np.linalg.cholesky, linalg.is_positive_definite, definite),
        "qr": (np.linalg.qr, linalg.qr, a),
        f"lu_factor, {words}": (np.linalg.inv, partial(linalg.lu_factor, dtype=words), a),
    }
    print(f"\n| n = {n} | np.linalg (inv beside lu_factor) | widen.linalg |")
    print("| --- | --- | --- |")
    for name, (ordinary, ours, matrix) in functions.items():
        ours(matrix)
        theirs, own = compared(partial(ordinary, matrix), partial(ours, matrix), 2)
        print(f"| {name} | {1e3 * theirs:.1f} ms | {1e3 * own:.0f} ms |", flush=True)


def of_factors():
    """CPU seconds of factorisations and of substitution in words, the best of three."""
    rng, linalg = np.random.default_rng(6), widen.linalg
    names = ("lu_factor, float64x2", "lu_factor, float64x4", "lu_solve, float64x2", "qr, float64",
             "qr, float64x2", "qr, float64x4")  # fmt: skip
    print(f"| n | {' | '.join(names)} |")
    print(f"| --- |{' --- |' * len(names)}")
    for n in (100, 200, 400):
        a, b = rng.standard_normal((n, n)), rng.standard_normal((n, 1))
        factors = linalg.lu_factor(a, dtype="float64x2")
        calls = [
            *(partial(linalg.lu_factor, a, dtype=f"float64x{k}") for k in (2, 4)),
            partial(linalg.lu_solve, factors, b),
            *(partial(linalg.qr, a, dtype=name) for name in ("float64", "float64x2", "float64x4")),
        ]
        times = []
        for call in calls:
            call()
            times.append(min(timed(call, process_time) for _ in range(3)))
        print(f"| {n} | {' | '.join(f'{1e3 * t:.0f} ms' for t in times)} |", flush=True)


def of_memory(n=200):
    """The most that calls hold beside their operands (tracemalloc), in matrices of float64."""
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((n, n)), rng.standard_normal((n, 1))
    hard, symmetric, definite = conditioned(rng, n, 13), a + a.T, a @ a.T
    definite = (definite + definite.T) / 2
    linalg = widen.linalg
    calls = {
        "solve": partial(linalg.solve, a, b),
        "solve, cond 1e13": partial(linalg.solve, hard, b),
        "solve, complex": partial(linalg.solve, a + 1j * symmetric, b),
        "inv": partial(linalg.inv, a),
        "det": partial(linalg.det, a),
        "eigh": partial(linalg.eigh, symmetric),
        "svd": partial(linalg.svd, a),
        "cholesky": partial(linalg.cholesky, definite),
        "qr": partial(linalg.qr, a),
        "lu_factor, float64x2": partial(linalg.lu_factor, a, dtype="float64x2"),
    }
    print(f"\n| n = {n} | most memory, in matrices of n² float64 |")
    print("| --- | --- |")
    for name, call in calls.items():
        call()
        tracemalloc.start()
        call()
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(f"| {name} | {most / (8 * n * n):.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--count", type=int, default=6)
    for option in ("--flint", "--batch", "--spectra", "--factors", "--memory", "--cpu"):
        parser.add_argument(option, action="store_true")
    given = parser.parse_args()
    if given.factors:
        of_factors()
        return
    widen.linalg.solve(np.eye(3) + 1, np.ones(3))  # compiles
    print(f"| n = {given.n} | np.linalg | widen.linalg | ratio | what it took |")
    print("| --- | --- | --- | --- | --- |")
    for name, ordinary, ours, operands, count in cases(given.n, given.count):
        ours(*operands)
        _, info = ours(*operands, info=True)
        parts = ", ".join(f"{part} {value:.2f}" for part, value in info.seconds.items())
        both = (partial(ordinary, *operands), partial(ours, *operands))
        theirs, own = compared(*both, count, process_time if given.cpu else perf_counter)
        print(
            f"| {name} | {theirs:.3f} s | {own:.3f} s | {own / theirs:.1f} | {parts}; "
            f"{info.words[0]} and {info.words[1]} words, {info.iterations} iterations |",
            flush=True,
        )
    if given.flint:
        against_flint()
    if given.batch:
        of_batches(process_time if given.cpu else perf_counter)
    if given.spectra:
        of_spectra()
    if given.memory:
        of_memory()


if __name__ == "__main__":
    main()
