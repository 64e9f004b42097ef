"""Passages of six lines or more that stand twice in the source: each has a reason, or goes."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import widen

ROOT = Path(widen.__file__).parent
LEAST = 6
"""Lines of a passage, without blank lines, comments, docstrings and imports."""

REASONS = {
    ("__init__.py: __all__", "functions/__init__.py: __all__"): (
        "type checkers and editors read a list of public names only where it is written out"
    ),
    ("__init__.py: __all__", "numpy/__init__.py: __all__"): (
        "widen has these functions, and NumPy's names for them: two surfaces that may part"
    ),
    ("functions/__init__.py: __all__", "numpy/__init__.py: __all__"): (
        "the end of two alphabetical lists; the lists differ before and need not agree"
    ),
    ("linalg/__init__.py: __all__", "numpy/linalg.py: __all__"): (
        "NumPy's names are part of ours here, and each list is the surface of its own module"
    ),
    ("api.py: matmul", "api.py: gemm"): (
        "public signatures are written out, so that help() and editors show every argument"
    ),
    ("api.py: matmul", "api.py: plan"): (
        "a plan is asked for with the words of the product, without out, info and progress"
    ),
    ("cli/gemm.py: gemm", "cli/matmul.py: matmul"): (
        "typer reads the options of a command from its signature, which must name them all"
    ),
    ("cpu/kernels/reconstruct.py: in_floats", "cpu/kernels/reconstruct.py: in_limbs"): (
        "kernels compiled apart, since few products need the second; they share `places_of`"
    ),
    ("cpu/kernels/reconstruct.py: in_floats", "cpu/kernels/wide.py: rounded"): (
        "the loop over tiles, around different sums: Numba's kernels take no functions"
    ),
    ("cpu/kernels/reconstruct.py: in_limbs", "cpu/kernels/wide.py: rounded"): (
        "a tile begins alike, and Numba has no records to hand so many arrays on in"
    ),
    ("cpu/kernels/triples.py: added_words", "gpu/kernels/triton/triples.py: added_words"): (
        "the same listing for two compilers, Numba and Triton: neither reads the other's"
    ),
    (
        "cpu/kernels/triples.py: multiplied_words",
        "gpu/kernels/triton/triples.py: multiplied_words",
    ): ("listing 10 of the paper in Numba and in Triton, line by line, so that bits agree"),
    ("gpu/kernels/triton/planes.py: digits", "gpu/kernels/triton/planes.py: residues_of_words"): (
        "one call of `tile_of` with its eleven arguments: Triton has no records to pass"
    ),
    ("gpu/kernels/triton/repair.py: repair", "gpu/kernels/triton/repair_words.py: repair"): (
        "the kernel of one word has fewer parameters and holds its sums in registers"
    ),
    ("gpu/kernels/triton/close.py: settle", "gpu/kernels/triton/repair.py: repair"): (
        "the walk over marks: with both in one kernel, the one of few registers had many"
    ),
    ("gpu/kernels/triton/close.py: settle", "gpu/kernels/triton/repair_words.py: repair"): (
        "the same walk once more, for what single words never need"
    ),
}
"""Why a passage stands twice, by the functions (or lists) that it begins in."""


def silent_lines(tree):
    """Numbers of the lines of docstrings and imports."""
    silent = set()
    for node in ast.walk(tree):
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if text or isinstance(node, (ast.Import, ast.ImportFrom)):
            silent |= set(range(node.lineno, node.end_lineno + 1))
    return silent


def owners(tree):
    """By line: the function, method or module constant that it belongs to."""
    names = {}
    for node in tree.body:
        for part in [node, *(node.body if isinstance(node, ast.ClassDef) else [])]:
            target = part.targets[0] if isinstance(part, ast.Assign) else part
            name = getattr(target, "name", getattr(target, "id", ""))
            decorators = getattr(part, "decorator_list", [])
            first = min([part.lineno, *(each.lineno for each in decorators)])
            names |= dict.fromkeys(range(first, part.end_lineno + 1), name)
    return names


def code_of(source):
    """Pairs (what a line says, whose line it is)."""
    tree = ast.parse(source)
    silent, names = silent_lines(tree), owners(tree)
    lines = []
    for number, line in enumerate(source.splitlines(), 1):
        said = line.split("  #")[0].strip()
        if said and not said.startswith("#") and number not in silent:
            lines.append((said, names.get(number, "")))
    return lines


def duplicates(sources):
    """Pairs of "file: function" that share a passage, of {file: source}."""
    files = {name: code_of(source) for name, source in sources.items()}
    places = defaultdict(list)
    for name, lines in files.items():
        for at in range(len(lines) - LEAST + 1):
            passage = tuple(said for said, _ in lines[at : at + LEAST])
            places[passage].append((name, at))
    pairs = set()
    for same in places.values():
        for at, (ours, first) in enumerate(same):
            for theirs, second in same[at + 1 :]:
                if ours != theirs or second - first >= LEAST:
                    left, right = files[ours][first][1], files[theirs][second][1]
                    pairs.add((f"{ours}: {left}", f"{theirs}: {right}"))
    return pairs


def test_what_stands_twice_has_a_reason():
    sources = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(ROOT.rglob("*.py"))
    }
    there = duplicates(sources)
    assert there - set(REASONS) == set(), "make one of them, or write the reason here"
    assert set(REASONS) - there == set(), "these stand once now: take their reasons out"


def test_every_reason_is_its_own():
    assert len(set(REASONS.values())) == len(REASONS)
    assert all(len(reason.split()) >= 5 for reason in REASONS.values())


def test_a_passage_that_stands_twice_is_found():
    lines = [f"    x{at} = {at}" for at in range(LEAST)]
    ours = "\n".join(['"""Ours."""', "import os", "def f():", '    """Do it."""', *lines])
    theirs = "\n".join(["def g():", *lines[:3], "    # why", "", *lines[3:]])
    assert duplicates({"a.py": ours, "b.py": theirs}) == {("a.py: f", "b.py: g")}
    assert duplicates({"a.py": ours, "b.py": theirs.replace("x3", "y3")}) == set()
    assert duplicates({"a.py": f"{ours}\n{theirs}"}) == {("a.py: f", "a.py: g")}
