"""Whether `widen.emulate` misses a product in any of PyTorch's own samples of its operators.

`python bench/missed.py` runs samples of every operator that PyTorch tests (float64, a CPU) inside a
scope, while PyTorch's profiler counts calls of products, however deep. Each must be one that the
scope took over or saw, unless the operator that made it is reported. Minutes. Prints operators
whose products were missed, and exits with 1 if there are any. Needs: pip install expecttest.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter

import torch
from torch.profiler import ProfilerActivity, profile

import widen
from widen.emulate.products import READERS

MOST = 12  # samples of one operator


def missed(operator: object, sample: object) -> bool:
    """Whether the profiler saw a product that the log has not, and nothing was reported."""
    with widen.emulate(bounds=False) as log, profile(activities=[ProfilerActivity.CPU]) as seen:
        try:
            operator(sample.input, *sample.args, **sample.kwargs)
        except Exception as error:  # of the operator, which may be there for GPUs alone
            print(f"  {operator.name}: {type(error).__name__}", file=sys.stderr)
    products = Counter(event.name.removeprefix("aten::") for event in seen.events())
    ours: Counter[str] = Counter()
    for row in log:
        ours[row.operator] += row.count * (2 if row.reason else 1)  # left alone: called again
    return not log.left and any(products[name] != ours[name] for name in READERS)


def main() -> int:
    """Run all samples."""
    from torch.testing._internal.common_methods_invocations import op_db

    warnings.filterwarnings("ignore")
    count, bad = 0, []
    for operator in op_db:
        if torch.float64 not in operator.supported_dtypes("cpu"):
            continue
        for sample in list(operator.sample_inputs("cpu", torch.float64))[:MOST]:
            count += 1
            if missed(operator, sample):
                bad.append(operator.name)
    print(f"PyTorch {torch.__version__}: {count} samples, missed in: {sorted(set(bad)) or 'none'}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
