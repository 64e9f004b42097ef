"""Numbers of several words by the GPU's stages: the CPU's bits, in the interpreter or on a GPU."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch

import widen
from device import ON, cases, words_product
from helpers import assert_same_bits, assert_same_words, draw_words
from widen.formats import BINARY, FORMATS, PLAIN
from widen.gpu import constants as gpu_constants
from widen.gpu import encode as gpu_encode
from widen.gpu import lines as gpu_lines
from widen.gpu import multiply as gpu_multiply
from widen.gpu import reconstruct as gpu_reconstruct
from widen.gpu import units as gpu_units
from widen.gpu.kernels.triton.numbers import SCALE
from widen.gpu.operands import Groups, Lines, Numbers, lines_of_words
from widen.gpu.reconstruct import ResultBlock
from widen.systems import residues
from widen.words.conversions import planes_of_values

pytestmark = pytest.mark.device

WIDE = [name for name in FORMATS if name not in PLAIN]
# Long integers take the interpreter seconds an element: few of them there.
SHAPE = (1, 4, 2) if ON == "cpu" else (20, 33, 17)
SHORT = ["float64_float32", "complex64x2"]


def assert_as_on_a_cpu(a, b, name, accuracy="standard", **choices):
    plan, found = words_product(a, b, name, accuracy, **choices)
    same = choices if choices.get("system") == "triangle" else {}  # whose bits are its own
    assert_same_words(found, widen.matmul(a, b, accuracy=accuracy, dtype=name, **same))
    return plan


@pytest.mark.parametrize("name", SHORT if ON == "cpu" else WIDE)
@pytest.mark.parametrize("accuracy", ["standard"] if ON == "cpu" else ["standard", "correct", 40])
def test_formats(name, accuracy):
    assert_as_on_a_cpu(*draw_words("phi1", SHAPE, 41, name), name, accuracy)


UNITS_AND_SYSTEMS = [
    choice
    for choice in itertools.product(gpu_units.STORAGE, ("residues", "digits", "triangle"))
    if choice != ("int8", "residues")
]


@pytest.mark.parametrize(
    ("unit", "system"),
    [("fp64", "residues"), ("int8", "triangle")] if ON == "cpu" else UNITS_AND_SYSTEMS,
)
@pytest.mark.parametrize("name", ["complex64x2"] if ON == "cpu" else ["complex64x2", "float64x2"])
def test_units_and_systems(unit, system, name):
    a, b = draw_words("phi1", SHAPE, 46, name)
    plan = assert_as_on_a_cpu(a, b, name, unit=unit, system=system)
    assert (plan.unit, plan.system) == (unit, system)


@pytest.mark.parametrize(
    ("family", "accuracy"), [("graded against", "correct"), ("extremes", "standard")]
)
def test_hard_ones_are_repaired(family, accuracy):
    assert_as_on_a_cpu(*draw_words(family, SHAPE, 42, "float32x2"), "float32x2", accuracy)


def test_moduli_in_two_digits():
    """Planes and products past 342 bits; in the interpreter, of one element."""
    m, k, n = (1, 2, 1) if ON == "cpu" else SHAPE
    rng = np.random.default_rng(43)
    full = [2.0 ** np.arange(0, -212, -53)[:, None, None] for _ in range(2)]
    a, b = (
        widen.Words.from_words(scale * rng.uniform(0.5, 0.9, (4, *shape)), "float64x4")
        for scale, shape in zip(full, ((m, k), (k, n)), strict=True)
    )
    plan = assert_as_on_a_cpu(a, b, "float64x4")
    assert plan.layout.bases.count(0) == 49
    assert len(plan.layout.bases) > 49


@pytest.mark.parametrize("accuracy", ["correct"] if ON == "cpu" else ["standard", "correct"])
def test_gemm(accuracy):
    a, b = draw_words("phi1", SHAPE, 44, "float32x2")
    c, _ = draw_words("phi4", (SHAPE[0], SHAPE[2], 1), 45, "float32x2")
    given = {"alpha": 0.3, "beta": -1.7, "accuracy": accuracy}
    _, found = words_product(a, b, "float32x2", accuracy, 0.3, -1.7, c)
    assert_same_words(found, widen.gemm(a, b, c, **given))


def hard_integers(rng, bits):
    """Of so many bits and more: a tile of random ones, and then others.

    Those in memory have a highest chunk of 960 bits, which nearly always tells the words: what ends
    within it, or beside a multiple of its lowest limb, it does not.
    """
    one, top = 1 << bits, 1 << max(bits - 928, 0)
    found = [rng.getrandbits(bits) | one >> 1 for _ in range(128)]
    found += [0, -1, one - 1, 1 - one, one >> 1, rng.getrandbits(bits // 2)]
    for low in (0, 1, -1, top >> 40, -(top >> 40), top >> 1, top // 3):
        found += [rng.getrandbits(bits - 1) // top * top + low for _ in range(4)]
        found += [one // 4 * 3 + rng.getrandbits(100) * top + low, one // 8 + low]
    return [x * rng.choice((-1, 1)) for x in found]


@cases(("bits", "parts"), (1010, 1), (440, 2), (1744, 1), (1744, 2), interpreted=2, slow=1)
def test_long_integers_are_put_together(bits, parts):
    """X from numbers for each modulus, in registers and in memory, to words."""
    layout = residues(128, float(bits), parts)
    moduli, modulus, short = layout.moduli, layout.modulus, layout.bases.count(0)
    rng = random.Random(46)
    wanted = [hard_integers(rng, bits) for _ in range(parts)]
    n = len(wanted[0])
    streams = wanted
    if parts == 2:  # x x', y y' and (x + y)(x' + y')
        first = [rng.getrandbits(bits) for _ in range(n)]
        second = [a - re for a, re in zip(first, wanted[0], strict=True)]
        third = [a + b + im for a, b, im in zip(first, second, wanted[1], strict=True)]
        streams = [first, second, third]
    numbers = np.zeros((len(streams), len(moduli), 1, 1, -(-n // 16) * 16), int)
    for stream, integers in zip(numbers, streams, strict=True):
        for of_p, p in zip(stream, moduli, strict=True):
            of_p[0, 0, :n] = [x * pow(modulus // p, -1, p) % p for x in integers]
    shorts, longs = numbers[:, :short], numbers[:, short:]
    p = np.array(moduli[short:])[:, None, None, None]
    two = [np.random.default_rng(47).integers(-2, p + 1, longs.shape) for _ in range(2)]
    digits = np.stack([*two, (longs - two[0] - two[1]) % p], 1)  # the sum counts
    groups = Groups(
        torch.from_numpy(shorts.reshape(-1, *shorts.shape[2:]).astype(np.uint8)).to(ON),
        torch.from_numpy(digits.reshape(-1, *digits.shape[3:]).astype(np.int16)).to(ON),
    )
    fmt = FORMATS["float64x16"]
    out = torch.zeros((16, parts, 1, 1, n), dtype=torch.int64, device=ON)
    tables = [
        torch.zeros((gpu_lines.ROWS_OF_TABLE, lines), dtype=torch.int64, device=ON)
        for lines in (1, n)
    ]
    rows, columns = (
        Lines(torch.zeros((1, 1, lines, 1), dtype=torch.int64, device=ON), BINARY["float64"])
        for lines in (1, n)
    )
    block = ResultBlock((rows, columns), (tables[0], tables[1]), fmt, Numbers(out, None))
    gpu_reconstruct.reconstruct_any(groups, layout, block, None, slack=False)
    for part, integers in enumerate(wanted):
        words = widen.Words(integers, "float64x16")
        found = out[:, part, 0, 0].cpu().numpy().view(np.float64)
        assert_same_bits(found, np.concatenate(list(words.planes)))


def test_constants_of_bytes_and_of_two_digits():
    layout = residues(128, 380.0, 1)
    count, columns = 24, 16
    constants, weights = gpu_constants.words_encoding(layout, count, columns, torch.device("cpu"))
    short = layout.bases.count(0)
    filled = -(-short // columns) * columns
    minus, _ = constants.view(2, -1)
    number = 3**100
    digits = number.to_bytes(count, "little")
    for i, p in enumerate(layout.moduli):
        at, place = divmod(i if i < short else i - short, columns)
        if i < short:
            factors, row = weights[i].tolist(), i
        else:
            lows, highs = weights[filled:].view(-1, 2, columns, count)[at, :, place].tolist()
            factors, row = (
                [x + 128 * y for x, y in zip(lows, highs, strict=True)],
                filled + i - short,
            )
            assert max(map(abs, lows + highs)) <= 64
        assert minus[row] == -p
        assert (sum(x * w for x, w in zip(digits, factors, strict=True)) - number) % p == 0


@pytest.mark.parametrize(
    ("name", "bits", "kept_as"),
    [("float32x2", 58, "float32"), ("float64x4", 224, "float64"), ("float32x4", 125, "float64")],
)
def test_integers_of_words_are_rounded_to_nearest_even(name, bits, kept_as):
    """Residues of round(x 2^s): ties, tails of either sign beyond them, gaps, words of no use, all.

    Words of float32 may be kept as float64, as those of balanced lines are.
    """
    rng, fmt, s = np.random.default_rng(46), FORMATS[name], bits - 1
    values = []
    for j in range(128):
        whole, far, sign = int(rng.integers(1 << 20)), int(rng.integers(1, 150)), (-1) ** j
        half, tail = Fraction(2 * whole + j % 3, 2), sign * Fraction(1, 1 << far)
        gap = Fraction(int(rng.integers(1 << 30)), 1 << 30) * 2 ** int(rng.integers(s))
        long = Fraction(random.Random(j).getrandbits(96) | 1 << 95, 1 << 95) * 2**s * (j % 16 > 14)
        values.append(sign * (half + tail * (j % 4 > 1) + gap * (j % 8 > 3) + long) / 2**s)
    words = np.stack(planes_of_values(values, fmt))
    values = [sum(map(Fraction, column.tolist())) for column in words[:, 0].T]
    planes = [torch.from_numpy(x.astype(kept_as)).to(ON)[:, None, None] for x in words]
    lines = replace(lines_of_words(planes, "left", 1), narrow=fmt.part.words[0].precision)
    table = torch.zeros((gpu_lines.ROWS_OF_TABLE, 1), dtype=torch.int64, device=ON)
    table[int(SCALE)] = s
    layout = residues(128, 2.0 * bits, 1)
    planes = gpu_encode.encode_words([lines], [table], layout, bits)[0][:, 0, 0].cpu().tolist()
    short = layout.bases.count(0) if layout.bases else len(layout.moduli)
    long = len(layout.moduli) - short
    for i, p in enumerate(layout.moduli):
        low, high = planes[i], planes[i + long] if i >= short else [0] * 128
        for x, a0, a1 in zip(values, low, high, strict=True):
            assert (round(x * 2**s) - a0 - 128 * a1) % p == 0
        if i >= short:
            assert planes[i + 2 * long] == [x + y for x, y in zip(low, high, strict=True)]


def test_products_in_two_digits_add_up():
    """The three 16-bit products of a modulus are the residue times its coefficient."""
    layout = residues(128, 360.0, 1)
    short = layout.bases.count(0)
    rng = np.random.default_rng(7)
    left, right = (
        torch.from_numpy(rng.integers(-128, 128, (layout.planes[0], 1, 2, 16)).astype(np.int8))
        for _ in range(2)
    )
    groups = gpu_multiply.multiply(left.to(ON), right.to(ON), layout, 5)
    exact = torch.einsum("pbik,pbjk->pbij", left[..., :5].long(), right[..., :5].long())
    long = len(layout.moduli) - short
    for i, p in enumerate(layout.moduli):
        if i < short:
            places = [i]
            found = groups.short[i, 0, :, :2].cpu().long()
        else:
            places = [i + j * long for j in range(3)]
            found = sum(groups.long[place - short, 0, :, :2].cpu().long() for place in places)
        weight = [layout.weights[0][place] // (layout.modulus // p) for place in places]
        wanted = sum(int(w % p) * exact[at, 0] for w, at in zip(weight, places, strict=True))
        assert ((found - wanted) % p == 0).all()
