"""Wide results from narrow units: matrix products that are right, certified and reproducible."""

from widen import linalg, nn
from widen.api import encode, gemm, matmul, plan
from widen.contract import Contract
from widen.emulate import emulate
from widen.encoded import Encoded
from widen.formats import (
    complex64x2,
    complex64x3,
    complex64x4,
    complex128_complex64,
    complex128x2,
    complex128x3,
    complex128x4,
    complex128x8,
    complex128x16,
    float32x2,
    float32x3,
    float32x4,
    float64_float32,
    float64x2,
    float64x3,
    float64x4,
    float64x8,
    float64x16,
)
from widen.functions import (
    dot,
    einsum,
    inner,
    matrix_power,
    matvec,
    multi_dot,
    norm,
    outer,
    sum,
    tensordot,
    vdot,
    vecdot,
    vecmat,
)
from widen.plan import Info, Plan
from widen.words import Words
from widen.words.files import load

__version__ = "0.2.0"

__all__ = [
    "Contract",
    "Encoded",
    "Info",
    "Plan",
    "Words",
    "complex64x2",
    "complex64x3",
    "complex64x4",
    "complex128_complex64",
    "complex128x2",
    "complex128x3",
    "complex128x4",
    "complex128x8",
    "complex128x16",
    "dot",
    "einsum",
    "emulate",
    "encode",
    "float32x2",
    "float32x3",
    "float32x4",
    "float64_float32",
    "float64x2",
    "float64x3",
    "float64x4",
    "float64x8",
    "float64x16",
    "gemm",
    "inner",
    "linalg",
    "load",
    "matmul",
    "matrix_power",
    "matvec",
    "multi_dot",
    "nn",
    "norm",
    "outer",
    "plan",
    "sum",
    "tensordot",
    "vdot",
    "vecdot",
    "vecmat",
]
