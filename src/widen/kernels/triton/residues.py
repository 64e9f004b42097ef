"""Residues of an element's parts, as products leave them: device functions only."""

from __future__ import annotations

import triton
import triton.language as tl

from widen.kernels.triton.numbers import wide


@triton.jit
def of_parts(ours, theirs, third, part, p):
    """A part's residue from the products x x', y y' and (x + y)(x' + y'), plus a multiple of p."""
    return third * part + ours * (1 - 2 * part) - theirs + (1 + part) * p


@triton.jit
def byte_of(groups, stream, i, moduli, p, part, parts, inside):
    """A number in [0, 4p) that is the residue of a part of X modulo p_i, times its coefficient."""
    at = groups + wide(i) * stream
    value = tl.load(at, inside, other=0).to(tl.int32)
    if parts == 2:
        apart = wide(moduli) * stream
        theirs = tl.load(at + apart, inside, other=0).to(tl.int32)
        third = tl.load(at + 2 * apart, inside, other=0).to(tl.int32)
        value = of_parts(value, theirs, third, part, p)
    return value.to(tl.uint32)


@triton.jit
def three_of(groups, stream, i, moduli, inside):
    """The sum of a modulus's three groups, -6 to 3p: of low digits, of high ones, and of sums."""
    at = groups + wide(i) * stream
    total = tl.load(at, inside, other=0).to(tl.int32)
    total += tl.load(at + wide(moduli) * stream, inside, other=0).to(tl.int32)
    return total + tl.load(at + 2 * wide(moduli) * stream, inside, other=0).to(tl.int32)


@triton.jit
def long_of(groups, stream, i, moduli, p, part, parts, inside):
    """The same in [0, 16p) of a modulus in two digits."""
    value = three_of(groups, stream, i, moduli, inside)
    if parts == 2:
        theirs = three_of(groups, stream, 3 * moduli + i, moduli, inside)
        third = three_of(groups, stream, 6 * moduli + i, moduli, inside)
        value = of_parts(value, theirs, third, part, 3 * p)
    return (value + p).to(tl.uint32)
