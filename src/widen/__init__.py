"""Wide results from narrow units: matrix products that are right, certified and reproducible."""

from widen.api import encode, gemm, matmul, plan
from widen.contract import Contract
from widen.encoded import Encoded
from widen.plan import Info, Plan

__version__ = "0.1.0"

__all__ = ["Contract", "Encoded", "Info", "Plan", "encode", "gemm", "matmul", "plan"]
