"""Which of PyTorch's kernels give an element other bits at another place in an array.

`python bench/places.py` takes 20,003 numbers, computes each function of all of them and of pieces
of 1 to 64 of them, and counts elements that differ; then functions of rows, of 64 rows and of each
row alone. `--steady` does the same inside `widen.emulate(steady=True)`, `--device cuda` on a GPU.
"""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from typing import Any

import torch
from torch.nn import functional

import widen

aten = torch.ops.aten
PIECES = (1, 2, 3, 5, 7, 8, 15, 16, 31, 33, 64)
ELEMENTWISE = {
    "gelu": functional.gelu,
    "gelu (tanh)": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu, "sigmoid": torch.sigmoid, "softplus": functional.softplus,
    "mish": functional.mish, "elu": functional.elu,
    "gelu backward": lambda x: aten.gelu_backward(x, x),
    "gelu (tanh) backward": lambda x: aten.gelu_backward(x, x, approximate="tanh"),
    "silu backward": lambda x: aten.silu_backward(x, x),
    "sigmoid backward": lambda x: aten.sigmoid_backward(x, x * 0.1),
    "softplus backward": lambda x: aten.softplus_backward(x, x, 1, 20),
    "elu backward": lambda x: aten.elu_backward(x, 1, 1, 1, False, x),
    "tanh": torch.tanh, "tanh backward": lambda x: aten.tanh_backward(x, x * 0.1),
    "relu": torch.relu, "hardswish": functional.hardswish, "logsigmoid": functional.logsigmoid,
    "exp": torch.exp, "exp2": torch.exp2, "expm1": torch.expm1, "erf": torch.erf,
    "log": lambda x: x.abs().log(), "log1p": lambda x: x.abs().log1p(), "sin": torch.sin,
    "cos": torch.cos, "sinh": torch.sinh, "cosh": torch.cosh, "tan": torch.tan,
    "atan2": lambda x: torch.atan2(x, x + 1), "hypot": lambda x: torch.hypot(x, x + 1),
    "rsqrt": lambda x: (x.abs() + 0.1).rsqrt(), "sqrt": lambda x: x.abs().sqrt(),
    "x ** 2": lambda x: x**2, "x ** 3": lambda x: x**3, "x ** 1.5": lambda x: x.abs() ** 1.5,
    "x / 3": lambda x: x / 3, "torch.add with alpha": lambda x: torch.add(x, x, alpha=0.3),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=0.3),
}  # fmt: skip
ROWS = {
    "softmax": lambda x: x.softmax(-1), "log_softmax": lambda x: x.log_softmax(-1),
    "layer_norm": lambda x: functional.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda x: functional.rms_norm(x, x.shape[-1:]),
    "mean": lambda x: x.mean(-1), "sum": lambda x: x.sum(-1), "norm": lambda x: x.norm(dim=-1),
    "logsumexp": lambda x: x.logsumexp(-1), "mean of squares": lambda x: x.pow(2).mean(-1),
}  # fmt: skip


def differing(function: Any, x: Any) -> int:
    """Elements of pieces that differ from those of the whole."""
    whole, count = function(x), 0
    for piece in PIECES:
        for first in (0, 1, 3):
            part = slice(first, first + piece * 200)
            alone = torch.cat([function(row.clone()) for row in x[part].reshape(200, piece)])
            count += int((alone != whole[part]).sum())
    return count


def differing_rows(function: Any, x: Any) -> int:
    """Rows that differ, alone, from those of a batch."""
    whole = function(x)
    alone = [function(row[None].clone())[0] for row in x]
    return sum(not torch.equal(ours, theirs) for ours, theirs in zip(alone, whole, strict=True))


def main() -> None:
    """Print what depends on places."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steady", action="store_true")
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    print(f"PyTorch {torch.__version__}, {given.device}, {torch.get_num_threads()} threads, "
          f"{torch.backends.cpu.get_cpu_capability()}, steady={given.steady}")  # fmt: skip
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        torch.manual_seed(0)
        x = (3 * torch.randn(20003, dtype=torch.float64)).to(dtype).to(given.device)
        with widen.emulate(steady=True) if given.steady else nullcontext():
            found = {name: differing(f, x) for name, f in ELEMENTWISE.items()}
            for name, f in ROWS.items():
                for width in (64, 768, 4096, 50000):
                    rows = torch.randn(64, width, dtype=torch.float64).to(dtype).to(given.device)
                    found[f"{name} of rows of {width}"] = differing_rows(f, rows)
        bad = ", ".join(f"{name} ({count})" for name, count in found.items() if count)
        print(f"{str(dtype).removeprefix('torch.')}: {bad or 'none'}")


if __name__ == "__main__":
    main()
