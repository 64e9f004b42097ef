"""Paper 002's algorithms, line by line, in Python floats and integers: slow, the oracle.

Matrices are lists of lists. Indices s, g run as in the paper, from 1; a dictionary holds what the
paper writes with a superscript. Floats of Python are IEEE float64, rounded to nearest even.
"""

from math import ceil, floor, frexp, log2

import numpy as np


def beta_of(n):
    """Line 1 of all of them: min(7, floor((31 - log2 n) / 2)); log2 is exact for these n."""
    return min(7, floor((31 - log2(n)) / 2))


def floor_log2(x):
    return frexp(x)[1] - 1


def ceil_log2(x):
    fraction, exponent = frexp(x)
    return exponent - 1 if fraction == 0.5 else exponent


def largest(row):
    return max(abs(x) for x in row)


def printed_beta(n):
    """Line 1 of Algorithm 1 as it stands there."""
    return ceil((29 - log2(n)) / 2)


def repaired_beta(n):
    """What lines 4 to 6 and line 4 of Algorithm 2 need: slices for FP16, sums for FP32."""
    return max(ceil(53 - (24 - log2(n)) / 2), 53 - 11)


def algorithm_1(a, k, beta):
    """Splitting to nearest for FP16: A'_s and mu'^(s)."""
    a, slices, mu = [list(row) for row in a], {}, {}
    for s in range(1, k + 1):  # 2
        mu[s] = [2.0 ** ceil_log2(largest(row)) if largest(row) else 1.0 for row in a]  # 3
        sigma = [0.75 * x * 2.0**beta for x in mu[s]]  # 4
        part = [[(x + sigma[i]) - sigma[i] for x in row] for i, row in enumerate(a)]  # 5
        slices[s] = [[np.float16(x / mu[s][i]) for x in row] for i, row in enumerate(part)]  # 6
        a = [[x - y for x, y in zip(*rows, strict=True)] for rows in zip(a, part, strict=True)]  # 7
    return slices, mu


def algorithm_2(a, mu, b, nu, k):
    """FP16 products with FP32 sums, in fast mode; b is of B^T."""
    m, p = len(a[1]), len(b[1])
    c = [[0.0] * p for _ in range(m)]  # 1
    for g in range(2, k + 2):  # 2
        for s in range(1, g):  # 3
            for i in range(m):
                for j in range(p):
                    product = np.float32(0)  # 4
                    for x, y in zip(a[s][i], b[g - s][j], strict=True):
                        product = np.float32(product + np.float32(x) * np.float32(y))
                    c[i][j] = c[i][j] + mu[s][i] * float(product) * nu[g - s][j]  # 5
    return c


def algorithm_3(a, k):
    """Splitting by bit masks: A''_s and mu''."""
    n = len(a[0])
    beta = beta_of(n)  # 1
    mu = [2.0 ** floor_log2(largest(row)) if largest(row) else 1.0 for row in a]  # 2
    slices = {}
    for s in range(1, k + 1):  # 3
        slices[s] = [[sth_bits(x, mu[i], s, beta) for x in row] for i, row in enumerate(a)]  # 4
    return slices, mu


def sth_bits(x, mu, s, beta):
    """The s-th beta bits of |x| from mu's bit on, with the sign of x."""
    (over, under), (unit, units) = abs(x).as_integer_ratio(), mu.as_integer_ratio()
    # |x| / (2 mu) is 0.b1 b2 b3 ... in binary
    bits = ((over * units << beta * s) // (2 * under * unit)) % 2**beta
    return -bits if x < 0 else bits


def algorithm_5(a, k):
    """Splitting to nearest with a new shift each slice: A'_s and mu'^(s)."""
    n = len(a[0])
    beta = beta_of(n)  # 1
    a = [list(row) for row in a]
    slices, mu = {}, {}
    for s in range(1, k + 1):  # 2
        mu[s] = [
            2.0 ** ceil_log2(largest(row)) * 2.0 ** (1 - beta) if largest(row) else 1.0 for row in a
        ]  # 3
        sigma = [0.75 * 2.0**53 * x for x in mu[s]]  # 4
        part = [[(x + sigma[i]) - sigma[i] for x in row] for i, row in enumerate(a)]  # 5
        slices[s] = [[int8(x / mu[s][i]) for x in row] for i, row in enumerate(part)]  # 6
        a = [[x - y for x, y in zip(*rows, strict=True)] for rows in zip(a, part, strict=True)]  # 7
    return slices, mu


def algorithm_8(a, k):
    """Splitting to nearest with one shift: A''_s and mu''.

    Line 6 of the paper multiplies by 2^(-beta (s - 1)), which would give 0 for every s > 1; the
    slice that line 5 extracts is a multiple of mu'' 2^(-beta (s - 1)), so it must be divided by it.
    """
    n = len(a[0])
    beta = beta_of(n)  # 1
    a = [list(row) for row in a]
    mu = [
        2.0 ** ceil_log2(largest(row)) * 2.0 ** (1 - beta) if largest(row) else 1.0 for row in a
    ]  # 2
    slices = {}
    for s in range(1, k + 1):  # 3
        sigma = [0.75 * 2.0 ** (53 - beta * (s - 1)) * x for x in mu]  # 4
        part = [[(x + sigma[i]) - sigma[i] for x in row] for i, row in enumerate(a)]  # 5
        slices[s] = [
            [int8(x / mu[i] * 2.0 ** (beta * (s - 1))) for x in row] for i, row in enumerate(part)
        ]  # 6
        a = [[x - y for x, y in zip(*rows, strict=True)] for rows in zip(a, part, strict=True)]  # 7
    return slices, mu


def int8(x):
    assert x == int(x)
    assert -128 <= x <= 127
    return int(x)


def int32(x):
    assert -(2**31) <= x < 2**31
    return x


def gemm(a, b):
    """A''B''^T for slices of A and of B^T, in int32."""
    return [[int32(sum(x * y for x, y in zip(r, c, strict=True))) for c in b] for r in a]


def algorithm_4(a, b, scale, m, p, k):
    """Products added one by one; scale(s, t, i, j) is what the paper writes around FP64(C'')."""
    c = [[0.0] * p for _ in range(m)]  # 2
    for g in range(2, k + 2):  # 3
        for s in range(1, g):  # 4
            product = gemm(a[s], b[g - s])  # 5
            for i in range(m):
                for j in range(p):
                    c[i][j] = c[i][j] + scale(s, g - s, i, j) * float(product[i][j])  # 6
    return c


def algorithm_6(a, b, scale, m, p, k, n):
    """Group-wise error-free accumulation."""
    beta = beta_of(n)  # 1
    r = max(1, 2 ** (31 - 2 * beta - ceil(log2(n))))  # 2
    c = [[0.0] * p for _ in range(m)]  # 3
    for g in range(2, k + 2):  # 4
        q, group = 0, [[0] * p for _ in range(m)]  # 5, 6
        for s in range(1, g):  # 7
            q += 1  # 8
            product = gemm(a[s], b[g - s])
            group = [[int32(x + y) for x, y in zip(*rows, strict=True)]
                     for rows in zip(group, product, strict=True)]  # 9  # fmt: skip
            if q == r or s == g - 1:  # 10
                for i in range(m):
                    for j in range(p):
                        c[i][j] = c[i][j] + scale(s, g - s, i, j) * float(group[i][j])  # 11
                q, group = 0, [[0] * p for _ in range(m)]  # 12, 13
    return c


def algorithm_7(a, b, scale, m, p, k):
    """The simple version of Algorithm 6, for r >= k."""
    c = [[0.0] * p for _ in range(m)]  # 2
    for g in range(2, k + 2):  # 3
        group = [[0] * p for _ in range(m)]  # 4
        for s in range(1, g):  # 5
            product = gemm(a[s], b[g - s])
            group = [[int32(x + y) for x, y in zip(*rows, strict=True)]
                     for rows in zip(group, product, strict=True)]  # 6  # fmt: skip
        for i in range(m):
            for j in range(p):
                c[i][j] = c[i][j] + scale(g - 1, 1, i, j) * float(group[i][j])  # 8
    return c


def gemm_of(alpha, d, beta, c):
    """Step (v) of section 1."""
    return [[alpha * x + beta * y for x, y in zip(*rows, strict=True)]
            for rows in zip(d, c, strict=True)]  # fmt: skip


def product(a, b, k, variant):
    """A variant of section 4: which algorithms it puts together, and the scale of its products."""
    a, transposed = a.tolist(), b.T.tolist()
    m, n, p = len(a), len(a[0]), len(transposed)
    beta = beta_of(n)
    split = {"ozimmu": algorithm_3, "rn": algorithm_5, "ef": algorithm_3, "h": algorithm_8}[variant]
    (left, mu), (right, nu) = split(a, k), split(transposed, k)

    def scale(s, t, i, j):
        if variant == "rn":
            return mu[s][i] * nu[t][j]
        if variant == "h":  # mu'' has 2^(1 - beta) in it
            return mu[i] * 2.0 ** (-beta * (s + t - 2)) * nu[j]
        return mu[i] * 2.0 ** (-beta * s + 1) * 2.0 ** (-beta * t + 1) * nu[j]

    if variant in ("ozimmu", "rn"):
        return algorithm_4(left, right, scale, m, p, k)
    return algorithm_6(left, right, scale, m, p, k, n)
