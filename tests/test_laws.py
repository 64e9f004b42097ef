"""Laws of the house: who may import whom, the public surface, lazy imports, the size of files."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import subprocess
import sys
import tokenize
from collections import Counter
from pathlib import Path

import pytest

import widen
from widen.formats import FORMATS, PLAIN

ROOT = Path(widen.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

# From the bottom up. A module may import from the lines below its own and from its own line;
# within a line, a module or a room (a folder). DESIGN.md's law, with the modules that stand
# between its rooms.
ORDER = [
    ["contract", "account"],
    ["plan"],
    ["formats", "units"],
    ["bounds"],
    ["systems"],
    ["planner"],
    ["kernels"],
    ["words"],
    ["encoded"],
    ["arguments", "batches"],
    ["repair", "repair_device"],
    ["device_plan", "problem"],
    ["stages", "device"],
    ["call"],
    ["native"],
    ["on_cpu", "tensor_words"],
    ["tensor_batches"],
    ["tensors", "torch_operator"],
    ["routes"],
    ["api"],
    ["papers"],
    ["cli"],
    ["__main__"],
]
APART = ["testing"]  # nobody imports it, and it imports nobody
LEVEL = {name: level for level, line in enumerate(ORDER) for name in line}

# Which rooms may name which libraries; everybody may use NumPy and the standard library.
LIBRARIES = {
    "kernels": {"numba", "triton", "torch", "cuda"},
    "words": {"mpmath", "gmpy2", "flint"},  # numbers that words become
    "device": {"torch"},  # the stages of tensors
    "repair_device": {"torch"},
    "on_cpu": {"torch", "ml_dtypes"},  # what the interface does with them
    "tensor_batches": {"torch"},
    "tensor_words": {"torch"},
    "tensors": {"torch"},
    "torch_operator": {"torch"},
    "cli": {"typer", "rich", "torch", "matplotlib"},  # the last for figures
    "testing": {"flint", "gmpy2", "ml_dtypes"},
}
# And which files of a paper, below its folder; its algorithm and its items name none.
LIBRARIES_OF_PAPERS = {
    "gpu": {"torch"},
    "kernels/cpu": {"numba"},
    "kernels/triton": {"triton"},
    "kernels/cuda": {"torch", "cuda"},
}
STRANGE = {
    "numba", "torch", "triton", "cuda", "cupy", "jax", "matplotlib", "typer", "rich", "click",
    "flint",
    "gmpy2", "mpmath", "ml_dtypes", "array_api_compat", "scipy",
}  # fmt: skip

PUBLIC = sorted(
    ["Contract", "Encoded", "Info", "Plan", "Words", "encode", "gemm", "matmul", "plan"]
    + [name for name in FORMATS if name not in PLAIN]
)

OUTSIDE_PAPERS = Counter(
    word
    for path in MODULES
    if "papers" not in path.relative_to(ROOT).parts
    for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))
)

modules = pytest.mark.parametrize(
    "path", MODULES, ids=lambda path: str(path.relative_to(ROOT).with_suffix(""))
)


def room(path):
    """The room or module under `widen` that a file belongs to; "" for the package itself."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return "" if parts == ("__init__",) else parts[0]


def place_in_paper(path):
    """Where in its paper's folder a file is: "algorithm", "gpu", "kernels/triton"; else None."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return "/".join(parts[2:4]) if parts[0] == "papers" and len(parts) > 2 else None


def package_of(path):
    """The package a file's relative imports start from."""
    return ("widen", *path.relative_to(ROOT).parts[:-1])


def imported(path):
    """Every module a file names in an import, anywhere in it, in full; also dynamic imports."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = list(package_of(path)[: 1 - node.level or None]) if node.level else []
            module = ".".join(base + ([node.module] if node.module else []))
            found += [f"{module}.{alias.name}" for alias in node.names]
        elif (
            isinstance(node, ast.Call)
            and getattr(node.func, "attr", getattr(node.func, "id", ""))
            in ("import_module", "for_gpus")
            and isinstance(node.args[0], (ast.Constant, ast.JoinedStr))
        ):
            found += re.findall(r"[\w.]+", ast.unparse(node.args[0]).strip("f'\""))[:1]
    return found


def rooms_imported(path):
    """Rooms and modules of `widen` that a file imports; "" if it imports the package itself."""
    names = [name.split(".") for name in imported(path) if name.split(".")[0] == "widen"]
    known = {*LEVEL, *APART}
    return {parts[1] if len(parts) > 1 and parts[1] in known else "" for parts in names}


def test_there_is_something_to_check():
    assert len(MODULES) > 30
    assert rooms_imported(ROOT / "api.py") >= {"contract", "planner"}
    assert rooms_imported(ROOT / "cpu/run.py") >= {"backends", "planner", "account"}
    assert "numba" in {name.split(".")[0] for name in imported(ROOT / "cpu/kernels/limbs.py")}


@modules
def test_every_module_has_its_place(path):
    assert room(path) in {"", *LEVEL, *APART}, "give the new module a line in ORDER"


def test_every_place_is_taken():
    taken = {room(path) for path in MODULES}
    missing = {*LEVEL, *APART} - taken
    assert not missing, "take modules that are gone out of ORDER"


@modules
def test_imports_go_downwards(path):
    own = room(path)
    if own in ("", *APART):
        return
    for other in rooms_imported(path) - {own}:
        if other == "":
            assert own in ("cli", "papers"), f"{own} imports the package that is made of it"
            continue
        assert other not in APART, f"{own} imports {other}"
        assert LEVEL[other] < LEVEL[own], f"{own} imports {other}, which stands above it"


def test_the_ledger_and_contracts_stand_alone():
    for name in ("account", "contract"):
        assert rooms_imported(ROOT / f"{name}.py") == set()


@modules
def test_only_backends_import_kernels(path):
    if room(path) not in ("backends", "kernels"):
        assert "kernels" not in rooms_imported(path)
    if room(path) == "kernels":
        assert rooms_imported(path) <= {"kernels"}, "kernels hold no policy"


papers = pytest.mark.parametrize(
    "path",
    [path for path in MODULES if room(path) == "papers"],
    ids=lambda path: str(path.relative_to(ROOT / "papers").with_suffix("")),
)


@papers
def test_a_paper_s_kernels_are_launched_by_its_cpu_and_gpu(path):
    """Each by its own side: Numba's take seconds to load, and Triton may not be there."""
    place = place_in_paper(path) or ""
    taken = [name.split(".") for name in imported(path) if name.split(".")[0] == "widen"]
    kernels = [name for name in taken if "kernels" in name]
    if place not in ("cpu", "gpu") and not place.startswith("kernels/"):
        assert kernels == []
    for name in kernels:
        assert ("cpu" in name) == (place in ("cpu", "kernels/cpu"))
    if place.startswith("kernels/"):
        others = [name for name in taken if "kernels" not in name]
        assert all(name[:3] == ["widen", "gpu", "tiles"] for name in others), "policy in kernels"


@papers
def test_no_other_room_works_for_papers_alone(path):
    """What a paper takes from a wing is made there, and used outside papers too: named twice."""
    for name in imported(path):
        if name.split(".")[:2] in (["widen", "cpu"], ["widen", "gpu"]):
            last = name.split(".")[-1]
            assert OUTSIDE_PAPERS[last] > 1, f"only papers use {name}: move it there"


@modules
def test_nothing_imports_testing(path):
    if room(path) == "testing":
        assert rooms_imported(path) <= {"testing"}
    else:
        assert "testing" not in rooms_imported(path)


@modules
def test_libraries_stay_in_their_rooms(path):
    named = {name.split(".")[0] for name in imported(path)} & STRANGE
    in_paper = LIBRARIES_OF_PAPERS.get(place_in_paper(path), set())
    assert named <= LIBRARIES.get(room(path), in_paper)


@modules
def test_every_import_is_of_something_known(path):
    allowed = {*sys.stdlib_module_names, "numpy", "widen", *STRANGE}
    assert {name.split(".")[0] for name in imported(path)} <= allowed


# ── the public surface ───────────────────────────────────────────────────────


def test_public_names():
    assert sorted(widen.__all__) == PUBLIC
    assert re.fullmatch(r"\d+\.\d+\.\d+", widen.__version__)
    for name in PUBLIC:
        assert getattr(widen, name).__module__.startswith("widen.")


def test_nothing_else_is_made_public():
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    named = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert named - {"annotations"} == set(PUBLIC)
    assert not any(isinstance(node, (ast.FunctionDef, ast.ClassDef)) for node in tree.body)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_documented(name):
    thing = getattr(widen, name)
    text = inspect.getdoc(thing)
    assert text
    assert len(text.splitlines()[0]) < 100
    if not inspect.isfunction(thing):
        return
    examples = doctest.DocTestParser().get_examples(text)
    assert any(f"widen.{name}(" in example.source for example in examples)
    assert any(example.want for example in examples)
    for parameter in inspect.signature(thing).parameters:
        assert re.search(rf"\b{parameter}\b", text), f"{parameter} is not documented"


def test_options_are_named_alike():
    shared = ["accuracy", "dtype", "unit", "system", "workspace"]
    for function in (widen.matmul, widen.gemm, widen.plan):
        parameters = inspect.signature(function).parameters
        assert list(parameters)[:2] == ["a", "b"]
        for name in shared:
            assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
            assert parameters[name].default is None


@modules
def test_every_module_states_its_subject(path):
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert text, "the first line states the module's subject"


# ── lazy imports ─────────────────────────────────────────────────────────────

HEAVY = ["torch", "triton", "matplotlib", "numba", "llvmlite", "typer", "rich", "scipy", "flint"]


def in_a_new_process(code):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.split()


def test_importing_widen_imports_nothing_heavy():
    heavy = in_a_new_process(f"import widen, sys; print(*[m for m in {HEAVY} if m in sys.modules])")
    assert heavy == []
    heavy = in_a_new_process(
        "import widen, sys; widen.plan((8, 8), (8, 8));"
        f"print(*[m for m in {HEAVY} if m in sys.modules])"
    )
    assert heavy == []


def test_naming_all_papers_imports_nothing_heavy():
    heavy = in_a_new_process(
        "import sys; from widen.papers.items import all_items; all_items();"
        f"print(*[m for m in {HEAVY} if m in sys.modules])"
    )
    assert heavy == []


def test_a_product_imports_no_other_array_library():
    heavy = in_a_new_process(
        "import numpy, widen, sys; widen.matmul(numpy.eye(2), numpy.eye(2));"
        f"print(*[m for m in {HEAVY} if m in sys.modules])"
    )
    assert set(heavy) <= {"numba", "llvmlite", "scipy"}  # numba asks for scipy where it is there


def test_asking_for_tensors_imports_pytorch():
    found = in_a_new_process(
        "import widen, sys; x = widen.Words([1], 'float64x2'); before = 'torch' in sys.modules; "
        "print(before, type(x.to_torch().planes[0]).__name__)"
    )
    assert found == ["False", "Tensor"]


def test_gradients_do_not_import_a_compiler():
    """Two seconds or three, which PyTorch's way through a custom operator takes once."""
    imported = in_a_new_process(
        "import torch, widen, sys; a = torch.eye(2, dtype=torch.float64, requires_grad=True);"
        "widen.matmul(a, a).sum().backward(); print('torch._dynamo' in sys.modules)"
    )
    assert imported == ["False"]


def test_importing_widen_is_quick():
    # The one place where time is looked at, as a promise to users; generous, and warm.
    code = "import time; s = time.perf_counter(); import widen; print(time.perf_counter() - s)"
    in_a_new_process(code)
    assert min(float(in_a_new_process(code)[0]) for _ in range(3)) < 1.5


# ── the look of the source ───────────────────────────────────────────────────


@modules
def test_files_stay_short(path):
    count = len(path.read_text(encoding="utf-8").splitlines())
    assert count <= 400, "look for the second subject in it"


@modules
def test_nothing_is_left_to_do(path):
    text = path.read_text(encoding="utf-8")
    for word in ("TODO", "FIXME", "XXX", "HACK"):
        assert word not in text


@modules
def test_no_fast_math(path):
    with tokenize.open(path) as file:
        names = [token.string for token in tokenize.generate_tokens(file.readline)]
    assert "fastmath" not in names, "it breaks exact arithmetic"


@modules
def test_no_import_error_is_swallowed(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None, "say which exception"
            if "Import" in ast.unparse(node.type) or "NotFound" in ast.unparse(node.type):
                assert not all(isinstance(line, ast.Pass) for line in node.body)


@modules
def test_no_environment_variable_sets_behaviour(path):
    text = path.read_text(encoding="utf-8")
    assert "os.environ" not in text
    assert "getenv" not in text


def test_the_package_says_that_it_is_typed():
    assert (ROOT / "py.typed").exists()


def test_every_backend_has_the_four_verbs():
    from widen.stages.backend import BACKENDS, VERBS

    for name in BACKENDS:
        module = importlib.import_module(f"widen.backends.{name}")
        for verb in VERBS:
            assert callable(getattr(module, verb)), f"{name} does not {verb}"


def rotations(source):
    """Lines `a = b` in loops of the device where b is what the last turn left.

    If a and b began as one value, Triton's compiler takes this for no change and carries neither:
    its interpreter is right, a GPU wrong.
    """
    found = []
    for loop in ast.walk(ast.parse(source)):
        if isinstance(loop, ast.For) and "static_range" in ast.unparse(loop.iter):
            continue
        if not isinstance(loop, (ast.For, ast.While)):
            continue
        turn = set()
        assigned = [node for node in ast.walk(loop) if isinstance(node, ast.Assign)]
        for node in sorted(assigned, key=lambda node: node.lineno):
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            if any(isinstance(value, ast.Name) and value.id not in turn for value in values):
                found.append(node.lineno)
            turn |= {name.id for target in node.targets for name in ast.walk(target)
                     if isinstance(name, ast.Name)}  # fmt: skip
    return found


@pytest.mark.parametrize(
    "path",
    [path for path in MODULES if path.parts[-3:-1] == ("kernels", "triton")],
    ids=lambda path: str(path.relative_to(ROOT).with_suffix("")),
)
def test_kernels_do_not_rotate_variables(path):
    assert rotations(path.read_text(encoding="utf-8")) == []


def test_rotations_are_found():
    assert rotations("for i in range(n):\n    b = a\n    a = f(i)") == [2]
    assert rotations("for i in range(n):\n    c = f(i)\n    a = c") == []
