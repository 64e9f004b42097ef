"""Paper 004: Mukunoki 2025, DGEMM without FP64 arithmetic, on FP8 and FP16 tensor cores."""

from widen.papers.dgemm_fp8.algorithm import INPUTS, dgemm_fp8tc, dgemm_fp16tc, minimum_products

__all__ = ["INPUTS", "dgemm_fp8tc", "dgemm_fp16tc", "minimum_products"]
