"""Paper 001: Verschelde, Chen 2026, multiple double arithmetic on FP64 tensor cores (slides)."""

from widen.papers.multiple_double.algorithm import multiple_double_matmul

__all__ = ["multiple_double_matmul"]
