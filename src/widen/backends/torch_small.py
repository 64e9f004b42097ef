"""Products of many small matrices on a GPU, several of them in a tile."""

from __future__ import annotations

from widen.backends import torch_constants as constants
from widen.backends.torch_lines import Tensor
from widen.backends.triton_launch import launch
from widen.kernels import tiles
from widen.kernels.triton import small


def will_do(left: Tensor, right: Tensor, out: Tensor, k: int) -> bool:
    """Whether `multiply_into` will do: short lines of many small matrices on both sides."""
    batch, m, width = out.shape[1:]
    return (
        k <= tiles.VERY_SHORT
        and max(m, width) <= tiles.SMALL_EDGE
        and left.shape[1] == right.shape[1]
        and batch * m * width > tiles.SMALL
    )


def multiply_into(
    left: Tensor, right: Tensor, planes: tuple[tuple[int, int], ...], k: int, out: Tensor
) -> None:
    """What `torch.multiply_into` does."""
    batch, m, width = out.shape[1:]
    edge, warps = tiles.small_tile(max(m, width))
    items = edge // max(m, width)
    launch(
        small.residues, (len(planes) * -(-batch // items),),
        (left, right, out, constants.multiplying(planes, left.device), m, right.shape[2], k,
         left.shape[3], width, batch, items),
        (edge, max(32, 1 << (k - 1).bit_length())), warps,
    )  # fmt: skip
