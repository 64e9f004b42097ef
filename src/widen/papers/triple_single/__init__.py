"""Paper 003: triple-single arithmetic on consumer GPUs, and the Ozaki scheme for it."""

from widen.papers.triple_single.algorithm import TYPES, blocked_matmul, ozaki_matmul

__all__ = ["TYPES", "blocked_matmul", "ozaki_matmul"]
