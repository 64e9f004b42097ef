"""Kernels compiled before they are asked for: what a call will need, by several processes at once.

Numba compiles in one thread at a time. So processes of their own compile into the cache on disk
(`kernels.cache`) while the first call does the same; who comes first to a kernel compiles it, and
the call waits only for what another process is in the middle of. Two cores halve the time.

`warm_steps` is what `widen warm` runs. The other wing's is called the same.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from widen.cpu import kernels
from widen.cpu.certify import LEAST_SKETCHED, MOST_SKETCHED
from widen.cpu.threads import thread_count
from widen.formats import Format
from widen.planner import is_thin
from widen.stages.compiling.notices import logger
from widen.stages.compiling.once import Once
from widen.stages.compiling.turns import Busy, Turn, When
from widen.stages.problem import Call, format_of_operand

LONGEST_FIRST = (
    "panels.eliminate", "wide.rounded", "scaling.scaled", "reconstruct.in_limbs", "thin.products",
    "repair.dots", "lines.survey", "reconstruct.in_floats", "wide.residues", "totals.totals",
    "certify.sketch", "encode.narrow_residues", "dots.partial_sums", "dots.single_products",
    "lines.extremes", "error_bounds.bounds", "magnitudes.magnitudes:float64",
    "magnitudes.magnitudes:float32", "encode.wide_residues", "certify.certify:float64",
    "certify.certify:float32", "wide.digits", "repair.special", "dots.scaled", "lines.last_bits",
    "lines.scale", "certify.sketch_products", "wide.heads", "encode.residue_sums", "encode.digits",
    "encode.two_digits", "wire.pack", "wire.unpack", "wire.shares", "wire.open_elements",
)  # fmt: skip
"""All kernels of products, by the time they take: short ones fill what long ones leave of a core.

A name is "module.function", and ":dtype" of its first argument where there are several.
"""

MOST_WORKERS = 3
"""Processes that compile besides the first: the longest kernel takes a third of a call's time."""


def expected(
    operands: tuple[Format, Format], result: Format, contract: str, k: int, *, system: str | None,
    scaled: bool, bounded: bool, thin: bool = False,
) -> tuple[str, ...]:  # fmt: skip
    """The kernels that a product of ordinary data will need, longest first; of few lines if `thin`.

    A guess that costs nothing if it is wrong: what is missing is compiled when it is needed.
    """
    real = all(x.parts == 1 for x in operands)
    single = all(len(x.part.words) == 1 for x in operands)
    names = {"lines.survey", "lines.scale"}
    thin = thin and single and system is None
    if thin:
        names.add("thin.products")
    elif single:
        digits = system in ("digits", "triangle")
        names.add("encode.digits" if digits else "encode.narrow_residues")
        names |= set() if real or digits else {"encode.residue_sums"}
    else:
        names |= {"wide.heads", "wide.residues", "lines.last_bits"}
    exact = single and len(result.part.words) > 1  # every bit of the operands is kept
    if contract in ("fast", "standard") and thin and not exact:
        names.add("certify.certify:float64")
    elif contract in ("fast", "standard") and not exact:
        names.add("certify.certify:float32")
        wide = all(x.part.words[0].name == "float64" for x in operands)
        if real and wide and LEAST_SKETCHED <= k <= MOST_SKETCHED:
            names |= {"certify.sketch", "certify.sketch_products"}
        else:
            names.add("magnitudes.magnitudes:float32")
    if scaled:
        names.add("scaling.scaled")
    elif len(result.part.words) > 1:
        names.add("wide.rounded")
    else:
        in_floats = system is None and not thin
        names.add("reconstruct.in_floats" if in_floats else "reconstruct.in_limbs")
    if contract == "correct":
        names |= {"lines.extremes", "dots.scaled", "dots.partial_sums"}
        names |= {"reconstruct.in_limbs"} if not scaled and len(result.part.words) == 1 else set()
    if bounded:
        names.add("error_bounds.bounds")
    return tuple(name for name in LONGEST_FIRST if name in names)


_expected: Once[None] = Once(most=4096)


def expect(call: Call, *, scaled: bool, bounded: bool) -> None:
    """Compile what a call will need, if this process has seen none like it."""
    formats = format_of_operand(call.left), format_of_operand(call.right)
    sketched = LEAST_SKETCHED <= call.k <= MOST_SKETCHED
    thin = is_thin((math.prod(call.batch), call.m, call.k, call.n))
    names = formats[0].name, formats[1].name, call.fmt.name, call.contract.name
    key = (*names, sketched, thin, call.system, scaled, bounded)
    if key in _expected:
        return

    def prepare() -> None:
        names = expected(
            formats, call.fmt, call.contract.name, call.k, system=call.system, scaled=scaled,
            bounded=bounded, thin=thin,
        )  # fmt: skip
        prepare_all(names)

    _expected.made(key, prepare)


def prepare_all(names: Sequence[str]) -> None:
    """Read kernels from disk; compile those that are not there, unless another process is at it."""
    missing = [name for name in names if not _prepare(name, When.NEVER)]
    with _Workers(missing[1:]):
        for name in missing:
            _prepare(name, When.FREE)


def warm_steps() -> list[tuple[str, Callable[[], bool]]]:
    """Every kernel of products on a CPU: its name, and a function that makes sure it is on disk.

    That gives whether it was missing. Steps may be left out, and all of them may be run again, at
    any time and by several processes. Workers begin with this call, from the other end of the list:
    who runs the steps in their order waits for another process once, where both meet.
    """
    missing = [name for name in LONGEST_FIRST if not _prepare(name, When.NEVER)]
    with _Workers(missing[:0:-1]):
        return [(name, partial(_warm, name, name in missing)) for name in LONGEST_FIRST]


def _warm(name: str, missing: bool) -> bool:
    _prepare(name, When.NEEDED)
    return missing


def _prepare(name: str, when: When) -> bool:
    kernel, variant = _kernel(name)
    return bool(kernel.prepare(variant, when))


def _kernel(name: str) -> tuple[Any, str]:
    path, _, variant = name.partition(":")
    module, _, function = path.partition(".")
    return getattr(getattr(kernels, module), function), variant


# ── processes that compile ───────────────────────────────────────────────────

START = """
import json, sys
path, folder, parent, names = json.loads(sys.argv[1])
sys.path[:] = path
import numba
numba.config.CACHE_DIR = folder
from widen.cpu.warm import work
work(parent, names)
"""


class _Workers:
    """Processes that compile kernels, of which one process at a time starts some.

    Others that begin meanwhile compile for each other as it is. At the end of the block those that
    are at work go on: each leaves a file, and stops when the process that started it has stopped.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._turn: Turn | None = None
        folder = _kernel(names[0])[0].folder if names else None
        can_start = bool(sys.executable) and not getattr(sys, "frozen", False)
        if folder is not None and can_start and thread_count() > 1:
            self._turn = Turn(folder / "workers")

    def __enter__(self) -> None:
        if self._turn is None:
            return
        try:
            self._turn.take(wait=False)
        except Busy:
            return
        for at in range(min(thread_count() - 1, len(self._names), MOST_WORKERS)):
            _start([*self._names[at:], *self._names[:at]])

    def __exit__(self, *error: object) -> None:
        if self._turn is not None:
            self._turn.leave()


def _start(names: list[str]) -> None:
    """Start a process that compiles into the same folder; without one it only takes longer."""
    import numba

    path = [*map(str, sys.path), str(Path(__file__).parents[2])]
    kept_in = vars(numba.config)["CACHE_DIR"]  # which a program may have set
    given = json.dumps([path, kept_in, os.getpid(), names])
    try:
        worker = subprocess.Popen(
            [sys.executable, "-c", START, given], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError:
        logger.debug("no process could be started to compile kernels", exc_info=True)
        return
    # Somebody must ask for its exit status, or it stays in the list of processes.
    with suppress(RuntimeError):  # at the end of a program no thread starts any more
        threading.Thread(target=worker.wait, name="widen worker", daemon=True).start()


def work(parent: int, names: Sequence[str]) -> None:
    """What a worker does: compile what nobody else does, as long as its parent lives."""
    for name in names:
        if os.getppid() != parent:
            return
        _prepare(name, When.FREE)
