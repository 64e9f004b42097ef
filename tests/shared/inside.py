"""In Triton's interpreter: kernels touch no memory but that of the tensors they are given."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import torch
from triton.runtime.interpreter import InterpreterBuilder
from triton.tools.tensor_descriptor import TensorDescriptor


class Inside:
    """Looks at every access of the kernel that runs, as compute-sanitizer does on a GPU."""

    def __init__(self):
        self.looked_at, self.blocks = 0, []

    def given(self, arguments):
        """What the kernel that runs next may touch: all of the memory that its tensors are in."""
        bases = [x.base if isinstance(x, TensorDescriptor) else x for x in arguments]
        storages = [x.untyped_storage() for x in bases if isinstance(x, torch.Tensor)]
        self.blocks = [(x.data_ptr(), x.data_ptr() + x.nbytes()) for x in storages]

    def look(self, pointers, mask):
        size = np.uint64(max(pointers.get_element_ty().primitive_bitwidth // 8, 1))
        where = pointers.data[np.broadcast_to(mask.data.astype(bool), pointers.data.shape)]
        inside = np.zeros(where.shape, bool)
        for first, last in self.blocks:
            inside |= (where >= np.uint64(first)) & (where + size <= np.uint64(last))
        assert inside.all(), f"{(~inside).sum()} of {inside.size} accesses are outside"
        self.looked_at += where.size


@contextmanager
def kernels_stay_inside(patch):
    """A context in which an access outside of a kernel's tensors is an error; gives an `Inside`."""
    from widen.gpu.replay import launch as gpu_launch

    inside = Inside()
    load, store = InterpreterBuilder.create_masked_load, InterpreterBuilder.create_masked_store
    atomic, run = InterpreterBuilder.create_atomic_rmw, gpu_launch._by_triton

    def looked_load(self, ptrs, mask, *more, **named):
        inside.look(ptrs, mask)
        return load(self, ptrs, mask, *more, **named)

    def looked_store(self, ptrs, value, mask, *more, **named):
        inside.look(ptrs, mask)
        return store(self, ptrs, value, mask, *more, **named)

    def looked_atomic(self, operation, ptr, value, mask, *more, **named):
        inside.look(ptr, mask)
        return atomic(self, operation, ptr, value, mask, *more, **named)

    def noted(*given):
        issue = run(*given)

        def issued(*arguments):
            inside.given(arguments)
            issue(*arguments)

        return issued

    patch.setattr(InterpreterBuilder, "create_masked_load", looked_load)
    patch.setattr(InterpreterBuilder, "create_masked_store", looked_store)
    patch.setattr(InterpreterBuilder, "create_atomic_rmw", looked_atomic)
    patch.setattr(gpu_launch, "_by_triton", noted)
    yield inside
