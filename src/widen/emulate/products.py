"""PyTorch's operators that are products: their arguments read as a sum alpha a b + beta c."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

Tensor = torch.Tensor


class Sum(NamedTuple):
    """What an operator computes: alpha a b, and beta c where there is a c.

    Attributes
    ----------
    a, b
        Matrices, batches of them, or vectors, with the shapes of `torch.matmul`.
    c
        What is added, or None.
    alpha, beta
        Scalars.
    out
        Where the result goes, or None.
    dtype
        Of the result, or None for that of a.
    finish
        What is done to the result at last, or None.
    """

    a: Tensor
    b: Tensor
    c: Tensor | None = None
    alpha: Any = 1
    beta: Any = 1
    out: Tensor | None = None
    dtype: torch.dtype | None = None
    finish: Callable[[Tensor], Tensor] | None = None


Given = tuple[Any, ...]
Named = dict[str, Any]


def _product(args: Given, kwargs: Named) -> Sum:
    """mm, bmm, mv and dot: two operands; mm and bmm may have the dtype of the result as well."""
    dtype = args[2] if len(args) > 2 else kwargs.get("out_dtype")
    return Sum(args[0], args[1], out=kwargs.get("out"), dtype=dtype)


def _conjugated(args: Given, kwargs: Named) -> Sum:
    """vdot: the first operand is conjugated."""
    return Sum(args[0].conj(), args[1], out=kwargs.get("out"))


def _sum(args: Given, kwargs: Named) -> Sum:
    """addmm, baddbmm and addmv: the addend, then the operands."""
    c, a, b, *rest = args
    scalars = {name: kwargs[name] for name in ("alpha", "beta") if name in kwargs}
    dtype = rest[0] if rest else kwargs.get("out_dtype")
    return Sum(a, b, c, out=kwargs.get("out"), dtype=dtype, **scalars)


def _sum_of_batch(args: Given, kwargs: Named) -> Sum:
    """addbmm: all products of a batch are one sum, hence one product of long lines."""
    whole = _sum(args, kwargs)
    a, b = whole.a, whole.b
    if a.ndim == b.ndim == 3 and a.shape[0] == b.shape[0]:
        a = a.transpose(0, 1).flatten(1)
        b = b.flatten(0, 1)
    return Sum(a, b, whole.c, whole.alpha, whole.beta, whole.out)


def _outer(args: Given, kwargs: Named) -> Sum:
    """addr: a column times a row."""
    whole = _sum(args, kwargs)
    a, b = whole.a, whole.b
    if a.ndim == b.ndim == 1:
        a, b = a[:, None], b[None]
    return Sum(a, b, whole.c, whole.alpha, whole.beta, whole.out)


def _activated(args: Given, kwargs: Named) -> Sum:
    """_addmm_activation: a sum, then relu or gelu, whose approximation depends on the device."""
    whole = _sum(args, kwargs)
    approximate = "tanh" if whole.a.is_cuda else "none"

    def gelu(x: Tensor) -> Tensor:
        return torch.nn.functional.gelu(x, approximate=approximate)

    finish = gelu if kwargs.get("use_gelu") else torch.relu
    return Sum(whole.a, whole.b, whole.c, whole.alpha, whole.beta, whole.out, finish=finish)


def _in_place(read: Callable[[Given, Named], Sum]) -> Callable[[Given, Named], Sum]:
    """The same with the result in the addend's place."""

    def reader(args: Given, kwargs: Named) -> Sum:
        return read(args, {**kwargs, "out": args[0]})

    return reader


READERS: dict[str, Callable[[Given, Named], Sum]] = {
    "mm": _product,
    "bmm": _product,
    "mv": _product,
    "dot": _product,
    "vdot": _conjugated,
    "addmm": _sum,
    "baddbmm": _sum,
    "addmv": _sum,
    "addbmm": _sum_of_batch,
    "addr": _outer,
    "_addmm_activation": _activated,
    "addmm_": _in_place(_sum),
    "baddbmm_": _in_place(_sum),
    "addmv_": _in_place(_sum),
    "addbmm_": _in_place(_sum_of_batch),
    "addr_": _in_place(_outer),
}
"""Readers of operators in PyTorch's namespace aten; all overloads of a name have the same."""


def _euclidean(x: Tensor, y: Tensor) -> Tensor:
    """_euclidean_dist: distances of rows by one product, as PyTorch has it."""
    ours, theirs = x.square().sum(-1, keepdim=True), y.square().sum(-1, keepdim=True)
    left = torch.cat((-2 * x, ours, torch.ones_like(ours)), -1)
    right = torch.cat((y, torch.ones_like(theirs), theirs), -1)
    return torch.matmul(left, right.mT).clamp_min(0).sqrt()


MADE_OF_PRODUCTS: dict[Any, Callable[..., Tensor]] = {
    torch.ops.aten._euclidean_dist.default: _euclidean,
}
"""Operators whose kernels call products out of sight, written here so that these are seen."""


def addend_fits(whole: Sum) -> bool:
    """Whether PyTorch would add c: it must broadcast to the product; in place, be as large."""
    c = whole.c
    if c is None:
        return True
    shape = product_shape(whole.a, whole.b)
    if whole.out is c:
        return tuple(c.shape) == shape
    missing = len(shape) - c.ndim
    return missing >= 0 and all(
        ours in (1, theirs) for ours, theirs in zip(c.shape, shape[missing:], strict=True)
    )


def operands_fit(a: Tensor, b: Tensor) -> bool:
    """Whether two operands have a product; otherwise PyTorch says what is wrong."""
    if a.dtype != b.dtype or a.device != b.device:
        return False
    ours, theirs = a.shape, b.shape
    if len(ours) == len(theirs) == 2:  # the usual case, in the shortest time
        return bool(ours[1] == theirs[0])
    if 0 in (len(ours), len(theirs)) or len(ours) > 3:
        return False
    inner = theirs[-2] if len(theirs) > 1 else theirs[0]
    return bool(ours[-1] == inner and ours[:-2] == theirs[:-2])


def product_shape(a: Tensor, b: Tensor) -> tuple[int, ...]:
    """The shape of the product of two operands that fit."""
    return (*a.shape[:-1], *(b.shape[-1:] if b.ndim > 1 else ()))


def flops(a: Tensor, b: Tensor) -> int:
    """Operations of the ordinary product: 2 m k n for every matrix."""
    return 2 * a.numel() * (b.shape[-1] if b.ndim > 1 else 1)
