"""What a Triton kernel is compiled for, and the key that its machine code is known by.

The key is of content: the text of the kernel's file and of every file of the library that it
imports, the types of its arguments and what is known of them, its constants, how it is compiled and
for which GPUs. Code under a key is right wherever and by whichever release it was made; a source
that changed has another key, and old code is never found again.

This module may be imported without PyTorch, as whoever only compiles does.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import time
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

FORM = "widen code 1"
"""Changes whenever what is kept under a key (`gpu.code.records`) changes."""

ONE, DIVISIBLE = "=1", ":16"
"""An integer that is the constant 1; after a type: a multiple of 16."""


class Compilation(NamedTuple):
    """How a kernel is compiled: part of what tells it from others."""

    warps: int
    stages: int
    exact: bool
    registers: int | None

    @property
    def options(self) -> dict[str, Any]:
        """As Triton names it."""
        limits = {} if self.registers is None else {"maxnreg": self.registers}
        return {
            "num_warps": self.warps, "num_stages": self.stages, "enable_fp_fusion": not self.exact,
            **limits,
        }  # fmt: skip


class Variant(NamedTuple):
    """A kernel, its arguments' types in their order, its constants, and how it is compiled."""

    kernel: Any
    types: tuple[str, ...]
    constants: tuple[Any, ...]
    how: Compilation

    def __reduce__(self) -> tuple[Any, ...]:
        """Other processes find the kernel by its name."""
        function = self.kernel.fn
        return variant, (function.__module__, function.__name__, *self[1:])

    @property
    def name(self) -> str:
        """The kernel's, with its file's."""
        return f"{self.kernel.fn.__module__.rpartition('.')[2]}.{self.kernel.fn.__name__}"

    def key(self, architecture: int) -> str:
        """What its code for GPUs of a compute capability (90 for 9.0) is known by."""
        function = self.kernel.fn
        lines = (
            FORM, sources(function.__module__), function.__module__, function.__qualname__,
            " ".join(self.types), repr(self.constants), repr(tuple(self.how)), str(architecture),
        )  # fmt: skip
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def variant(module: str, name: str, *rest: Any) -> Variant:
    """The same in another process."""
    return Variant(getattr(import_module(module), name), *rest)


STARTED = time.time()
"""When this process began to import kernels."""

IMPORT = re.compile(r"^ *from +(widen[\w.]*) +import +(\([^)]*\)|[^\n]*)", re.MULTILINE)


@cache
def sources(module: str) -> str:
    """A digest of the text of a module and of all modules of the library that it imports.

    Kernels are compiled from what their files held when they were imported. A file that was
    written since may say something else: then the digest is like no other.
    """
    texts: dict[str, bytes] = {}
    _gather(module, texts)
    digest = hashlib.sha256()
    written = [os.stat(str(sys.modules[name].__file__)).st_mtime for name in texts]
    if any(STARTED < when <= time.time() for when in written):  # later: clocks differ
        digest.update(os.urandom(32))
    for name, text in sorted(texts.items()):
        digest.update(f"{name} {len(text)}\n".encode() + text)
    return digest.hexdigest()


def _gather(module: str, texts: dict[str, bytes]) -> None:
    loaded = sys.modules.get(module)
    path = getattr(loaded, "__file__", None)
    if module in texts or path is None:
        return
    texts[module] = Path(path).read_bytes()
    for package, names in IMPORT.findall(texts[module].decode()):
        _gather(package, texts)
        for name in re.findall(r"\w+", names):
            _gather(f"{package}.{name}", texts)  # if it is a module
