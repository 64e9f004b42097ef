"""widen.linalg against NumPy (or PyTorch on a GPU) on this machine: `python bench/linalg.py`.

Every time is the best of several, and each is taken right after the ordinary one, since machines
are shared: the ratios are what counts. `--flint` adds python-flint's exact solution at n = 400.
"""

from __future__ import annotations

import argparse
from functools import partial
from time import perf_counter

import numpy as np

import widen


def conditioned(rng, n, digits):
    """A matrix of condition number 10^digits."""
    u, v = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    return (u * np.logspace(0, -digits, n)) @ v


def timed(function):
    start = perf_counter()
    function()
    return perf_counter() - start


def compared(ordinary, ours, count):
    """Best times of both, taken in turns."""
    pairs = [(timed(ordinary), timed(ours)) for _ in range(count)]
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--count", type=int, default=6)
    parser.add_argument("--flint", action="store_true")
    given = parser.parse_args()
    widen.linalg.solve(np.eye(3) + 1, np.ones(3))  # compiles
    print(f"| n = {given.n} | np.linalg | widen.linalg | ratio | what it took |")
    print("| --- | --- | --- | --- | --- |")
    for name, ordinary, ours, operands, count in cases(given.n, given.count):
        ours(*operands)
        _, info = ours(*operands, info=True)
        parts = ", ".join(f"{part} {value:.2f}" for part, value in info.seconds.items())
        theirs, own = compared(partial(ordinary, *operands), partial(ours, *operands), count)
        print(
            f"| {name} | {theirs:.3f} s | {own:.3f} s | {own / theirs:.1f} | {parts}; "
            f"{info.words[0]} and {info.words[1]} words, {info.iterations} iterations |",
            flush=True,
        )
    if given.flint:
        against_flint()


if __name__ == "__main__":
    main()
