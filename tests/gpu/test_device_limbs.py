"""Reconstruction from bytes in limbs of float64: every integer is rounded once."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from device import ON, cases
from hard_integers import hard_integers, layout_of, nearest, table_of
from helpers import assert_same_bits
from widen.formats import FORMATS
from widen.gpu import limbs as gpu_limbs
from widen.gpu import reconstruct as gpu_reconstruct
from widen.gpu.constants import limit_of
from widen.gpu.kernels.triton.numbers import FLAGS, NORM, SPECIAL
from widen.gpu.kernels.triton.reconstruct import SPECIAL_ELEMENT, UNCERTIFIED, UNFIT
from widen.gpu.limbs import LIMB, MOST_LIMBS, limb_count, limbs_of_bytes
from widen.gpu.operands import INTEGERS, Lines
from widen.gpu.reconstruct import ResultBlock
from widen.gpu.usual import UsualCall, variants_of

pytestmark = [pytest.mark.device, pytest.mark.usefixtures("own_kernels")]


def bytes_of(x, layout):
    """Planes of bytes (residue of X) (P/p)^-1 mod p, padded with the largest bytes.

    Of complex numbers, (2, m, n), there are three products: A - B and C - A - B are their parts.
    """
    products = [x]
    if layout.parts == 2:
        other = x[::-1].sum(0) * 3 + 12345
        products = [x[0] + other, other, x[1] + x[0] + 2 * other]
    m, n = x.shape[-2:]
    planes = []
    for numbers in products:
        for p in layout.moduli:
            plane = np.full((1, m, -(-n // 16) * 16 + 16), 255, np.uint8)
            inverse = pow(layout.modulus // p, -1, p)
            plane[0, :, :n] = (numbers * inverse % p).astype(np.uint8)
            planes.append(plane)
    return torch.from_numpy(np.stack(planes)).to(ON)


def reconstructed(x, layout, scales, dtype, marks=None, facts=((), ())):
    """X 2^-(s+t) by the kernel, and marks; `facts` are (row of the table, line, value) by side."""
    fmt = FORMATS[dtype]
    m, n = x.shape[-2:]
    tables = tuple(table_of(side) for side in scales)
    for table, known in zip(tables, facts, strict=True):
        for row, line, value in known:
            table[int(row), line] = int(value)
    words = fmt.part.words[0]
    sides = tuple(
        Lines(torch.zeros((fmt.parts, 1, count, 5), dtype=torch.int64), words) for count in (m, n)
    )
    real = np.dtype("float64" if words.precision == 53 else "float32")
    out = torch.full((fmt.parts, 1, m, n), 7, device=ON, dtype=INTEGERS[real.itemsize])
    if marks is not None:
        marks = torch.from_numpy(marks[None]).to(ON)
    found = gpu_reconstruct.reconstruct(
        bytes_of(x, layout), layout, ResultBlock(sides, tables, fmt, out), marks, slack=False
    )
    return out[:, 0].cpu().numpy().view(real), found[0].cpu().numpy()


def integers_of(layout, shape, seed):
    """Integers that are hard to round, of all lengths; some near P/2, as near as X comes."""
    rng = np.random.default_rng(seed)
    count, most = int(np.prod(shape)), layout.modulus // 2 - (layout.modulus >> 8)
    found = hard_integers(rng, max(most.bit_length() - 1, 2), count - 60)
    near = [most - int(rng.integers(0, 1 << 30)) for _ in range(30)]
    found += [x * sign for x in near if x > 0 for sign in (1, -1)]
    found += [0] * (count - len(found))
    chosen = np.array(found[:count], dtype=object)
    return chosen[rng.permutation(count)].reshape(shape)


@cases(
    ("moduli", "dtype"), (14, "float64"), (13, "float64"), (7, "float32"), (15, "float64"),
    (16, "float64"), (16, "float32"), (14, "float32"), (8, "float64"), (6, "float32"),
    (18, "float64"), (11, "float64"), (3, "float32"), interpreted=12,
)  # fmt: skip
def test_every_integer_is_rounded_once(moduli, dtype):
    """X of all lengths and signs, ties and their neighbours; tiles of normal numbers and others."""
    layout = layout_of(moduli)
    assert limbs_of_bytes(layout, 1, torch.device(ON)) == limb_count(layout) > 0
    part, bits = FORMATS[dtype].part, layout.modulus.bit_length()
    x = integers_of(layout, (70, 37), moduli)
    edges = [5, -part.lowest - 10, -part.lowest + bits // 2, -part.highest + 10,
             -part.highest + bits, -part.highest + bits // 2]  # fmt: skip
    scales = [[0] * 35 + [edges[i // 6] for i in range(35)], [j % 5 for j in range(37)]]
    found, marks = reconstructed(x, layout, scales, dtype)
    wanted = [
        [nearest(value, -s - t, dtype) for value, t in zip(row, scales[1], strict=True)]
        for row, s in zip(x, scales[0], strict=True)
    ]
    assert_same_bits(found[0], np.array(wanted, dtype=dtype))
    assert not marks.any()


@cases(
    ("moduli", "dtype"), (6, "complex64"), (7, "complex64"), (10, "complex64"),
    (5, "complex128"), interpreted=4,
)  # fmt: skip
def test_both_parts_of_complex_numbers(moduli, dtype):
    """From three products each."""
    layout = layout_of(moduli, 2)
    assert limbs_of_bytes(layout, 2, torch.device(ON)) == 2
    x = np.stack([integers_of(layout, (20, 37), (moduli, part)) for part in range(2)])
    found, marks = reconstructed(x, layout, ([3] * 20, [0] * 37), dtype)
    real = "float32" if dtype == "complex64" else "float64"
    for part, numbers in zip(found, x, strict=True):
        wanted = [[nearest(value, -3, real) for value in row] for row in numbers]
        assert_same_bits(part, np.array(wanted, dtype=real))
    assert not marks.any()


@pytest.mark.parametrize("given", [False, True])
def test_marks_say_what_is_not_final(given):
    """Lines with infinities, and those too long for their moduli; others keep what they had."""
    layout = layout_of(14)
    x = integers_of(layout, (40, 37), 1)
    limit = limit_of(layout)
    facts = [(FLAGS, 3, SPECIAL), (NORM, 38, limit - 9)], [(FLAGS, 7, SPECIAL), (NORM, 5, 10)]
    before = np.full((40, 37), UNCERTIFIED, np.uint8) if given else None
    _, marks = reconstructed(x, layout, ([0] * 40, [0] * 37), "float64", before, facts)
    wanted = np.full((40, 37), int(UNCERTIFIED) if given else 0)
    wanted[38, 5] = int(UNFIT)
    wanted[3], wanted[:, 7] = int(SPECIAL_ELEMENT), int(SPECIAL_ELEMENT)
    assert (marks == wanted).all()


@pytest.mark.parametrize(("moduli", "dtype"), [(14, "float64"), (7, "float32")])
def test_words_give_the_same(moduli, dtype, monkeypatch):
    """GPUs that are slow in float64 use words of 32 bits."""
    layout = layout_of(moduli)
    monkeypatch.setattr(gpu_limbs, "is_fast_in_float64", lambda device: False)
    assert limbs_of_bytes(layout, 1, torch.device(ON)) == 0
    x = integers_of(layout, (20, 37), 2)
    scales = ([1] * 20, [-2] * 37)
    in_words, _ = reconstructed(x, layout, scales, dtype)
    monkeypatch.undo()
    found, _ = reconstructed(x, layout, scales, dtype)
    assert_same_bits(found, in_words)


@pytest.mark.parametrize(
    ("moduli", "parts"),
    [*((count, 1) for count in range(1, 19)), *((count, 2) for count in range(1, 17))],
)
def test_sums_are_exact(moduli, parts):
    """Constants are what they should be; no sum of them is 2^53 units of its limb or more."""
    layout = layout_of(moduli, parts)
    limbs = limb_count(layout, parts)
    assert limbs > 0
    (starts, *rows), modulus, inverse = gpu_limbs.reconstruction(layout, limbs)
    assert sum(map(int, modulus)) == layout.modulus
    assert inverse == 1 / layout.modulus
    weights = [
        int(factor) // 8 * sum(map(int, row[2:])) for row in rows for factor in row[:2] if factor
    ]
    assert weights == [layout.modulus // p for p in layout.moduli]
    for limb, start in enumerate(starts):
        unit = 1 << LIMB * limb
        offsets = [int(row[2 + limb]) << 17 for row in rows]
        most = [255 * (row[0] + row[1]) // 8 * int(row[2 + limb]) for row in rows]  # of any bytes
        assert all(255 * (row[0] + row[1]) < 1 << 20 for row in rows)
        assert int(start) == -sum(offsets)
        assert int(start) % unit == 0
        # From -2^17 a pair to what bytes may give; complex numbers add up to two of them.
        assert sum(offsets) <= unit << 53
        if limb < limbs - 1:
            assert parts * sum(most) <= unit << 53
        else:
            assert parts * 2 * len(rows) * layout.modulus <= unit << 53
    assert limbs_of_bytes(layout, parts, torch.device("cpu")) in (0, limbs)
    assert MOST_LIMBS[1] == max(gpu_limbs.LIMBS)  # so all real numbers that fit are here


def test_kernels_are_foreseen_for_the_gpu_that_is_expected():
    """Those of GPUs that are slow in float64 put X together in words."""

    def limbs_on(architecture):
        call = UsualCall("float64", (1, 1000, 1000, 1000))
        with gpu_limbs.expecting(architecture):
            variants = variants_of(call)
        (found,) = [x for x in variants if x.name == "reconstruct.round_residues"]
        names = found.kernel.arg_names[-len(found.constants) :]
        return dict(zip(names, found.constants, strict=True))["LIMBS"]

    assert [limbs_on(architecture) for architecture in (80, 90, 100, 120, 89)] == [3, 3, 3, 0, 0]
    assert limbs_on(None) == 3
