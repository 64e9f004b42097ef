"""Paper 002: Uchino, Ozaki, Imamura 2025, the Ozaki scheme on int8 units."""

from widen.papers.ozimmu.algorithm import (
    VARIANTS,
    addends,
    additions,
    error_bound,
    exact_slices,
    fast_fp16,
    ozimmu,
    products,
    schedule,
    slice_bits,
    truncation_bound,
)

__all__ = [
    "VARIANTS",
    "addends",
    "additions",
    "error_bound",
    "exact_slices",
    "fast_fp16",
    "ozimmu",
    "products",
    "schedule",
    "slice_bits",
    "truncation_bound",
]
