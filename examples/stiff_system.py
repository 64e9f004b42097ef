"""A stiff system, refined to the last bit.

Heat flows along a rod of 200 cells. Most are steel and every tenth is foam, which conducts a
hundred million times less; the ends are held at given temperatures. One implicit step of a long
time is a linear system whose numbers differ by many powers of ten.

The usual cure for a bad solution is refinement: compute what is left, r = b - A x, solve for a
correction and add it. With NumPy's r this stops early, since most of r is lost in cancellation.
With r rounded once (`widen.gemm`) it goes on to the last bit. `widen.linalg.solve` does all of it
and proves that it has arrived.

It prints (~ marks what depends on NumPy's BLAS):

    numpy.linalg.solve:       ~200 of 200 elements are off, by ~9e-07 at most
    refined, NumPy's b - A x: ~200 of 200 elements are off, by ~3e-07 at most
    refined, widen.gemm:      0 of 200 elements are off, by 0e+00 at most
    widen.linalg.solve:       0 of 200 elements are off, by 0e+00 at most (proven)
"""

import numpy as np

import widen

N, STEEL, FOAM, TIME = 200, 1.0, 1e-8, 1e12

conduct = np.where(np.arange(N + 1) % 10 == 5, FOAM, STEEL)  # between a cell and its left neighbour
a = np.diag(1.0 + TIME * (conduct[:-1] + conduct[1:]))
a -= np.diag(TIME * conduct[1:-1], 1) + np.diag(TIME * conduct[1:-1], -1)
b = np.linspace(20.0, 21.0, N)  # temperatures before the step
b[0] += TIME * conduct[0] * 100.0  # what the hot and the cold end add
b[-1] += TIME * conduct[-1] * 0.5

exact = widen.linalg.solve(a, b)  # every element is the nearest float64 of the exact solution


def wrong(x, about="~"):
    """Say how many elements are not the nearest float64, and the largest relative error."""
    off, error = np.count_nonzero(x != exact), abs(x / exact - 1).max()
    return f"{about}{off} of {N} elements are off, by {about}{error:.0e} at most"


def refined(x, residual, steps=3):
    """Refine a solution, with what is left computed by `residual`."""
    for _ in range(steps):
        x = x + np.linalg.solve(a, residual(x))
    return x


def with_widen(x):
    """What is left, b - A x, every element rounded once."""
    return widen.gemm(a, x, b, alpha=-1.0, beta=1.0, accuracy="correct")


x = np.linalg.solve(a, b)
print("numpy.linalg.solve:      ", wrong(x))
print("refined, NumPy's b - A x:", wrong(refined(x, lambda x: b - a @ x)))
print("refined, widen.gemm:     ", wrong(refined(x, with_widen), ""))
print("widen.linalg.solve:      ", wrong(exact, ""), "(proven)")
