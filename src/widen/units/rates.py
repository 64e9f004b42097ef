"""How fast GPUs multiply with each unit, as `widen units` measured it: by name of the GPU.

The planner takes the unit of the most exact bits a second from here, so that no product has to
measure anything.
"""

RATES: dict[str, dict[str, float]] = {
    "NVIDIA H200": {"int8": 1648, "fp16": 413, "bf16": 423, "fp8": 453, "fp64": 55},
}
"""10^12 operations a second of the multiply stage, two for a multiplication and its addition, at
n = 4096, in residues."""
