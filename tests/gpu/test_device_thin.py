"""Thin products by digits in registers: the CPU's bits, on a GPU or in Triton's interpreter."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import widen
from device import ON, cases, gemm, product, tensor
from helpers import assert_same_bits, draw
from widen.contract import as_contract
from widen.formats import FORMATS
from widen.gpu import block as gpu_block
from widen.gpu import constants, tiles
from widen.gpu import planning as gpu_planning
from widen.gpu import thin as gpu_thin
from widen.gpu.kernels.triton import numbers
from widen.gpu.kernels.triton import thin as kernels
from widen.gpu.products import lines_of
from widen.gpu.replay.launch import assembly, launch
from widen.gpu.thin import ThinProduct

pytestmark = pytest.mark.device

MANY = 24 if ON == "cpu" else 700
INNER = 70 if ON == "cpu" else 1300


@pytest.fixture(autouse=True)
def taken(monkeypatch):
    """Small products are thin too; digits of those that are multiplied so, in their order.

    Those of more lines than a tile holds have several.
    """
    monkeypatch.setattr(tiles, "THIN_LINES", 64)
    monkeypatch.setattr(tiles, "THIN_NUMBERS", 1)
    monkeypatch.setattr(tiles, "THIN_RATIO", 1)
    monkeypatch.setattr(tiles, "VERY_SHORT", 8)
    counts = []
    multiply = ThinProduct.multiply

    def noted(self, *given):
        counts.append(self.count)
        return multiply(self, *given)

    monkeypatch.setattr(ThinProduct, "multiply", noted)
    return counts


def assert_as_on_a_cpu(a, b, accuracy="standard", dtype="float64"):
    _, found = product(a, b, accuracy, dtype)
    assert_same_bits(found, widen.matmul(a, b, accuracy=accuracy))


# ── the integers and their digits ────────────────────────────────────────────────────────────────


def quantised(x, s):
    """round-to-nearest-even(x 2^s)."""
    return round(Fraction(float(x)) * Fraction(2) ** s)


def table_of(scales):
    """A table of lines in which nothing but their exponents is known."""
    table = torch.zeros((15, len(scales)), dtype=torch.int64)
    table[int(numbers.SCALE)] = torch.tensor(scales)
    return table.to(ON)


def exact_sums(thin, left, right):
    """X of a thin product by its kernels, as integers of Python."""
    sums = thin.sums(thin.encode()).cpu().numpy().astype(object)
    limbs = sums.sum(axis=0)[:, 0]
    found = sum(limb << 32 * at for at, limb in enumerate(limbs))
    return found.T if thin.many == 1 else found


def hard_lines(rng, dtype, bits, count, inner):
    """Lines whose integers have up to so many bits, exponents of lines that scale them, integers.

    With halves to be rounded, the largest numbers, and the smallest.
    """
    fmt = FORMATS[dtype].part
    whole = rng.integers(-(1 << bits), (1 << bits) + 1, (count, inner)).astype(object)
    x = np.array([[Fraction(int(v)) for v in row] for row in whole])
    x[:, 1::5] = [[Fraction(int(v) >> bits // 2) + Fraction(1, 2) for v in row]
                  for row in whole[:, 1::5]]  # fmt: skip
    x[:, 2::7], x[:, 3::11] = Fraction(1 << bits), Fraction(-(1 << bits))
    x[:, 4::9] = Fraction(1, 3)
    highest = fmt.highest - bits - 1
    exponents = rng.integers(-40, 40, count)
    exponents[0], exponents[-1] = highest, fmt.lowest
    with np.errstate(under="ignore"):
        values = np.array([
            [np.ldexp(float(v), int(e)) for v in row]
            for row, e in zip(x, exponents, strict=True)
        ]).astype(dtype)  # fmt: skip
    integers = np.array([
        [quantised(v, -int(e)) for v in row]
        for row, e in zip(values, exponents, strict=True)
    ], dtype=object)  # fmt: skip
    return values, (-exponents).tolist(), integers


@pytest.mark.parametrize("near", [False, True])
@cases(
    ("dtype", "count", "few"), ("float64", 8, 3), ("float64", 7, 9), ("float32", 4, 1),
    ("float32", 8, 2), ("float64", 4, 17), interpreted=3,
)  # fmt: skip
def test_sums_are_exact(near, dtype, count, few):
    """X of integers with as many bits as digits hold, of subnormal numbers and the largest."""
    rng = np.random.default_rng([count, few])
    ours, our_scales, left = hard_lines(rng, dtype, 8 * count - 2, MANY, INNER)
    theirs, their_scales, right = hard_lines(rng, dtype, 8 * count - 2, few, INNER)
    rows = tensor(np.asfortranarray(ours) if near else ours)
    sides = lines_of(rows, "left", 1), lines_of(tensor(theirs.T.copy()), "right", 1)
    assert sides[0].lines_near == near
    thin = ThinProduct(sides, (table_of(our_scales), table_of(their_scales)), count)
    assert thin.many == 0
    assert (exact_sums(thin, left, right) == left.dot(right.T)).all()


@triton.jit
def take_digits(x, out, SIZE: tl.constexpr, ASSEMBLY: tl.constexpr):
    at = tl.arange(0, SIZE)
    digits = kernels.digits_of(tl.load(x + at), ASSEMBLY)
    for d in tl.static_range(8):
        tl.store(out + d * SIZE + at, digits[d])


@pytest.mark.parametrize("size", [32, 512])
def test_digits_of_integers(size):
    """Digits are within an int8 and weigh together what the integer is, of 62 bits and less."""
    rng = np.random.default_rng(size)
    x = rng.integers(-(1 << 62), (1 << 62) + 1, size) >> rng.integers(0, 63, size)
    x[:5] = [1 << 62, -(1 << 62), 0, 128, -129]
    out = torch.zeros((8, size), dtype=torch.int8, device=ON)
    values = torch.from_numpy(x).to(ON)
    arguments = {"x": values, "out": out, "SIZE": size, "ASSEMBLY": assembly(out.device)}
    launch(take_digits, (1,), arguments, warps=1)
    found = out.cpu().numpy().astype(object)
    assert (sum(digit << 8 * d for d, digit in enumerate(found)) == x.astype(object)).all()


def test_digits_hold_integers():
    """So many digits hold integers up to the width that `digit_count_of` gives them for."""
    for count in gpu_thin.COUNTS:
        width = 8 * count - 2
        assert gpu_thin.digit_count(width, 8) == count
        largest = 127 * ((1 << 8 * count) - 1) // 255
        assert 1 << width <= largest


@pytest.mark.parametrize("count", gpu_thin.COUNTS)
def test_sums_of_shares_fit(count):
    """Pairs of the largest digits of one weight fit an int32, and limbs of all shares an int64."""
    longest = gpu_thin.longest_share(count)
    assert count * 128 * 128 * longest < 1 << 31 <= count * 128 * 128 * (longest + 256)
    assert longest % tiles.THIN_TILE.inner == 0
    limb = sum(((1 << 31) - 1) << 8 * place for place in range(int(kernels.LIMB)))
    assert limb * gpu_thin.MOST_SHARES < 1 << 63


@pytest.mark.parametrize("inner", [1, 63, 64, 65, 5000, 16384, 1 << 21])
@pytest.mark.parametrize("blocks", [1, 7, 512, 5000])
def test_shares_cover_lines(inner, blocks):
    """Shares are whole steps that fit an int32, and none is empty."""
    most = gpu_thin.longest_share(8)
    share = gpu_thin.share_of(inner, blocks, 64, most)
    assert share % 64 == 0
    assert 0 < share <= most
    assert (-(-inner // share) - 1) * share < inner


def test_residues_of_the_largest_sums():
    """Residues of limbs at the ends of an int64, of either sign, and of several shares."""
    moduli = ((256, 3), (255, 7), (253, 100), (2, 1))
    rng, limbs, shares = np.random.default_rng(1), 4, 3
    sums = rng.integers(-(1 << 61), 1 << 61, (shares, limbs, 1, 5, 2))
    sums[:, :, 0, 0, 0], sums[:, :, 0, 1, 0] = (1 << 61) - 1, -(1 << 61)
    sums[:, :, 0, 2, 0] = 0
    out = torch.zeros((len(moduli), 1, 5, 16), dtype=torch.uint8, device=ON)
    table = constants.of_limbs(moduli, limbs, torch.device(ON))
    launch(
        kernels.residues, (1,),
        {
            "sums": torch.from_numpy(sums).to(ON), "out": out, "constants": table, "lines": 5,
            "few": 2, "batch": 1, "shares": shares, "moduli": len(moduli),
            "stride": out.stride(0), "batch_stride": out.stride(1), "line_stride": 16,
            "few_stride": 1, "LIMBS": limbs, "LINES": 8, "FEW": 4,
        },
    )  # fmt: skip
    whole = sums.astype(object).sum(axis=0)[:, 0]
    x = sum(limb << 32 * at for at, limb in enumerate(whole))
    for (p, w), found in zip(moduli, out[:, 0, :, :2].cpu().numpy(), strict=True):
        assert (found == (x * w) % p).all()


# ── products ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.covering(2)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("accuracy", ["standard", "fast", "correct"])
@pytest.mark.parametrize("few", [1, 3, 16, 33])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("transposed", [(False, False), (True, True)])
def test_contracts_and_shapes(dtype, accuracy, few, side, transposed, taken):
    m, n = (few, MANY) if side == "left" else (MANY, few)
    inner = INNER if accuracy != "correct" or dtype == "float32" else 200
    pair = draw("phi1", (m, inner, n), 1, dtype)
    a, b = (
        np.asfortranarray(x) if turned else x for x, turned in zip(pair, transposed, strict=True)
    )
    assert_as_on_a_cpu(a, b, accuracy, dtype)
    assert taken or (accuracy, dtype) == ("correct", "float64")  # integers of 70 bits and more


@cases(
    ("family", "accuracy"), ("phi4", "standard"), ("extremes", "standard"),
    ("cancellation", "correct"), ("one huge", "fast"), ("zero lines", "standard"),
    ("graded against", "standard"), ("graded against", "fast"), ("extremes", "correct"),
    interpreted=6,
)  # fmt: skip
def test_hostile_families(family, accuracy):
    """Lines that digits hold and lines that they do not; both ways give the same bits."""
    a, b = draw(family, (3, INNER, MANY), 5)
    assert_as_on_a_cpu(a, b, accuracy)


def test_specials_and_zeros(taken):
    """Infinities and NaNs in lines of either side reach their elements alone."""
    a, b = draw("phi1", (3, INNER, MANY), 6)
    a[1], b[:, 5] = 0, 0
    a[0, 3], b[7, 9], b[2, 11] = np.inf, np.nan, -np.inf
    assert_as_on_a_cpu(a, b)
    assert taken


@pytest.mark.parametrize("batches", [((2,), (2,)), ((3, 1), (1, 2)), ((), (2,))])
def test_batches(batches, taken):
    """Batches of either side, also such as all items of the other share."""
    ours, theirs = batches
    a, b = draw("phi1", (2, 20, 24), 7)
    rng = np.random.default_rng(8)
    a = a * rng.standard_normal((*ours, 1, 1)) if ours else a
    b = b * rng.standard_normal((*theirs, 1, 1)) if theirs else b
    assert_same_bits(gemm(a, b), widen.matmul(a, b))
    assert taken


@pytest.mark.parametrize("programs", [1, 1 << 20])
def test_shares(programs, monkeypatch, taken):
    """One share of a line, and as many as there are."""
    monkeypatch.setattr(tiles, "THIN_PROGRAMS", programs)
    a, b = draw("phi1", (5, 5 * 64 + 7, 20), 9)
    assert_as_on_a_cpu(a, b)
    assert taken


@pytest.mark.parametrize("names", [("float16", "float32"), ("bfloat16", "bfloat16")])
def test_halves(names, taken):
    """Lines of halves are read as halves, subnormal ones too."""
    for turned in (False, True):
        a, b = draw("phi1", (2, INNER, MANY), 16, *names)
        a[0, :9] *= a.dtype.type(2.0**-14)
        a, b = (b.T.copy(), a.T.copy()) if turned else (a, b)
        _, found = product(a, b, dtype="float32")
        assert_same_bits(found, widen.matmul(a, b, dtype="float32"))
    assert len(taken) == 2


def test_integers_keep_every_bit(taken):
    """Correct products of short numbers, whose planes hold all of them."""
    rng = np.random.default_rng(15)
    a, b = rng.integers(-(1 << 26), 1 << 26, (2, INNER)), rng.integers(-9, 9, (INNER, MANY))
    assert_as_on_a_cpu(a.astype(np.float64), b.astype(np.float64), "correct")
    assert taken


def test_gemm(taken):
    """The addend comes in where it always does."""
    a, b = draw("phi1", (2, INNER, MANY), 10)
    c = np.random.default_rng(11).standard_normal((2, MANY))
    found = gemm(a, b, c, alpha=0.3, beta=-1.7)
    assert_same_bits(found, widen.gemm(a, b, c, alpha=0.3, beta=-1.7))
    assert taken


# ── what is multiplied in another way ────────────────────────────────────────────────────────────


def test_others_are_not_thin(taken):
    """Complex numbers, integer contracts and plans made beforehand keep to planes."""
    a, b = draw("phi1", (2, 20, 24), 12)
    assert_same_bits(product(a, b, 40)[1], widen.matmul(a, b, accuracy=40))
    plan, _ = product(a, b)
    assert len(taken) == 1
    assert_same_bits(product(a, b, plan=plan)[1], widen.matmul(a, b))
    a, b = draw("phi1", (2, 20, 24), 12, "complex64")
    product(a, b, dtype="complex64")
    assert len(taken) == 1


@pytest.mark.parametrize(
    ("setting", "value"), [("THIN_LINES", 1), ("THIN_RATIO", 13), ("THIN_NUMBERS", 481)]
)
def test_limits(setting, value, monkeypatch, taken):
    """Each limit by itself decides."""
    a, b = draw("phi1", (2, 20, 24), 13)
    product(a, b)
    assert len(taken) == 1
    monkeypatch.setattr(tiles, setting, value)
    product(a, b)
    assert len(taken) == 1


def question(**more):
    """What is to be decided of an ordinary product with few lines."""
    contract, fmt = as_contract("standard"), FORMATS["float64"]
    return gpu_planning.Question(
        contract, fmt, (1, 16, 4096, 4096), (None,), 1 << 34, certified=True, thin=True, **more
    )  # fmt: skip


def choice(sigma, **more):
    """The choice for lines of so many bits."""
    side = [128 * 109, sigma, 0, 1, 1 << 16, 0, 0]
    return question(**more).decide([[side, side]])


def test_as_many_digits_as_integers_need():
    found = [choice(sigma).digits for sigma in (20, 29, 30, 53, 54, 61, 62)]
    assert found == [4, 4, 7, 7, 8, 8, 0]
    assert choice(50, unit="fp16").digits == 0
    assert choice(50, system="digits").digits == 0
    assert gpu_thin.digit_count_of(choice(50).plan, (54, 55)) == 8


def test_a_recorded_choice_covers_fewer_digits():
    """Launches with more digits do for fewer; planes do for all, and digits not for planes."""
    four, seven, none = choice(20), choice(50), choice(100)
    assert none.digits == 0
    assert seven.covers(four)
    assert none.covers(four)
    assert not four.covers(seven)
    assert not seven.covers(none)
    assert len({four.key, seven.key, none.key}) == 3


def test_digits_and_planes_hand_on_the_same_bytes(monkeypatch, taken):
    """Residues of X are those that the product of planes gives, whatever comes after them."""
    a, b = draw("phi1", (3, INNER, MANY), 14)
    handed = []
    reconstruct = gpu_block.reconstruct

    def noted(groups, *given, **named):
        handed.append(groups[..., :MANY].clone())
        return reconstruct(groups, *given, **named)

    monkeypatch.setattr(gpu_block, "reconstruct", noted)
    product(a, b)
    monkeypatch.setattr(tiles, "THIN_LINES", 0)
    product(a, b)
    assert len(taken) == 1
    by_digits, by_planes = handed
    assert torch.equal(by_digits, by_planes)
