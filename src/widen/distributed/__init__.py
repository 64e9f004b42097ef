"""Many devices: the same bits on one process and on a thousand."""

from widen.distributed.linear import ColumnLinear, ColumnParallel, RowLinear, RowParallel
from widen.distributed.operands import distribute_words
from widen.distributed.plans import DistributedPlan
from widen.distributed.products import matmul
from widen.distributed.sums import all_reduce, reduce_scatter
from widen.distributed.wire import CommunicationError, MismatchError, checked, counted

__all__ = [
    "ColumnLinear",
    "ColumnParallel",
    "CommunicationError",
    "DistributedPlan",
    "MismatchError",
    "RowLinear",
    "RowParallel",
    "all_reduce",
    "checked",
    "counted",
    "distribute_words",
    "matmul",
    "reduce_scatter",
]
