"""Pages of the reference, made from the package: a name that becomes public gets its place here."""

from __future__ import annotations

import doctest
import inspect
import re
from collections import Counter
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np

import widen
from widen.formats import FORMATS
from widen.formats.arrays import words_of

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


BESIDE = ("widen.numpy", "widen.numpy.linalg", "widen.distributed", "widen.testing")
"""Public modules that `import widen` does not import."""


TOOLS = ("widen.testing",)
"""Modules whose classes have no methods here, and whose examples take all names for granted."""


def kind(thing: Any) -> str:
    """Return what a public name stands for: module, class, format, function or data."""
    if isinstance(thing, ModuleType):
        return "module"
    if inspect.isclass(thing):
        return "class"
    if any(thing is known for known in FORMATS.values()):
        return "format"
    return "function" if callable(thing) else "data"


def public(module: ModuleType, wanted: str) -> list[str]:
    """Return a module's public names of one kind, in full."""
    names = [name for name in module.__all__ if kind(getattr(module, name)) == wanted]
    return [f"{module.__name__}.{name}" for name in names]


def modules() -> list[ModuleType]:
    """Return `widen` and the public modules below it that list their names."""
    below = [getattr(widen, name) for name in widen.__all__]
    named = [thing for thing in below if isinstance(thing, ModuleType) and thing.__all__]
    inside = [
        getattr(module, name)
        for module in named
        for name in module.__all__
        if isinstance(getattr(module, name), ModuleType)
    ]
    beside = [import_module(name) for name in BESIDE if find_spec(name)]
    known = [widen, *named, *inside]
    return [*known, *(module for module in beside if module not in known)]


def title(text: str, line: str = "=") -> str:
    """Return a heading."""
    return f"{text}\n{line * len(text)}\n\n"


def first_line(thing: Any) -> str:
    """Return what a docstring says first."""
    return escaped((inspect.getdoc(thing) or "").splitlines()[:1])[0]


def functions(names: list[str]) -> str:
    """Return directives for functions."""
    return "".join(f".. autofunction:: {name}\n\n" for name in names)


def classes(names: list[str], methods: bool = True) -> str:
    """Return directives for classes, with their methods."""
    option = "   :members:\n" if methods else ""
    return "".join(f".. autoclass:: {name}\n{option}\n" for name in names)


def escaped(lines: list[str]) -> list[str]:
    r"""Return lines of a docstring in which | and * are no markup; examples stay as they are.

    >>> escaped(["the sum |x|, (count, *shape), ``|y|``", ">>> abs(-3) | 4", "7", "", "|z|"])
    ['the sum \\|x\\|, (count, \\*shape), ``|y|``', '>>> abs(-3) | 4', '7', '', '\\|z\\|']
    """
    inside, made = False, []
    for line in lines:
        inside = line.lstrip().startswith(">>>") or (inside and bool(line.strip()))
        parts = [line] if inside else re.split(r"(``.*?``|`.*?`)", line)
        made.append("".join(
            part if inside or part.startswith("`") else re.sub(r"([|*])", r"\\\1", part)
            for part in parts
        ))  # fmt: skip
    return made


def table_of(names: list[str], things: list[Any]) -> str:
    """Return names with the first line of what they say."""
    rows = [
        f"   * - :py:obj:`~{name}`\n     - {first_line(thing)}\n"
        for name, thing in zip(names, things, strict=True)
    ]
    return ".. list-table::\n   :widths: 30 70\n\n" + "".join(rows) + "\n"


def named(full: str) -> Any:
    """Return what a full name stands for."""
    thing: Any = widen
    for part in full.split(".")[1:]:
        thing = getattr(thing, part)
    return thing


def format_pages() -> str:
    """Return the formats of several words: a table, and an example of each that has run."""
    rows, entries = [], []
    for name in [full.split(".")[1] for full in public(widen, "format")]:
        fmt: Any = FORMATS[name]
        digits = int(fmt.precision * np.log10(2))
        numbers, value = ("complex", "1+2j") if fmt.parts == 2 else ("real", "1")
        words = " + ".join(f"{count} × {word}" for word, count in Counter(words_of(fmt)).items())
        cells = [f":py:obj:`~widen.{name}`", numbers, words, str(fmt.precision), str(digits)]
        rows.append("   * - " + "\n     - ".join(cells) + "\n")
        shown = str(widen.Words([value], fmt) / 3)
        entries.append(
            f".. py:data:: widen.{name}\n\n   {numbers.capitalize()} numbers of {words}, "
            f"{digits} decimal digits.\n\n   >>> import widen\n   >>> "
            f'print(widen.Words(["{value}"], dtype=widen.{name}) / 3)\n   {shown}\n\n'
        )
    head = ".. list-table::\n   :header-rows: 1\n\n   * - format\n     - numbers\n"
    head += "     - words\n     - bits\n     - digits\n"
    return head + "".join(rows) + "\n" + "".join(entries)


def pages() -> dict[str, str]:
    """Return all pages of the reference by their names."""
    made = {}
    products = public(widen, "function")
    made["functions"] = (
        title("Functions of widen")
        + table_of(products, list(map(named, products)))
        + functions(products)
    )
    records = [name for name in public(widen, "class") if name != "widen.Words"]
    made["records"] = title("Plans, records and other classes") + classes(records)
    made["words"] = (
        title("widen.Words") + ".. autoclass:: widen.Words\n   :members:\n   :inherited-members:\n"
    )
    made["formats"] = title("Formats of several words") + format_pages()
    for module in modules()[1:]:
        own = [*public(module, "function"), *public(module, "class")]
        made[module.__name__.removeprefix("widen.").replace(".", "-")] = (
            title(module.__name__)
            + f".. automodule:: {module.__name__}\n\n"
            + (
                f"Examples begin with ``from {module.__name__} import *``.\n\n"
                if module.__name__ in TOOLS
                else ""
            )
            + table_of(own, list(map(named, own)))
            + functions(public(module, "function"))
            + classes(public(module, "class"), module.__name__ not in TOOLS)
            + "".join(f".. py:data:: {name}\n\n" for name in public(module, "data"))
        )
    return made


def documented() -> dict[str, Any]:
    """Return every public name that the reference shows, methods of classes too."""
    found: dict[str, Any] = {}
    for module in modules():
        for name in [*public(module, "function"), *public(module, "class")]:
            found[name] = named(name)
            if inspect.isclass(found[name]) and module.__name__ not in TOOLS:
                found |= {f"{name}.{key}": value for key, value in methods(found[name]).items()}
    return found


def methods(owner: type) -> dict[str, Any]:
    """Return the public methods and properties of a class."""
    inside = [base for base in owner.__mro__ if base.__module__.startswith("widen")]
    names = {name for base in inside for name in vars(base) if not name.startswith("_")}
    return {
        name: getattr(owner, name)
        for name in sorted(names)
        if isinstance(getattr(owner, name), property)
        or (callable(getattr(owner, name)) and not inspect.isclass(getattr(owner, name)))
    }


def failures() -> list[str]:
    """Run the examples of all docstrings that the reference shows; return what went wrong."""
    wrong: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    for name, thing in documented().items():
        for test in tests_of(name, thing):
            runner.run(test, out=wrong.append)
    return wrong


def tests_of(name: str, thing: Any) -> list[doctest.DocTest]:
    """Return the examples of a name, which stand in its own docstring."""
    module = name.rpartition(".")[0]
    granted = {"np": np, **vars(import_module(module))} if module in TOOLS else {}
    found = doctest.DocTestFinder(recurse=False).find(thing, name, globs=granted)
    return [test for test in found if any(example.want for example in test.examples)]


def without_example() -> list[str]:
    """Return public names, methods and properties too, whose docstring shows no result."""
    return [name for name, thing in documented().items() if not tests_of(name, thing)]
