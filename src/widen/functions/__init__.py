"""Functions made of products: sums, dot products, norms, contractions and chains of products.

Each is one sum of products, exact on the way and rounded once, or says in which order its sums are.
"""

from widen.functions.chains import matrix_power, multi_dot
from widen.functions.einsum import einsum
from widen.functions.norms import norm
from widen.functions.products import (
    dot,
    inner,
    matvec,
    outer,
    tensordot,
    vdot,
    vecdot,
    vecmat,
)
from widen.functions.sums import sum

__all__ = [
    "dot",
    "einsum",
    "inner",
    "matrix_power",
    "matvec",
    "multi_dot",
    "norm",
    "outer",
    "sum",
    "tensordot",
    "vdot",
    "vecdot",
    "vecmat",
]
