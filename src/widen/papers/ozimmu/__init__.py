"""Paper 002: Uchino, Ozaki, Imamura 2025, the Ozaki scheme on int8 units."""

from widen.papers.ozimmu.algorithm import (
    VARIANTS,
    addends,
    additions,
    beta,
    error_bound,
    exact_slices,
    ozimmu,
    products,
    schedule,
    truncation_bound,
)

__all__ = [
    "VARIANTS",
    "addends",
    "additions",
    "beta",
    "error_bound",
    "exact_slices",
    "ozimmu",
    "products",
    "schedule",
    "truncation_bound",
]
