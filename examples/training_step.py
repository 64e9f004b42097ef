"""A training step whose bits do not depend on the batch.

64 samples go through two layers in 1, 2 or 4 pieces, as memory allows. Mathematics does not care,
but PyTorch's bits do: its products depend on the shape, and its sums of gradients on the pieces.

With `widen.matmul` a sample has the same bits in every batch. The gradient of the weights is a sum
over all samples: the layer keeps its pieces, and one product adds them, rounded once. So the
weights after the step are the same bits for any number of pieces, on any machine.

It prints (~ marks what depends on PyTorch's BLAS):

    pieces  PyTorch           widen
    1       ~5ac854fa137b494e 7b3b89494610439e
    2       ~b3953ab11918a938 7b3b89494610439e
    4       ~2ea9f53f4ceb920b 7b3b89494610439e
"""

import hashlib

import numpy as np
import torch

import widen


class Linear(torch.autograd.Function):
    """x times the weights; what their gradient needs is put in a list, for all pieces."""

    @staticmethod
    def forward(ctx, x, weights, pieces):
        """Multiply."""
        ctx.save_for_backward(x, weights)
        ctx.pieces = pieces
        return widen.matmul(x, weights)

    @staticmethod
    def backward(ctx, gradient):
        """Return the gradient of x; that of the weights waits for the other pieces."""
        x, weights = ctx.saved_tensors
        ctx.pieces.append((x, gradient))
        return widen.matmul(gradient, weights.T), None, None


def step(count, exact):
    """A checksum of the weights after one step with the samples in so many pieces."""
    rng = np.random.default_rng(1)
    draw = [rng.random(size) - 0.5 for size in ((64, 300), (64, 10), (300, 200), (200, 10))]
    samples, targets, *weights = [torch.tensor(x, dtype=torch.float32) for x in draw]
    weights = [w.requires_grad_(not exact) for w in weights]
    kept = [[] for _ in weights]
    for x, target in zip(samples.chunk(count), targets.chunk(count), strict=True):
        x.requires_grad_(True)
        if exact:
            hidden = torch.relu(Linear.apply(x, weights[0], kept[0]))
            out = Linear.apply(hidden, weights[1], kept[1])
        else:
            out = torch.relu(x @ weights[0]) @ weights[1]
        out.backward(out.detach() - target)  # the gradient of half the squared distance
    if exact:
        joined = [[torch.cat(parts) for parts in zip(*pieces, strict=True)] for pieces in kept]
        gradients = [widen.matmul(x.T, gradient) for x, gradient in joined]
    else:
        gradients = [w.grad for w in weights]
    new = [(w - 0.01 * g).detach().numpy() for w, g in zip(weights, gradients, strict=True)]
    return hashlib.sha256(b"".join(w.tobytes() for w in new)).hexdigest()[:16]


print("pieces  PyTorch           widen")
for count in (1, 2, 4):
    print(f"{count:<7} ~{step(count, exact=False)} {step(count, exact=True)}")
