"""What ranks compute, and compare with one process: functions that tests/distributed sends them."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from functools import cache, partial
from unittest.mock import patch

import numpy as np
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import widen
from widen.distributed.boxes import boxes
from widen.distributed.operands import sharded
from widen.distributed.wire import Wire
from widen.testing import matrices

R, S = Replicate(), Shard


ON = "cpu"
"""Where operands lie: on CPUs, or on GPUs (`on_gpus`). What they are compared with is a CPU's."""


def mesh_of(shape):
    """A mesh of the first ranks; those that are not in it make it, too."""
    return _mesh(ON, shape)


@cache
def _mesh(device, shape):
    count = int(np.prod(shape))
    return DeviceMesh(device, torch.arange(count).reshape(shape))


def here(mesh):
    return mesh.get_coordinate() is not None


def digest(x):
    """SHA-256 of a tensor's (or words') bytes, all NaN alike."""
    planes = x.planes if isinstance(x, widen.Words) else [x]
    found = hashlib.sha256()
    for plane in planes:
        array = plane.detach().cpu().resolve_conj().contiguous()
        if array.dtype == torch.bfloat16:
            array = array.float()
        array = array.numpy()
        parts = [array.real, array.imag] if np.iscomplexobj(array) else [array]
        for part in parts:
            found.update(np.ascontiguousarray(np.where(np.isnan(part), np.nan, part)).tobytes())
        found.update(repr((array.shape, array.dtype)).encode())
    return found.hexdigest()


def full(x):
    if isinstance(x, widen.Words):
        return widen.Words.of(x.format, [full(plane) for plane in x.planes])
    if ON == "cpu":
        return x.full_tensor()
    held = sharded(x, "x")  # gloo gathers no tensors on GPUs
    mesh = x.device_mesh
    every = boxes(held.shape, (R,) * mesh.ndim, tuple(mesh.shape))
    return held.fetched(Wire(mesh, "a test"), "compared", every)


def operands(shape, dtype, seed=0, family=None):
    m, k, n = shape
    rng = np.random.default_rng(seed)
    if family is None:
        a, b = matrices.phi(rng, (m, k), 0.5), matrices.phi(rng, (k, n), 0.5)
    else:
        a, b = matrices.FAMILIES[family].make(rng, m, k, n)
    a, b = torch.from_numpy(np.array(a, float)), torch.from_numpy(np.array(b, float))
    kind = getattr(torch, dtype)
    if kind.is_complex:
        a, b = torch.complex(a, a.flip(0)), torch.complex(b, -b.flip(1))
    return a.to(kind), b.to(kind)


def every_placement(ndim, axes):
    one = [R, *(S(axis) for axis in range(ndim))]
    if axes == 1:
        return [(x,) for x in one]
    return [(x, y) for x in one for y in one]


def placed(x, mesh, placements):
    return distribute_tensor(x.to(ON), mesh, list(placements), src_data_rank=None)


def check(found, name, got, want):
    """Note a case that differs."""
    found.append(None if digest(full(got)) == digest(want) else name)


def all_placements(shape, mesh_shape, dtype, options, family=None, few=False):
    """Every pair of placements: names of cases whose bits differ from one process's, or None."""
    mesh = mesh_of(mesh_shape)
    if not here(mesh):
        return None
    a, b = operands(shape, dtype, family=family)
    want = widen.matmul(a, b, **options)
    found = []
    pairs = [(x, y) for x in every_placement(2, mesh.ndim) for y in every_placement(2, mesh.ndim)]
    if few:  # those that differ in kind
        pairs = [(x, y) for i, (x, y) in enumerate(pairs) if i % 7 == 3]
    for pa, pb in pairs:
        got = widen.matmul(placed(a, mesh, pa), placed(b, mesh, pb), **options)
        check(found, f"{pa} {pb} {dtype} {options} {family}", got, want)
    return found


def inner_families(shape, mesh_shape, names, accuracies, dtype="float64"):
    """The inner dimension cut, hard data."""
    mesh = mesh_of(mesh_shape)
    if not here(mesh):
        return None
    found = []
    cut = [S(1)] * mesh.ndim, [S(0)] * mesh.ndim
    for name in names:
        a, b = operands(shape, dtype, family=name)
        da, db = placed(a, mesh, cut[0]), placed(b, mesh, cut[1])
        for accuracy in accuracies:
            want = widen.matmul(a, b, accuracy=accuracy)
            got = widen.matmul(da, db, accuracy=accuracy)
            check(found, f"{name} {accuracy}", got, want)
    return found


def shapes_and_scalars(mesh_shape):
    """Batches, vectors, gemm with every kind of c, out=, dtype=, words."""
    mesh = mesh_of(mesh_shape)
    if not here(mesh):
        return None
    found = []
    g = torch.Generator().manual_seed(3)

    def random(*shape):
        return torch.randn(shape, generator=g, dtype=torch.float64)

    def each(a, b):
        for pa in every_placement(a.ndim, 1):
            for pb in every_placement(b.ndim, 1):
                fill = (R,) * (mesh.ndim - 1)
                yield placed(a, mesh, fill + pa), placed(b, mesh, fill + pb), f"{pa} {pb}"

    for sa, sb in (
        ((3, 5, 40), (3, 40, 4)), ((3, 5, 40), (40, 4)), ((5, 40), (3, 40, 4)),
        ((2, 1, 4, 40), (3, 40, 5)), ((40,), (40, 6)), ((6, 40), (40,)), ((40,), (40,)),
        ((3, 5, 40), (40,)), ((0, 40), (40, 3)), ((4, 0), (0, 3)),
        ((1, 1), (1, 1)), ((2, 300), (300, 2)),
    ):  # fmt: skip
        a, b = random(*sa), random(*sb)
        want = widen.matmul(a, b)
        for da, db, name in each(a, b):
            check(found, f"{sa} {sb} {name}", widen.matmul(da, db), want)
    a, b = random(6, 90), random(90, 7)
    for c, pc in (
        (random(6, 7), R), (random(6, 7), S(0)), (random(6, 7), S(1)), (random(7), S(0)),
        (random(6, 1), S(0)), (random(1, 7), R), (random(), R),
    ):  # fmt: skip
        options = {"alpha": -0.5, "beta": 3.0}
        want = widen.gemm(a, b, c, **options)
        fill = (R,) * (mesh.ndim - 1)
        dc = placed(c, mesh, (*fill, pc))
        for pa, pb in ((S(1), S(0)), (S(0), R), (R, S(1))):
            da, db = placed(a, mesh, (*fill, pa)), placed(b, mesh, (*fill, pb))
            check(found, f"c {c.shape} {pc} {pa}", widen.gemm(da, db, dc, **options), want)
    da, db = (placed(x, mesh, (*[R] * (mesh.ndim - 1), p)) for x, p in ((a, S(1)), (b, S(0))))
    want = widen.gemm(a, b, 2.5, beta=2.0, accuracy="correct")
    check(found, "scalar c", widen.gemm(da, db, 2.5, beta=2.0, accuracy="correct"), want)
    check(found, "alpha 0", widen.gemm(da, db, dc, alpha=0.0, beta=1.0),
          widen.gemm(a, b, c, alpha=0.0, beta=1.0))  # fmt: skip
    check(found, "alpha", widen.gemm(da, db, alpha=1j, dtype="complex128"),
          widen.gemm(a, b, alpha=1j, dtype="complex128"))  # fmt: skip
    for dtype in ("float32", "float64x2", "complex128"):
        check(found, dtype, widen.matmul(da, db, dtype=dtype), widen.matmul(a, b, dtype=dtype))
    for p in (R, S(0), S(1)):
        out = placed(torch.zeros(6, 7, dtype=torch.float64), mesh, (*[R] * (mesh.ndim - 1), p))
        given = widen.matmul(da, db, out=out)
        check(found, f"out {p}", out, widen.matmul(a, b))
        found.append(None if given is out else "out is not given back")
    value, record = widen.matmul(da, db, info=True)
    want, bounds = widen.matmul(a, b, info=True)
    check(found, "info", value, want)
    check(found, "bounds", record.bound, bounds.bound)
    return found


def words(mesh_shape, names=("float64x2", "complex128x2"), accuracies=("standard", "correct")):
    """Operands of several words."""
    from widen.distributed import distribute_words

    mesh = mesh_of(mesh_shape)
    if not here(mesh):
        return None
    rng = np.random.default_rng(1)
    found = []
    fill = [R] * (mesh.ndim - 1)
    for name in names:
        m, k, n = (4, 50, 3) if "complex" in name else (7, 60, 5)
        parts = [[rng.standard_normal(s) + (1j * rng.standard_normal(s) if "complex" in name else 0)
                  for s in ((m, k), (k, n))] for _ in range(2)]  # fmt: skip
        x, y = (
            widen.Words(parts[0][i], name) + widen.Words(parts[1][i], name) * 1e-18 for i in (0, 1)
        )
        x, y = x.to_torch(), y.to_torch()
        for accuracy in accuracies:
            want = widen.matmul(x, y, accuracy=accuracy)
            for px, py in ((S(1), S(0)), (S(0), R), (R, S(1)), (S(0), S(0)), (R, R)):
                dx, dy = (distribute_words(z, mesh, [*fill, p]) for z, p in ((x, px), (y, py)))
                got = widen.matmul(dx, dy, accuracy=accuracy)
                check(found, f"{name} {px} {py} {accuracy}", got, want)
    return found


def gradients(mesh_shape, accuracy):
    """Backward passes of products of matrices, batches and sums."""
    mesh = mesh_of(mesh_shape)
    if not here(mesh):
        return None
    found = []
    g = torch.Generator().manual_seed(4)
    fill = (R,) * (mesh.ndim - 1)
    for sa, sb, sc in (
        ((9, 50), (50, 8), (8,)), ((4, 5, 30), (30, 6), (5, 1)),
        ((3, 4, 20), (3, 20, 5), (3, 4, 5)), ((20,), (20, 5), (5,)),
    ):  # fmt: skip
        a, b, c = (torch.randn(*s, generator=g, dtype=torch.float64) for s in (sa, sb, sc))
        plain = [x.clone().requires_grad_() for x in (a, b, c)]
        y = widen.gemm(plain[0], plain[1], plain[2], alpha=0.5, beta=2.0, accuracy=accuracy)
        w = torch.randn(y.shape, generator=g, dtype=torch.float64)
        y.backward(w)
        for pa in every_placement(a.ndim, 1):
            for pb in every_placement(b.ndim, 1):
                da, db, dc = (
                    placed(x, mesh, fill + p).requires_grad_()
                    for x, p in ((a, pa), (b, pb), (c, (S(0),)))
                )
                dy = widen.gemm(da, db, dc, alpha=0.5, beta=2.0, accuracy=accuracy)
                dy.backward(placed(w, mesh, dy.placements))
                for name, x, dx in zip("abc", plain, (da, db, dc), strict=True):
                    case = f"{name} {sa} {pa} {pb}"
                    check(found, case, dx.grad, x.grad)
                    found.append(None if dx.grad.placements == dx.placements else case)
    return found


def grid(mesh_shape, options, family=None, dtype="float64", shape=(200, 130, 180)):
    """SUMMA: both operands cut by both axes of a grid; and whether panels passed."""
    mesh = mesh_of(mesh_shape)
    if not here(mesh):
        return None
    a, b = operands(shape, dtype, family=family)
    found = []
    for pa, pb in (((S(0), S(1)), (S(0), S(1))), ((S(1), S(0)), (S(1), S(0)))):
        da, db = placed(a, mesh, pa), placed(b, mesh, pb)
        found.append(None if widen.plan(da, db, **options).panels else "no panels")
        c = torch.linspace(-1, 1, shape[2], dtype=a.dtype)
        got = widen.matmul(da, db, **options)
        check(found, f"{pa} {options} {family}", got, widen.matmul(a, b, **options))
        dc = placed(c, mesh, (R, S(0)))
        got = widen.gemm(da, db, dc, beta=1.0, **options)
        check(found, f"c {pa} {options}", got, widen.gemm(a, b, c, beta=1.0, **options))
    return found


def as_if_on_gpus(case, *arguments):
    """What a case finds where operands count as GPUs', and shares of open elements (`opened`).

    Kernels run in Triton's interpreter; elements that stay open are multiplied on the CPU.
    """
    from triton.runtime import interpreter

    from interpreter import work_less
    from widen.distributed import compute, jobs

    work_less(interpreter)
    with (
        patch.object(jobs, "is_on_gpu", lambda x: True),
        patch.object(compute, "is_on_gpu", lambda x: True),
        opened() as shares,
    ):
        return case(*arguments), shares


def on_gpus(case, *arguments):
    """The same where operands lie on a GPU, which all ranks may share."""
    with patch.dict(globals(), ON="cuda"), opened() as shares:
        return case(*arguments), shares


def agree(results, *, most_open=1.0):
    """Whether cases of `as_if_on_gpus` or `on_gpus` are alike in all ranks, by exact parts.

    The best of them left no more than so many elements open.
    """
    taken = [result for result in results if result[0] is not None]
    assert taken
    for found, shares in taken:
        assert len(found) > 0
        assert [name for name in found if name is not None] == []
        assert len(shares) > 0
        assert min(shares) <= most_open


@contextmanager
def opened():
    """What share of its elements every product of exact parts on GPUs leaves open."""
    from widen.distributed import exact_gpu

    shares = []

    def noted(product):
        def noting(*given):
            answer = product(*given)
            shares.append(answer.are_open.sum().item() / max(answer.are_open.numel(), 1))
            return answer

        return noting

    with (
        patch.object(exact_gpu, "inner_product", noted(exact_gpu.inner_product)),
        patch.object(exact_gpu, "panel_product", noted(exact_gpu.panel_product)),
    ):
        yield shares


def cut_by(word, case, *arguments):
    """What a case finds where the inner dimension is cut, or panels pass, whatever that costs."""
    from widen.distributed import jobs, plans

    def choose(shapes, held, wanted):
        by_word = {form.word: form for form in plans.forms(shapes)}
        if "inner" not in by_word:
            return plans.choose(shapes, held, wanted)
        words = ["inner"] * len(shapes.mesh)
        if word == "panels":  # both operands cut by both axes, in the same order
            words = ["rows" if p == S(0) else "columns" for p in held[0]]
        forms = tuple(by_word[one] for one in words)
        return forms, plans.placed(forms, len(shapes.result))

    with (
        patch.object(jobs, "choose", choose),
        patch.object(jobs, "_in_panels", lambda call, plan: word == "panels"),
    ):
        return case(*arguments)


def inner_cut(mesh_shape, names, accuracies, dtype, shape, options=None):
    """The inner dimension cut: matrices of similar magnitudes ("plain"), or of a family."""
    mesh, found = mesh_of(mesh_shape), []
    if not here(mesh):
        return None
    for name in names:
        a, b = operands(shape, dtype, family=None if name == "plain" else name)
        da, db = placed(a, mesh, [S(1)]), placed(b, mesh, [S(0)])
        for accuracy in accuracies:
            want = widen.matmul(a, b, accuracy=accuracy)
            product = partial(widen.matmul, accuracy=accuracy, **(options or {}))
            got = cut_by("inner", product, da, db)
            check(found, f"{name} {accuracy} {dtype} {options}", got, want)
    return found


def plans_of(mesh_shape, shape, choices):
    """What the axes of a mesh cut by these choices, both operands cut along the inner dimension."""
    mesh = mesh_of(mesh_shape)
    if not here(mesh):
        return None
    a, b = operands(shape, "float64")
    da, db = placed(a, mesh, [S(1)]), placed(b, mesh, [S(0)])
    return [widen.plan(da, db, **options).forms for options in choices]


def scaled_and_short(mesh_shape):
    """gemm with c of several kinds, lines of few entries, operands of different formats."""
    mesh, found = mesh_of(mesh_shape), []
    if not here(mesh):
        return None
    g = torch.Generator().manual_seed(5)

    def random(*shape, dtype=torch.float64):
        return torch.randn(shape, generator=g, dtype=dtype)

    def gemm(a, b, c, pc, **options):
        da, db = placed(a, mesh, [S(1)]), placed(b, mesh, [S(0)])
        dc = c if pc is None else placed(c, mesh, [pc])
        got = cut_by("inner", partial(widen.gemm, **options), da, db, dc)
        name = f"{a.shape} {a.dtype} {b.dtype} {c} {pc} {options}"
        check(found, name, got, widen.gemm(a, b, c, **options))

    a, b = random(6, 90), random(90, 7)
    gemm(a, b, random(6, 7), S(1), alpha=-0.5, beta=3.0)
    gemm(a, b, random(7), R, beta=2.0, accuracy="fast")
    gemm(a, b, 2.5, None, beta=2.0, accuracy="correct")
    gemm(a, b, random(6, 7, dtype=torch.complex128), S(0), alpha=1j, beta=1.0, dtype="complex128")
    special = random(6, 7)
    special[1, 2], special[3] = float("inf"), float("nan")
    gemm(a, b, special, R, beta=1.0)
    for k in (1, 2, 5):
        gemm(random(6, k), random(k, 7), random(6, 1), R, beta=1.0)
    gemm(random(6, 40, dtype=torch.float32), random(40, 7), 1.0, None, beta=1.0)
    gemm(a, random(90, 7, dtype=torch.complex64), 1.0, None, beta=1.0)
    gemm(random(3, 6, 40), random(3, 40, 7), random(6, 7), R, beta=1.0)
    gemm(random(3, 6, 40), random(40, 7), 0.0, None)
    return found


def contracts(mesh_shape, dtypes, accuracies, shape=(13, 70, 11)):
    """Formats and contracts, with rows and columns cut and with the inner dimension cut."""
    mesh = mesh_of(mesh_shape)
    if not here(mesh):
        return None
    found = []
    for dtype in dtypes:
        a, b = operands(shape, dtype)
        a[2, 3], b[5, 1], a[4], a[6, 1:] = float("inf"), float("nan"), 0.0, 0.0
        for accuracy in accuracies:
            want = widen.matmul(a, b, accuracy=accuracy)
            for pa, pb in ((S(1), S(0)), (S(0), R), (S(0), S(1))):
                fill = [R] * (mesh.ndim - 1)
                da, db = placed(a, mesh, [pa, *fill]), placed(b, mesh, [pb, *fill])
                got = widen.matmul(da, db, accuracy=accuracy)
                check(found, f"{dtype} {accuracy} {pa}", got, want)
    return found


def bytes_sent(mesh_shape, shape, placements, options):
    """What the plan says and what was sent, by all processes together; and the plan in words."""
    import torch.distributed as dist

    from widen.distributed import counted

    mesh = mesh_of(mesh_shape)
    if not here(mesh):
        return None
    a, b = operands(shape, options.pop("kind", "float64"))
    da, db = placed(a, mesh, placements[0]), placed(b, mesh, placements[1])
    plan = widen.plan(da, db, **options)
    with counted() as sent:
        widen.matmul(da, db, **options)
    total = {}
    for step in ("left operand", "right operand", "exact parts", "result"):
        amount = torch.tensor([sent.get(step, 0)])
        for axis in range(mesh.ndim):
            dist.all_reduce(amount, group=mesh.get_group(axis))
        if amount.item():
            total[step] = amount.item()
    return plan.bytes, total, str(plan), sent


def refused(name):
    """Calls that are refused everywhere, by their names."""
    mesh = mesh_of((2,))
    if not here(mesh):
        return None
    a, b = operands((6, 8, 5), "float64")
    da, db = placed(a, mesh, [S(1)]), placed(b, mesh, [S(0)])
    if name == "partial":
        return widen.matmul(da @ db, db.mT[:5, :3])
    if name == "plain":
        return widen.matmul(da, b)
    if name == "shapes":
        return widen.matmul(da, placed(b[:7], mesh, [S(0)]))
    if name == "ranks differ: accuracy":
        return widen.matmul(da, db, accuracy=["standard", "correct"][mesh.get_rank()])
    if name == "ranks differ: error":
        return widen.matmul(da, db, accuracy=["standard", "foolish"][mesh.get_rank()])
    if name == "ranks differ: shapes":
        size = [8, 6][mesh.get_rank()]
        x = torch.ones(5, size, dtype=torch.float64)
        return widen.matmul(placed(x, mesh, [S(1)]), placed(x.T.contiguous(), mesh, [S(0)]))
    if name == "out":
        out = placed(torch.zeros(6, 6, dtype=torch.float64), mesh, [R])
        return widen.matmul(da, db, out=out)
    if name == "meshes":
        return widen.matmul(da, placed(b, mesh_of((2, 1)), [S(0), R]))
    if name == "c":
        return widen.gemm(da, db, placed(torch.ones(4), mesh, [R]), beta=1.0)
    raise KeyError(name)


# ── sums, layers ─────────────────────────────────────────────────────────────


def exact_sum(terms, dtype):
    """The sum of tensors in fractions, each element rounded once; zeros are +0."""
    from fractions import Fraction

    total = []
    for column in torch.stack(terms).reshape(len(terms), -1).T.tolist():
        if not all(np.isfinite(column)):
            with np.errstate(all="ignore"):
                total.append(float(np.sum(np.array(column))))
            continue
        value = sum(map(Fraction, column), Fraction(0))
        total.append(value)
    return [
        x if isinstance(x, float) else rounded(x, dtype) for x in total
    ]  # fmt: skip


def rounded(x, dtype):
    from widen.formats import FORMATS
    from widen.stages.rounding import round_once

    return float(round_once(x, FORMATS[str(dtype).removeprefix("torch.")]))


def sums(size):
    """all_reduce and reduce_scatter against fractions, with and without several addends."""
    from widen.distributed import all_reduce, reduce_scatter

    mesh = mesh_of((size,))
    if not here(mesh):
        return None
    found = []
    me = mesh.get_rank()
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        g = torch.Generator().manual_seed(7)
        terms = torch.randn(size, 3, 5, 7, generator=g, dtype=torch.float64)
        terms = (terms * 2.0 ** torch.randint(-12, 12, terms.shape, generator=g)).to(dtype)
        terms[0, 0, 0, 0], terms[0, 0, 0, 1], terms[0, 0, 0, 2] = 1.0, float("nan"), float("inf")
        terms[-1, -1, 0, 2] = -float("inf")
        terms[..., 0, 3] = -0.0
        want = (
            torch.tensor(exact_sum(list(terms[:, 0]), dtype), dtype=torch.float64)
            .to(dtype)
            .reshape(5, 7)
        )
        got = all_reduce(terms[me, 0], mesh)
        found.append(None if digest(got) == digest(want) else f"all_reduce {dtype}")
        part = reduce_scatter(terms[me, 0], mesh, axis=1)
        lengths = [len(x) for x in torch.arange(7).chunk(size)] + [0] * size
        start = sum(lengths[:me])
        found.append(
            None
            if digest(part) == digest(want[:, start : start + lengths[me]])
            else f"reduce_scatter {dtype}"
        )
        flat = terms.reshape(-1, 5, 7)
        want = (
            torch.tensor(exact_sum(list(flat), dtype), dtype=torch.float64).to(dtype).reshape(5, 7)
        )
        got = all_reduce(terms[me], mesh, addends=0)
        found.append(None if digest(got) == digest(want) else f"addends {dtype}")
        # As many addends, shared out in another way: all of them in the first process.
        mine = flat if me == 0 else flat[:0]
        got = all_reduce(mine, mesh, addends=0)
        found.append(None if digest(got) == digest(want) else f"shared out {dtype}")
    huge = torch.tensor([1.7e308, -1.7e308, 1.7e308][: max(size, 2)], dtype=torch.float64)
    got = all_reduce(huge[me : me + 1] if me < len(huge) else huge[:1] * 0, mesh)
    want = {1: 1.7e308, 2: 0.0}.get(size, 1.7e308)
    found.append(None if got.tolist() == [want] else f"cancelling overflow {got}")
    both = torch.tensor([[1.7e308], [1.7e308]], dtype=torch.float64) * (1 if me == 0 else 0)
    got = all_reduce(both, mesh, addends=0)
    found.append(None if got.tolist() == [float("inf")] else f"overflow {got}")
    return found


def layers(size, accuracy, dtype):
    """An MLP, forward and backward: digests of everything, to be compared over sizes."""
    from torch.distributed.tensor.parallel import parallelize_module

    from widen.distributed import ColumnLinear, ColumnParallel, RowLinear, RowParallel

    mesh = mesh_of((size,))
    if not here(mesh):
        return None
    kind = getattr(torch, dtype)
    torch.manual_seed(3)
    first = ColumnLinear(24, 40, mesh, accuracy=accuracy, dtype=kind)
    second = RowLinear(40, 12, mesh, accuracy=accuracy, dtype=kind)
    x = torch.randn(4, 5, 24, dtype=kind, requires_grad=True)
    w = torch.randn(4, 5, 12, dtype=kind)
    y = second(torch.relu(first(x)))
    (y.full_tensor() * w).sum().backward()
    torch.manual_seed(3)
    model = torch.nn.Sequential(
        torch.nn.Linear(24, 40, dtype=kind), torch.nn.ReLU(), torch.nn.Linear(40, 12, dtype=kind)
    )
    plan = {"0": ColumnParallel(accuracy), "2": RowParallel(accuracy)}
    parallelize_module(model, mesh, plan)
    again = model(x.detach())
    everything = [y.full_tensor(), x.grad, again.full_tensor()]
    everything += [p.grad.full_tensor() for m in (first, second) for p in m.parameters()]
    return [digest(value) for value in everything]


def wanted_placements(mesh_shape):
    """The result where it is wanted, from every pair of placements."""
    from widen.distributed import matmul

    mesh = mesh_of(mesh_shape)
    if not here(mesh):
        return None
    a, b = operands((13, 40, 11), "float64")
    want, found = widen.matmul(a, b), []
    for pa in every_placement(2, mesh.ndim):
        for pb in every_placement(2, mesh.ndim)[::2]:
            for out in every_placement(2, mesh.ndim)[:: mesh.ndim]:
                got = matmul(placed(a, mesh, pa), placed(b, mesh, pb), out_placements=out)
                check(found, f"{pa} {pb} {out}", got, want)
                found.append(None if got.placements == tuple(out) else f"{out}")
    return found
