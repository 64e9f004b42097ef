"""Products of odd sizes on a GPU, compared with the CPU: what `make sanitize` watches."""

from __future__ import annotations

import itertools
from unittest import mock

import numpy as np
import torch

import widen
from widen.backends import torch_halves

UNITS = ("int8", "fp16", "bf16", "fp8", "fp64")
SHAPES = [(1, 1, 1), (3, 17, 5), (65, 129, 70), (130, 257, 193)]


def main() -> None:
    """Every contract and format on a few awkward shapes, some of it repaired or special."""
    rng = np.random.default_rng(0)
    count = 0
    for m, k, n in SHAPES:
        a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
        a[m // 2] *= 2.0 ** rng.integers(-400, 400, k)
        a[0, 0] = np.inf if m > 3 else a[0, 0]
        for dtype in (np.float64, np.float32, np.complex128):
            with np.errstate(all="ignore"):
                x, y = a.astype(dtype), b.astype(dtype)
            for accuracy in ("standard", "correct", 40):
                left, right = torch.from_numpy(x).cuda(), torch.from_numpy(y).cuda()
                found = widen.matmul(left, right, accuracy=accuracy)
                wanted = widen.matmul(x, y, accuracy=accuracy)
                assert np.array_equal(found.cpu().numpy(), wanted, equal_nan=True)
                given = {"alpha": -1.0, "beta": 0.5, "accuracy": accuracy}
                sums = widen.gemm(left, right, found, **given)
                wanted = widen.gemm(x, y, wanted, **given)
                assert np.array_equal(sums.cpu().numpy(), wanted, equal_nan=True)
                count += 2
        wanted = widen.matmul(a, b)
        for unit, system in itertools.product(UNITS, ("residues", "digits")):
            left, right = torch.from_numpy(a).cuda(), torch.from_numpy(b).cuda()
            found = widen.matmul(left, right, unit=unit, system=system)
            assert np.array_equal(found.cpu().numpy(), wanted, equal_nan=True)
            count += 1
        # Halves, however small; in another layout, so that no recorded call is issued again.
        with mock.patch.object(torch_halves, "OPERATIONS_A_BYTE", 0):
            found = widen.matmul(left, right.clone().mT.contiguous().mT)
            assert np.array_equal(found.cpu().numpy(), wanted, equal_nan=True)
            count += 1
    print(f"{count} products agree with the CPU")


if __name__ == "__main__":
    main()
