"""What is multiplied exactly: one table of units."""

from __future__ import annotations

from widen.units.bf16 import BF16
from widen.units.fp8 import FP8
from widen.units.fp16 import FP16
from widen.units.fp32 import FP32
from widen.units.fp64 import FP64
from widen.units.int8 import INT8
from widen.units.rates import RATES
from widen.units.unit import Unit

UNITS: dict[str, Unit] = {unit.name: unit for unit in (FP64, FP32, INT8, FP16, BF16, FP8)}

__all__ = ["RATES", "UNITS", "Unit"]
