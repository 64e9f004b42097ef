"""Paper 000, line by line in NumPy floats: Algorithms 1, 2 and 3, and a correctly rounded sum.

Slow and literal. Numbers in brackets are lines of the paper's algorithms. ceil(log2) is exact, as
the paper means it (a logarithm would misround next to powers of two).
"""

from __future__ import annotations

import math

import numpy as np

U = {np.float64: 2.0**-53, np.float32: 2.0**-24}


def ceil_log2(x):
    m, e = math.frexp(float(x))
    return e - 1 if m == 0.5 else e


def split(x, kind=np.float64, sums=2.0**-24, limit=None):
    """Algorithm 1 for a vector; slices are (FP64 slice, FP16 slice, c), at most `limit` of them."""
    x = x.copy()
    n = len(x)
    rho = math.ceil(-math.log2(U[kind]) - (-math.log2(sums) - math.log2(n)) / 2)  # 2
    slices = []
    mu = abs(x).max()  # 3
    while mu != 0 and (limit is None or len(slices) < limit):  # 5
        tau = ceil_log2(mu)  # 7
        sigma = np.ldexp(kind(1), rho + tau)  # 8
        x_tmp = (x + sigma) - sigma  # 9
        x = x - x_tmp  # 10
        scaled = np.ldexp(x_tmp, -tau)
        x_split = scaled.astype(np.float16) if sums == 2.0**-24 else scaled  # 11
        assert (x_split.astype(np.float64) == scaled).all()  # no significand bit is lost
        slices.append((x_tmp, x_split, tau))
        mu = abs(x).max()  # 12
    return slices


def split_matrix(rows, **how):
    """Slices of every row: lists of (FP64 matrix, FP16 matrix, exponents c), padded with zeros."""
    every = [split(row, **how) for row in rows]
    count = max(map(len, every))
    found = []
    for p in range(count):
        parts = [
            s[p] if p < len(s) else (np.zeros_like(row), np.zeros_like(row), 0)
            for s, row in zip(every, rows, strict=True)
        ]
        found.append(tuple(np.array(column) for column in zip(*parts, strict=True)))
    return found


def gemm_fp32(left, right):
    """GEMM_FP32 of line 7 in Algorithm 2; exact, as property 2 demands."""
    c = left.astype(np.float32) @ right.astype(np.float32).T
    assert (c == left.astype(np.float64) @ right.astype(np.float64).T).all()
    return c


def products(a, b, pairs, gemm=gemm_fp32):
    """2^(cA[p]_i + cB[q]_j) Ctmp_ij, in float64 or float32, for the pairs (p, q) from 0."""
    for p, q in pairs:
        c_tmp = gemm(a[p][1], b[q][1])  # 7
        shift = a[p][2][:, None] + b[q][2][None, :]
        yield np.ldexp(c_tmp.astype(np.float64), shift).astype(a[p][0].dtype)


def determine(a, b, slices_a):
    """Algorithm 3: d; None if the slices of A run out before the test is met."""
    kind, k = a.dtype.type, a.shape[1]
    b_e = abs(b.astype(np.float64)).sum(axis=1)  # |B| e
    s = 2 * math.sqrt(k) * U[kind] * (abs(a.astype(np.float64)) @ b_e)  # 4
    d = 2  # 5
    while d <= len(slices_a):
        t = (d + 1) * (abs(slices_a[d - 1][0].astype(np.float64)) @ b_e)  # 7
        if ((s > t) | (s == 0)).all():  # 8; rows of zeros would never pass
            return d
        d += 1  # 11
    return None


def dp_mode(a, b):
    """DGEMM-TC in DP-mode (SGEMM-TC in SP-mode for float32): the result, d, whether fast."""
    kind = a.dtype.type
    full = split_matrix(a, kind=kind)
    d = determine(a, b, full)
    fast = d is not None and d < len(full)
    left = full[:d] if fast else full
    right = split_matrix(b.T, kind=kind, limit=d if fast else None)
    c = np.zeros((len(a), b.shape[1]), kind)  # Algorithm 2, 4
    pairs = [(p, q) for q in range(len(right)) for p in range(len(left))]  # 5, 6
    if fast:
        pairs = [(p, q) for p, q in pairs if (p + 1) + (q + 1) <= d + 1]
    for term in products(left, right, pairs):
        c = c + term  # 8
    return c, len(left), fast, len(pairs)


def cr_mode(a, b):
    """DGEMM-TC in CR-mode: all slices, all products, a sum rounded once (fsum is)."""
    return _rounded_once(a, b, 2.0**-24, gemm_fp32)


def dp_cr(a, b):
    """DGEMM-DP-CR: the same on FP64 products."""
    return _rounded_once(a, b, 2.0**-53, lambda x, y: x @ y.T)


def _rounded_once(a, b, sums, gemm):
    left, right = split_matrix(a, sums=sums), split_matrix(b.T, sums=sums)
    pairs = [(p, q) for q in range(len(right)) for p in range(len(left))]
    terms = np.stack(list(products(left, right, pairs, gemm)))
    flat = terms.reshape(len(terms), -1)
    c = [math.fsum(flat[:, i]) for i in range(flat.shape[1])]
    return np.array(c).reshape(terms.shape[1:]), len(left), len(right)
