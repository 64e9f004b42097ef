"""Many devices: the same bits on one process and on a thousand."""

from widen.distributed.operands import distribute_words
from widen.distributed.plans import DistributedPlan
from widen.distributed.wire import CommunicationError, MismatchError, counted

__all__ = [
    "CommunicationError",
    "DistributedPlan",
    "MismatchError",
    "counted",
    "distribute_words",
]
