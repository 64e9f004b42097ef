"""Products of numbers of several words: the definition's bits, oracles, contracts, one answer."""

from __future__ import annotations

import itertools
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import defined
import widen
import widen.testing as wt
from exact_words import (
    assert_words_kept,
    enough,
    exact_values,
    fractions_of,
    nearest_words,
    parts_of,
    rounded,
)
from helpers import (
    ACCURACIES,
    assert_same_bits,
    assert_same_words,
    draw,
    draw_words,
    kernel_threads,
    word_arrays,
    words_near,
)
from widen import bounds, definition
from widen.contract import CONTRACTS, as_contract
from widen.cpu import certify as cpu_certify
from widen.cpu import encode as cpu_encode
from widen.cpu import lines as cpu_lines
from widen.cpu import repair
from widen.cpu.batches import lines, stack
from widen.cpu.operands import Quantised
from widen.formats import COMPLEX, FORMATS, PLAIN, WORDS
from widen.planner import Needs, choose_layout
from widen.units import UNITS

WIDE = [name for name in FORMATS if name not in PLAIN]
SOME = ["float64x2", "float32x3", "float64_float32", "complex128x2"]

wide = pytest.mark.parametrize("name", WIDE)
some = pytest.mark.parametrize("name", SOME)
families = pytest.mark.parametrize("family", wt.FAMILIES)
accuracies = pytest.mark.parametrize("accuracy", ACCURACIES, ids=str)


# ── the definition ───────────────────────────────────────────────────────────────────────────


@wide
@accuracies
@pytest.mark.parametrize("family", ["phi1", "ties", "subnormals"])
def test_bits_of_the_definition(name, accuracy, family):
    a, b = draw_words(family, (3, 5, 2), 1, name)
    found, info = widen.matmul(a, b, accuracy=accuracy, info=True)
    assert found.format is FORMATS[name]
    contract, part = as_contract(accuracy), FORMATS[name].part
    if contract.correct:
        return assert_same_words(found, rounded(exact_values(a, b), FORMATS[name]))
    wanted = defined.matmul(word_arrays(a), word_arrays(b), contract, part, enough)
    assert_same_words(found, tuple(wanted.values))
    assert info.repaired == int(wanted.repaired.sum())
    return None


@families
@some
def test_correct_is_what_mpfr_says(family, name):
    a, b = draw_words(family, (5, 11, 4), 2, name)
    fmt = FORMATS[name]
    exact = exact_values(a, b)
    for result in (name, "complex128x2" if fmt.parts == 2 else "float64x3"):
        wanted = rounded(exact, FORMATS[result])
        assert_same_words(widen.matmul(a, b, accuracy="correct", dtype=result), wanted)


@some
def test_correct_of_some_size(name):
    """Many elements at a time, several tiles of them, some unsettled and repaired."""
    a, b = draw_words("phi2", (31, 90, 40), 18, name)
    wanted = rounded(exact_values(a, b), FORMATS[name], definition.round_words)
    assert_same_words(widen.matmul(a, b, accuracy="correct"), wanted)


@pytest.mark.parametrize("name", ["float64x2", "float32x2"])
def test_sketches_of_first_words_mark_what_leading_integers_do(name):
    a, b = draw_words("phi1", (24, 700, 20), 19, name)
    operands = [lines(stack(x)[None], side, 1) for x, side in ((a, "left"), (b, "right"))]
    assert cpu_certify.sketched(tuple(operands))
    found, info = widen.matmul(a, b, info=True)
    with mock.patch.object(cpu_certify, "sketched", return_value=False):
        wanted, other = widen.matmul(a, b, info=True)
    assert_same_words(found, wanted)
    assert info.repaired == other.repaired


@wide
@pytest.mark.parametrize("accuracy", ["standard", "correct"])
def test_units_and_systems_change_no_bit(name, accuracy):
    a, b = draw_words("phi0.5", (4, 7, 3), 3, name)
    wanted = widen.matmul(a, b, accuracy=accuracy)
    short = FORMATS[name].precision < 250
    for unit, system in itertools.product(UNITS if short else ("int8",), ("residues", "digits")):
        fits = unit != "fp8" or FORMATS[name].precision < 200
        if fits and (short or system == "residues"):
            found = widen.matmul(a, b, accuracy=accuracy, unit=unit, system=system)
            assert_same_words(found, wanted)


@pytest.mark.parametrize("name", ["float64x8", "float64x16"])
def test_digits_of_long_numbers(name):
    a, b = draw_words("phi0.5", (2, 5, 2), 4, name)
    wanted = widen.matmul(a, b)
    assert_same_words(widen.matmul(a, b, system="digits"), wanted)


def test_the_last_word_leaves_the_one_before_it_even():
    """Just below 1 + 3 u the rest is rounded to half a unit of an odd word."""
    u = Fraction(1, 2**52)
    value = 1 + u + u / 2 - Fraction(1, 2**200)
    assert nearest_words(value, WORDS["float64x2"]) == [1 + 2.0**-52, 2.0**-53]
    assert definition.round_words(value, WORDS["float64x2"]) == (1 + 2.0**-51, -(2.0**-53))
    a = widen.Words.from_words(np.array([[[1.0, 2.0**-100]], [[0.0, 0.0]]]), "float64x2")
    b = widen.Words.from_words(
        np.array([[[1 + 2.0**-52], [0.0]], [[2.0**-53], [-(2.0**-100)]]]), "float64x2"
    )
    found = widen.matmul(a, b, accuracy="correct")
    assert_same_words(found, (np.array([[1 + 2.0**-51]]), np.array([[-(2.0**-53)]])))
    gemm = widen.gemm(a, b, widen.matmul(a, b), beta=0.0, accuracy="correct")
    assert_same_words(gemm, found)


@pytest.mark.parametrize("name", ["float64x3", "float64x4", "float64x8"])
def test_the_last_word_may_be_one_that_others_could_follow(name):
    """Of -(odd - 0.4) 2^-1073 the second word is half a unit, and the third is too small."""
    odd, tiny = 0x127EDF0DDD78D5, 2.0**-1074
    value = -(odd - Fraction(2, 5)) * Fraction(2) ** -1073
    wanted = (float(1 - odd) * 2.0**-1073, -tiny, *[0.0] * (len(WORDS[name].words) - 2))
    assert wanted[0] == -5.144257014088044e-308
    assert definition.round_words(value, WORDS[name]) == wanted
    terms = (-float(odd) * 2.0**-73, 0.375 * 2.0**-73, 2.0**-79)  # 0.375 + 1/64 is near 0.4
    planes = np.zeros((len(wanted), 1, 3))
    planes[0, 0] = terms
    a = widen.Words.from_words(planes, name)
    b = np.full((3, 1), 2.0**-1000)
    for accuracy in ("standard", "correct"):
        found = widen.matmul(a, b, dtype=name, accuracy=accuracy)
        assert_same_words(found, tuple(np.array([[x]]) for x in wanted))
        found = widen.gemm(a, b, dtype=name, accuracy=accuracy, alpha=2.0)
        assert_same_words(found, nearest_of(2 * value, name))


def nearest_of(value, name):
    """The definition's words of a number, as arrays of one element."""
    return tuple(np.array([[x]]) for x in definition.round_words(value, WORDS[name]))


@pytest.mark.parametrize("name", ["float64x2", "float32x3", "float64_float32"])
@given(data=st.data())
def test_rounding_near_ties_and_ends(name, data):
    """Words of 1 x 1 products of one exact factor: near ties of any word, and out of its range."""
    fmt = FORMATS[name]
    word = data.draw(st.sampled_from(fmt.words))
    whole = data.draw(st.integers(1, 2 ** (word.precision + 1)))
    far = data.draw(st.integers(1, 2 * fmt.precision))
    tail = data.draw(st.sampled_from([0, 1, -1])) * Fraction(1, 2**far)
    exponent = data.draw(st.integers(max(fmt.lowest, -400), min(fmt.highest, 400)))
    value = (whole + tail) * Fraction(2) ** (exponent - word.precision)
    wanted = definition.round_words(value, fmt)
    a, shift = widen.Words.from_words(np.array([[[1.0]], [[0.0]]]), "float64x2"), exponent // 2
    long = widen.Words.of(WORDS["float64x16"], [np.array([[[x]]]) for x in definition.round_words(
        value * Fraction(2) ** -shift, WORDS["float64x16"])])  # fmt: skip
    exact = sum(map(Fraction, (float(plane.item()) for plane in long.planes)))
    if exact * Fraction(2) ** shift == value:
        scale = widen.Words.from_words(np.array([[[2.0**shift]], [[0.0]]]), "float64x2")
        found = widen.matmul(scale, long, dtype=name, accuracy="correct")
        assert [float(plane.item()) for plane in found.planes] == list(wanted)
        found = widen.gemm(a, long, alpha=2.0**shift, dtype=name, accuracy="correct")
        assert [float(plane.item()) for plane in found.planes] == list(wanted)


# ── the stages ───────────────────────────────────────────────────────────────────────────────


@st.composite
def awkward_numbers(draw_from, fmt):
    """Numbers whose words lie at powers of two and half units, where roundings go astray."""
    words, scale = [], Fraction(2) ** draw_from(st.integers(-30, 30))
    for word in fmt.words:
        kind = draw_from(st.sampled_from(["power", "half", "any", "zero"]))
        whole = {
            "power": 1, "half": draw_from(st.integers(0, 7)) * 2 + 1, "zero": 0,
            "any": draw_from(st.integers(0, 2**word.precision - 1)),
        }[kind]  # fmt: skip
        length = max(whole.bit_length(), 1)
        words.append(draw_from(st.sampled_from([1, -1])) * whole * scale / 2**length)
        scale *= Fraction(1, 2 ** (word.precision + draw_from(st.integers(0, 9))))
    return definition.round_words(sum(words, Fraction(0)), fmt)


@pytest.mark.parametrize("name", ["float64x2", "float64x3", "float32x3", "float64_float32"])
@given(data=st.data())
def test_lines_of_awkward_numbers(name, data):
    """Exponents, norms, leading integers and rounded integers are those of the values."""
    fmt = FORMATS[name]
    line = data.draw(st.lists(awkward_numbers(fmt), min_size=1, max_size=4))
    words = np.array(line).T[:, None, None]
    x = widen.Words.of(fmt, [w.astype(f.name) for w, f in zip(words, fmt.words, strict=True)])
    numbers = definition.numbers(*words[:, 0, 0])
    operand = lines(stack(x)[None], "left", 1)
    contract = as_contract(data.draw(st.integers(1, 120)))
    for goal in (None, bounds.goal(contract, fmt.precision, len(line), 1, None)):
        found = cpu_lines.quantise(cpu_lines.survey(operand, goal), goal)
        wanted = definition.quantise_line(numbers, goal)
        survey = found.survey
        assert [int(z[0, 0]) for z in (survey.top, survey.q1, survey.q2, found.exponents)] == [
            wanted.top, wanted.q1, wanted.q2, wanted.exponent,
        ]  # fmt: skip
        assert bool(found.exact[0, 0]) == wanted.exact
        short = [definition._short(number, wanted.top) for number in numbers]
        assert cpu_certify.magnitudes(operand, found, np.float64).tolist() == [[short]]
    # Any exponent: the rounding point falls anywhere among the words.
    last = definition.quantise_line(numbers, None).exponent
    exponent = data.draw(st.integers(min(-3, last), max(last, -2)))
    moved = Quantised(found.survey, np.full((1, 1), exponent), found.exact, found.norm)
    scale = Fraction(2) ** exponent
    defined = definition.Line(
        tuple(tuple(round(part * scale) for part in number) for number in numbers),
        exponent, 0, 0, 0, exact=False,
    )  # fmt: skip
    width = max(int(moved.sigma.max()) + 1, 1)
    needs = Needs((float(width + 2), float(width + 2)), (width, width))
    for unit, system in (("fp64", None), ("int8", None), ("fp64", "digits"), ("int8", "digits")):
        layout = choose_layout(CONTRACTS["correct"], fmt, 4, UNITS[unit], system, needs, cap=None)
        planes = cpu_encode.encode(operand, moved, layout, 0)
        assert planes[:, 0].tolist() == definition.encode([defined], layout, 0)


# ── contracts and bounds ─────────────────────────────────────────────────────────────────────


@families
@some
@accuracies
def test_contracts_and_bounds(family, name, accuracy):
    a, b = draw_words(family, (4, 9, 3), 5, name)
    assert_words_kept(a, b, accuracy)


# ── one answer ───────────────────────────────────────────────────────────────────────────────


@some
@accuracies
def test_rows_blocks_threads_and_strides(name, accuracy):
    a, b = draw_words("phi2", (40, 33, 21), 6, name)
    wanted, info = widen.matmul(a, b, accuracy=accuracy, info=True)
    words = word_arrays(wanted)
    row = widen.matmul(a[7], b, accuracy=accuracy)
    assert_same_words(row, tuple(x[7] for x in words))
    column = widen.matmul(a, b[:, 4], accuracy=accuracy)
    assert_same_words(column, tuple(x[:, 4] for x in words))
    for workspace in (2**16, 2**18):
        assert_same_words(widen.matmul(a, b, accuracy=accuracy, workspace=workspace), wanted)
    batch = widen.Words.of(a.format, [np.stack([p[:, :20], p[:, 20:]], 1) for p in a.planes])
    found = widen.matmul(batch, b, accuracy=accuracy)
    assert_same_words(found, tuple(x.reshape(2, 20, 21) for x in words))
    for order in ("F", "C"):
        left, right = (
            widen.Words.of(x.format, [_laid_out(p, order) for p in x.planes]) for x in (a, b)
        )
        assert_same_words(widen.matmul(left, right, accuracy=accuracy), wanted)
    backwards = widen.matmul(a[::-1], b[:, ::-1], accuracy=accuracy)
    assert_same_words(backwards, tuple(x[::-1, ::-1] for x in words))
    with kernel_threads(1):
        assert_same_words(widen.matmul(a, b, accuracy=accuracy), wanted)
    assert info.bound.shape == wanted.shape


@some
@pytest.mark.parametrize("accuracy", ["standard", "correct"])
def test_repair_routes_give_the_same_bits(name, accuracy):
    a, b = draw_words("one huge", (33, 40, 34), 17, name)
    few, info = widen.matmul(a, b, accuracy=accuracy, info=True)
    assert info.repaired > 0
    with mock.patch.object(repair, "FEWEST_OPEN", 10**9):
        by_dots = widen.matmul(a, b, accuracy=accuracy)
    with mock.patch.multiple(repair, FEWEST_OPEN=0, DENSE=0.0, A_LINE=0):
        by_products = widen.matmul(a, b, accuracy=accuracy)
    assert_same_words(by_dots, few)
    assert_same_words(by_products, few)


def _laid_out(plane, order):
    """A plane (parts, m, n) elsewhere in memory, with gaps."""
    base = np.full((plane.shape[0], 2 * plane.shape[1], plane.shape[2] + 1), np.nan, plane.dtype,
                   order=order)  # fmt: skip
    base[:, ::2, 1:] = plane
    return base[:, ::2, 1:]


@some
def test_scaling_by_powers_of_two_changes_no_bit(name):
    a, b = draw_words("phi1", (6, 8, 5), 7, name)
    wanted = word_arrays(widen.matmul(a, b))
    for shift in (-17, 30):
        scaled = widen.Words.of(a.format, [p * p.dtype.type(2.0**shift) for p in a.planes])
        found = word_arrays(widen.matmul(scaled, b))
        for x, y in zip(found, wanted, strict=True):
            assert_same_bits(x, y * 2.0**shift)


# ── formats in and out ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("accuracy", ["standard", "correct"])
def test_plain_operands_and_results(accuracy):
    a, b = draw("phi1", (6, 9, 5), 8)
    wide_a = widen.Words(a, "float64x2")
    found = widen.matmul(a, b, dtype=widen.float64x2, accuracy=accuracy)
    assert_same_words(found, widen.matmul(wide_a, widen.Words(b, "float64x2"), accuracy=accuracy))
    assert_same_words(found, widen.matmul(wide_a, b, accuracy=accuracy))
    plain = widen.matmul(wide_a, b, dtype="float64", accuracy=accuracy)
    assert_same_bits(plain, widen.matmul(a, b, accuracy=accuracy))
    x, y = draw_words("phi1", (6, 9, 5), 9, "float64x3")
    found = widen.matmul(x, y, dtype="float64", accuracy="correct")
    exact = exact_values(x, y)
    assert_same_bits(found, rounded(exact, FORMATS["float64"])[0])
    mixed = widen.matmul(x, draw_words("phi1", (6, 9, 5), 9, "float32x2")[1], accuracy=accuracy)
    assert mixed.format is widen.float64x3
    both = widen.matmul(a + 1j * a, widen.Words(b, "float32x4"), accuracy=accuracy)
    assert both.format is widen.complex64x4
    real = widen.matmul(x, y, dtype=widen.complex128x3, accuracy=accuracy)
    assert_same_words(
        real, tuple(w + 0j for w in word_arrays(widen.matmul(x, y, accuracy=accuracy)))
    )


@pytest.mark.parametrize("name", [*SOME, "float64x8"])
@pytest.mark.parametrize("accuracy", ["standard", "correct"])
def test_gemm_is_rounded_once(name, accuracy):
    fmt = FORMATS[name]
    a, b = draw_words("phi1", (4, 6, 3), 10, name)
    c = draw_words("phi1", (4, 3, 2), 11, name)[0]
    alpha, beta = (-1.25 + 0.5j, 0.3 - 2j) if fmt.parts == 2 else (-1.25, 0.3)
    scalars = [(Fraction(x.real), Fraction(x.imag)) for x in (complex(alpha), complex(beta))]
    exact, added = exact_values(a, b), fractions_of(c)
    values = [
        [_plus(scalars, exact[i][j], added[i][j], fmt.parts) for j in range(3)] for i in range(4)
    ]
    found = widen.gemm(a, b, c, alpha=alpha, beta=beta, accuracy=accuracy)
    if accuracy == "correct":
        assert_same_words(found, rounded(values, fmt))
    small, info = widen.gemm(
        a, b, c, alpha=alpha, beta=beta, accuracy=accuracy, workspace=2**16, info=True
    )
    assert_same_words(small, found)
    for i, j in itertools.product(range(4), range(3)):
        words = zip(*parts_of(found)[i][j], strict=True)
        error = sum(
            (sum(map(Fraction, w)) - x) ** 2 for w, x in zip(words, values[i][j], strict=True)
        )
        assert error <= Fraction(float(info.bound[i, j])) ** 2
    into = c.copy()
    assert widen.gemm(a, b, into, alpha=alpha, beta=beta, accuracy=accuracy, out=into) is into
    assert_same_words(into, found)
    plain = np.asarray(word_arrays(c)[0])
    with_plain = widen.gemm(a, b, plain, beta=1.0, accuracy=accuracy)
    assert_same_words(
        with_plain, widen.gemm(a, b, words_of_plain(plain, fmt), beta=1.0, accuracy=accuracy)
    )


def words_of_plain(x, fmt):
    return widen.Words.from_words(np.array([x]), fmt)


def _plus(scalars, x, y, parts):
    if parts == 1:
        return (scalars[0][0] * x[0] + scalars[1][0] * y[0],)
    (p, q), (r, s) = scalars
    return (p * x[0] - q * x[1] + r * y[0] - s * y[1], p * x[1] + q * x[0] + r * y[1] + s * y[0])


@pytest.mark.parametrize("name", [*SOME, "float64x4"])
@accuracies
def test_encoded_words(name, accuracy):
    a, b = draw_words("phi1", (5, 12, 4), 12, name)
    wanted = widen.matmul(a, b, accuracy=accuracy)
    for unit in (None, "int8"):
        left = widen.encode(a, side="left", accuracy=accuracy, unit=unit)
        right = widen.encode(b, side="right", accuracy=accuracy, unit=unit)
        assert_same_words(widen.matmul(left, b, accuracy=accuracy), wanted)
        assert_same_words(widen.matmul(a, right, accuracy=accuracy), wanted)
        assert_same_words(widen.matmul(left, right, accuracy=accuracy), wanted)
    assert right.nbytes > b.nbytes
    with pytest.raises(ValueError, match=f"encoded for {name}"):
        widen.matmul(left, b, dtype="complex128" if FORMATS[name].parts == 2 else "float64",
                     accuracy=accuracy)  # fmt: skip


def test_shapes_and_results_given():
    a, b = draw_words("phi0.5", (4, 6, 3), 13, "float64x2")
    wanted = word_arrays(widen.matmul(a, b))
    dot = widen.matmul(a[0], b[:, 1])
    assert dot.shape == ()
    assert_same_words(dot, tuple(x[0, 1] for x in wanted))
    out = widen.Words(np.full((4, 3), np.nan), "float64x2")
    assert widen.matmul(a, b, out=out) is out
    assert_same_words(out, wanted)
    square = widen.Words(np.arange(9.0).reshape(3, 3) / 7, "float64x2")
    expected = widen.matmul(square, square)
    widen.matmul(square, square, out=square)
    assert_same_words(square, expected)
    many = widen.Words.of(b.format, [np.stack([p, 2 * p, 3 * p], 1) for p in b.planes])
    found = widen.matmul(a, many)
    assert found.shape == (3, 4, 3)
    for at in range(3):
        assert_same_words(found[at], widen.matmul(a, many[at]))
    each = widen.matmul(widen.Words.of(a.format, [p[:, None] for p in a.planes]), many[:, None])
    assert each.shape == (3, 1, 4, 3)
    empty = widen.matmul(a[:, :0], b[:0])
    assert [float(np.abs(p).max()) for p in empty.planes] == [0.0, 0.0]
    assert widen.matmul(a[:0], b).shape == (0, 3)
    assert widen.plan(a, b).result == "float64x2"
    assert "float64x2" in str(widen.plan((8, 8), (8, 8), dtype=widen.float64x2))


def test_tensors_on_a_cpu():
    torch = pytest.importorskip("torch")
    a, b = draw_words("phi1", (4, 6, 3), 14, "float64x2")
    left, right = (
        widen.Words.of(x.format, [torch.from_numpy(p.copy()) for p in x.planes]) for x in (a, b)
    )
    found, info = widen.matmul(left, right, info=True)
    assert isinstance(found.planes[0], torch.Tensor)
    assert isinstance(info.bound, torch.Tensor)
    assert_same_words(found, widen.matmul(a, b))
    plain = widen.matmul(left, right, dtype="float64")
    assert_same_bits(plain.numpy(), widen.matmul(a, b, dtype="float64"))
    assert_same_words(widen.matmul(torch.ones(2, 4, dtype=torch.float64), left),
                      widen.matmul(np.ones((2, 4)), a))  # fmt: skip


# ── special values ───────────────────────────────────────────────────────────────────────────


@wide
@pytest.mark.parametrize("accuracy", ["standard", "correct"])
def test_nan_and_infinity_stand_alone(name, accuracy):
    fmt = FORMATS[name]
    kind = complex if fmt.parts == 2 else float
    a, b = np.ones((4, 3), kind) / 3, np.ones((3, 5), kind) / 7
    a[1, 2], a[2, 0], b[1, 4], b[0, 3] = np.nan, np.inf, -np.inf, 0.0
    rng = np.random.default_rng(15)
    x, y = words_near(rng, a, fmt), words_near(rng, b, fmt)
    first, *lower = word_arrays(widen.matmul(x, y, accuracy=accuracy))
    with np.errstate(invalid="ignore"):
        product = widen.matmul(a, b)
    ordinary = np.isfinite(product)
    assert_same_bits(first[~ordinary], product[~ordinary])
    assert np.isfinite(first[ordinary]).all()
    assert all((word[~ordinary] == 0).all() for word in lower)
    c = np.ones((4, 5), kind)
    c[0, 0], c[3, 1] = np.inf, np.nan
    first, *lower = word_arrays(
        widen.gemm(x, y, words_near(rng, c, fmt), beta=2.0, accuracy=accuracy)
    )
    assert (np.isfinite(first) == np.isfinite(widen.gemm(a, b, c, beta=2.0))).all()
    assert all((word[~np.isfinite(first)] == 0).all() for word in lower)


@pytest.mark.parametrize("name", list(WORDS))
def test_overflow_underflow_and_zeros(name):
    fmt = FORMATS[name]
    top = np.ldexp(1.0, fmt.highest - 1)
    a = np.array([[top, top], [2.0 ** (fmt.words[0].lowest // 2), 0.0], [0.0, 0.0], [1.0, -1.0]])
    b = np.array([[2.0, 1.0, 2.0 ** (fmt.words[0].lowest // 2 - 9)], [2.0, -1.0, 0.0]])
    for accuracy in ("standard", "correct"):
        found = widen.matmul(words_of_plain(a, fmt), words_of_plain(b, fmt), accuracy=accuracy)
        exact = exact_values(words_of_plain(a, fmt), words_of_plain(b, fmt))
        assert_same_words(found, rounded(exact, fmt))
    assert word_arrays(found)[0][0, 0] == np.inf
    assert word_arrays(found)[1][0, 0] == 0.0


def test_what_cannot_be_given():
    a, b = draw_words("phi0.5", (4, 6, 3), 16, "float64x2")
    with pytest.raises(TypeError, match=r"widen\.Words"):
        widen.matmul(a, b, out=np.empty((4, 3)))
    with pytest.raises(ValueError, match=r"shape \(4, 3\) and float64x2"):
        widen.matmul(a, b, out=widen.Words(np.zeros((4, 4)), "float64x2"))
    with pytest.raises(ValueError, match="float64x2"):
        widen.matmul(a, b, dtype="float64x5")
    with pytest.raises(ValueError, match="complex128x2"):
        widen.matmul(a, 1j * np.ones((6, 3)), dtype=widen.float64x2)
    with pytest.raises(ValueError, match="do not match"):
        widen.matmul(a, a)
    frozen = widen.Words(np.zeros((4, 3)), "float64x2")
    for plane in frozen.planes:
        plane.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        widen.matmul(a, b, out=frozen)


def test_every_complex_format_is_drawn():
    assert {name for name in COMPLEX if name not in PLAIN} <= set(WIDE)
