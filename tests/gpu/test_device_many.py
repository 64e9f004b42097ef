"""Many elements repaired by exact products on a GPU (or in the interpreter): the CPU's bits."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import widen
from device import ON, cases, gemm, own_kernels, problem_of, product, words_product
from helpers import ROOT, assert_same_bits, assert_same_words, draw, draw_words, words_near
from widen.formats import FORMATS
from widen.gpu import block as gpu_block
from widen.gpu import certify as gpu_certify
from widen.gpu import exact_products as gpu_exact_products
from widen.gpu import operands, planned
from widen.gpu import planning as gpu_planning
from widen.gpu import stages as gpu_stages
from widen.gpu.clock import Clock
from widen.gpu.kernels.triton.reconstruct import UNSETTLED
from widen.gpu.reconstruct import ResultBlock
from widen.planner import block_slices

pytestmark = pytest.mark.device

FAMILIES = runpy.run_path(str(Path(ROOT, "bench", "families.py")))["FAMILIES"]

# Triton's interpreter takes seconds for a product: few of them there, and tiny.
SHAPE = (3, 6, 4) if ON == "cpu" else (70, 200, 130)


@pytest.fixture
def by_products(monkeypatch):
    """How many elements were repaired by products; none is too few for them."""
    counts = []

    def counted(repair, at):
        def run(*given):
            taken = repair(*given)
            counts.append(int(given[at]))
            return taken

        return run

    monkeypatch.setattr(gpu_exact_products, "FEWEST_TERMS", 0)
    for name, at in (("repair_by_products", 2), ("take_settled", 4)):
        monkeypatch.setattr(gpu_block, name, counted(getattr(gpu_block, name), at))
    return counts


def count_and_product(a, b, accuracy):
    """How many elements are repaired, and the product."""
    out = torch.full((1, len(a), b.shape[1]), 7.0, dtype=torch.float64).to(ON)
    prepared = gpu_stages.quantise(problem_of(a, b, accuracy), Clock(timed=False))
    prepared.computed(operands.bits_of(out, 1))
    return int(prepared.repaired[0]), out[0].cpu().numpy()


def one_large(shape, seed, dtype="float64", power=70):
    """Rows are large where columns are small, which planes can hold: 2^70 meets 2^-70."""
    a, b = draw("phi0", shape, seed, dtype)
    place = shape[1] // 2
    a[:, place] *= 2.0**power
    b[place] *= 2.0**-power
    return a, b


def words_with_one_large(shape, name, power=70):
    """The same for numbers of several words."""
    fmt = FORMATS[name]
    pair = one_large(shape, 1, "complex128" if fmt.parts == 2 else "float64", power)
    return [words_near(np.random.default_rng(at), x, fmt) for at, x in enumerate(pair)]


@cases(
    ("accuracy", "dtype"), ("correct", "float64"), ("standard", "complex64"),
    ("standard", "float64"), ("fast", "float64"), ("correct", "float32"), ("fast", "float32"),
    ("correct", "complex128"), ("standard", "complex128"), interpreted=3, slow=2,
)  # fmt: skip
def test_contracts(accuracy, dtype, by_products):
    # "correct" keeps every bit of what is not further apart.
    far = accuracy == "correct" and dtype in ("float64", "complex128")
    a, b = one_large(SHAPE, 1, dtype, 300 if far else 70)
    _, found = product(a, b, accuracy, dtype)
    assert_same_bits(found, widen.matmul(a, b, accuracy=accuracy))
    assert by_products[-1] > 0


@cases(
    ("name", "accuracy"), ("float64x2", "correct"), ("float64_float32", "fast"),
    ("float64x2", "standard"), ("float32x3", "correct"), ("complex128x2", "standard"),
    ("float64x4", "correct"), ("complex64x2", "correct"), ("float32x2", "fast"), interpreted=4,
    slow=2,
)  # fmt: skip
def test_words(name, accuracy, by_products):
    """A second pass with the planes of "correct", and what that leaves open after balancing."""
    # "correct" keeps every bit of what is not further apart.
    far = 400 if FORMATS[name].part.words[0].precision == 53 else 100
    a, b = words_with_one_large(SHAPE, name, far if accuracy == "correct" else 70)
    _, found = words_product(a, b, name, accuracy)
    assert_same_words(found, widen.matmul(a, b, accuracy=accuracy))
    assert by_products[-1] > 0


def test_a_batch_of_words_with_special_values(by_products):
    rng, fmt = np.random.default_rng(3), FORMATS["float64x2"]
    a, b = one_large((3, 5, 2), 1)
    a, b = np.stack([a, 3 * a]), b[None]
    a[0, 1, 2] = np.inf
    a, b = words_near(rng, a, fmt), words_near(rng, b, fmt)
    _, found = words_product(a, b, "float64x2")
    assert_same_words(found, widen.matmul(a, b))
    assert by_products[-1] > 0


def test_a_sum_of_words(by_products):
    a, b = words_with_one_large(SHAPE, "float64x2")
    c, _ = draw_words("phi1", (SHAPE[0], SHAPE[2], 1), 5, "float64x2")
    given = {"alpha": -0.1, "beta": 0.3}
    _, found = words_product(a, b, "float64x2", c=c, **given)
    assert_same_words(found, widen.gemm(a, b, c, **given))
    assert by_products[-1] > 0


@cases(
    ("accuracy", "dtype", "workspace"), ("standard", "float64", 1 << 30),
    ("fast", "complex64", 1 << 30), ("correct", "float64", 1 << 30),
    ("correct", "float32", 1 << 30), ("standard", "float64", 1 << 20), interpreted=3, slow=2,
)  # fmt: skip
def test_a_plan_made_beforehand_has_a_second_pass(accuracy, dtype, workspace, by_products):
    """Its planes are for friendly data: those of hard data start again, and have their repair."""
    far = 300 if accuracy == "correct" and dtype == "float64" else 70
    a, b = one_large(SHAPE, 4, dtype, far)
    plan, _ = product(*draw("phi0", SHAPE, 5, dtype), accuracy, dtype)
    assert by_products == []
    kept, found = product(a, b, accuracy, dtype, plan, workspace)
    assert (kept.layout, kept.unit) == (plan.layout, plan.unit)
    assert_same_bits(found, widen.matmul(a, b, accuracy=accuracy))
    assert by_products[-1] > 0


@cases(("name", "accuracy"), ("float64x2", "standard"), ("float64x2", "correct"), interpreted=1)
def test_a_plan_of_words_has_a_second_pass(name, accuracy, by_products):
    a, b = words_with_one_large(SHAPE, name, 400 if accuracy == "correct" else 70)
    plan, _ = words_product(*draw_words("phi0", SHAPE, 5, name), name, accuracy)
    before = len(by_products)
    _, found = words_product(a, b, name, accuracy, plan=plan)
    assert_same_words(found, widen.matmul(a, b, accuracy=accuracy))
    assert by_products[before:]
    assert by_products[-1] > 0


def test_a_plan_made_beforehand_is_kept_where_few_elements_are_open(by_products, monkeypatch):
    asked = []

    def many_are_open(*given):
        asked.append(planned.many_are_open(*given))
        return asked[-1]

    monkeypatch.setattr(gpu_block, "planned", SimpleNamespace(many_are_open=many_are_open))
    a, b = draw("phi0", SHAPE, 5)
    plan, found = product(a, b)
    assert_same_bits(product(a, b, plan=plan)[1], found)
    assert asked == [False]
    by_integers, wanted = product(a, b, 40)  # which certify nothing
    assert_same_bits(product(a, b, 40, plan=by_integers)[1], wanted)
    assert (asked, by_products) == ([False], [])


def test_a_captured_plan_waits_for_nothing(by_products, monkeypatch):
    """So nobody asks how many elements are open; they are repaired one by one."""
    a, b = one_large(SHAPE, 4)
    plan, found = product(a, b)
    asked = len(by_products)
    assert asked > 0
    monkeypatch.setattr(planned, "is_captured", lambda _: True)
    monkeypatch.setattr(planned, "many_are_open", None)
    assert_same_bits(product(a, b, plan=plan)[1], found)
    assert len(by_products) == asked


@pytest.mark.slow
def test_a_few_rows_and_columns(by_products):
    """Only they are multiplied again, and what sums do not say is left to dot products."""
    rng = np.random.default_rng(2)
    a, b = rng.random((5, 6)), rng.random((6, 5))
    a[1, 2], a[3, 5], b[5, 4] = 2.0**70, 2.0**500, 2.0**-600
    b[2] *= 2.0**-70
    _, found = product(a, b)
    wanted, info = widen.matmul(a, b, info=True)
    assert_same_bits(found, wanted)
    assert 0 < by_products[-1] < info.repaired


@cases(
    ("family", "accuracy"), ("outliers of 1e8 in A", "standard"),
    ("graded against", "standard"), ("graded against", "correct"), ("lower triangles", "fast"),
    ("outliers of 1e4 in B", "fast"), ("columns of 1e8 in A", "standard"), interpreted=4,
)  # fmt: skip
def test_hard_families(family, accuracy, by_products):
    """As many repaired as on a CPU, whatever part of them each pass settles."""
    shape = (12, 40, 9) if ON == "cpu" else (150, 300, 130)
    a, b = FAMILIES[family].make(np.random.default_rng(1), *shape)
    wanted, info = widen.matmul(a, b, accuracy=accuracy, info=True)
    repaired, found = count_and_product(a, b, accuracy)
    assert_same_bits(found, wanted)
    assert by_products[-1] > 0
    if accuracy != "correct":  # which elements are repaired is free there
        assert repaired == info.repaired


@pytest.fixture
def rounded(monkeypatch):
    """Shapes of the products that were multiplied and rounded, before exact ones."""
    shapes, reconstruct = [], gpu_block.reconstruct

    def noted(*given, **more):
        marks = reconstruct(*given, **more)
        shapes.append(tuple(marks.shape))
        return marks

    monkeypatch.setattr(gpu_block, "reconstruct", noted)
    return shapes


@cases("accuracy", "standard", "correct", "fast", interpreted=2)
def test_nothing_is_multiplied_in_vain(accuracy, by_products, rounded):
    """Where all elements are open anyway, but for lines with an infinity or a NaN."""
    shape = (12, 40, 9) if ON == "cpu" else (150, 300, 130)
    a, b = FAMILIES["graded against"].make(np.random.default_rng(1), *shape)
    graded = a[3, 5], b[6, 4]
    a[3, 5], b[6, 4] = np.inf, np.nan
    _, found = product(a, b, accuracy)
    assert_same_bits(found, widen.matmul(a, b, accuracy=accuracy))
    assert by_products[-1] > 0
    assert rounded == [(1, shape[0], shape[2])] * (accuracy != "correct")
    a[3, 5], b[6, 4] = graded
    _, found = product(a, b, accuracy)
    assert_same_bits(found, widen.matmul(a, b, accuracy=accuracy))
    assert rounded == [(1, shape[0], shape[2])] * (accuracy != "correct")


@cases(
    ("family", "dtype"), ("graded against", "float64"), ("graded against", "complex128"),
    ("phi = 4", "float64"), ("graded together", "float64"), ("outliers of 1e8", "complex128"),
    ("near the identity", "float64"), *((name, "float64") for name in FAMILIES), interpreted=6,
)  # fmt: skip
def test_what_is_hopeless(family, dtype, monkeypatch):
    """Lines that are graded against each other; with 40 terms, no others that are kept to a cap."""
    monkeypatch.setattr(gpu_exact_products, "FEWEST_TERMS", 0)
    rng, shape = np.random.default_rng(1), (12, 40, 9)
    a, b = FAMILIES[family].make(rng, *shape)
    if dtype == "complex128":
        a, b = a + 1j * a[::-1], b - 1j * b[:, ::-1]
    prepared = gpu_stages.quantise(problem_of(a, b, "correct", dtype), Clock(timed=False))
    assert prepared.hopeless == (family == "graded against")


@cases("accuracy", "standard", "fast", interpreted=1)
def test_a_few_certified_elements_are_computed_by_themselves(accuracy, monkeypatch, rounded):
    m, k, n = shape = (6, 20, 5) if ON == "cpu" else (150, 300, 130)
    monkeypatch.setattr(gpu_exact_products, "FEWEST_TERMS", 2 * n * k)
    a, b = one_large(shape, 1)
    a[2, k // 2] = 1.0  # a row that meets no large number
    wanted, info = widen.matmul(a, b, accuracy=accuracy, info=True)
    repaired, found = count_and_product(a, b, accuracy)
    assert_same_bits(found, wanted)
    assert repaired == info.repaired == (m - 1) * n
    assert rounded == [(1, m, n)]  # the planes of "correct" alone


@cases("accuracy", "standard", "correct", "fast", interpreted=2)
def test_an_addend_may_be_special_where_all_is_open(accuracy, by_products):
    shape = (3, 30, 4) if ON == "cpu" else (150, 300, 130)
    a, b = FAMILIES["graded against"].make(np.random.default_rng(2), *shape)
    c = np.ones((shape[0], shape[2]))
    c[0, 1], c[2, 3] = np.inf, np.nan
    given = {"alpha": 0.5, "beta": -3.0, "accuracy": accuracy}
    assert_same_bits(gemm(a, b, c, **given), widen.gemm(a, b, c, **given))
    assert by_products[-1] > 0


@cases("accuracy", "standard", "fast", interpreted=1)
def test_a_second_pass_in_blocks(accuracy, by_products, monkeypatch):
    """Its planes are more, so that the workspace does not hold those of all lines at a time."""
    blocks, rounded = [], gpu_stages.Prepared.rounded

    def noted(self, out):
        blocks.append(len(list(block_slices(self.plan))))
        return rounded(self, out)

    monkeypatch.setattr(gpu_stages.Prepared, "rounded", noted)
    shape, workspace = ((3, 20, 4), 12000) if ON == "cpu" else ((400, 300, 500), 1 << 20)
    a, b = one_large(shape, 1)
    a[1, shape[1] // 2] = 1.0
    _, found = product(a, b, accuracy, workspace=workspace)
    assert_same_bits(found, widen.matmul(a, b, accuracy=accuracy))
    assert by_products[-1] > 0
    assert max(blocks) > 1


def test_everything_is_computed_again_where_picking_takes_as_long():
    lines = [gpu_exact_products.Lines(torch.empty((1, 1, 100, 50), device="meta"), None)] * 2

    def regions(places, fewest=10):
        marks = torch.zeros((1, 100, 100), dtype=torch.uint8)
        for place in places:
            marks[place] = int(UNSETTLED)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(gpu_exact_products, "FEWEST_TERMS", 50 * fewest)
            return gpu_exact_products.regions(lines, marks, 0)

    everything = [(slice(None), slice(None))]
    ((rows, columns),) = regions([(0, slice(3, 7))])
    assert rows.tolist() == [3, 4, 5, 6]
    assert columns == slice(None)
    assert regions([(0, slice(90))]) == everything
    assert regions([(0, slice(50)), (0, slice(None), slice(40))]) == everything
    assert gpu_exact_products.regions(lines, torch.empty(1, 4, 4), 51) == everything
    scattered = [(0, i, i) for i in range(100)]
    assert regions(scattered) == everything
    assert regions(scattered, fewest=1000) == []


def test_a_batch_with_special_values(by_products):
    rng = np.random.default_rng(3)
    a = rng.standard_normal((2, 2, 5)) * np.exp(8 * rng.standard_normal((2, 2, 5)))
    b = rng.standard_normal((1, 5, 2)) * np.exp(8 * rng.standard_normal((1, 5, 2)))
    a[0, 1, 2], b[0, 3, 1] = np.inf, np.nan
    _, found = product(a, b)
    assert_same_bits(found, widen.matmul(a, b))
    assert by_products[-1] > 0


@cases("accuracy", "standard", "correct", interpreted=1)
def test_gemm(accuracy, by_products):
    a, b = one_large(SHAPE, 4, power=300 if accuracy == "correct" else 70)
    c = np.random.default_rng(5).standard_normal((SHAPE[0], 1))
    given = {"alpha": -0.1, "beta": 0.3, "accuracy": accuracy}
    assert_same_bits(gemm(a, b, c, **given), widen.gemm(a, b, c, **given))
    assert by_products[-1] > 0


def test_chunks_fit_the_workspace():
    lines = [gpu_exact_products.Lines(torch.empty((1, 1, count, 50), device="meta"), None)
             for count in (1000, 700)]  # fmt: skip
    block = ResultBlock(lines, (None, None), FORMATS["float64"], None)
    whole = (slice(None), slice(None))
    assert list(gpu_exact_products._chunks(whole, block, 1 << 30)) == [
        (slice(0, 1000), slice(0, 700))
    ]
    chunks = list(gpu_exact_products._chunks(whole, block, 10 << 20))
    assert len(chunks) > 4
    assert sum((i.stop - i.start) * (j.stop - j.start) for i, j in chunks) == 700000
    assert list(gpu_exact_products._chunks(whole, block, 1 << 10)) == []


@own_kernels
@pytest.mark.parametrize("in_part", [False, True])
def test_lines_whose_first_terms_are_the_least_are_certified(monkeypatch, in_part):
    """As those of U are in LU: by every term, or by a second look after the first terms."""
    if in_part:
        monkeypatch.setattr(gpu_planning, "LEAST_WORK", 0)
        monkeypatch.setattr(gpu_certify, "FEW_TERMS", 0)
    open_ones, repair = [], gpu_block.repair

    def noted(result, marks, repaired):
        open_ones.append(int(marks.count_nonzero()))
        repair(result, marks, repaired)

    monkeypatch.setattr(gpu_block, "repair", noted)
    m, k, n = (70, 3000, 90) if ON == "cuda" else (6, 400, 5)
    rng, growth = np.random.default_rng(1), np.linspace(1, 16, k)
    a = rng.uniform(-1, 1, (m, k)) * growth
    b = rng.uniform(-1, 1, (k, n)) * growth[:, None]
    _, found = product(a, b)
    assert_same_bits(found, widen.matmul(a, b))
    assert open_ones == [0]
