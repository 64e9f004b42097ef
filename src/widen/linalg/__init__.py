"""Linear algebra with exact answers, rounded once: `solve`, `inv`, and what else is proven.

>>> import numpy as np, widen
>>> widen.linalg.solve(np.array([[3.0, 1.0], [1.0, 2.0]]), np.array([9.0, 8.0]))
array([2., 3.])
"""

from widen.linalg.definite import is_positive_definite
from widen.linalg.determinants import det, matrix_rank, slogdet
from widen.linalg.eigenvalues import eigh, eigvalsh
from widen.linalg.errors import NotProvenError, SingularMatrixError
from widen.linalg.factorisations import lu_factor, lu_solve, qr
from widen.linalg.factors import cholesky
from widen.linalg.functions import inv, solve, solve_triangular
from widen.linalg.least_squares import lstsq, pinv
from widen.linalg.norms import norm
from widen.linalg.records import DefiniteInfo, EigenInfo, FactorInfo, SolveInfo
from widen.linalg.singular_values import cond, svd, svdvals

__all__ = [
    "DefiniteInfo",
    "EigenInfo",
    "FactorInfo",
    "NotProvenError",
    "SingularMatrixError",
    "SolveInfo",
    "cholesky",
    "cond",
    "det",
    "eigh",
    "eigvalsh",
    "inv",
    "is_positive_definite",
    "lstsq",
    "lu_factor",
    "lu_solve",
    "matrix_rank",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
]
