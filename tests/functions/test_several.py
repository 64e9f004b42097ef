"""Products of three and more operands, exact and rounded once: the bits of the definition."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import widen
from widen.formats import FORMATS
from widen.stages.rounding import round_words


def value(x: complex) -> tuple[Fraction, Fraction]:
    return Fraction(float(np.real(x))), Fraction(float(np.imag(x)))


def times(x: tuple[Fraction, Fraction], y: tuple[Fraction, Fraction]) -> tuple[Fraction, Fraction]:
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def defined(
    subscripts: str, *operands: np.ndarray
) -> dict[tuple[int, ...], tuple[Fraction, Fraction]]:
    """Every element of an Einstein sum, by its definition."""
    inputs, output = subscripts.split("->")
    words = inputs.split(",")
    sizes: dict[str, int] = {}
    for word, x in zip(words, operands, strict=True):
        sizes.update({label: size for label, size in zip(word, x.shape, strict=True) if size > 1
                      or label not in sizes})  # fmt: skip
    found: dict[tuple[int, ...], tuple[Fraction, Fraction]] = {
        at: (Fraction(0), Fraction(0))
        for at in itertools.product(*(range(sizes[x]) for x in output))
    }
    labels = list(sizes)
    for place in itertools.product(*(range(sizes[x]) for x in labels)):
        at = dict(zip(labels, place, strict=True))
        term = (Fraction(1), Fraction(0))
        for word, x in zip(words, operands, strict=True):
            index = tuple(at[label] if x.shape[i] > 1 else 0 for i, label in enumerate(word))
            term = times(term, value(x[index]))
        key = tuple(at[label] for label in output)
        found[key] = found[key][0] + term[0], found[key][1] + term[1]
    return found


def rounded(parts: tuple[Fraction, Fraction], dtype: str) -> complex | float:
    fmt = FORMATS[dtype]
    numbers = [round_words(part, fmt.part)[0] for part in parts]
    return complex(*numbers) if fmt.parts == 2 else numbers[0]


def check(
    subscripts: str, *operands: np.ndarray, dtype: str | None = None, **options: object
) -> None:
    """The result of einsum has the bits of the definition."""
    result = widen.einsum(subscripts, *operands, accuracy="correct", dtype=dtype, **options)
    name = np.asarray(result).dtype.name
    for at, parts in defined(subscripts, *operands).items():
        assert np.asarray(result)[at] == rounded(parts, name), at


FORMS = [
    ("ij,jk,kl->il", ((3, 4), (4, 2), (2, 3))),
    ("i,ij,j->", ((3,), (3, 2), (2,))),
    ("bij,bj,bk->ik", ((2, 3, 2), (2, 2), (2, 2))),
    ("ij,ij,ij->i", ((2, 3), (2, 3), (1, 3))),
    ("ij,jk,kl,lm->im", ((2, 3), (3, 2), (2, 2), (2, 2))),
    ("ii,ij,j->i", ((3, 3), (3, 2), (2,))),
]


@st.composite
def numbers(draw: st.DrawFn, shape: tuple[int, ...]) -> np.ndarray:
    """Arrays of floats: tame, wide apart, or so that sums cancel."""
    kind = draw(st.sampled_from(["tame", "wide", "integers", "extreme"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    if kind == "integers":
        return rng.integers(-3, 4, shape).astype(float)
    spread = {"tame": 2, "wide": 90, "extreme": 1000}[kind]
    x = rng.standard_normal(shape) * 2.0 ** rng.integers(-spread, spread + 1, shape)
    return np.where(rng.random(shape) < 0.2, 0.0, x)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_several_operands_are_rounded_once(data: st.DataObject) -> None:
    subscripts, shapes = data.draw(st.sampled_from(FORMS))
    operands = [data.draw(numbers(shape)) for shape in shapes]
    if data.draw(st.booleans()):  # a pair of lines that cancels
        operands[0] = np.concatenate([operands[0], operands[0]])[: operands[0].shape[0]]
        operands[0][..., -1] *= -1
    if data.draw(st.booleans()):
        operands[-1] = operands[-1] + 1j * operands[-1][::-1]
    check(subscripts, *operands)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_ties_and_what_is_beside_them_are_decided(dtype: str) -> None:
    """1 + u/2 is a tie; with 2^-900 more, or less, it is none, in the third operand's last bits."""
    half = 2.0 ** -FORMATS[dtype].precision
    for rest in (0.0, 2.0**-450, -(2.0**-450)):
        a, b = np.array([[1.0, half, 2.0**-450]]), np.diag([1.0, 1.0, 1.0])
        check("ij,jk,k->i", a, b, np.array([1.0, 1.0, rest]), dtype=dtype)


def test_orders_and_batches_do_not_change_a_bit() -> None:
    rng = np.random.default_rng(0)
    a, b, c, d = (
        rng.standard_normal((6, 7, 7)) * 2.0 ** rng.integers(-60, 60, (6, 7, 7)) for _ in "abcd"
    )
    form = "xij,xjk,xkl,xlm->xim"
    whole = widen.einsum(form, a, b, c, d, accuracy="correct")
    for path in ([(0, 1), (0, 2), (0, 1)], [(2, 3), (1, 2), (0, 1)], True, "optimal"):
        assert np.array_equal(
            whole, widen.einsum(form, a, b, c, d, accuracy="correct", optimize=path)
        )
    for at in range(6):
        chain = widen.multi_dot([x[at] for x in (a, b, c, d)], accuracy="correct")
        assert np.array_equal(chain, whole[at])


def test_words_hold_what_is_asked_for() -> None:
    rng = np.random.default_rng(1)
    a, b, c = (rng.standard_normal((2, 2)) for _ in "abc")
    result = widen.multi_dot([a, b, c], accuracy="correct", dtype=widen.float64x3)
    for at, (exact, _) in defined("ij,jk,kl->il", a, b, c).items():
        expected = round_words(exact, FORMATS["float64x3"].part)
        assert tuple(float(plane[0][at]) for plane in result.planes) == expected
    words = widen.Words(a, dtype=widen.float64x2)
    again = widen.multi_dot([words, b, c], accuracy="correct", dtype=widen.float64x3)
    assert all(np.array_equal(x, y) for x, y in zip(again.planes, result.planes, strict=True))


@pytest.mark.parametrize("n", [3, 5, 12, 60])
@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
def test_powers_are_rounded_once(n: int, size: float) -> None:
    """Also where squares in between are beyond the range, or below it."""
    rng = np.random.default_rng(n)
    a = rng.standard_normal((2, 3, 3)) * size
    a[1] = np.triu(a[1])
    result = widen.matrix_power(a, n, accuracy="correct")
    exact = np.vectorize(Fraction)(a)
    power = exact
    for _ in range(n - 1):
        power = np.stack([x @ y for x, y in zip(power, exact, strict=True)])
    for at in np.ndindex(a.shape):
        assert result[at] == rounded((power[at], Fraction(0)), "float64"), at


def test_complex_powers_are_rounded_once() -> None:
    rng = np.random.default_rng(3)
    a = rng.standard_normal((2, 2)) + 1j * rng.standard_normal((2, 2))
    result = widen.matrix_power(a, 9, accuracy="correct")
    form = ",".join(f"{x}{y}" for x, y in itertools.pairwise("abcdefghij")) + "->aj"
    for at, parts in defined(form, *[a] * 9).items():
        assert result[at] == rounded(parts, "complex128")


def test_nilpotent_powers_are_exactly_zero() -> None:
    rng = np.random.default_rng(4)
    a = np.triu(rng.standard_normal((4, 4)), 1)
    assert not widen.matrix_power(a, 4, accuracy="correct").any()
    turned = np.array([[0.1, -0.1], [0.1, -0.1]])
    assert not widen.matrix_power(turned, 3, accuracy="correct").any()


def test_results_out_of_range_are_infinite_or_zero() -> None:
    big = np.full((2, 2), 1e200)
    assert np.isinf(widen.matrix_power(big, 9, accuracy="correct")).all()
    assert np.array_equal(widen.matrix_power(1 / big, 9, accuracy="correct"), np.zeros((2, 2)))
    middle = widen.multi_dot([big, big, 1 / big, 1 / big], accuracy="correct")
    one = Fraction(1e200) ** 2 * Fraction(1 / 1e200) ** 2 * 8
    assert (middle == rounded((one, Fraction(0)), "float64")).all()


def test_nan_and_infinities_reach_their_lines_only() -> None:
    rng = np.random.default_rng(5)
    a, b, c = (rng.standard_normal((3, 3)) for _ in "abc")
    clean = widen.multi_dot([a, b, c], accuracy="correct")
    a[0, 1], c[2, 2] = np.nan, np.inf
    result = widen.multi_dot([a, b, c], accuracy="correct")
    assert np.isnan(result[0]).all()
    assert np.array_equal(result[1:, :2], clean[1:, :2])
    assert np.isinf(result[1:, 2]).all()


def test_integers_stay_integers_and_become_floats_once() -> None:
    a = np.array([[3, 1], [2, 2**31]])
    assert widen.multi_dot([a, a, [1, 1]], accuracy="correct").dtype == np.int64
    result = widen.multi_dot([a, a, a], accuracy="correct", dtype="float32")
    exact = a.astype(object) @ a.astype(object) @ a.astype(object)
    for at in np.ndindex(2, 2):
        assert result[at] == rounded((Fraction(int(exact[at])), Fraction(0)), "float32")


def test_empty_operands() -> None:
    result = widen.einsum("ij,jk,kl->il", np.ones((2, 0)), np.ones((0, 3)), np.ones((3, 2)),
                          accuracy="correct")  # fmt: skip
    assert np.array_equal(result, np.zeros((2, 2)))
    assert widen.multi_dot([np.ones((0, 2)), np.ones((2, 2)), np.ones((2, 3))],
                           accuracy="correct").shape == (0, 3)  # fmt: skip


def test_tensors_have_the_same_bits_and_gradients() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(6)
    arrays = [rng.standard_normal((3, 3)) * 2.0 ** rng.integers(-90, 90, (3, 3)) for _ in "abc"]
    expected = widen.multi_dot(arrays, accuracy="correct")
    tensors = [torch.tensor(x, requires_grad=True) for x in arrays]
    result = widen.multi_dot(tensors, accuracy="correct")
    assert np.array_equal(result.detach().numpy(), expected)
    result.sum().backward()
    ones = np.ones((3, 3))
    left = widen.matmul(ones, widen.matmul(arrays[1], arrays[2], accuracy="correct").T,
                        accuracy="correct")  # fmt: skip
    assert np.array_equal(tensors[0].grad.numpy(), left)
    half = [torch.randn(4, 4).bfloat16() for _ in "abc"]
    once = widen.einsum("ij,jk,kl->il", *half, accuracy="correct")
    wide = widen.einsum("ij,jk,kl->il", *(x.double() for x in half), accuracy="correct",
                        dtype="bfloat16")  # fmt: skip
    assert once.dtype == torch.bfloat16
    assert torch.equal(once, wide)


def test_gradients_of_gradients() -> None:
    torch = pytest.importorskip("torch")
    a = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    power = lambda x: widen.matrix_power(x, 3, accuracy="correct")  # noqa: E731
    assert torch.autograd.gradcheck(power, a)
    assert torch.autograd.gradgradcheck(power, a)


def test_numbers_that_cannot_be_seen_are_refused() -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(2, 3, 3)
    power = lambda y: widen.matrix_power(y, 3, accuracy="correct")  # noqa: E731
    with pytest.raises(TypeError, match="looks at their numbers"):
        torch.vmap(power)(x)
    with pytest.raises(TypeError, match="looks at their numbers"):
        power(x.to("meta"))
