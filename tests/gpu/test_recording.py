"""Launches that were recorded give the bits of a call that was not, whatever the new operands."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.multiprocessing.reductions import StorageWeakRef

import widen
from device import ON
from helpers import assert_same_bits, draw
from widen.calls import dispatch
from widen.calls.cpu_tensors import as_tensor
from widen.contract import as_contract
from widen.formats import FORMATS
from widen.gpu import block as gpu_block
from widen.gpu import exact_products, tiles
from widen.gpu import lines as gpu_lines
from widen.gpu import operands as gpu_operands
from widen.gpu import products as gpu_products
from widen.gpu import recorded as gpu_recorded
from widen.gpu import stages as gpu_stages
from widen.gpu.clock import Clock
from widen.gpu.kernels.triton import numbers
from widen.gpu.products import lines_of
from widen.gpu.recorded import CallRecordings, kind_of
from widen.gpu.replay import launch as gpu_launch
from widen.gpu.replay.driver import Launch
from widen.gpu.replay.recording import Recorder
from widen.options import Options
from widen.stages.problem import Encoding, Problem, Scalars
from widen.stages.run import run

pytestmark = pytest.mark.device

SHAPE = (2, 9, 3) if ON == "cpu" else (70, 200, 130)


class Calls:
    """Products of NumPy arrays, recorded as `gpu.products.product` does it."""

    def __init__(self, accuracy, dtype="float64", plan=None, workspace=1 << 30):
        self.accuracy, self.dtype, self.plan, self.workspace = accuracy, dtype, plan, workspace
        self.kind = CallRecordings()
        self.recorded = 0

    def __call__(self, a, b):
        given = [as_tensor(x).to(ON) for x in (a, b)]
        found = self.kind.again(given, None)
        if found is None:
            self.recorded += 1
            found = torch.full(
                (a.shape[0], b.shape[1]), torch.nan, dtype=getattr(torch, self.dtype), device=ON
            )
            with Recorder([*given, found]) as recorder:
                self.run(*given, found)
            self.kind.keep(recorder, FORMATS[self.dtype])
        return found.cpu().numpy()

    def run(self, a, b, out):
        fmt = FORMATS[self.dtype]
        left, right = (lines_of(x, side, fmt.parts) for x, side in ((a, "left"), (b, "right")))
        contract = as_contract(self.accuracy)
        problem = Problem(left, right, contract, fmt, self.workspace, plan=self.plan)
        run(gpu_stages, problem, gpu_operands.bits_of(out[None], fmt.parts), Clock(timed=False))

    def check(self, a, b):
        wanted = widen.matmul(a, b, accuracy=self.accuracy, dtype=self.dtype)
        assert_same_bits(self(a, b), wanted)


def alike(a, b):
    """Operands that need the same planes."""
    yield a, b
    yield a[::-1].copy(), -b
    yield np.roll(a, 1, 0), b[:, ::-1].copy()


@pytest.mark.parametrize("accuracy", ["standard", "correct"] + ["fast", 60] * (ON == "cuda"))
def test_other_operands(accuracy):
    calls = Calls(accuracy)
    for a, b in alike(*draw("phi1", SHAPE, 1)):
        calls.check(a, b)
    assert calls.recorded == 1


def test_a_wrong_guess_is_noticed():
    calls = Calls("standard")
    calls.check(*draw("phi0", SHAPE, 1))
    calls.check(*draw("phi4", SHAPE, 2))  # longer leading integers, and more planes
    assert calls.recorded == 2
    for seed, family in enumerate(("phi1", "phi0", "extremes")):  # covered, or not
        calls.check(*draw(family, SHAPE, seed))


LATE = {"encode.residues", "reconstruct.round_residues", "repair.repair", "close.settle"}
"""Kernels that nobody waits for if he can help it."""


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
@pytest.mark.parametrize("accuracy", ["standard", "correct"])
def test_while_kernels_are_compiled_elsewhere_others_answer(late, accuracy, dtype):
    """Calls are not recorded meanwhile, and are as soon as they are there."""
    names, launched = late
    names |= LATE
    calls, (a, b) = Calls(accuracy, dtype), draw("phi0", SHAPE, 1, dtype, dtype)
    for _ in range(3):
        calls.check(a, b)
    assert calls.recorded == 3
    assert not calls.kind.hopeless
    assert {"planes.residues", "crt.round_any"} <= set(launched)
    assert not LATE & set(launched)
    names.clear()
    for _ in range(2):
        calls.check(a, b)
    assert calls.recorded == 4
    assert {"encode.residues", "reconstruct.round_residues", "repair.repair"} <= set(launched)
    assert launched.count("planes.residues") <= 6, "they are launched only meanwhile"


def test_a_kernel_that_nobody_compiles_is_waited_for(late, monkeypatch):
    names, launched = late
    names |= {"encode.residues", "reconstruct.round_residues", "repair.repair"}
    monkeypatch.setattr(gpu_launch.Launching, "is_coming", lambda self: False)
    calls = Calls("standard")
    calls.check(*draw("phi1", SHAPE, 1))
    assert calls.recorded == len(calls.kind.by_choice) == 1
    assert names <= set(launched)


def test_complex_numbers():
    calls = Calls("standard", "complex128")
    for a, b in alike(*draw("phi1", SHAPE, 1, "complex128", "complex128")):
        calls.check(a, b)
    assert calls.recorded == 1


def test_a_plan_made_beforehand_needs_no_guess():
    m, k, n = SHAPE
    wanted = Encoding("left", as_contract("standard"), FORMATS["float64"], None, None)
    plan = gpu_products.typical_plan(wanted, (1, m, k, n), 1 << 30)
    calls = Calls("standard", plan=plan)
    for seed, family in enumerate(("phi0", "phi4", "extremes")):
        calls.check(*draw(family, SHAPE, seed))
    assert calls.recorded == 1


def test_a_plan_made_beforehand_is_asked_whether_it_did(monkeypatch):
    """Launches recorded where few elements were open are not for data that leave many so."""
    monkeypatch.setattr(exact_products, "FEWEST_TERMS", 2 * SHAPE[1])
    m, k, n = SHAPE
    wanted = Encoding("left", as_contract("standard"), FORMATS["float64"], None, None)
    plan = gpu_products.typical_plan(wanted, (1, m, k, n), 1 << 30)
    calls = Calls("standard", plan=plan)
    friendly, hard = draw("phi0", SHAPE, 1), draw("phi0", SHAPE, 2)
    hard[0][:, 0] *= 2.0**70
    hard[1][0] *= 2.0**-70
    for given, recorded in ((friendly, 1), (friendly, 1), (hard, 2), (hard, 3), (friendly, 4)):
        calls.check(*given)
        assert calls.recorded == recorded
    calls.check(*friendly)
    assert calls.recorded == 4
    assert list(calls.kind.by_choice) == [False]


def with_opposites(seed, power, rows):
    """Rows are large where columns are small: no certificate holds, more planes settle it."""
    a, b = draw("phi0", SHAPE, seed)
    a[rows, SHAPE[1] // 2] *= 2.0**power
    b[SHAPE[1] // 2] *= 2.0**-power
    return a, b


@pytest.mark.parametrize(
    "rows", [pytest.param(slice(None), marks=pytest.mark.slow), slice(1, None)]
)
def test_a_second_pass_is_recorded(monkeypatch, rows):
    """Of all elements, or most; and noticed where its planes are too few, or not needed."""
    monkeypatch.setattr(exact_products, "FEWEST_TERMS", SHAPE[1])
    calls, taken = Calls("standard"), []
    take_settled = gpu_block.take_settled
    monkeypatch.setattr(gpu_block, "take_settled", lambda *x: taken.append(take_settled(*x)))
    for seed, power, recorded in (
        (1, 60, 1), (2, 60, 1), (2, 70, 2), (1, 70, 2), (1, 60, 2), (1, None, 3), (3, 70, 4),
        (1, 70, 4),
    ):  # fmt: skip
        easy = power is None
        calls.check(*(draw("phi0", SHAPE, seed) if easy else with_opposites(seed, power, rows)))
        assert calls.recorded == recorded
    assert len(taken) == 3


def test_lines_that_become_all_open_are_noticed(monkeypatch):
    monkeypatch.setattr(exact_products, "FEWEST_TERMS", SHAPE[1])
    calls, some, every = Calls("standard"), slice(1, None), slice(None)
    for rows, recorded in ((some, 1), (every, 2), (every, 2), (some, 3), (some, 3)):
        calls.check(*with_opposites(1, 60, rows))
        assert calls.recorded == recorded


def test_what_a_second_pass_leaves_open_is_not_recorded(monkeypatch):
    shape = (2, 9, 3)  # of larger ones a second pass leaves nothing open
    monkeypatch.setattr(exact_products, "FEWEST_TERMS", shape[1])
    calls, (a, b) = Calls("standard"), draw("phi0", shape, 1)
    powers = 2.0 ** (40 * (-1.0) ** np.arange(shape[1]))
    for sign in (1, -1):
        calls.check(sign * a * powers, b / powers[:, None])
    assert calls.kind.failures == calls.recorded == 2


def test_captured_calls_with_a_plan_are_of_another_kind(monkeypatch):
    a = torch.ones((2, 2), dtype=torch.float64, device=ON)
    planned, plain = Options(plan=widen.plan((2, 2), (2, 2))), Options()
    keys = [kind_of(a, a, Scalars(), None, x).key for x in (planned, plain)]
    monkeypatch.setattr(gpu_recorded, "is_captured", lambda _: True)
    others = [kind_of(a, a, Scalars(), None, x).key for x in (planned, plain)]
    assert keys[0] != others[0]
    assert keys[1] == others[1]


def test_an_operand_with_itself():
    calls = Calls("standard")
    a = np.random.default_rng(1).standard_normal((4, 6))
    for x in (a, a[::-1].copy()):
        given = as_tensor(x).to(ON)
        out = calls.kind.again([given, given.T], None)
        if out is None:
            out = torch.empty((4, 4), dtype=torch.float64, device=ON)
            with Recorder([given, given.T, out]) as recorder:
                calls.run(given, given.T, out)
            calls.kind.keep(recorder, FORMATS[calls.dtype])
        assert_same_bits(out.cpu().numpy(), widen.matmul(x, x.T))


@pytest.mark.parametrize("turned", [False, True])
def test_short_lines(monkeypatch, turned):
    monkeypatch.setattr(gpu_lines, "SHORT_PROGRAMS", 1)
    monkeypatch.setattr(gpu_lines, "soonest", lambda fast, slow: [x.make() for x in fast])
    calls = Calls("standard")
    for a, b in alike(*draw("zero lines", SHAPE, 1)):
        calls.check(*((x.T.copy().T for x in (a, b)) if turned else (a, b)))
    assert calls.recorded == 1


def test_thin_products(monkeypatch):
    """Launches with digits are not for integers that these do not hold."""
    for name, value in (("THIN_NUMBERS", 1), ("THIN_RATIO", 1), ("VERY_SHORT", 8)):
        monkeypatch.setattr(tiles, name, value)
    calls, rng = Calls("standard"), np.random.default_rng(1)
    shape = (2, 20, 17) if ON == "cpu" else (3, 500, 170)
    for a, b in alike(*draw("phi1", shape, 1)):
        calls.check(a, b)
    assert calls.recorded == 1
    assert calls.kind.by_choice[calls.kind.last].choice.digits > 0
    wide = [x * 2.0 ** rng.integers(-60, 60, x.shape) for x in (a, b)]
    for given in (wide, wide, (a, b), [np.round(x * 8) for x in (a, b)]):
        calls.check(*given)
    digits = {recording.choice.digits > 0 for recording in calls.kind.by_choice.values()}
    assert digits == {False, True}


@pytest.mark.parametrize("spoil", ["arithmetic", "blocks"])
def test_what_cannot_be_issued_again_is_not_recorded(spoil):
    (m, k, n), little = ((4, 20, 3), 500) if ON == "cpu" else ((40, 300, 40), 1 << 16)
    calls = Calls("standard", workspace=little if spoil == "blocks" else 1 << 30)
    given = [torch.ones(shape, dtype=torch.float64, device=ON) for shape in ((m, k), (k, n))]
    out = torch.empty((m, n), dtype=torch.float64, device=ON)
    with Recorder([*given, out]) as recorder:
        if spoil == "arithmetic":
            given[0] = given[0] + 1
        calls.run(*given, out)
    assert not calls.kind.hopeless
    for _ in range(3):
        calls.kind.keep(recorder, FORMATS[calls.dtype])
    assert calls.kind.hopeless
    assert calls.kind.again(given, out) is None
    assert recorder.blocks == []


def test_nothing_of_a_recorded_call_stays_in_memory():
    calls = Calls("standard")
    given = [as_tensor(x).to(ON) for x in draw("phi1", SHAPE, 1)]
    out = torch.empty((SHAPE[0], SHAPE[2]), dtype=torch.float64, device=ON)
    with Recorder([*given, out]) as recorder:
        calls.run(*given, out)
    calls.kind.keep(recorder, FORMATS[calls.dtype])
    held = [StorageWeakRef(block.untyped_storage()) for block in recorder.blocks]
    assert len(held) > 6
    del recorder, given, out
    gc.collect()
    assert calls.kind.by_choice
    assert all(storage.expired() for storage in held)


def test_lines_do_not_hold_themselves():
    """Then their memory would stay until Python looks for what nobody holds any more."""
    x = torch.ones(4, 6, dtype=torch.float64, device=ON)
    lines, storage = lines_of(x, "left", 1), StorageWeakRef(x.untyped_storage())
    assert lines.paired is lines
    gc.disable()
    try:
        del x, lines
        assert storage.expired()
    finally:
        gc.enable()


def test_kinds_tell_calls_apart():
    x = torch.ones(4, 6, dtype=torch.float64, device=ON)
    y = torch.ones(6, 4, dtype=torch.float64, device=ON)
    choices, fast = Options("standard"), Options("fast")
    calls = [
        (x, y, None, choices), (x, x.T, None, choices), (x[:, :4], y[:4], None, choices),
        (x.float(), y.float(), None, choices), (x, y.T.contiguous().T, None, choices),
        (x, y, torch.empty(4, 4, dtype=torch.float64, device=ON), choices),
        (x, y, None, fast),
    ]  # fmt: skip

    def recordings_of(a, b, out, options):
        kind = kind_of(a, b, Scalars(), out, options)
        return None if kind is None else gpu_recorded._recordings.of(kind.key)

    kinds = [recordings_of(*call) for call in calls]
    assert len(set(kinds)) == len(calls)
    assert None not in kinds
    assert kinds[0] == recordings_of(x + 1, y + 1, None, choices)
    # What is not told apart is not recorded: conjugates, odd arguments.
    assert recordings_of(x, y.to(torch.complex128).conj(), None, choices) is None
    assert recordings_of(x, y, None, Options([])) is None


def test_a_call_asks_for_its_recording_first(monkeypatch):
    """Unless more is asked for than a product, and not before PyTorch knows of it."""
    a, b = torch.ones(3, 4, dtype=torch.float64), torch.ones(4, 5, dtype=torch.float64)
    asked = []

    class Known:
        def again(self, operands, out, *, apart):
            asked.append(operands)
            return torch.full((3, 5), 7.0)

    monkeypatch.setattr(gpu_recorded._recordings, "known", lambda key: Known())
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: None, raising=False)
    monkeypatch.setattr(dispatch, "_is_on_gpu", lambda x: True)
    weight = torch.nn.Parameter(b)
    with torch.no_grad():
        for right in (b, weight):
            assert widen.matmul(a, right)[0, 0] == 7
    assert asked == [[a, b], [a, weight]]
    asked.clear()
    assert widen.matmul(a, b, info=True)[0][0, 0] == 4
    assert widen.matmul(a, b, native=True, accuracy="fast")[0, 0] == 4
    assert widen.matmul(a, b, progress=lambda _: None)[0, 0] == 4
    assert asked == []
    # By way of gradients and the operator, which ask too.
    assert widen.matmul(a, weight).requires_grad
    with torch.autograd.forward_ad.dual_level():
        found = widen.matmul(torch.autograd.forward_ad.make_dual(a, a), b)
        assert torch.autograd.forward_ad.unpack_dual(found).tangent is not None
    graph = make_fx(lambda a, b: widen.matmul(a, b))(a, b).graph
    assert torch.ops.widen.gemm.default in [node.target for node in graph.nodes]


def in_an_operator():
    return torch._C._AutoDispatchBelowAutograd()


@pytest.mark.parametrize("where", [nullcontext, torch.inference_mode, in_an_operator])
def test_copies_of_operands_are_made_again_or_not_recorded(where):
    """PyTorch does not say everywhere that `reshape` copies."""
    copies = [
        lambda x: x.mT.reshape(10, 3),
        lambda x: x.mT.contiguous(),
        lambda x: x.to(torch.float64),
        lambda x: x.expand(4, 2, 3, 5).reshape(8, 3, 5),
        lambda x: x.clone(),
        lambda x: x.mT.clone(),
        lambda x: torch.stack([x, x.mT.reshape(2, 3, 5)]),
    ]
    views = [lambda x: x.reshape(6, 5).mT[1:].unsqueeze(0).unbind(1)[0]]
    recorded = []
    with where():
        for change in copies + views:
            x, other = (torch.rand(2, 3, 5, device=ON) for _ in range(2))
            out = torch.zeros(change(x).shape, dtype=torch.float64, device=ON)
            with Recorder([x, out]) as recorder:
                made = change(x)
                recorder.launched((out, made), lambda out, made: out.copy_(made), tensors=True)
            recorded.append(not recorder.lost)
            if recorded[-1]:
                (found,), _ = recorder.recording().issue([other], None)
                assert torch.equal(found, change(other).double())
    assert recorded[-1]
    if where is nullcontext:
        assert all(recorded)


@pytest.mark.gpu
@pytest.mark.skipif(ON == "cpu", reason="there is no GPU")
@pytest.mark.parametrize("where", [nullcontext, torch.inference_mode])
@pytest.mark.parametrize("shapes", [((2, 40, 50), (1, 50, 30)), ((2, 1, 40, 50), (3, 50, 30))])
def test_operands_that_are_copied_are_copied_every_time(where, shapes):
    rng = np.random.default_rng(6)
    with where():
        for _ in range(4):
            a, b = (rng.standard_normal(shape) for shape in shapes)
            wanted = widen.matmul(a, b)
            ours = as_tensor(np.ascontiguousarray(np.swapaxes(a, -1, -2))).to(ON).mT
            assert_same_bits(widen.matmul(ours, as_tensor(b).to(ON)).cpu().numpy(), wanted)


@pytest.mark.skipif(ON == "cpu", reason="there is no GPU")
def test_recorded_launches_go_to_the_driver():
    """But for those of CUDA kernels, which do in any case, and where Triton's launcher changed."""
    calls = Calls("standard")
    calls.check(*draw("phi1", SHAPE, 1))
    (recording,) = calls.kind.by_choice.values()
    steps = [step for part in recording.parts for step in part.steps]
    assert sum(isinstance(step, Launch) for step in steps) >= 5
    assert recording.arena is not None


@pytest.mark.skipif(ON == "cpu", reason="there is no GPU")
def test_threads_and_streams_do_not_disturb_each_other():
    """They issue the same launches with addresses of their own, each on its own stream."""
    rng = np.random.default_rng(5)
    pairs = [(rng.standard_normal((90, 200)), rng.standard_normal((200, 70))) for _ in range(4)]
    wanted = [widen.matmul(a, b) for a, b in pairs]
    given = [tuple(as_tensor(x).to(ON) for x in pair) for pair in pairs]
    widen.matmul(*given[0])
    torch.cuda.synchronize()

    def work(index):
        with torch.cuda.stream(torch.cuda.Stream()):
            return [widen.matmul(*given[index]).cpu().numpy() for _ in range(50)]

    with ThreadPoolExecutor(4) as pool:
        for found, product in zip(pool.map(work, range(4)), wanted, strict=True):
            for result in found:
                assert_same_bits(result, product)


SURVEYED = [
    int(getattr(numbers, row))
    for row in ("LARGEST", "SUM", "SQUARES", "DEPTH", "NONZEROS", "DISTANCES", "REACH")
]
"""Rows of a table that a survey fills."""


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("kept", "kind"), [(5, torch.int8), (gpu_lines.MAGNITUDES, torch.bfloat16)]
)
def test_short_lines_are_looked_at_in_one_launch(dtype, turned, kept, kind):
    """As in two, whatever their tables held before."""
    fmt = FORMATS[dtype]
    a, b = (as_tensor(x).to(ON)[None] for x in draw("extremes", (9, 70, 11), 1, dtype, dtype))
    if turned:
        a, b = (x.mT.contiguous().mT for x in (a, b))
    sides = [lines_of(x, side, fmt.parts) for x, side in ((a, "left"), (b, "right"))]
    for operands in (sides, sides[:1]):
        found = []
        for before, look in ((0, gpu_lines.survey), (77, gpu_lines.survey_short)):
            tables = [
                torch.full((gpu_lines.ROWS_OF_TABLE, x.count), before, dtype=torch.int64, device=ON)
                for x in operands
            ]
            leads = [
                torch.full((1, *x.shape[:2], x.pitch), before, dtype=kind, device=ON)
                for x in operands
            ]
            zeros = torch.full((11,), before, dtype=torch.int64, device=ON)
            look(operands, tables, leads, kept, *([zeros] if before else []))
            assert not zeros.any()
            found.append([*(x[SURVEYED] for x in tables), *(x[..., :70] for x in leads)])
        assert all(map(torch.equal, *found))


def test_running_out_of_memory_is_explained(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    call = SimpleNamespace(workspace=4 * 10**9, device=None)
    for info, what in ((False, r"for one \(CUDA"), (True, r"or info='largest'")):
        matched = pytest.raises(torch.OutOfMemoryError, match=rf"4 GB beside .* smaller .*{what}")
        with matched, gpu_products.ready(call, Options(info=info)):
            raise torch.OutOfMemoryError("CUDA out of memory")
