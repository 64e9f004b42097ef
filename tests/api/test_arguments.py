"""Refusals name their fix; plans, contracts, workspaces, progress and info say what they should."""

from __future__ import annotations

import dataclasses
import itertools
import subprocess
import sys
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import widen
from widen.calls.check import workspace_bytes
from widen.contract import CONTRACTS, LARGEST_BUDGET, as_contract
from widen.formats import PLAIN
from widen.planner import DEFAULT_WORKSPACE, SMALLEST_WORKSPACE
from widen.stages.problem import STAGES
from widen.systems import SYSTEMS
from widen.testing import FAMILIES
from widen.units import UNITS

A, B = np.ones((2, 3)), np.ones((3, 2))
EVERY_CONTRACT = [*CONTRACTS, 40]
FORBIDDEN = ("\n", "Traceback", "object at 0x", "numba")


def refusal(error, call, *words):
    """The error's message, checked: its type, one line, and the words that name the fix."""
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert type(caught.value) is error
    for word in FORBIDDEN:
        assert word not in message
    assert 20 < len(message) < 300
    for word in words:
        assert word in message
    return message


class Duck:
    """Something that offers DLPack, as tensors of other libraries do."""

    def __dlpack__(self):
        raise NotImplementedError


OPERANDS = {
    "large integers": (np.full((2, 3), 2**53 + 1), ValueError, ["9007199254740993", "widen.Words"]),
    "a number": (1.0, ValueError, ["scalar", "use *"]),
    "a set": ({1.0}, TypeError, ["a set", "np.asarray({name}, float)"]),
    "nothing": (None, TypeError, ["NumPy arrays"]),
    "a masked array": (np.ma.ones((2, 3)), TypeError, ["masked array", "{name}.filled(0)"]),
    "objects": (np.ones((2, 3), object), TypeError, ["object", "{name}.astype(float)"]),
    "extended precision": (np.ones((2, 3), "longdouble"), TypeError, ["widen.Words({name}, "]),
    "extended complex": (np.ones((2, 3), "clongdouble"), TypeError, ["widen.Words({name}, "]),
    "strings": (np.full((2, 3), "1.0"), TypeError, ["str", "{name}.astype(float)"]),
    "dates": (np.zeros((2, 3), "datetime64[s]"), TypeError, ["datetime64", "float64"]),
    "records": (np.zeros((2, 3), [("x", "f8")]), TypeError, ["float64", "{name}"]),
    "raw bits": (np.zeros((2, 3), "V2"), TypeError, ["{name}.view(ml_dtypes.bfloat16)"]),
    "float8": (np.ones((2, 3), ml_dtypes.float8_e4m3fn), TypeError, ["float8", "{name}.astype"]),
    "a scalar array": (np.array(1.0), ValueError, ["scalar", "vectors and matrices", "use *"]),
    "another library": (Duck(), TypeError, ["Duck", "does not become an array by DLPack"]),
}


@pytest.mark.parametrize("kind", OPERANDS)
@pytest.mark.parametrize("function", ["matmul", "gemm", "plan", "encode"])
def test_operands_that_are_refused(kind, function):
    bad, error, words = OPERANDS[kind]

    def expected(name):
        return [name, *(word.format(name=name) for word in words)]

    if function == "encode":
        refusal(error, lambda: widen.encode(bad, side="left"), *expected("x"))
        return
    call = getattr(widen, function)
    refusal(error, lambda: call(bad, B), *expected("a"))
    refusal(error, lambda: call(A, bad), *expected("b"))


def test_the_fix_for_large_integers_works():
    a = np.array([[2**53 + 1, 2**60 + 7]])
    message = refusal(ValueError, lambda: widen.matmul(a, B[:2, :1]))
    fix = message.rsplit("give ", 1)[1].partition(", which keeps")[0]
    found = widen.matmul(eval(fix, {"a": a, "widen": widen}), B[:2, :1])
    assert found.to_fraction().item() == 2**53 + 2**60 + 8


@pytest.mark.parametrize("dtype", ["longdouble", "clongdouble"])
def test_the_fix_for_long_doubles_keeps_their_bits(dtype):
    a = np.ldexp(np.arange(1, 7).astype("longdouble") / 7, [-900, -300, -1, 0, 60, 1000])
    a = a.reshape(2, 3) * (1 - 3j if dtype == "clongdouble" else 1)
    message = refusal(TypeError, lambda: widen.matmul(a, B), "which keeps all bits")
    fix = message.rsplit("give ", 1)[1].partition(", which")[0]
    x = eval(fix, {"a": a, "widen": widen})
    for words, exact in ((x.real, a.real), (x.imag, a.imag)):
        wanted = [Fraction(*number.as_integer_ratio()) for number in exact.flat]
        assert words.to_fraction().reshape(-1).tolist() == wanted
    assert widen.matmul(x, B).dtype == x.dtype


@pytest.mark.parametrize(
    ("left", "right", "words"),
    [
        ((2, 3), (2, 2), ["(2, 3) and (2, 2)", "a has 3 columns", "b has 2 rows"]),
        ((3,), (2,), ["(3,) and (2,)", "3 columns", "2 rows"]),
        ((2, 3), (4,), ["(2, 3) and (4,)", "4 rows"]),
        ((3,), (2, 2, 2), ["(3,) and (2, 2, 2)"]),
        ((2, 2, 3), (3, 3, 2), ["batch dimensions (2,) and (3,)", "do not broadcast"]),
        ((2, 1, 2, 3), (3, 5, 3, 2), ["(2, 1) and (3, 5)", "do not broadcast"]),
        ((0, 3), (0, 3), ["3 columns", "0 rows"]),
    ],
)
def test_shapes_that_do_not_match(left, right, words):
    words = [*words, "np.matmul's rules apply"]
    refusal(ValueError, lambda: widen.matmul(np.ones(left), np.ones(right)), *words)
    refusal(ValueError, lambda: widen.gemm(np.ones(left), np.ones(right)), *words)
    refusal(ValueError, lambda: widen.plan(np.ones(left), np.ones(right)), *words)
    refusal(ValueError, lambda: widen.plan(left, right), *words)


def test_an_inner_dimension_beyond_every_proof():
    long = np.broadcast_to(np.array(1.0), (1, 2**29))
    refusal(ValueError, lambda: widen.matmul(long, long.T), "536870912", "above")
    refusal(ValueError, lambda: widen.plan((1, 2**29), (2**29, 1)), "536870912", "above")


@pytest.mark.parametrize("accuracy", ["exact", "Correct", "", 60.0, True, [40], (), b"fast"])
def test_accuracies_that_are_not_known(accuracy):
    words = ["accuracy=", "'fast', 'standard', 'correct'", "number of bits"]
    refusal(ValueError, lambda: widen.matmul(A, B, accuracy=accuracy), *words)
    refusal(ValueError, lambda: widen.plan((2, 3), (3, 2), accuracy=accuracy), *words)
    refusal(ValueError, lambda: widen.encode(A, side="left", accuracy=accuracy), *words)


@pytest.mark.parametrize("bits", [0, -1, LARGEST_BUDGET + 1, 10**9])
def test_budgets_out_of_range(bits):
    words = [f"accuracy={bits}", "from 1 to 2000"]
    refusal(ValueError, lambda: widen.matmul(A, B, accuracy=bits), *words)


def test_contracts_are_parsed():
    for name, contract in CONTRACTS.items():
        assert as_contract(name) is contract
        assert as_contract(contract) is contract
        assert str(contract) == name
        assert contract.correct == (name == "correct")
        assert contract.promise
    for bits in (1, 40, np.int64(40), np.uint8(40), LARGEST_BUDGET):
        contract = as_contract(bits)
        assert contract.bits == bits
        assert str(contract) == str(int(bits))
        assert str(int(bits)) in contract.promise
        assert not contract.correct
    assert as_contract(40) == as_contract(np.int32(40))
    assert hash(as_contract(40)) == hash(as_contract(40))
    assert as_contract(40) != as_contract(41)
    with pytest.raises(dataclasses.FrozenInstanceError):
        as_contract("fast").bits = 3
    assert isinstance(as_contract("fast"), widen.Contract)
    for accuracy in EVERY_CONTRACT:
        again = as_contract(accuracy)
        result = widen.matmul(A / 3, B, accuracy=again)
        assert result.tobytes() == widen.matmul(A / 3, B, accuracy=accuracy).tobytes()


@pytest.mark.parametrize(
    "dtype", [ml_dtypes.float8_e4m3fn, int, bool, "longdouble", object, "float65", "double2"]
)
def test_results_of_other_formats(dtype):
    words = ["dtype=", "float64, float32, float16, bfloat16, complex128, complex64"]
    refusal(ValueError, lambda: widen.matmul(A, B, dtype=dtype), *words)
    refusal(ValueError, lambda: widen.plan((2, 3), (3, 2), dtype=dtype), *words)
    refusal(ValueError, lambda: widen.encode(A, side="left", dtype=dtype), *words)


def test_imaginary_parts_are_not_dropped():
    for dtype in ("float64", "float32"):
        words = [f"dtype={dtype}", "imaginary", "complex", ".real"]
        refusal(ValueError, lambda dtype=dtype: widen.matmul(A * 1j, B, dtype=dtype), *words)
        refusal(ValueError, lambda dtype=dtype: widen.matmul(A, B * 1j, dtype=dtype), *words)


@pytest.mark.parametrize("unit", ["int4", "FP64", "", 8, "tensor"])
def test_units_that_are_not_known(unit):
    words = [f"unit={unit!r}", *UNITS]
    refusal(ValueError, lambda: widen.matmul(A, B, unit=unit), *words)
    refusal(ValueError, lambda: widen.plan((2, 3), (3, 2), unit=unit), *words)
    refusal(ValueError, lambda: widen.encode(A, side="left", unit=unit), *words)


@pytest.mark.parametrize("system", ["residue", "Digits", "", 2, "words"])
def test_systems_that_are_not_known(system):
    words = [f"system={system!r}", *SYSTEMS]
    refusal(ValueError, lambda: widen.matmul(A, B, system=system), *words)
    refusal(ValueError, lambda: widen.plan((2, 3), (3, 2), system=system), *words)
    refusal(ValueError, lambda: widen.encode(A, side="left", system=system), *words)


def test_bad_words_are_refused_for_empty_results_too():
    empty = np.ones((0, 3))
    refusal(ValueError, lambda: widen.matmul(empty, B, unit="int4"), "unit='int4'")
    refusal(ValueError, lambda: widen.matmul(empty, B, system="words"), "system='words'")
    refusal(ValueError, lambda: widen.matmul(empty, B, accuracy="exact"), "accuracy='exact'")
    refusal(ValueError, lambda: widen.matmul(empty, B, workspace=1), "workspace=1")


def test_a_system_that_cannot_hold_the_product():
    a, b = FAMILIES["phi1"].make(np.random.default_rng(1), 4, 30, 4)
    a[:, 0], b[0] = a[:, 0] * 1e-140, b[0] * 1e-140
    call = {"unit": "fp8", "accuracy": 1000}
    words = ("bits", "system='digits'", "unit")
    refusal(ValueError, lambda: widen.matmul(a, b, system="residues", **call), *words)
    result, info = widen.matmul(a, b, info=True, **call)
    assert info.system == "digits"
    assert result.tobytes() == widen.matmul(a, b, accuracy=1000).tobytes()
    assert any("moduli" in reason for reason in info.plan.why)
    result, info = widen.matmul(a, b, unit="int8", accuracy=1000, info=True)
    assert info.system == "residues"
    assert result.tobytes() == widen.matmul(a, b, accuracy=1000).tobytes()
    assert any("in two digits of int8" in reason for reason in info.plan.why)


WORKSPACES = {
    None: DEFAULT_WORKSPACE,
    65536: 65536,
    np.int64(10**6): 10**6,
    "65536": 65536,
    "100KB": 10**5,
    "256MB": 256 * 10**6,
    "256 mb": 256 * 10**6,
    " 1GiB ": 2**30,
    "1.5GB": 15 * 10**8,
    ".5 MiB": 2**19,
    "2TB": 2 * 10**12,
    "1TiB": 2**40,
    "70000B": 70000,
}


@pytest.mark.parametrize("word", WORKSPACES)
def test_words_for_a_workspace(word):
    assert workspace_bytes(word) == WORKSPACES[word]
    assert widen.plan(A, B, workspace=word).workspace == WORKSPACES[word]
    assert widen.plan((2, 3), (3, 2), workspace=word).workspace == WORKSPACES[word]
    assert widen.matmul(A, B, workspace=word).tolist() == [[3.0, 3.0], [3.0, 3.0]]


@pytest.mark.parametrize(
    "word", ["lots", "MB", "1 2MB", "-1MB", "1XB", "", True, [1], "1e9", np.inf]
)
def test_words_that_are_no_workspace(word):
    words = ["workspace=", "bytes", "'256MB'"]
    refusal(ValueError, lambda: widen.matmul(A, B, workspace=word), *words)


@pytest.mark.parametrize("word", [0, -1, 1, SMALLEST_WORKSPACE - 1, "0MB", "64KB"])
def test_workspaces_that_are_too_small(word):
    words = ["workspace=", "too small", str(SMALLEST_WORKSPACE)]
    refusal(ValueError, lambda: widen.matmul(A, B, workspace=word), *words)
    refusal(ValueError, lambda: widen.plan((2, 3), (3, 2), workspace=word), *words)


def test_options_are_keywords():
    with pytest.raises(TypeError):
        widen.matmul(A, B, "correct")
    with pytest.raises(TypeError):
        widen.plan(A, B, "correct")
    with pytest.raises(TypeError, match="acuracy"):
        widen.matmul(A, B, acuracy="correct")


# ── plans ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("accuracy", EVERY_CONTRACT)
@pytest.mark.parametrize("dtype", PLAIN)
def test_a_plan_is_what_info_reports(accuracy, dtype):
    rng = np.random.default_rng(2)
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    for family in ("phi0.1", "phi4", "graded against"):
        a, b = FAMILIES[family].make(rng, 8, 40, 6)
        with np.errstate(over="ignore"):
            a, b = (np.clip(x, -1e4, 1e4).astype(kind) for x in (a, b))
        plan = widen.plan(a, b, accuracy=accuracy)
        _, info = widen.matmul(a, b, accuracy=accuracy, info=True)
        assert plan == info.plan
        assert plan.products == info.products
        assert plan.result == widen.matmul(a, b).dtype


@pytest.mark.parametrize(("unit", "system"), list(itertools.product(UNITS, SYSTEMS)))
def test_a_plan_uses_what_was_asked_for(unit, system):
    a, b = FAMILIES["phi1"].make(np.random.default_rng(3), 8, 40, 6)
    for plan in (
        widen.plan(a, b, unit=unit, system=system),
        widen.plan((8, 40), (40, 6), unit=unit, system=system),
    ):
        assert (plan.unit, plan.system) == (unit, system)
        assert f"unit={unit!r} was asked for" in "\n".join(plan.why)
        assert f"system={system!r} was asked for" in "\n".join(plan.why)
    _, info = widen.matmul(a, b, unit=unit, system=system, info=True)
    assert (info.unit, info.system) == (unit, system)


def test_a_plan_is_frozen_hashable_and_printable():
    plan = widen.plan((100, 200), (200, 50))
    assert isinstance(plan, widen.Plan)
    assert plan == widen.plan((100, 200), (200, 50))
    assert len({plan, widen.plan((100, 200), (200, 50)), widen.plan((1, 2), (2, 1))}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.unit = "fp32"
    text = str(plan)
    for word in (
        "100 x 200 times 200 x 50", "float64 result", "standard", plan.contract.promise,
        "residues", "fp64", f"{plan.products} exact products", "within", "because",
    ):  # fmt: skip
        assert word in text
    assert text.count("because") == len(plan.why) >= 2
    assert plan.why[-1] == "rows and columns of similar magnitudes are assumed"
    assert repr(plan).startswith("Plan(")


@pytest.mark.parametrize(
    ("left", "right", "shape"),
    [
        ((4, 5), (5, 6), (1, 4, 5, 6)),
        ((5,), (5,), (1, 1, 5, 1)),
        ((5,), (5, 6), (1, 1, 5, 6)),
        ((3, 1, 4, 5), (2, 5, 6), (6, 4, 5, 6)),
        ((0, 5), (5, 6), (1, 0, 5, 6)),
        ((4, 0), (0, 6), (1, 4, 0, 6)),
        ((0, 4, 5), (5, 6), (0, 4, 5, 6)),
    ],
)
def test_plans_from_shapes(left, right, shape):
    for accuracy in EVERY_CONTRACT:
        plan = widen.plan(left, right, accuracy=accuracy)
        assert plan.shape == shape
        assert plan.result == "float64"
        assert str(plan)
        arrays = widen.plan(np.ones(left), np.ones(right), accuracy=accuracy)
        if shape[2]:
            assert arrays.shape[1:] == shape[1:] or left[:-2]
    for name in PLAIN:
        assert widen.plan(left, right, dtype=name).result == name


@pytest.mark.parametrize(("left", "right"), [((), (3,)), ((3,), ()), ((), ())])
def test_shapes_of_nothing_are_refused(left, right):
    refusal(ValueError, lambda: widen.plan(left, right))


@pytest.mark.parametrize("shape", [(-2, 3), (2.5, 3), ("2", 3), (None, 3)])
def test_shapes_that_are_none_are_refused(shape):
    with pytest.raises((TypeError, ValueError)) as caught:
        widen.plan(shape, (3, 2))
    assert "shape" in str(caught.value)


def test_plans_from_shapes_are_what_ordinary_data_takes():
    rng = np.random.default_rng(4)
    for m, k, n in [(64, 64, 64), (30, 1000, 20), (200, 100, 300)]:
        a, b = FAMILIES["phi0.1"].make(rng, m, k, n)
        for accuracy in EVERY_CONTRACT:
            guess = widen.plan((m, k), (k, n), accuracy=accuracy)
            real = widen.plan(a, b, accuracy=accuracy)
            assert abs(guess.products - real.products) <= 1
            assert guess.unit == real.unit


def test_a_mixture_of_shape_and_array_is_refused():
    refusal(TypeError, lambda: widen.plan((2, 3), B), "a is a tuple")
    refusal(TypeError, lambda: widen.plan([2, 3], [3, 2]), "a is a list")


def test_more_accuracy_takes_more_products():
    counts = [widen.plan((256, 256), (256, 256), accuracy=x).products for x in (10, 40, 80, 160)]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]
    named = [widen.plan((256, 256), (256, 256), accuracy=x).products for x in CONTRACTS]
    assert named == sorted(named)
    single = widen.plan((256, 256), (256, 256), dtype="float32")
    assert single.products < widen.plan((256, 256), (256, 256)).products


def test_a_plan_does_not_multiply():
    a = np.broadcast_to(np.array(0.1), (200_000, 40))
    plan = widen.plan(a, a.T)  # the result would take 320 GB
    assert plan.shape == (1, 200_000, 40, 200_000)


# ── progress and info ────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("left", "right", "workspace"),
    [
        ((100, 80), (80, 90), None),
        ((100, 80), (80, 90), 65536),
        ((3, 20, 30), (3, 30, 40), 65536),
        ((3, 1, 20, 30), (2, 30, 40), None),
        ((30,), (30,), None),
        ((4, 0), (0, 4), None),
    ],
)
def test_progress_grows_to_one(left, right, workspace):
    for accuracy in EVERY_CONTRACT:
        seen = []
        rng = np.random.default_rng(5)
        a, b = rng.standard_normal(left), rng.standard_normal(right)
        result = widen.matmul(a, b, accuracy=accuracy, workspace=workspace, progress=seen.append)
        assert all(isinstance(value, float) for value in seen)
        assert seen == sorted(set(seen))
        assert seen[0] >= 0
        assert seen[-1] == 1.0
        expected = widen.matmul(a, b, accuracy=accuracy)
        assert np.asarray(result).tobytes() == np.asarray(expected).tobytes()
        if workspace:
            assert len(seen) > 2


def test_progress_of_gemm_and_an_error_in_it():
    seen = []
    widen.gemm(A, B, np.ones((2, 2)), beta=1.0, progress=seen.append)
    assert seen[-1] == 1.0

    def stop(done):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        widen.matmul(A, B, progress=stop)
    assert widen.matmul(A, B).tolist() == [[3.0, 3.0], [3.0, 3.0]]


@pytest.mark.parametrize("accuracy", EVERY_CONTRACT)
def test_info_says_what_ran(accuracy):
    a, b = FAMILIES["phi4"].make(np.random.default_rng(6), 30, 50, 20)
    result, info = widen.matmul(a, b, accuracy=accuracy, info=True)
    assert isinstance(info, widen.Info)
    assert {field.name for field in dataclasses.fields(info)} == {
        "plan", "bound", "repaired", "products", "workspace", "seconds", "not_finite",
    }  # fmt: skip
    assert isinstance(info.plan, widen.Plan)
    assert info.plan.shape == (1, 30, 50, 20)
    assert info.unit == info.plan.unit == "fp64"
    assert info.system == info.plan.system == "residues"
    assert info.products == info.plan.products > 0
    assert isinstance(info.repaired, int)
    assert 0 <= info.repaired <= result.size
    assert info.bound.shape == result.shape
    assert info.bound.dtype == np.float64
    assert (info.bound > 0).all()
    assert info.workspace > 0
    assert set(info.seconds) == set(STAGES)
    assert all(value >= 0 for value in info.seconds.values())
    text = str(info)
    assert str(info.plan) in text
    for word in (
        f"{info.products} products", f"{info.repaired} elements repaired", "workspace",
        "bound", "proven", "ms", *STAGES,
    ):  # fmt: skip
        assert word in text


def test_info_of_a_vector_product_and_of_nothing():
    result, info = widen.matmul(np.ones(3), np.ones(3), info=True)
    assert result == 3.0
    assert np.shape(info.bound) == ()
    assert "proven" in str(info)
    result, info = widen.matmul(np.ones((0, 3)), B, info=True)
    assert result.shape == info.bound.shape == (0, 2)
    assert "proven" in str(info)
    _, info = widen.matmul(np.ones((2, 0)), np.ones((0, 2)), info=True)
    assert info.plan.shape == (1, 2, 0, 2)
    assert (info.bound <= 2.0**-1074).all()


def test_info_counts_repairs():
    a, b = FAMILIES["one huge"].make(np.random.default_rng(7), 20, 30, 20)
    _, info = widen.matmul(a, b, info=True)
    assert info.repaired > 0
    assert info.seconds["repair"] > 0
    a, b = FAMILIES["integers"].make(np.random.default_rng(8), 20, 30, 20)
    _, info = widen.matmul(a, b, info=True)
    assert info.repaired == 0


def test_info_of_nan_is_readable():
    a = np.array([[np.nan, 1.0], [1.0, 1.0]])
    _, info = widen.matmul(a, a, info=True)
    assert "proven" in str(info)
    assert "nan" not in str(info).split("bound")[1].split("\n")[0]


# ── results, plans and tensors that are not what they seem ───────────────────────────────────


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_a_matrix_as_result():
    """NumPy's own: it stays two-dimensional whatever one does."""
    a = np.arange(12.0).reshape(3, 4)
    for x in (a, a + 1j):
        out = np.matrix(np.empty((3, 3), x.dtype))
        assert widen.matmul(x, x.T, out=out) is out
        assert np.array_equal(np.asarray(out), x @ x.T)
        assert np.array_equal(widen.matmul(np.matrix(x), np.matrix(x.T)), x @ x.T)


def test_results_whose_elements_share_memory_are_refused():
    a, b = np.ones((2, 3)), np.ones((3, 4))
    one = np.lib.stride_tricks.as_strided(np.empty((2, 1)), (2, 4), (8, 0), writeable=True)
    with pytest.raises(ValueError, match="share memory"):
        widen.matmul(a, b, out=one)
    words = widen.Words(np.zeros((2, 4)), "float64x2")
    planes = [np.lib.stride_tricks.as_strided(x, x.shape, (0, 8, 0)) for x in words.planes]
    with pytest.raises(ValueError, match="share memory"):
        widen.matmul(a, b, dtype="float64x2", out=widen.Words.of(words.format, planes))


@pytest.mark.parametrize("plan", ["standard", 3, (2, 2)])
def test_what_is_no_plan(plan):
    with pytest.raises(TypeError, match=r"what widen\.plan gives"):
        widen.matmul(np.ones((2, 2)), np.ones((2, 2)), plan=plan)


@pytest.mark.parametrize(
    "more", [{"unit": "int8"}, {"system": "digits"}, {"workspace": "1MB"}, {"accuracy": "fast"}]
)
def test_a_plan_and_something_else(more):
    a = np.ones((2, 2))
    plan = widen.plan(a, a)
    with pytest.raises(ValueError, match="give one"):
        widen.matmul(a, a, plan=plan, **more)
    same = {name: getattr(plan, name) for name in ("unit", "system", "workspace")}
    assert np.array_equal(widen.matmul(a, a, plan=plan, **same), a @ a)


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_tensors_are_told_what_tensors_can_do():
    torch = pytest.importorskip("torch")
    a = torch.ones((3, 3), dtype=torch.float64)
    for bad, fix in ((torch.float8_e5m2, "float64"), (torch.complex32, "complex128")):
        with pytest.raises(TypeError, match=rf"a holds .*: give a\.to\(torch\.{fix}\)"):
            widen.matmul(a.to(bad), a)
    with pytest.raises(ValueError, match="needs shape"):
        widen.matmul(a, a, out=torch.empty((2, 3), dtype=torch.float64))
    with pytest.raises(ValueError, match="share memory"):
        widen.matmul(a, a, out=torch.empty((1, 1), dtype=torch.float64).expand(3, 3))
    with pytest.raises(TypeError, match="b is a list"):
        widen.plan(a, [[1.0]])


def test_at_signs_with_encoded_operands():
    a, b = np.random.default_rng(0).random((2, 4, 4))
    ours, theirs = widen.encode(a, side="left"), widen.encode(b, side="right")
    wanted = widen.matmul(a, b)
    for found in (a @ theirs, ours @ b, ours @ theirs):
        assert np.array_equal(found, wanted)


WITHOUT = """
import sys
sys.modules[sys.argv[1]] = None
import numpy as np, widen
from widen.calls import check
from widen.gpu.replay.private import pytorch_and_triton
def words_on_gpu():
    with pytorch_and_triton():
        from widen.words import elementwise_gpu
library = check.library
check.library = lambda **given: "cuda:0"
for call in (
    lambda: widen.plan((2, 2), (2, 2), device="cuda", workspace="1GB"),
    lambda: widen.matmul(np.ones((2, 2)), np.ones((2, 2))),
    words_on_gpu,
):
    try:
        call()
    except ImportError as error:
        print(error)
check.library = library
assert widen.matmul(np.ones((2, 2)), np.ones((2, 2)))[0, 0] == 2
"""


@pytest.mark.parametrize("package", ["triton", "torch"])
def test_a_gpu_without_what_it_needs(package):
    """Words, not the name of a module deep inside; and arrays are multiplied all the same."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, package], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    assert all("needs PyTorch and Triton" in line and "widen[torch]" in line for line in lines)
