"""Arrays of numbers of several words: made, converted, printed, cut and assigned."""

from __future__ import annotations

import copy
import math
import pickle
import sys
import warnings
from decimal import Decimal
from fractions import Fraction

import flint
import gmpy2
import mpmath
import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

import widen
from helpers import VIEWS, assert_same_bits
from widen import definition
from widen.formats import COMPLEX, WORDS
from widen.words import products
from widen.words.numbers import words_of_exact
from widen.words.text import digits_held

Words = widen.Words
WIDE = {**WORDS, **{name: fmt for name, fmt in COMPLEX.items() if len(fmt.part.words) > 1}}
formats = pytest.mark.parametrize("name", WORDS)


def assert_same(x, y):
    assert x.format == y.format
    for plane, other in zip(x.planes, y.planes, strict=True):
        assert_same_bits(np.asarray(plane), np.asarray(other))


def some(name, size=12, seed=0):
    """Random numbers that use all words."""
    rng, fmt = np.random.default_rng(seed), WIDE[name]
    p = fmt.part.words[0].precision
    w = np.ldexp(rng.random((len(fmt.part.words), 2, size)) - 0.5, 0)
    w = np.ldexp(w, -p * np.arange(len(fmt.part.words))[:, None, None])
    return Words.from_words(w[:, 0] + 1j * w[:, 1] if fmt.parts == 2 else w[:, 0], name)


# ── canonical words ──────────────────────────────────────────────────────────

floats = st.floats(allow_nan=False, allow_infinity=False, min_value=-(2.0**60), max_value=2.0**60)
few_bits = st.builds(lambda m, e: math.ldexp(m, e), st.integers(-9, 9), st.integers(-120, 60))


@given(st.lists(floats | few_bits, min_size=1, max_size=6), st.sampled_from(list(WORDS)))
@example([(2**23 + 1) * 2.0**-146, 2.0**-147 - 2.0**-152], "float32x4")  # a tie before a zero
def test_renormalisation_is_exact(terms, name):
    fmt = WORDS[name]
    value, found = sum(map(Fraction, terms)), Words.from_words(np.array(terms), fmt)
    # The nearest word, then the nearest of the rest: the definition.
    assert [float(plane[0]) for plane in found.planes] == words_of_exact(value, fmt)
    rest = found.to_fraction()
    for word, plane in zip(fmt.words, found.planes, strict=True):
        assert float(plane[0]) == definition.round_once(rest, word)
        rest -= Fraction(float(plane[0]))
    assert rest == 0


@formats
def test_equal_values_have_equal_words(name):
    x = some(name)
    turned = Words.from_words(x.words.astype(float)[::-1], name)
    assert_same(turned, x)
    split = np.concatenate([x.words.astype(float) / 2] * 2)
    assert_same(Words.from_words(split, name), x)


def test_a_tie_of_the_last_word_has_one_form():
    """An odd float and half an ulp, or the even one above it and half an ulp less."""
    odd, half = 1 + 2.0**-52, 2.0**-53
    x = Words.from_words(np.array([odd, half]), "float64x2")
    assert x.words.tolist() == [1 + 2.0**-51, -half]
    assert Words(Fraction(odd) + Fraction(half), "float64x2") == x
    # Near underflow it is a word before the last.
    odd, half = (2**52 + 1) * 2.0**-1072, 2.0**-1073
    value = Fraction(odd) + Fraction(half) - Fraction(1, 2**1080)
    x = Words(value, "float64x4")
    assert x.words.tolist() == [odd + 2 * half, -half, 0, 0]
    y = np.array([odd, half, -(2.0**-1060)])
    assert Words(y, "float64x4").dot(np.array([1.0, 1.0, 2.0**-20])) == x


def test_special_values_stand_in_the_first_word():
    x = Words.from_words(
        np.array([[np.inf, np.nan, 1.0, -0.0], [1.0, 2.0, np.inf, 0.0]]), "float64x3"
    )
    assert_same_bits(x.planes[0][0], np.array([np.inf, np.nan, np.inf, -0.0]))
    assert (np.stack(x.planes[1:]) == 0).all()


def test_a_second_word_beyond_its_range_is_the_largest():
    x = Words(2**1000 + 2**940, "float64_float32")
    assert x.planes[1][0] == np.finfo(np.float32).max
    third = Words(Fraction(2**1000, 3), "float64_float32")
    both = np.stack([third + 0j, third * 0 + 1e-200j])
    for y in (third[None].norm(), abs(third + 0j), both.sqrt(), both / 1j):
        assert np.isfinite(y.planes[1]).all()


# ── conversions ──────────────────────────────────────────────────────────────

KINDS = {
    "fraction": (lambda x: x.to_fraction(), lambda v: v),
    "decimal": (lambda x: x.to_decimal(), lambda v: v),
    "strings": (lambda x: x.to_strings(), lambda v: v),
    "mpmath": (lambda x: x.to_mpmath(), lambda v: v),
    "gmpy2": (lambda x: x.to_gmpy2(), lambda v: v),
    "arb": (lambda x: x.to_flint(), lambda v: v),
    "fmpq": (lambda x: x.to_flint("fmpq"), lambda v: v),
    "tensors": (lambda x: x.to_torch("cpu"), lambda v: v.to_arrays()),
    "words": (lambda x: x.words, lambda v: v),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name", ["float64x2", "float64x8", "float32x3", "float64_float32", "complex128x3"]
)
def test_round_trips_are_exact(name, kind):
    there, back = KINDS[kind]
    x = some(name, 6).reshape(2, 3)
    if x.format.parts == 2 and kind in ("fraction", "decimal", "fmpq"):
        with pytest.raises(TypeError, match="has no complex numbers"):
            there(x)
        return
    with gmpy2.context(gmpy2.ieee(16)):  # a range of the caller's own changes nothing
        given = back(there(x))
    again = Words.from_words(given, name) if kind == "words" else Words(given, name)
    assert_same(again.reshape(2, 3), x)
    one = x[1, 2]
    given = back(there(one))
    assert_same(Words.from_words(given, name) if kind == "words" else Words(given, name), one)


def test_numbers_of_all_kinds():
    third = Words("1/3", "float64x4")
    for value in (Fraction(1, 3), flint.fmpq(1, 3), gmpy2.mpq(1, 3)):
        assert Words(value, "float64x4") == third
    big = 3**80
    for value in (
        big,
        str(big),
        flint.fmpz(big),
        gmpy2.mpz(big),
        Decimal(big),
        mpmath.mpf(2) * 0 + 9,
    ):
        wanted = 9 if isinstance(value, mpmath.mpf) else big
        assert Words(value, "float64x3").to_int() == wanted
    assert Words(np.array([2**62 + 1, -(2**62) - 1]), "float64x2").to_int().tolist() == [
        2**62 + 1,
        -(2**62) - 1,
    ]
    assert Words(np.float32(0.1), "float32x2") == np.float32(0.1)
    assert Words.from_words(np.array([2**62 + 1, 1]), "float64x2").to_int() == 2**62 + 2
    texts = ["3-4j", "j", "-1e-30j", "2+j", str(mpmath.mpc(1, 2)), str(flint.acb(-1, -2))]
    assert Words([1 + 2j, *texts], "complex128x2").to_numpy().tolist() == [
        1 + 2j, 3 - 4j, 1j, -1e-30j, 2 + 1j, 1 + 2j, -1 - 2j,
    ]  # fmt: skip
    digits = mpmath.nstr(mpmath.pi(dps=150), 140)  # a constant has all digits, not mpmath's dps
    assert (
        Words(mpmath.pi, "float64x8")
        == Words(digits, "float64x8")
        == 0 + Words(1, "float64x8") * mpmath.pi
    )
    assert Words(mpmath.mpc(1, 2), "complex64x2") == Words(flint.acb(1, 2), "complex64x2")
    assert Words(gmpy2.mpc("1+2j"), "complex64x2") == 1 + 2j
    for text in ("nan", "inf", "-inf"):
        for value in (
            float(text),
            text,
            Decimal(text),
            mpmath.mpf(text),
            gmpy2.mpfr(text),
            flint.arb(text),
        ):
            assert_same_bits(Words(value, "float64x2").planes[0][0], np.float64(text))
    assert math.copysign(1, float(Words("-0", "float64x2"))) == -1


def test_numbers_far_out_of_range_are_infinite_or_zero():
    """At once: 10^999999999 is not made an integer on the way."""
    far = 10**10
    texts = ["-1e999999999", "1e-999999999", f"1e{far**3}", f"-0.0e{far**3}", "0.1e-999999"]
    numbers = [*texts, Decimal("-1e999999"), mpmath.ldexp(-3, far), mpmath.ldexp(3, -far)]
    numbers += [gmpy2.mul_2exp(gmpy2.mpfr(3), 10**9), flint.arb(2) ** far, flint.arb(2) ** -far]
    found = Words(numbers, "float64x2").to_numpy()
    inf = np.inf
    assert found.tolist() == [-inf, 0, inf, 0, 0, -inf, -inf, 0, inf, inf, 0]
    edge = 2**128 - 2**103  # from here on float32 is infinite
    assert Words([edge, edge - 1], "float32x3").words.tolist()[0] == [inf, 2.0**128 - 2.0**104]
    assert Words(edge - 1, "float32x2").to_numpy() == inf  # the second word is rounded to the edge
    with np.errstate(all="raise"):
        assert Words(1e300, "float32x2").to_numpy() == inf


def test_matrices_of_other_libraries():
    m = flint.fmpq_mat(2, 2, [flint.fmpq(1, 3), flint.fmpq(2), flint.fmpq(-7, 9), flint.fmpq(5)])
    x = Words(m, "float64x2")
    assert x.shape == (2, 2)
    assert x[0, 0] == Words("1/3", "float64x2")
    assert (Words(x.to_flint(), "float64x2") == x).all()
    assert x.to_mpmath().rows == 2
    assert (Words(x.to_mpmath(), "float64x2") == x).all()
    assert Words(flint.fmpz_mat(1, 2, [3, 4]), "float32x2").to_flint("fmpz") == flint.fmpz_mat(
        1, 2, [3, 4]
    )
    z = Words(flint.acb_mat(1, 1, [flint.acb(1, 2)]), "complex128x2")
    assert z.to_flint()[0, 0] == flint.acb(1, 2)
    assert (z.real + z.to_flint() == 2 + 2j).all()
    z[...] = x[:1, :1].to_fraction()
    assert z == x[0, 0]


@formats
def test_to_numpy_rounds_once(name):
    x = some(name, 40)
    exact = x.to_fraction()
    wanted = np.array([float(value) for value in exact])
    assert_same_bits(x.to_numpy(np.float64), wanted)
    single = np.array(
        [definition.round_once(v, WORDS["float32x2"].words[0]) for v in exact], np.float32
    )
    assert_same_bits(x.to_numpy("float32"), single)
    assert float(x[3]) == wanted[3]
    tie = Words.from_words(np.array([1.0, 2.0**-24, 2.0**-60]), "float64x2")
    assert tie.to_numpy("float32") == np.float32(1 + 2.0**-23)
    tie = Words.from_words(np.array([2.0**128 - 2.0**103, -1.0]), "float64x2")
    assert tie.to_numpy("float32") == np.finfo(np.float32).max
    assert_same(tie.astype("float32x3"), Words(2**128 - 2**103 - 1, "float32x3"))
    single = Words("0.1", "float32x3")
    assert float(single) == complex(single) == complex(single.astype("complex64x3")) == 0.1


@formats
def test_astype_rounds_once(name):
    x = some("float64x4", 20)
    y = x.astype(name)
    for value, words in zip(
        x.to_fraction(), zip(*[p[0] for p in y.planes], strict=True), strict=True
    ):
        assert [float(word) for word in words] == words_of_exact(value, WORDS[name])
    assert (y.astype("complex128x16").imag == 0).all()


# ── printing ─────────────────────────────────────────────────────────────────


@given(st.lists(floats | few_bits, min_size=1, max_size=4), st.sampled_from(list(WORDS)))
@example([100.0, 2.7755575615628914e-17], "float32x4")
def test_what_is_printed_reads_back(terms, name):
    x = Words.from_words(np.array(terms), name)
    assert_same(Words(x.to_strings(), name), x)
    # Half a unit of the last digit, at most 50 of 2^-precision, and what reading rounds.
    shown = 10.0 ** (1 - digits_held(x.format)) / 2 + 2.0 ** (1 - x.format.precision)
    assert abs(float(Words(str(x), name) - x)) <= shown * abs(float(x)) + 2.0**-149
    assert_same(eval(repr(x), {"Words": Words, **vars(widen)}), x)


def test_printing():
    third = Words("1/3", "float64x2")
    assert str(third) == "0.33333333333333333333333333333333"
    assert third.to_strings() == "0.333333333333333333333333333333332"
    assert str(Words(np.array(0.1), "float64x2")) == "0.10000000000000000555111512312578"
    assert f"{third:.40g}" == "0.3333333333333333333333333333333323061707"
    assert f"{third:.5f}" == "0.33333"
    assert f"{third:>40}" == " " * 6 + str(third)  # a width alone asks for no other digits
    assert f"{Words('1-2j', 'complex128x2'):*^12}" == "**1.0-2.0j**"
    assert f"{Words(math.nan, 'float64x2'):8.3f}" == "     nan"
    assert f"{Words(2, 'float64x2') / 3:.10e}" == "6.6666666667e-1"
    assert repr(Words([["0.1", "-2"]], "float32x3")) == "Words([['0.1', '-2.0']], dtype=float32x3)"
    assert str(Words(["1-2j", "1e-30j"], "complex128x2")) == "[1.0-2.0j, 0.0+1e-30j]"
    assert str(Words([math.nan, -math.inf, "1e300"], "float64x2")) == "[nan, -inf, 1e+300]"
    assert str(Words(["1e400", -(10**400), "1e-400"], "float64x2")) == "[inf, -inf, 0.0]"
    assert len(str(Words("1/3", "float64x16"))) > 255
    long = repr(Words(np.arange(5000.0), "float64x2"))
    assert "..." in long
    assert len(long) < 300


# ── shapes, views, assignment ────────────────────────────────────────────────


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_indexing_is_that_of_arrays(library):
    x = some("complex128x2", 24).reshape(2, 3, 4)
    x = x.to_torch() if library == "torch" else x
    w = np.asarray(x.words)
    assert_same_bits(x[1, ..., 2].words, w[:, 1, ..., 2])
    assert_same_bits(x[:, ::2].words, w[:, :, ::2])
    assert_same_bits(x.T.words, w.transpose(0, 3, 2, 1))
    assert_same_bits(x.transpose(1, 0, 2).words, w.transpose(0, 2, 1, 3))
    assert_same_bits(x.reshape(-1).words, w.reshape(2, -1))
    assert_same_bits(x[x.real > 0].words, w[:, w[0].real > 0])
    apart = ([0, 1], slice(None), [3, 1])  # axes of lists apart come first
    assert_same_bits(x[apart].words, np.stack([w[:, 0, :, 3], w[:, 1, :, 1]], 1))
    assert_same_bits(
        x[[1, 0], ..., [2, 0]].real.words, np.stack([w[:, 1, :, 2], w[:, 0, :, 0]], 1).real
    )
    y = x.copy()
    y[apart] = -x[apart]
    assert_same_bits(y[apart].words, -x[apart].words + 0)
    assert (y == x).sum() == 24 - 6
    assert_same_bits(x.real.words, w.real)
    assert [len(row) for row in x] == [3, 3]
    assert x[1, 2, 3] in x
    assert x[1, 2, 3] not in x[0]
    assert "no number" not in x


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_views_share_memory_and_assignment_rounds(library):
    x = Words(np.zeros((3, 4)), "float64x2")
    x = x.to_torch() if library == "torch" else x
    x[1:, 2] = (
        ["1/3", "0.1"] if library == "numpy" else Words(["1/3", "0.1"], "float64x2").to_torch()
    )
    x[0] = 7
    x.T[0][1] = 5
    assert x[1, 2] == Words("1/3", "float64x2") if library == "numpy" else True
    assert x.to_numpy()[:, 0].tolist() == [7, 5, 0]
    x[...] = x.copy().T.reshape(3, 4)
    x[1:] = x[:-1]
    assert (x[1] == x[0]).all()
    assert (x[2] == x[1]).all() or x.shape == (3, 4)


def test_assignment_to_tensors_takes_numbers_of_all_kinds():
    x = Words([0.0, 1.0], "float64x2").to_torch()
    x[0], x[1:] = "1/3", [2**70]
    assert_same(x.to_arrays(), Words(["1/3", 2**70], "float64x2"))


def test_assignment_where_memory_overlaps():
    x = Words(np.arange(6.0), "float64x2")
    x[1:] = x[:-1]
    assert x.to_numpy().tolist() == [0, 0, 1, 2, 3, 4]
    x[1:] += x[:-1]
    assert x.to_numpy().tolist() == [0, 0, 1, 3, 5, 7]
    x[0] *= -1
    assert np.signbit(x.to_numpy()).tolist() == [True] + [False] * 5
    x[2], x[5] = x[5], x[2]  # as with NumPy: single numbers are copies
    assert x.to_numpy().tolist() == [0, 0, 7, 3, 5, 1]
    x[2, ...][()] = 8
    assert x[2] == 8


@pytest.mark.parametrize("name", ["float64x2", "float32x3", "float64x4", "float64_float32"])
def test_operators_in_place(name):
    x, same = some(name), some(name)
    view = x[::2]
    x += x
    assert_same(x, same + same)
    assert_same(view, (same + same)[::2])
    x *= x
    x -= x * 0
    x /= x
    assert (x == 1).all()
    with pytest.raises(ValueError, match="does not fit in place"):
        x[:1] += x


@pytest.mark.parametrize("view", VIEWS)
def test_memory_order_changes_no_bit(view):
    rng = np.random.default_rng(0)
    w = rng.random((2, 5, 6)) * np.array([1, 1e-17])[:, None, None]
    plain = Words.from_words(w, "float64x2")
    x = Words.of(plain.format, [VIEWS[view](p[0])[None] for p in plain.planes])
    if view == "byte-swapped":
        x = Words(plain.to_numpy(), "float64x2")
        plain = Words(VIEWS[view](plain.to_numpy()), "float64x2")
    for y, wanted in ((x * x, plain * plain), (x + plain, plain + plain), (x / 3, plain / 3)):
        assert_same(y, wanted)


def test_broadcasting_and_mixing():
    x = some("float64x2", 12).reshape(3, 4)
    row, column = np.arange(4.0), np.arange(3.0)[:, None]
    assert_same(x + row, x + Words(np.broadcast_to(row, (3, 4)), "float64x2"))
    assert_same(column * x, x * Words(np.broadcast_to(column, (3, 4)).copy(), "float64x2"))
    assert_same(1 / x, Words(1, "float64x2") / x)
    assert_same(x - Fraction(1, 3), x - Words("1/3", "float64x2"))
    assert (x + 1j).format.name == "complex128x2"
    assert (x + some("float64x4")[0]).format.name == "float64x4"
    assert (some("float64_float32")[0] * x).format.name == "float64x2"
    assert (x * np.float32(2) == 2 * x).all()
    assert_same(x**3, x * (x * x))
    assert_same(x**-1, 1 / x)
    assert_same(x**-2, 1 / (x * x))
    tiny = Words("1e-12", "float32x4")  # its cube has one word, though 1e36 has four
    assert abs(float(tiny**-3 / Words("1e36", "float32x4") - 1)) < 2.0**-90
    ends = Words([2, 0, -math.inf, math.nan], "float64x2") ** -1073
    assert_same_bits(ends.to_numpy(), np.array([2.0**-1073, np.inf, -0.0, np.nan]))
    assert (x**0 == 1).all()
    assert_same(abs(x) ** 0.5, abs(x).sqrt())


def test_comparisons_look_at_all_words():
    x = Words(["1", "1", "1", "nan"], "float64x3")
    y = Words([1 + Fraction(1, 2**150), 1, 1 - Fraction(1, 2**150), 1], "float64x3")
    assert (x < y).tolist() == [True, False, False, False]
    assert (x <= y).tolist() == [True, True, False, False]
    assert (x > y).tolist() == [False, False, True, False]
    assert (x >= y).tolist() == [False, True, True, False]
    assert (x == y).tolist() == [False, True, False, False]
    assert (x != y).tolist() == [True, False, True, True]
    assert (x == 1).tolist() == [True, True, True, False]


# ── NumPy's and PyTorch's functions ──────────────────────────────────────────


def test_functions_of_numpy():
    x = some("float64x2", 6).reshape(2, 3)
    assert_same(np.add(x, 1.0), x + 1.0)
    assert_same(np.add(np.ones(3), x), x + 1.0)
    assert_same(np.sqrt(abs(x)), abs(x).sqrt())
    assert_same(np.sum(x, axis=1), x.sum(axis=1))
    assert_same(np.add.reduce(x), x.sum(axis=0))
    assert_same(np.stack([x, x], axis=1), Words.from_words(np.stack([x.words] * 2, 2), "float64x2"))
    assert np.concatenate([x, x]).shape == (4, 3)
    assert_same(np.transpose(x), x.T)
    assert_same(np.where(np.array([True, False, True]), x, -x)[:, 1], -x[:, 1])
    assert np.isfinite(x).all()
    out = x.copy()
    assert np.multiply(x, x, out=out) is out
    assert_same(out, x * x)
    assert np.shape(x) == (2, 3)
    assert np.linalg.norm(x) == x.norm()
    assert torch.norm(x.to_torch()) == torch.linalg.norm(x.to_torch()) == x.to_torch().norm()
    assert np.array_equal(x, x.copy())
    assert not np.array_equal(x[0], x.to_numpy()[0])


def test_functions_of_torch():
    x = some("float64x3", 6).to_torch()
    assert_same(torch.add(x, x).to_arrays(), (x + x).to_arrays())
    assert_same(torch.mul(torch.ones(6, dtype=torch.float64), x).to_arrays(), x.to_arrays())
    assert_same((torch.ones(6, dtype=torch.float64) - x).to_arrays(), (1 - x).to_arrays())
    assert_same(torch.stack([x, x]).to_arrays(), np.stack([x.to_arrays()] * 2))
    assert torch.cat([x, x]).shape == (12,)
    assert torch.equal(x, x.copy()) is True
    assert torch.equal(x, x[:1]) is False
    assert_same(torch.sum(x).to_arrays(), x.to_arrays().sum())
    assert_same(x.to_arrays(), x.cpu().to_arrays())


# ── errors ───────────────────────────────────────────────────────────────────

ERRORS = [
    (lambda x: Words([1.0]), TypeError, "needs a dtype, such as widen.float64x2"),
    (lambda x: Words([1.0], float), TypeError, "not a format of several words; give one of"),
    (lambda x: Words(["a"], "float64x2"), ValueError, "'a' is not a number"),
    (lambda x: Words(["1/0"], "float64x2"), ValueError, "divides by zero"),
    (lambda x: Words([{}], "float64x2"), TypeError, "builtins.dict, not a number; give int, float"),
    (lambda x: Words([[1], [2, 3]], "float64x2"), ValueError, "different lengths"),
    (lambda x: Words([1j], "float64x2"), TypeError, "is complex and float64x2 is not"),
    (lambda x: Words(np.ones(2) * 1j, "float64x2"), TypeError, "use dtype=widen.complex128x2"),
    (lambda x: Words(flint.arb("0.1"), "float64x2"), ValueError, "is a ball.*x.mid()"),
    (lambda x: Words(flint.arb(3, math.inf), "float64x2"), ValueError, "is a ball.*x.mid()"),
    (lambda x: Words([x[0], 1], "float64x2"), TypeError, "a list of words.*np.stack"),
    (lambda x: Words.from_words(["0.1"], "float64x2"), TypeError, "words are floats"),
    (lambda x: x + x.to_fraction(), TypeError, r"Python objects.*widen.Words\(it, dtype"),
    (lambda x: np.array_equal(x, [1, 2]), TypeError, r"list of Python objects.*widen.Words\(it"),
    (lambda x: x + np.array(["a"]), TypeError, "does not mix with float64x2; give floats"),
    (lambda x: Words(1, "float32x2") + np.longdouble(1), TypeError, "has bits that float32x2"),
    (lambda x: np.add.reduce(x, initial=1), TypeError, "takes no initial"),
    (lambda x: np.where(x, x, 0), TypeError, "use x != 0"),
    (lambda x: np.stack([x, x], axis=None), TypeError, r"x.reshape\(-1\)"),
    (lambda x: x[None].transpose(2, 1), ValueError, r"axes \(2, 1\) are not the 2 axes"),
    (lambda x: x + "a", TypeError, "unsupported operand"),
    (lambda x: x + np.ones(5), ValueError, r"shapes \(4,\) and \(5,\) do not broadcast"),
    (lambda x: x == np.ones(5), ValueError, r"shapes \(4,\) and \(5,\) do not broadcast"),
    (lambda x: x + Words(1, "float32x3"), TypeError, "words of different kinds.*astype"),
    (lambda x: Words(1, "float32x2") + np.ones(2), TypeError, "float64 has bits that float32x2"),
    (lambda x: x + torch.ones(4, dtype=torch.float64), ValueError, r"give x.to_torch\('cpu'\)$"),
    (lambda x: x.to_torch() + np.ones(4), ValueError, r"first: give torch.from_numpy\(y\)$"),
    (lambda x: x.to_torch() + x, ValueError, r"one place first: give y.to_torch\('cpu'\)$"),
    (lambda x: x**x, TypeError, r"x \*\* Words: powers"),
    (lambda x: x[7], IndexError, r"does not fit an array of shape \(4,\)"),
    (lambda x: x.reshape(3), ValueError, r"4 numbers of shape \(4,\) do not fit"),
    (lambda x: x**0.3, TypeError, "powers of words are integers"),
    (lambda x: np.exp(x), TypeError, "np.exp is not defined for words; there are"),
    (lambda x: x @ 2, ValueError, "b is a scalar; widen multiplies"),
    (lambda x: x @ mpmath.matrix([1, 2]), TypeError, r"matrix; widen multi.*Words\(b, dtype"),
    (lambda x: x.to_fraction() @ x, TypeError, r"a holds object.*Words\(a, dtype"),
    (lambda x: np.ones((3, 2)) @ x, ValueError, "do not match: a has 2 columns, b has 4 rows"),
    (lambda x: np.linalg.norm(x, 3), TypeError, "orders 1, 2, inf and -inf; ord=3"),
    (lambda x: np.linalg.norm(x[None], 2), TypeError, "ord=2 was asked for"),
    (lambda x: torch.linalg.norm(x[None].to_torch(), 2), TypeError, "ord=2 was asked for"),
    (lambda x: torch.norm(x.to_torch(), 3), TypeError, "orders 1, 2, inf and -inf; ord=3"),
    (lambda x: x.sum(0.5), TypeError, "is not an axis"),
    (lambda x: x.norm((0, -1)), ValueError, "names an axis twice"),
    (lambda x: Words(torch.ones(2, requires_grad=True), "float64x2"), TypeError, "x.detach()"),
    (lambda x: Words(np.ma.masked_array([1.0], [True]), "float64x2"), TypeError, "masked"),
    (lambda x: np.linalg.svd(x), TypeError, "np.linalg.svd is not defined"),
    (lambda x: torch.exp(x.to_torch()), TypeError, "torch.exp is not defined"),
    (lambda x: np.asarray(x), TypeError, "use x.to_numpy"),
    (lambda x: x < 1j, TypeError, "no order"),
    (lambda x: (x + 1j).astype("float64x2"), TypeError, "would drop imaginary parts"),
    (lambda x: float(x), TypeError, "takes a single number"),
    (lambda x: bool(x), ValueError, "not defined"),
    (lambda x: (x / 3).to_int(), ValueError, "not an integer"),
    (lambda x: x.sum(axis=1), ValueError, "axis 1 does not exist"),
    (lambda x: x.dot(x[:2]), ValueError, "two vectors of one length"),
    (lambda x: x.to_flint("arf"), ValueError, "use one of arb, fmpq, fmpz"),
    (lambda x: x.to_numpy("float16"), TypeError, "give float64 or float32"),
    (lambda x: x.to_numpy(x.dtype), TypeError, r"to_numpy\(dtype=float64x2\): give float64 or"),
    (lambda x: x.__setitem__(9, 1), IndexError, r"does not fit an array of shape \(4,\)"),
    (lambda x: x.__setitem__(slice(2), x[:3]), ValueError, r"\(3,\) does not fit in place of"),
    (lambda x: x.__setitem__(0, 1j), TypeError, "complex numbers do not fit"),
    (lambda x: len(x[0]), TypeError, "no length"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), ERRORS, ids=[e[2][:30] for e in ERRORS])
def test_errors_say_what_to_do(call, error, message):
    with pytest.raises(error, match=message):
        call(Words(np.arange(1.0, 5.0), "float64x2"))


def test_tensors_without_pytorch_say_what_to_install(monkeypatch):
    x = some("float64x2")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        ImportError, match=r"needs torch, which is not here: pip install 'widen\[torch"
    ):
        x.to_torch()


def test_words_are_copied_and_pickled():
    x = some("complex128_complex64")
    assert_same(pickle.loads(pickle.dumps(x)), x)
    assert_same(copy.deepcopy(x), x)
    shallow = copy.copy(x)
    shallow[0] = 1  # as NumPy's, memory of its own
    assert_same(x, some("complex128_complex64"))


@pytest.mark.parametrize("function", [
    lambda x: x.astype(x.format), lambda x: x.sum(keepdims=True), lambda x: x[:1].copy(),
    lambda x: x.dot(Words(np.ones(1), x.format))[None],
])  # fmt: skip
def test_the_largest_numbers_are_kept(function):
    """Within the last half unit below infinity two words add up to one, and the third counts."""
    largest = np.finfo(float).max
    x = Words.of(WIDE["float64x3"], [np.full((1, 1), y) for y in (largest, 2.0**970, -(2.0**900))])
    with np.errstate(all="raise"):
        assert_same(function(x), x)


def test_read_only_words_go_to_tensors_in_silence():
    x = some("float64x2")
    for plane in x.planes:
        plane.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(x.to_torch().to_arrays(), x)


def test_matrix_products():
    """x @ y is widen.matmul(x, y), whichever of the two is words."""
    x, plain = some("float64x2")[:4].reshape(2, 2), np.array([[0.1, 2.0], [3.0, 1e-20]])
    other = widen.encode(x, side="right")
    for left, right in ((x, x), (x, plain), (plain, x), (x, x[0]), (x[1], plain[0]), (x, other)):
        wanted = widen.matmul(left, right)
        assert_same(left @ right, wanted)
        if right is not other:
            assert_same(np.matmul(left, right), wanted)
    out = x.copy()
    assert np.matmul(x, plain, out=out) is out
    assert_same(out, widen.matmul(x, plain))
    tensor, wanted = torch.from_numpy(plain), widen.matmul(x, plain)
    for found in (x.to_torch() @ tensor, torch.matmul(x.to_torch(), tensor)):
        assert_same(found.to_arrays(), wanted)
    assert_same((tensor @ x.to_torch()).to_arrays(), widen.matmul(plain, x))


@pytest.mark.parametrize(
    "name", ["float64x2", "float64x8", "float32x3", "float64_float32", "complex64x2"]
)
def test_sums_by_products_are_those_of_a_cpu(name):
    """On a GPU sums, dot products and norms are products; here both ways run on arrays."""
    rng, fmt = np.random.default_rng(8), WIDE[name]
    lowest = -130 if fmt.part.words[0].precision == 24 else -1000
    given = [np.array([np.ones((2, 4)), [[0, 0, 0, sign * 2.0**-70]] * 2]) for sign in (-1, 0, 1)]
    for low, high in ((lowest, 0), (lowest // 2, -lowest // 4), (-3, 3)):
        first = rng.uniform(-1, 1, (3, 5)) * 2.0 ** rng.integers(low, high, (3, 5))
        second = rng.uniform(-1, 1, (3, 5)) * 2.0 ** rng.integers(lowest, high - 20, (3, 5))
        given.append(np.array([first, second, first[::-1] * 2.0**-53]))
    for words in given:
        x = Words.from_words(words + 1j * words[::-1] if fmt.parts == 2 else words, name)
        assert_same(products.total(x), x.sum(1))
        assert_same(products.norm(x), x.norm(1))
        assert_same(products.dot(x[0], x[1]), x[0].dot(x[1]))
    assert (
        products.norm(Words(np.full((1, 2), 2.0 ** (fmt.part.words[0].highest - 1)), name)) is None
    )


@pytest.mark.parametrize("name", WIDE)
def test_every_format_has_its_record(name):
    x = Words(np.arange(3.0), name)
    assert x.format is WIDE[name]
    assert x.dtype.name == name
    assert x.shape == (3,)
    assert x.nbytes == 3 * x.format.parts * sum(int(w.name[-2:]) // 8 for w in x.format.part.words)
    assert (x + x).to_numpy().tolist() == [0, 2, 4]
