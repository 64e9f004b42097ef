"""Paper 004: Mukunoki 2025, DGEMM without FP64 arithmetic, on FP8 and FP16 tensor cores."""

from widen.papers.dgemm_fp8.algorithm import (
    INPUTS,
    automatic_block,
    dgemm_fp8_groups,
    dgemm_fp8tc,
    dgemm_fp16tc,
    minimum_products,
)
from widen.papers.dgemm_fp8.software import dgemm_in_software

__all__ = [
    "INPUTS",
    "automatic_block",
    "dgemm_fp8_groups",
    "dgemm_fp8tc",
    "dgemm_fp16tc",
    "dgemm_in_software",
    "minimum_products",
]
