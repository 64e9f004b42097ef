"""Paper 000: Mukunoki, Ozaki, Ogita, Imamura 2020, DGEMM on FP16 tensor cores."""

from widen.papers.tensor_core_dgemm.algorithm import (
    determine_slices,
    dgemm_dp_cr,
    dgemm_tc,
    sgemm_tc,
)
from widen.papers.tensor_core_dgemm.by_row import dgemm_tc_by_row

__all__ = ["determine_slices", "dgemm_dp_cr", "dgemm_tc", "dgemm_tc_by_row", "sgemm_tc"]
