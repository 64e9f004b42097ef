"""Laws of the house: who may import whom, the public surface, lazy imports, the size of files."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import subprocess
import sys
import tokenize
from collections import Counter
from functools import cache
from operator import attrgetter
from pathlib import Path

import pytest

import reference
import widen
from widen.formats import FORMATS, PLAIN

ROOT = Path(widen.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

# From the bottom up. A module may import from the lines below its own and from its own entry: a
# module, a room (a folder), or a part of one that stands higher or lower than the rest.
ORDER = [
    ["contract", "stages.compiling"],
    ["plan"],
    ["options", "formats", "units"],
    ["bounds"],
    ["systems"],
    ["planner"],
    ["encoded"],
    ["stages"],
    ["definition", "gpu.tiles", "gpu.replay.private", "gpu.code.store"],
    ["gpu.replay.driver"],
    ["cpu.kernels", "gpu.kernels"],
    ["cpu", "gpu"],
    ["words"],
    ["cpu.batches", "gpu.batches"],  # the doors of the wings, which know of Words
    ["gpu.foresight", "gpu.recorded"],
    ["cpu.products", "gpu.products"],
    ["gpu.measuring", "gpu.usual", "gpu.host"],
    ["gpu.ship", "gpu.warm"],
    ["calls"],
    ["api"],
    ["linalg"],
    ["functions"],
    ["numpy"],
    ["nn"],
    ["emulate"],
    ["distributed"],
    ["papers"],
    ["cli"],
    ["__main__"],
]
APART = ["testing"]  # nobody imports it, and it imports nobody
LEVEL = {name: level for level, line in enumerate(ORDER) for name in line}
ROOMS = {"", *(name.split(".")[0] for name in LEVEL), *APART}
"""What the top level holds, and nothing else."""

CALLED_LATER = {
    ("encoded", "api"),
    ("words", "api"),
    ("calls", "distributed"),
    ("linalg", "distributed"),
}
"""x @ y: the interface, imported when it is called; and what DTensors need, when there are any."""

# Which rooms may name which libraries; everybody may use NumPy and the standard library.
LIBRARIES = {
    "cpu": {"numba"},
    "cpu.kernels": {"numba", "llvmlite"},
    "gpu": {"torch", "triton"},
    "gpu.batches": {"torch"},
    "gpu.products": {"torch"},
    "gpu.recorded": {"torch"},
    "gpu.foresight": {"torch"},
    "gpu.host": {"torch"},
    "gpu.measuring": {"torch"},
    "gpu.usual": {"torch"},
    "gpu.ship": {"triton"},
    "gpu.kernels": {"torch", "triton", "cuda"},
    "emulate": {"torch"},
    "nn": {"torch"},
    "words": {"torch", "mpmath", "gmpy2", "flint", "safetensors"},  # numbers that words become
    "distributed": {"torch"},
    "cli": {"typer", "rich", "matplotlib", "safetensors"},
    "testing": {"flint", "gmpy2", "ml_dtypes"},
}
LIBRARIES_OF_FILES = {
    "calls/autograd": {"torch"},
    "calls/foreign/arrays": {"torch"},  # arrays on a GPU, by DLPack
    "calls/foreign/cupy": {"cupy", "torch"},
    "calls/foreign/jax": {"jax"},
    "formats/arrays": {"ml_dtypes"},  # bfloat16 in NumPy
    "linalg/gradients": {"torch"},
    "functions/gradients": {"torch"},
}
# And which files of a paper, below its folder; its algorithm and its items name none.
LIBRARIES_OF_PAPERS = {
    "gpu": {"torch"},
    "kernels/cpu": {"numba"},
    "kernels/triton": {"triton"},
    "kernels/cuda": {"torch", "cuda"},
}
STRANGE = {
    "numba", "llvmlite",
    "torch", "triton", "cuda", "cupy", "jax", "matplotlib", "typer", "rich", "click",
    "flint",
    "gmpy2", "mpmath", "ml_dtypes", "array_api_compat", "scipy", "safetensors",
}  # fmt: skip

PUBLIC = sorted(
    [
        "Contract",
        "Encoded",
        "Info",
        "Plan",
        "Words",
        "emulate",
        "encode",
        "gemm",
        "linalg",
        "load",
        "matmul",
        "nn",
        "plan",
        *widen.functions.__all__,
    ]
    + [name for name in FORMATS if name not in PLAIN]
)

OUTSIDE_PAPERS = Counter(
    word
    for path in MODULES
    if "papers" not in path.relative_to(ROOT).parts
    for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))
)


def for_each(paths):
    """A law of single files becomes one test that names all files which break it.

    A test for each file and law would be 3,500 tests, and take longer than the laws.
    """

    def as_test(law):
        def test():
            broken = []
            for path in paths:
                try:
                    law(path)
                except AssertionError as error:
                    broken.append(f"{path.relative_to(ROOT)}: {error}")
            assert not broken, "\n".join(broken)

        test.__name__, test.__doc__ = law.__name__, law.__doc__
        return test

    return as_test


modules = for_each(MODULES)


def entry_of(module):
    """The entry of ORDER (or APART) that a module below `widen` belongs to; "" for the package."""
    known = [name for name in (*LEVEL, *APART) if f"{module}.".startswith(f"{name}.")]
    return max(known, key=len, default="")


def module_of(path):
    """A file's module, below `widen`."""
    return (
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix("__init__").rstrip(".")
    )


def room(path):
    """The entry that a file belongs to; "" for the package itself."""
    return entry_of(module_of(path))


def place_in_paper(path):
    """Where in its paper's folder a file is: "algorithm", "gpu", "kernels/triton"; else None."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return "/".join(parts[2:4]) if parts[0] == "papers" and len(parts) > 2 else None


def package_of(path):
    """The package a file's relative imports start from."""
    return ("widen", *path.relative_to(ROOT).parts[:-1])


@cache
def tree_of(path):
    """A file's syntax tree."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imported(path):
    """Every module a file names in an import, anywhere in it, in full; also dynamic imports."""
    found = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = list(package_of(path)[: 1 - node.level or None]) if node.level else []
            module = ".".join(base + ([node.module] if node.module else []))
            found += [f"{module}.{alias.name}" for alias in node.names]
        elif (
            isinstance(node, ast.Call)
            and getattr(node.func, "attr", getattr(node.func, "id", "")) == "import_module"
            and isinstance(node.args[0], (ast.Constant, ast.JoinedStr))
        ):
            name = ast.unparse(node.args[0]).strip("f'\"")
            found += [] if name.startswith("{") else re.findall(r"[\w.]+", name)[:1]
    return found


def rooms_imported(path):
    """Entries that a file imports; "" if it imports the package itself."""
    names = [name.removeprefix("widen").lstrip(".") for name in imported(path)
             if name.split(".")[0] == "widen"]  # fmt: skip
    return {entry_of(name) for name in names}


def test_there_is_something_to_check():
    assert len(MODULES) > 30
    assert rooms_imported(ROOT / "api.py") >= {"contract", "planner"}
    assert rooms_imported(ROOT / "cpu/stages.py") >= {"stages", "planner", "encoded"}
    assert "numba" in {name.split(".")[0] for name in imported(ROOT / "cpu/kernels/cache.py")}
    assert entry_of("gpu.kernels.triton.dot") == "gpu.kernels"
    assert entry_of("gpu.repair") == "gpu"
    assert entry_of("strangers") == ""


def test_no_two_test_files_have_one_name():
    """Without packages pytest knows a file by its name alone, and collects none of such two."""
    names = [path.name for path in Path(__file__).parents[1].rglob("*.py")]
    assert [
        name for name, count in Counter(names).items() if count > 1 and name != "conftest.py"
    ] == []


def test_files_that_break_a_law_are_named():
    @modules
    def law(path):
        assert path.name != "api.py", "not this one"

    with pytest.raises(AssertionError, match=r"^api\.py: not this one"):
        law()


def test_the_top_level_holds_its_rooms_and_nothing_else():
    there = {path.stem for path in ROOT.iterdir() if path.suffix == ".py"}
    there |= {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()}
    assert there == ROOMS - {""} | {"__init__"}


def test_stages_have_the_same_names_in_both_wings():
    stages = {"lines", "encode", "multiply", "certify", "reconstruct", "repair", "scaling"}
    stages |= {"operands", "stages", "batches", "products"}
    for wing in ("cpu", "gpu"):
        assert stages <= {path.stem for path in (ROOT / wing).glob("*.py")}


@modules
def test_every_module_has_its_place(path):
    assert room(path) or path == ROOT / "__init__.py", "give the new module a line in ORDER"


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
        if (own, other) in CALLED_LATER:
            assert other not in {entry_of(name) for name in imported_at_once(path)}
            continue
        assert other not in APART, f"{own} imports {other}"
        assert LEVEL[other] < LEVEL[own], f"{own} imports {other}, which stands above it"


def imported_at_once(path):
    """Modules of `widen` that a file imports when it is imported."""
    tree = tree_of(path)
    nodes = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module]
    return [f"{node.module}.{x.name}".removeprefix("widen.") for node in nodes for x in node.names]


def test_contracts_stand_alone():
    assert rooms_imported(ROOT / "contract.py") == set()


@modules
def test_kernels_are_launched_by_their_own_wing(path):
    """And words' elementwise kernels by words, papers' by papers."""
    kernels = {name for name in rooms_imported(path) if name.endswith(".kernels")}
    wing, _, part = room(path).partition(".")
    if part == "kernels":
        held = {f"{wing}.kernels", "gpu.tiles", "stages.compiling"}
        held |= {"gpu.replay.private", "gpu.replay.driver"}  # what CUDA kernels are launched by
        held |= {"gpu.code.store"}  # where they are found, if they came with the package
        assert rooms_imported(path) <= held, "kernels hold no policy"
    elif wing == "words":
        assert not kernels or path.stem.startswith("elementwise")
    elif wing != "papers":
        assert kernels <= {f"{wing}.kernels"}


@modules
def test_nothing_is_imported_by_its_name_in_a_string(path):
    """But packages that may be missing, and a package's own modules by `__getattr__`."""
    for node in ast.walk(tree_of(path)):
        name = getattr(
            getattr(node, "func", None), "attr", getattr(getattr(node, "func", None), "id", "")
        )
        if isinstance(node, ast.Call) and name in ("import_module", "__import__"):
            lazily = path.name == "__init__.py" and ast.unparse(node.args[0]).startswith(
                "f'{__name__}"
            )
            named = ast.unparse(node.args[0]).strip("'")
            assert lazily or named in ("module", "name") or named.split(".")[0] in ("cuda", "torch")
        if isinstance(node, ast.Attribute) and node.attr == "modules":
            around = ast.unparse(node)
            assert "widen" not in around


papers = for_each([path for path in MODULES if room(path) == "papers"])


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
        held = ("gpu.tiles", "gpu.replay.driver", "stages.compiling")
        assert all(".".join(name[1:]).startswith(held) for name in others), "policy in kernels"


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
    own = LIBRARIES_OF_FILES.get(module_of(path).replace(".", "/"), in_paper)
    assert named <= LIBRARIES.get(room(path), set()) | own


@modules
def test_every_import_is_of_something_known(path):
    allowed = {*sys.stdlib_module_names, "numpy", "widen", *STRANGE}
    assert {name.split(".")[0] for name in imported(path)} <= allowed


# ── the public surface ───────────────────────────────────────────────────────


def test_public_names():
    assert sorted(widen.__all__) == PUBLIC
    assert re.fullmatch(r"\d+\.\d+\.\d+", widen.__version__)
    for name in PUBLIC:
        thing = getattr(widen, name)
        home = thing.__name__ if inspect.ismodule(thing) else thing.__module__
        assert home.startswith("widen.")


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


DOCUMENTED = [
    *PUBLIC,
    *(f"linalg.{name}" for name in widen.linalg.__all__),
    *(f"nn.{name}" for name in widen.nn.__all__),
    *(f"nn.functional.{name}" for name in widen.nn.functional.__all__),
]


@pytest.mark.parametrize("name", DOCUMENTED)
def test_public_names_are_documented(name):
    thing = attrgetter(name)(widen)
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


def test_every_public_name_has_an_example():
    """Methods and properties too, in their own docstrings, which `make test` runs."""
    assert len(reference.documented()) > 150
    assert reference.without_example() == [], "add one to the docstring, with what it prints"


def test_a_public_name_without_an_example_is_found(monkeypatch):
    class Bare:
        """Says what it is for.

        >>> 6 * 7
        42
        """

        @property
        def size(self):
            """How many there are."""

        def run(self):
            """Do it.

            >>> None    # shows no result
            """

    found = {"Bare": Bare} | {f"Bare.{name}": getattr(Bare, name) for name in ("size", "run")}
    monkeypatch.setattr(reference, "documented", lambda: found)
    assert reference.without_example() == ["Bare.size", "Bare.run"]


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
    text = ast.get_docstring(tree_of(path))
    assert text, "the first line states the module's subject"


# ── lazy imports ─────────────────────────────────────────────────────────────

HEAVY = [
    "torch",
    "triton",
    "matplotlib",
    "numba",
    "llvmlite",
    "typer",
    "rich",
    "scipy",
    "flint",
    "jax",
    "safetensors",
]


def in_a_new_process(code):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.split("\n")


STEPS = {
    "widen": "import widen",
    "plan": "widen.plan((8, 8), (8, 8))",
    "papers": "from widen.papers.items import all_items; all_items()",
    "product": "import numpy; widen.matmul(numpy.eye(2), numpy.eye(2))",
    "tensors": "x = widen.Words([1], 'float64x2').to_torch(); made = type(x.planes[0]).__name__",
    "gradient": """
import torch
a = torch.eye(2, dtype=torch.float64, requires_grad=True)
widen.matmul(a, a).sum().backward()""",
    "recording": """
from widen.gpu.replay.recording import Recorder, quietly
given = torch.zeros(3)
with Recorder([given]) as recorder:
    taken = torch.empty(3)
    with quietly(): given.tolist()
made = len(recorder.taken)""",
}
"""What a new process does, one after the other; it then says what was imported so far."""


@cache
def imported_after():
    """By step: packages that take long to import, as far as they are there, and what was made."""
    looked_for = [*HEAVY, "torch._dynamo"]
    said = f"print(*[m for m in {looked_for} if m in sys.modules], sep=' ', end=f';{{made}}\\n')"
    lines = in_a_new_process(
        "import sys; made = None\n" + "\n".join(f"{code}\n{said}" for code in STEPS.values())
    )
    answers = [line.split(";") for line in lines if line]
    return {
        step: (set(names.split()), made) for step, (names, made) in zip(STEPS, answers, strict=True)
    }


@pytest.mark.parametrize("step", ["widen", "plan", "papers"])
def test_importing_planning_and_naming_papers_import_nothing_heavy(step):
    assert imported_after()[step][0] == set()


def test_a_product_imports_no_other_array_library():
    heavy, _ = imported_after()["product"]
    assert heavy <= {"numba", "llvmlite", "scipy"}  # numba asks for scipy where it is there


def test_asking_for_tensors_imports_pytorch():
    heavy, made = imported_after()["tensors"]
    assert "torch" in heavy
    assert made == "Tensor"


def test_gradients_do_not_import_a_compiler():
    """Two seconds or three, which PyTorch's way through a custom operator takes once."""
    assert "torch._dynamo" not in imported_after()["gradient"][0]


def test_recording_launches_does_not_import_a_compiler():
    """PyTorch imports it for the first operation that a mode listens to, unless told not to."""
    heavy, made = imported_after()["recording"]
    assert made == "1"
    assert "torch._dynamo" not in heavy


def test_importing_widen_is_quick():
    # The one place where time is looked at, as a promise to users; generous, and of the CPU.
    code = "import time; s = time.process_time(); import widen; print(time.process_time() - s)"
    assert min(float(in_a_new_process(code)[0]) for _ in range(2)) < 1.5


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


TAKEN_BY_OTHERS = {("calls/autograd", "_gemm")}
"""Functions that others call by position: PyTorch its operator, typer the commands."""


@modules
def test_at_most_six_arguments_by_position(path):
    """More are looking for a record. Kernels meet their hosts by names, or by threads' ranges.

    What launches a CUDA kernel is a host.
    """
    if ("kernels" in path.parts and path.parent.name != "cuda") or room(path) == "cli":
        return
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef):
            names = [x.arg for x in (*node.args.posonlyargs, *node.args.args)]
            few = len([name for name in names if name not in ("self", "cls")]) <= 6
            assert few or (module_of(path).replace(".", "/"), node.name) in TAKEN_BY_OTHERS


@modules
def test_no_fast_math(path):
    """But for `summing`: sums that are exact in every order may be taken in any.

    A dot product of digits takes four times as long where the compiler may not do that.
    """
    with tokenize.open(path) as file:
        names = [token.string for token in tokenize.generate_tokens(file.readline)]
    if path == ROOT / "cpu" / "kernels" / "cache.py":
        keywords = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.keyword)]
        given = [ast.literal_eval(node.value) for node in keywords if node.arg == "fastmath"]
        assert given == [False, {"reassoc", "contract", "nsz"}]
        assert names.count("fastmath") == len(given)
    else:
        assert "fastmath" not in names, "it breaks exact arithmetic"


@modules
def test_no_import_error_is_swallowed(path):
    for node in ast.walk(tree_of(path)):
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


@for_each([path for path in MODULES if path.parts[-3:-1] == ("kernels", "triton")])
def test_kernels_do_not_rotate_variables(path):
    assert rotations(path.read_text(encoding="utf-8")) == []


def test_rotations_are_found():
    assert rotations("for i in range(n):\n    b = a\n    a = f(i)") == [2]
    assert rotations("for i in range(n):\n    c = f(i)\n    a = c") == []
