"""Examples of short methods and of records, which the reference adds to their docstrings.

A docstring that has an example of its own needs no line here. Every line is run with the set-up of
its class; the docstrings of functions have their examples in the source.
"""

from __future__ import annotations

import re

IMPORTS = ">>> import numpy as np, widen\n"
SET_UP = {
    "widen.Words": """\
>>> x = widen.Words(["0.1", "1/3", "-2"], dtype="float64x2")
>>> m = widen.Words([[1, 2, 3], [4, 5, 6]], dtype="float64x2")
>>> z = widen.Words(["1+2j"], dtype="complex128x2")
""",
    "widen.Encoded": ">>> eb = widen.encode(np.eye(3), side='right')\n",
    "widen.Info": ">>> c, info = widen.matmul(np.eye(3), np.eye(3), info=True)\n",
    "widen.Plan": ">>> p = widen.plan(np.eye(3), np.eye(3), accuracy='correct')\n",
    "widen.Contract": ">>> p = widen.plan(np.eye(3), np.eye(3), accuracy='correct')\n",
    "widen.numpy": """\
>>> import widen.numpy as wnp
>>> v, w = np.array([1.0, 2.0]), np.array([3.0, 4.0])
>>> m = np.array([[1.0, 2.0], [3.0, 4.0]])
""",
    "widen.linalg": ">>> a, b = np.array([[2.0, 1.0], [1.0, 3.0]]), np.ones(2)\n",
}
GROUP = """\
>>> import torch, torch.distributed as dist
>>> from torch.distributed.device_mesh import init_device_mesh
>>> from torch.distributed.tensor import Replicate, Shard, distribute_tensor
>>> import widen.distributed
>>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
>>> mesh = init_device_mesh("cpu", (1,))
"""
"""A group of one process, which examples of many devices need; `torchrun` starts larger ones."""
PLANNED = (
    GROUP
    + """\
>>> a = distribute_tensor(torch.ones(2, 3, dtype=torch.float64), mesh, [Shard(1)])
>>> p = widen.plan(a, a.T)
>>> dist.destroy_process_group()
"""
)
LAYER = (
    GROUP
    + """\
>>> layer = widen.distributed.{}(4, 3, mesh)
>>> y = layer(torch.ones(2, 4))
>>> dist.destroy_process_group()
>>> y.shape"""
)
STYLE = (
    GROUP
    + """\
>>> from torch.distributed.tensor.parallel import parallelize_module
>>> model = torch.nn.Sequential(torch.nn.Linear(4, 3))
>>> model = parallelize_module(model, mesh, {{"0": widen.distributed.{}()}})
>>> dist.destroy_process_group()
>>> type(model[0]).__name__"""
)
SHORT = {
    "widen.Contract": (
        ">>> print(p.contract.promise)", "the exact value, rounded once to nearest even"),
    "widen.Contract.certified_by_data": (">>> p.contract.certified_by_data", "False"),
    "widen.Contract.correct": (">>> p.contract.correct", "True"),
    "widen.Encoded": (">>> print(widen.matmul(np.ones((1, 3)), eb))", "[[1. 1. 1.]]"),
    "widen.Encoded.device": (">>> print(eb.device)", "None"),
    "widen.Encoded.item": (">>> eb.item(0) is eb                 # a batch of one", "True"),
    "widen.Encoded.nbytes": (">>> eb.nbytes > 0", "True"),
    "widen.Encoded.serves": (">>> eb.serves", "('standard',)"),
    "widen.Encoded.shape": (">>> eb.shape", "(1, 3, 3)"),
    "widen.Info": (">>> info.repaired, info.bound.shape", "(0, (3, 3))"),
    "widen.Info.system": (">>> info.system", "'residues'"),
    "widen.Info.unit": (">>> info.unit", "'fp64'"),
    "widen.Plan": (">>> print(p)", "widen plan: 3 x 3 times 3 x 3, float64 result..."),
    "widen.Plan.products": (">>> p.products >= 1", "True"),
    "widen.Plan.system": (">>> p.system", "'residues'"),
    "widen.Words.T": (">>> m.T.shape", "(3, 2)"),
    "widen.Words.argmax": (">>> int(x.argmax())", "1"),
    "widen.Words.argmin": (">>> int(x.argmin())", "2"),
    "widen.Words.argsort": (">>> x.argsort()", "array([2, 0, 1])"),
    "widen.Words.astype": (">>> x.astype(widen.float64x4).format", "widen.float64x4"),
    "widen.Words.conj": (">>> print(z.conj())", "[1.0-2.0j]"),
    "widen.Words.copy": (">>> y = x.copy()\n>>> y[0] = 7\n>>> print(x[0])", "0.1"),
    "widen.Words.cpu": (">>> x.to_torch().cpu().device", "device(type='cpu')"),
    "widen.Words.device": (">>> x.device", "'cpu'"),
    "widen.Words.diagonal": (">>> print(m.diagonal())", "[1.0, 5.0]"),
    "widen.Words.dot": (">>> print(x.dot(x))", "4.1211111111111111111111111111111"),
    "widen.Words.flatten": (">>> m.flatten().shape", "(6,)"),
    "widen.Words.from_planes": (
        ">>> small, large = np.array([[1e-20]]), np.array([[1.0]])    # in any order\n"
        ">>> print(widen.Words.from_planes(widen.float64x2, [small, large]))",
        "[1.00000000000000000001]",
    ),
    "widen.Words.imag": (">>> print(z.imag)", "[2.0]"),
    "widen.Words.max": (">>> print(x.max())", "0.33333333333333333333333333333333"),
    "widen.Words.mean": (">>> print(m.mean())", "3.5"),
    "widen.Words.min": (">>> print(x.min())", "-2.0"),
    "widen.Words.nbytes": (">>> x.nbytes", "48"),
    "widen.Words.ndim": (">>> m.ndim", "2"),
    "widen.Words.norm": (">>> print(x.norm())", "2.0300519971446817872050245547386"),
    "widen.Words.of": (
        ">>> print(widen.Words.of(widen.float64x2, m.planes)[0])", "[1.0, 2.0, 3.0]"),
    "widen.Words.prod": (">>> print(m.prod())", "720.0"),
    "widen.Words.ravel": (">>> m.ravel().shape", "(6,)"),
    "widen.Words.real": (">>> print(z.real)", "[1.0]"),
    "widen.Words.reshape": (">>> m.reshape(3, 2).shape", "(3, 2)"),
    "widen.Words.round": (">>> print(x.round(3))", "[0.1, 0.333, -2.0]"),
    "widen.Words.save": (
        ">>> import tempfile\n>>> with tempfile.TemporaryDirectory() as folder:\n"
        "...     x.save(f'{folder}/x.npz')\n...     print(widen.load(f'{folder}/x.npz')[2])",
        "-2.0",
    ),
    "widen.Words.shape": (">>> m.shape", "(2, 3)"),
    "widen.Words.size": (">>> m.size", "6"),
    "widen.Words.sqrt": (">>> print(x[:1].sqrt())", "[0.31622776601683793319988935444327]"),
    "widen.Words.squeeze": (">>> x.reshape(1, 3).squeeze().shape", "(3,)"),
    "widen.Words.sum": (">>> print(x.sum())", "-1.5666666666666666666666666666667"),
    "widen.Words.to": (">>> x.to('cpu').device", "device(type='cpu')"),
    "widen.Words.to_arrays": (">>> x.to_torch().to_arrays().device", "'cpu'"),
    "widen.Words.to_decimal": (">>> x[2].to_decimal()", "Decimal('-2')"),
    "widen.Words.to_flint": (">>> x[2].to_flint()", "-2.00000000000000"),
    "widen.Words.to_fraction": (">>> x[2].to_fraction()", "Fraction(-2, 1)"),
    "widen.Words.to_gmpy2": (">>> x[2].to_gmpy2() == -2", "True"),
    "widen.Words.to_int": (">>> x[2].to_int()", "-2"),
    "widen.Words.to_mpmath": (">>> x[2].to_mpmath()", "mpf('-2.0')"),
    "widen.Words.to_numpy": (">>> x.to_numpy()", "array([ 0.1 , 0.33333333, -2. ])"),
    "widen.Words.to_strings": (">>> x.to_strings()[0]", "'0.1'"),
    "widen.Words.to_torch": (">>> type(x.to_torch().planes[0]).__name__", "'Tensor'"),
    "widen.Words.trace": (">>> print(m.trace())", "6.0"),
    "widen.Words.transpose": (">>> m.transpose(1, 0).shape", "(3, 2)"),
    "widen.Words.words": (">>> x.words.shape", "(2, 3)"),
    "widen.Words.zeros_like": (">>> print(x.zeros_like())", "[0.0, 0.0, 0.0]"),
    "widen.distributed.ColumnLinear": (
        LAYER.format("ColumnLinear"), "torch.Size([2, 3])"),
    "widen.distributed.ColumnLinear.forward": (
        LAYER.format("ColumnLinear"), "torch.Size([2, 3])"),
    "widen.distributed.ColumnParallel": (STYLE.format("ColumnParallel"), "'ColumnLinear'"),
    "widen.distributed.RowLinear": (LAYER.format("RowLinear"), "torch.Size([2, 3])"),
    "widen.distributed.RowLinear.forward": (LAYER.format("RowLinear"), "torch.Size([2, 3])"),
    "widen.distributed.RowParallel": (STYLE.format("RowParallel"), "'RowLinear'"),
    "widen.distributed.CommunicationError": (
        ">>> import widen.distributed\n"
        ">>> issubclass(widen.distributed.CommunicationError, RuntimeError)", "True"),
    "widen.distributed.DistributedPlan": (PLANNED + ">>> type(p).__name__", "'DistributedPlan'"),
    "widen.distributed.DistributedPlan.bytes": (PLANNED + ">>> sum(p.bytes.values())", "0"),
    "widen.distributed.DistributedPlan.communicates": (PLANNED + ">>> p.communicates", "False"),
    "widen.distributed.DistributedPlan.inner": (PLANNED + ">>> p.inner", "()"),
    "widen.distributed.MismatchError": (
        ">>> import widen.distributed\n"
        ">>> issubclass(widen.distributed.MismatchError, ValueError)", "True"),
    "widen.distributed.distribute_words": (
        GROUP + ">>> x = widen.Words([1, 2], 'float64x2').to_torch()\n"
        ">>> y = widen.distributed.distribute_words(x, mesh, [Replicate()])\n"
        ">>> dist.destroy_process_group()\n>>> y.shape", "(2,)"),
    "widen.linalg.DefiniteInfo": (
        ">>> definite, info = widen.linalg.is_positive_definite(a, info=True)\n>>> info.vectors",
        "[None]",
    ),
    "widen.linalg.EigenInfo": (
        ">>> values, info = widen.linalg.eigvalsh(a, info=True)\n>>> info.decided",
        "array([ True,  True])",
    ),
    "widen.linalg.FactorInfo": (
        ">>> q, r, info = widen.linalg.qr(a, info=True)\n>>> bool(info.residual.max() < 1e-15)",
        "True",
    ),
    "widen.linalg.NotProvenError": (
        ">>> issubclass(widen.linalg.NotProvenError, np.linalg.LinAlgError)", "True"),
    "widen.linalg.SingularMatrixError": (
        ">>> try:\n...     widen.linalg.solve(np.ones((2, 2)), b)\n"
        "... except widen.linalg.SingularMatrixError:\n...     print('no solution, proven')",
        "no solution, proven",
    ),
    "widen.linalg.SolveInfo": (
        ">>> x, info = widen.linalg.solve(a, b, info=True)\n>>> bool(np.all(info.radius < 1e-15))",
        "True",
    ),
    "widen.linalg.SolveInfo.of_vector": (
        ">>> x, info = widen.linalg.solve(a, b[:, None], info=True)\n"
        ">>> info.radius.shape, info.of_vector().radius.shape",
        "((2, 1), (2,))",
    ),
    "widen.numpy.dot": (">>> print(wnp.dot(v, w))", "11.0"),
    "widen.numpy.einsum": (">>> print(wnp.einsum('ij,j->i', m, v))", "[ 5. 11.]"),
    "widen.numpy.inner": (">>> print(wnp.inner(v, w))", "11.0"),
    "widen.numpy.matvec": (">>> print(wnp.matvec(m, v))", "[ 5. 11.]"),
    "widen.numpy.outer": (">>> print(wnp.outer(v, w).tolist())", "[[3.0, 4.0], [6.0, 8.0]]"),
    "widen.numpy.sum": (">>> print(wnp.sum(m))", "10.0"),
    "widen.numpy.tensordot": (">>> print(wnp.tensordot(m, m))", "30.0"),
    "widen.numpy.vdot": (">>> print(wnp.vdot(v, w))", "11.0"),
    "widen.numpy.vecdot": (">>> print(wnp.vecdot(v, w))", "11.0"),
    "widen.numpy.vecmat": (">>> print(wnp.vecmat(v, m))", "[ 7. 10.]"),
}  # fmt: skip


def example(name: str) -> str:
    """Return the example that is added for a name, or nothing.

    >>> example("widen.Encoded.serves").splitlines()[1:]
    [">>> eb = widen.encode(np.eye(3), side='right')", '>>> eb.serves', "('standard',)"]
    """
    if name not in SHORT:
        return ""
    lines = next((own for key, own in SET_UP.items() if f"{name}.".startswith(f"{key}.")), "")
    code, printed = SHORT[name]
    needed = "".join(
        line + "\n"
        for line in lines.splitlines()
        if "import" in line or any(name in code_words(code) for name in variables(line))
    )
    return f"{IMPORTS}{needed}{code}\n{printed}\n"


def variables(line: str) -> list[str]:
    """Return the names that a line of a set-up makes."""
    return [name.strip() for name in line.removeprefix(">>> ").partition(" = ")[0].split(",")]


def code_words(code: str) -> set[str]:
    """Return all names in a piece of code."""
    return set(re.findall(r"\b[a-z]+\b", code))
