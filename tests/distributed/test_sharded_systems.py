"""`linalg.solve` of DTensors: the bits of one process, without all of A in any."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch.distributed.tensor import Replicate, Shard

from ranks import ranks
from sharded_cases import every_placement
from system_cases import FAMILIES, SINGULAR, Case, alone, memory, shared, tensors

R, S = Replicate(), Shard
MESHES = [(2,), (3,), (4,), (2, 2)]
BY_ROWS = {1: ((S(0),), (S(0),)), 2: ((S(0), S(1)), (S(1), S(0)))}


def compare(held, cases, meshes, said=lambda text: text):
    """All ranks of every mesh give what one process gives."""
    want = [said(text) for text in alone(cases)]
    for mesh in meshes:
        found = [x for x in held.run(shared, cases, mesh) if x is not None]
        assert len(found) == np.prod(mesh)
        for of_rank in found:
            texts = map(said, of_rank)
            wrong = [c.name for c, x, y in zip(cases, texts, want, strict=True) if x != y]
            assert wrong == []


def random(*shape, dtype=torch.float64, seed=9):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def system(seed, family, n, mesh_axes, **options):
    a, b = tensors(FAMILIES[family](np.random.default_rng((n, seed)), n))
    return Case(f"{family} {n}", a, b, BY_ROWS[mesh_axes], options)


def test_every_placement(four):
    a = random(12, 12)
    for mesh in ((1,), (3,), (2, 2)):
        cases = []
        for b in (random(12, seed=1), random(12, 5, seed=2)):
            sides = every_placement(b.ndim, len(mesh))[:: 2 * len(mesh) - 1]
            pairs = itertools.product(every_placement(2, len(mesh))[:: len(mesh)], sides)
            cases += [Case(str(pair), a, b, pair) for pair in pairs]
        compare(four, cases, [mesh])


def test_hard_systems(four):
    for at, mesh in enumerate(((4,), (2, 2))):  # all families on all meshes are a slow test
        cases = [system(0, family, 9, len(mesh)) for family in list(FAMILIES)[at::2]]
        compare(four, cases, [mesh])


def test_singular_systems_are_the_same_error_everywhere(four):
    cases = [
        Case(name, *tensors((a, np.ones((len(a), sides)))), BY_ROWS[1])
        for (name, a), sides in itertools.product(SINGULAR.items(), (1, 0))
    ]
    assert {text.split(":")[0] for text in alone(cases)} == {"SingularMatrixError"}
    compare(four, cases, [(2,), (4,)])


@pytest.mark.slow
def test_formats(four):
    real, sides = random(7, 7), random(7, 2, seed=4)
    both = torch.complex(real, real.flip(0)), torch.complex(sides, -sides.flip(0))
    cases = [
        Case("float64x2", real, sides, BY_ROWS[1], {"dtype": "float64x2"}),
        Case("float32", real, sides, BY_ROWS[1], {"dtype": "float32"}),
        Case("half", real.half(), sides.bfloat16(), BY_ROWS[1]),
        Case("complex128", *both, BY_ROWS[1]),
        Case("complex64", both[0].to(torch.complex64), sides.float(), BY_ROWS[1]),
        Case("complex sides", real, both[1], BY_ROWS[1]),
        Case("complex words", *both, BY_ROWS[1], {"dtype": "complex128x2"}),
        Case("batch", random(5, 3, 3), random(5, 3, 2), ((S(1),), (S(0),))),
        Case("a vector for a batch", random(5, 3, 3), random(3), ((S(0),), (R,))),
        Case("a matrix for a batch", random(3, 3), random(4, 3, 2), ((S(1),), (S(0),))),
        Case("batches", random(2, 1, 3, 3), random(4, 3, 2), ((S(2),), (S(1),))),
        Case("empty", random(0, 0), random(0, 2), BY_ROWS[1]),
        Case("no sides", random(3, 3), random(3, 0), BY_ROWS[1]),
    ]
    compare(four, cases, [(3,)])


def test_a_singular_matrix_of_a_batch_is_an_error_everywhere(four):
    a = random(4, 3, 3)
    a[2] = 1.0
    cases = [Case("batch", a, random(4, 3, 1), ((S(0),), (S(0),)))]
    compare(four, cases, [(4,)], lambda text: text.split(":")[0])


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (Case("info", random(3, 3), random(3), BY_ROWS[1], {"info": True}), "info=True"),
        (Case("shape", random(3, 4), random(3), BY_ROWS[1]), "square"),
        (Case("rows", random(3, 3), random(4), BY_ROWS[1]), "b needs 3 rows"),
        (Case("nan", random(3, 3) / 0 * 0, random(3), BY_ROWS[1]), "NaN or infinity"),
        (Case("accuracy", random(3, 3), random(3), BY_ROWS[1], {"accuracy": "x"}), "not known"),
        (Case("gradient", random(3, 3).requires_grad_(), random(3), BY_ROWS[1]), "no gradients"),
    ],
    ids=lambda x: x.name if isinstance(x, Case) else "",
)
def test_refusals(four, case, said):
    four.start(shared, [case], (2,))
    answers = [answer for answer in four.answers() if answer != (True, None)]
    assert len(answers) == 2
    for good, value in answers:
        assert good is False
        assert value[0] in ("TypeError", "ValueError", "MismatchError")
        assert said in value[1]


def test_a_process_has_its_share_of_the_matrix(four):
    """n = 320: a matrix takes 0.82 MB; 2 and 4 processes take a half and a quarter, and panels."""
    n = 320
    four.run(memory, 40, 1, (4,))  # kernels are read, and pools made
    most = {mesh: max(x for x in four.run(memory, n, 1, mesh) if x) for mesh in ((2,), (4,))}
    matrix = 8 * n * n
    for (count,), size in most.items():
        assert size < 16 * matrix / count, (count, size / matrix)
    assert most[4,] < 0.6 * most[2,]


# ── the rest, slow ───────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_many_hard_systems(four, mesh):
    axes = len(mesh)
    cases = [system(seed, family, n, axes) for family in FAMILIES for n in (1, 4, 13)
             for seed in range(3)]  # fmt: skip
    cases += [system(7, family, 10, axes, dtype="float64x2") for family in FAMILIES]
    cases += [system(8, family, 10, axes, dtype="float32") for family in FAMILIES]
    cases += [system(9, "bidiagonal", 30, axes), system(9, "cond 1e18", 60, axes)]
    compare(four, cases, [mesh])


@pytest.mark.slow
def test_larger_ones_with_several_panels(four):
    n = 150
    a, _ = tensors(FAMILIES["cond 1e13"](np.random.default_rng(1), n))
    cases = [Case("inverse", a, torch.eye(n, dtype=torch.float64), BY_ROWS[1]),
             Case("gaussian", random(n, n), random(n, 70), BY_ROWS[1])]  # fmt: skip
    compare(four, cases, [(3,), (4,)])


@pytest.mark.slow
def test_eight_processes_share_a_system():
    with ranks(8) as eight:
        cases = [system(5, family, 11, 1) for family in ("gaussian", "tied", "cond 1e18")]
        compare(eight, cases, [(8,)])
