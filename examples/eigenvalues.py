"""Eigenvalues that NumPy gets wrong.

Hilbert's matrix, 1/(i + j + 1), is positive definite: all of its eigenvalues are above zero. Here
it is multiplied by the least common multiple of 1 to 27, so that all entries are integers and no
rounding has happened before we begin. The eigenvalues lie many powers of ten apart, and LAPACK's
errors are as large as a unit in the last place of the largest one. So the smallest ones have no
right digit, or come out negative.

`widen.linalg.eigvalsh` returns the nearest float64 of each, with a proven radius.

It prints (~ marks what depends on NumPy's BLAS):

    numpy.linalg      widen.linalg
    ~-2.726285431e-07 7.932599348e-09
    ~2.406949950e-06 2.365130837e-06
    ~3.314287567e-04 3.314433636e-04
    ~2.900106002e-02 2.900112281e-02
    ~1.774930877e+00 1.774930419e+00
    ~8.064604145e+01 8.064604118e+01
    ~1.470213448e+11 1.470213448e+11 (the largest)
    every value the nearest float64, proven: True
    positive definite, proven: True
"""

from math import lcm

import numpy as np

import widen

n = 14
hilbert = float(lcm(*range(1, 2 * n))) / (np.arange(n)[:, None] + np.arange(n) + 1)

ordinary = np.linalg.eigvalsh(hilbert)
exact, info = widen.linalg.eigvalsh(hilbert, info=True)

print("numpy.linalg      widen.linalg")
for left, right in zip(ordinary[:6], exact[:6], strict=True):
    print(f"~{left:.9e} {right:.9e}")
print(f"~{ordinary[-1]:.9e} {exact[-1]:.9e} (the largest)")
print("every value the nearest float64, proven:", bool(np.all(info.decided)))
print("positive definite, proven:", widen.linalg.is_positive_definite(hilbert))
