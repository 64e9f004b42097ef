"""`linalg.solve` and `linalg.inv` against python-flint's exact solutions, rounded by MPFR."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import exact_systems as systems
import widen
from helpers import assert_same_bits
from widen.formats import FORMATS, WORDS
from widen.linalg import NotProvenError, SingularMatrixError
from widen.linalg.refine import Refiner
from widen.linalg.system import solve_real

linalg = widen.linalg


def rng_of(*seed):
    return np.random.default_rng(seed)


def assert_exact(a, b, name="float64", **options):
    """The solution has the words of the exact one."""
    found = linalg.solve(a, b, dtype=name, **options)
    wanted = systems.rounded(systems.exact_solution(a, b), name)
    if name in WORDS:
        for plane, words in zip(found.planes, wanted, strict=True):
            assert_same_bits(plane[0].astype(float), words)
    else:
        assert_same_bits(found.astype(float), wanted)


FAMILIES = {
    "gaussian": systems.gaussian,
    "cond 1e6": lambda rng, n: systems.conditioned(rng, n, 6),
    "cond 1e13": lambda rng, n: systems.conditioned(rng, n, 13),
    "cond 1e18": lambda rng, n: systems.conditioned(rng, n, 18),
    "integers": systems.integers,
    "graded": systems.graded,
    "tied": systems.tied,
    "triangular": systems.triangular,
    "hilbert": lambda rng, n: (systems.hilbert(n), np.eye(n)),
    "pascal": lambda rng, n: (systems.pascal(n), rng.standard_normal((n, 2))),
    "vandermonde": lambda rng, n: (systems.vandermonde(n), np.ones((n, 1))),
    "unimodular": lambda rng, n: (systems.unimodular(rng, n, 20 * n), np.eye(n)),
    "bidiagonal": lambda rng, n: (systems.bidiagonal(rng, n, 2.0**12), np.ones((n, 1))),
    "subnormal": lambda rng, n: systems.subnormal(rng, n),
    "huge": lambda rng, n: systems.huge(rng, n),
    "far apart": lambda rng, n: systems.far_apart(rng, n),
    "near ties": systems.near_ties,
}
RESULTS = ["float64", "float32", *WORDS]


@pytest.mark.covering(1)
@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_in_every_format(family, name):
    for n in (1, 2, 5, 9):
        assert_exact(*FAMILIES[family](rng_of(n, 1), n), name)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family(family):
    for n in (3, 12):
        assert_exact(*FAMILIES[family](rng_of(n, 2), n))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_often(family):
    same = family in ("hilbert", "vandermonde")  # whatever the seed
    for n in (1, 2, 3, 4, 6, 8, 11, 15, 20 if family != "far apart" else 12):
        for seed in range(1 if same else 8):
            a, b = FAMILIES[family](rng_of(n, seed, 3), n)
            assert_exact(a, b)
            assert_exact(a, b, "float64x2")


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gaussian", "cond 1e6", "cond 1e13", "triangular", "graded"])
def test_larger_inverses(family):
    n = 40 if family == "triangular" else 100
    a, _ = FAMILIES[family](rng_of(7), n)
    assert_exact(a, np.eye(n))


@pytest.mark.parametrize(("n", "factor", "digits"), [(30, 1e3, 80), (40, 2.0**16, 180)])
def test_condition_numbers_beyond_1e80(n, factor, digits):
    a = systems.bidiagonal(rng_of(n), n, factor)
    a = systems.hidden(rng_of(n, 5), a)
    _, info = linalg.solve(a, np.ones(n), info=True)
    assert info.condition > 10.0**digits
    assert_exact(a, np.ones((n, 1)))


@given(st.data())
def test_small_systems_of_any_floats(data):
    n = data.draw(st.integers(1, 3))
    floats = st.floats(allow_nan=False, allow_infinity=False)
    numbers = st.one_of(floats, st.integers(-4, 4).map(float))
    a = np.array(data.draw(st.lists(numbers, min_size=n * n, max_size=n * n))).reshape(n, n)
    b = np.array(data.draw(st.lists(numbers, min_size=n, max_size=n))).reshape(n, 1)
    if systems.rational_matrix(a).det() == 0:
        with pytest.raises(SingularMatrixError):
            linalg.solve(a, b)
    else:
        assert_exact(a, b)


# ── singular ones ────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "a",
    [
        np.ones((4, 4)),
        np.arange(9.0).reshape(3, 3),
        np.zeros((2, 2)),
        np.diag([1.0, 0.0, 2.0]),
        np.array([[1.0, 2.0], [2.0, 4.0]]) * 2.0**-1060,
        np.outer(np.arange(1.0, 41), np.arange(1.0, 41)) + np.eye(40, k=1)[:, ::-1] * 0,
        np.array([[0.1, 0.2], [0.2, 0.4]]),
    ],
)
def test_singular_matrices_are_never_answered(a):
    for call in (lambda: linalg.inv(a), lambda: linalg.solve(a, np.ones(len(a)))):
        with pytest.raises(SingularMatrixError, match="singular"):
            call()


def test_singular_random_integers_are_found_out():
    found = 0
    for seed in range(60):
        a = rng_of(seed).integers(-1, 2, (4, 4)).astype(float)
        if round(np.linalg.det(a)) == 0:
            found += 1
            with pytest.raises(SingularMatrixError):
                linalg.inv(a)
    assert found > 5


def test_zero_modulo_two_primes_is_not_singular():
    p, q = 8388593.0, 8388587.0  # the first two primes that are tried
    a = np.zeros((4, 4))
    a[:2, :2] = [[2.0**52 + 1, 2.0**52], [2.0**52 + 2, 2.0**52 + 1]]
    a[2, 2], a[3, 3] = p, q
    assert_exact(a, np.ones((4, 1)))


def test_errors_are_those_of_numpy():
    assert issubclass(SingularMatrixError, np.linalg.LinAlgError)
    assert issubclass(NotProvenError, np.linalg.LinAlgError)


# ── known hard cases ─────────────────────────────────────────────────────────


def test_the_tie_between_the_largest_number_and_infinity():
    a, b = np.array([[0.25, 0.25], [0.0, 1.0]]), np.array([[2.0**1022], [2.0**970]])
    assert linalg.solve(a, b)[0, 0] == np.inf
    assert_exact(a, b)


def test_a_singular_computed_inverse():
    a = np.array([[-3.0, -7.0], [-3.0, -6.999999999999999]])
    assert_exact(a, np.eye(2))


@pytest.mark.parametrize("name", ["float64x2", "float64x4"])
def test_numbers_that_end_in_few_words(name):
    a = np.diag([1.0, 2.0**150, 3.0])
    a[0, 1] = 1.0
    assert_exact(a, np.ones((3, 1)), name)


def test_any_starting_inverse_gives_the_same_bits(monkeypatch):
    from widen.linalg import arrays

    a, b = systems.conditioned(rng_of(3), 30, 9)
    wanted = linalg.solve(a, b)
    noise = rng_of(4).standard_normal(a.shape)
    starts = {
        "transposed": lambda x: np.linalg.inv(x.T).T,
        "rows backwards": lambda x: np.linalg.inv(x[::-1])[:, ::-1],
        "singular values": np.linalg.pinv,
        "noise": lambda x: np.linalg.inv(x) * (1 + 1e-12 * noise),
    }
    for start in starts.values():
        monkeypatch.setattr(arrays, "inverse", start)
        assert_same_bits(linalg.solve(a, b), wanted)


def test_enclosures_contain_the_exact_solution(monkeypatch):
    """Those of every step, on the way."""
    seen = []
    step = Refiner._step

    def watched(self, now, width):
        after, radius = step(self, now, width)
        seen.append((self.system, after.at.copy(), after.x.copy(), radius.copy()))
        return after, radius

    monkeypatch.setattr(Refiner, "_step", watched)
    count = 0
    for family in ("gaussian", "cond 1e6", "cond 1e13", "cond 1e18", "integers", "tied"):
        a, b = FAMILIES[family](rng_of(9, 9), 20)
        exact = systems.exact_solution(a, b)
        solve_real(a, b, FORMATS["float64"])
        assert seen
        for system, at, x, radius in seen:
            for j, column in enumerate(at.tolist()):
                for i in range(len(a)):
                    power = systems.power_of_two(int(system.exponents([column])[i, 0]))
                    value = systems.as_rational(x[i, j].to_fraction()) * power
                    assert abs(value - exact[i, column]) <= systems.rational(radius[i, j]) * power
                    count += 1
        seen.clear()
    assert count > 200


@pytest.mark.parametrize("family", ["gaussian", "cond 1e6", "cond 1e13", "cond 1e18", "graded"])
@pytest.mark.parametrize("accuracy", ["correct", "enclosed"])
def test_radii_hold(family, accuracy):
    a, b = FAMILIES[family](rng_of(8, 8), 15)
    x, info = linalg.solve(a, b, accuracy=accuracy, info=True)
    exact = systems.exact_solution(a, b)
    for value, radius, q in zip(x.ravel(), info.radius.ravel(), exact.ravel(), strict=True):
        assert abs(systems.rational(value) - q) <= systems.rational(radius)
        assert radius <= 2.0**-50 * abs(value) + 2.0**-90 * abs(x).max()


# ── arguments ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
def test_narrow_formats(kind):
    dtype = ml_dtypes.bfloat16 if kind == "bfloat16" else kind
    a, b = (x.astype(dtype) for x in systems.gaussian(rng_of(5), 6))
    found = linalg.solve(a, b)
    assert found.dtype == np.float32
    exact = systems.exact_solution(a.astype(float), b.astype(float))
    assert_same_bits(found.astype(float), systems.rounded(exact, "float32"))


@pytest.mark.parametrize("kind", ["complex128", "complex64"])
@pytest.mark.parametrize("which", ["both", "matrix", "sides"])
def test_complex_systems(kind, which):
    rng = rng_of(6)
    n = 5
    a, c, b, d = (rng.standard_normal((n, n)).astype("f4").astype(float) for _ in range(4))
    c, d = c * (which != "sides"), d * (which != "matrix")
    matrix = a + 1j * c if which != "sides" else a
    sides = b + 1j * d if which != "matrix" else b
    narrow = (lambda x: x.astype("complex64" if x.dtype.kind == "c" else "f4")) \
        if kind == "complex64" else (lambda x: x)  # fmt: skip
    found = linalg.solve(narrow(matrix), narrow(sides))
    assert found.dtype == kind
    exact = systems.exact_solution(np.block([[a, -c], [c, a]]), np.vstack([b, d]))
    name = "float64" if kind == "complex128" else "float32"
    assert_same_bits(found.real.astype(float), systems.rounded(exact[:n], name))
    assert_same_bits(found.imag.astype(float), systems.rounded(exact[n:], name))


@pytest.mark.parametrize("name", ["float64x2", "float64x4", "float32x3", "float64_float32"])
def test_words_as_operands(name):
    rng = rng_of(7)
    a = widen.Words([[f"1/{i + j + 1}" for j in range(7)] for i in range(7)], name)
    b = widen.Words(rng.standard_normal((7, 2)).astype("f4"), name)
    found = linalg.solve(a, b)
    assert found.format.name == name
    for plane, words in zip(
        found.planes, systems.rounded(systems.exact_solution(a, b), name), strict=True
    ):
        assert_same_bits(plane[0].astype(float), words)


def test_complex_words():
    a = widen.Words([["0.1+1j", "2"], ["1j", "1/7"]], "complex128x2")
    found = linalg.inv(a)
    re, im = a.real.to_fraction(), a.imag.to_fraction()
    whole = np.block([[re, -im], [im, re]])
    exact = systems.inverse_of_fractions(whole)
    for plane, (first, second) in zip(
        found.planes,
        zip(systems.rounded(exact[:2, :2], "float64x2"),
            systems.rounded(exact[2:, :2], "float64x2"), strict=True),
        strict=True,
    ):  # fmt: skip
        assert_same_bits(plane[0], first)
        assert_same_bits(plane[1], second)


@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 3, 3), (3,)), ((2, 3, 3), (2, 3, 4)),
     ((3, 3), (2, 3, 1)), ((2, 1, 3, 3), (4, 3, 2)), ((0, 0), (0, 2)), ((0, 0), (0,)),
     ((3, 3), (3, 0)), ((0, 3, 3), (0, 3, 1)), ((1, 1), (1,))],
)  # fmt: skip
def test_shapes_are_numpy_s(left, right):
    a, b = rng_of(1).standard_normal(left), rng_of(2).standard_normal(right)
    found, wanted = linalg.solve(a, b), np.linalg.solve(a, b)
    assert found.shape == wanted.shape
    assert np.allclose(found, wanted)
    assert linalg.inv(a).shape == a.shape


def test_tensors_get_tensors():
    a, b = systems.gaussian(rng_of(1), 6)
    wanted = linalg.solve(a, b)
    found, info = linalg.solve(torch.from_numpy(a), torch.from_numpy(b), info=True)
    assert isinstance(found, torch.Tensor)
    assert isinstance(info.radius, torch.Tensor)
    assert_same_bits(found.numpy(), wanted)


@pytest.mark.parametrize("family", ["gaussian", "cond 1e18", "tied", "triangular", "subnormal"])
@pytest.mark.parametrize("name", ["float64", "float32", "float64x2"])
def test_the_way_of_tensors_gives_the_same_bits(family, name):
    """What runs on a GPU, here on a CPU: every step of it in PyTorch."""
    a, b = FAMILIES[family](rng_of(2, 2), 8)
    ours, _ = solve_real(torch.from_numpy(a), torch.from_numpy(b), FORMATS[name])
    theirs, _ = solve_real(a, b, FORMATS[name])
    for x, y in zip(ours.planes, theirs.planes, strict=True):
        assert_same_bits(x.numpy(), y)


@pytest.mark.gpu
@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "far apart"])
@pytest.mark.parametrize("name", ["float64", "float32", "float64x2", "float64x4"])
def test_a_gpu_gives_the_bits_of_a_cpu(family, name):
    for n in (5, 40):
        n = min(n, 12) if family in ("hilbert", "pascal", "vandermonde", "bidiagonal") else n
        a, b = FAMILIES[family](rng_of(n, 4), n)
        found = linalg.solve(*(torch.from_numpy(x).cuda() for x in (a, b)), dtype=name)
        wanted = linalg.solve(a, b, dtype=name)
        if name in WORDS:
            for x, y in zip(found.planes, wanted.planes, strict=True):
                assert_same_bits(x.cpu().numpy(), y)
        else:
            assert_same_bits(found.cpu().numpy(), wanted)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: linalg.solve(np.array([[np.nan]]), np.ones(1)), ValueError, "a holds NaN"),
        (lambda: linalg.solve(np.eye(1), np.array([np.inf])), ValueError, "b holds NaN"),
        (lambda: linalg.solve(np.ones((2, 3)), np.ones(2)), ValueError, "square"),
        (lambda: linalg.solve(np.eye(2), np.ones(3)), ValueError, "b needs 2 rows"),
        (lambda: linalg.solve(np.ones((2, 2, 2)), np.ones((3, 2, 1))), ValueError, "broadcast"),
        (lambda: linalg.inv(np.eye(2), accuracy="standard"), ValueError, "'enclosed'"),
        (lambda: linalg.inv(np.eye(2) * 1j, dtype="float64"), ValueError, "imaginary"),
        (lambda: linalg.inv(np.ones(3)), ValueError, "square"),
    ],
)
def test_what_is_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("lower", [True, False])
def test_triangles(lower):
    a, b = systems.gaussian(rng_of(3), 7)
    triangle = np.tril(a) if lower else np.triu(a)
    wanted = systems.rounded(systems.exact_solution(triangle, b))
    for given_matrix in (a, triangle):
        assert_same_bits(linalg.solve_triangular(given_matrix, b, lower=lower), wanted)
    words = linalg.solve_triangular(widen.Words(a, "float64x2"), b, lower=lower)
    assert_same_bits(words.to_numpy(), wanted)
    with pytest.raises(SingularMatrixError):
        linalg.solve_triangular(a - np.diag(np.diagonal(a)), b, lower=lower)


def test_info_says_what_was_proven():
    a, b = systems.conditioned(rng_of(1), 20, 5)
    _, info = linalg.solve(a, b, info=True)
    assert 1e4 < info.condition < 1e8
    assert info.words == (1, 2)
    assert info.iterations >= 1
    assert {"scale", "invert", "refine"} <= set(info.seconds)
    assert "rounded once" in str(info)
    assert "1.0e" in str(info) or "e+0" in str(info)


@pytest.mark.parametrize("family", ["gaussian", "cond 1e18", "tied", "far apart"])
def test_progress_goes_from_nothing_to_all(family):
    a, b = FAMILIES[family](rng_of(1, 6), 6)
    shares = []
    linalg.solve(np.stack([a, a]), np.stack([b, b]), progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert any(0 < share < 0.5 for share in shares)
    linalg.solve(a, b)
    assert shares[-1] == 1  # nobody listens any more
