"""Exact references, hard matrices and error measures, for the tests and for users.

FLINT and MPFR do the arithmetic: ``pip install "widen[test]"``. Nothing else of the library is
used here, and nothing in the library uses this.
"""

from .dyadic import Dyadic
from .errors import check_contract, error_in_u, error_in_ulps, magnitude, violations
from .exact import Exact, correctly_rounded, error_bounds, exact_error, exact_product
from .matrices import FAMILIES, Family, as_format, complex_pair, phi

__all__ = [
    "FAMILIES",
    "Dyadic",
    "Exact",
    "Family",
    "as_format",
    "check_contract",
    "complex_pair",
    "correctly_rounded",
    "error_bounds",
    "error_in_u",
    "error_in_ulps",
    "exact_error",
    "exact_product",
    "magnitude",
    "phi",
    "violations",
]
