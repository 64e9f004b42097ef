"""What a scope did: products taken over and products left alone, counted by place and kind."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from types import CodeType, FrameType
from typing import Any, NamedTuple

LONGEST = 60
"""Lines of a table that is printed; the rest is summed up."""

INSIDE = ("torch", "widen")
"""Packages whose frames are passed over when a place in the user's code is looked for."""


class MissedProductError(RuntimeError):
    """An operation multiplies matrices and cannot be taken over, and `missed="raise"` was given."""


class Kind(NamedTuple):
    """What products that are counted together have in common.

    Code is known by its number, since code itself takes long to compare; what was seen is kept.
    """

    operator: Any
    code: int
    line: int
    shapes: tuple[Any, ...]
    dtype: Any
    notes: tuple[str, ...]
    reason: str


@dataclass
class Row:
    """Products of one kind, from one line of the program.

    Attributes
    ----------
    operator
        PyTorch's name of the operation, such as ``addmm``.
    where
        File and line, the innermost one outside PyTorch and widen.
    shapes
        Shapes of the operands.
    dtype
        Their dtype.
    notes
        ``"backward"``, ``"autocast"``, ``"compiled"``: how the program came to it.
    reason
        Why it was left alone; empty if it was taken over.
    count
        How often it ran.
    seconds
        Wall-clock time of all of them. On a GPU that of the host, unless bounds were asked for.
    bound
        The largest proven error of an element of the product, before anything is added to it; NaN
        if none was asked for.
    """

    operator: str
    where: str
    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    notes: tuple[str, ...]
    reason: str
    count: int = 0
    seconds: float = 0.0
    bound: float = math.nan

    def add(self, seconds: float, bound: float) -> None:
        """Count one more."""
        self.count += 1
        self.seconds += seconds
        self.bound = bound if math.isnan(self.bound) else max(self.bound, bound)


@dataclass(repr=False)
class Log:
    """What a scope took over and what it left alone; ``print(log)`` shows a table.

    Attributes
    ----------
    rows
        Every kind of product, in the order of first appearance.
    """

    _rows: dict[Any, Row] = field(default_factory=dict, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    @property
    def rows(self) -> list[Row]:
        """Every kind of product, in the order of first appearance."""
        with self._lock:
            return list(self._rows.values())

    @property
    def taken(self) -> list[Row]:
        """Products taken over."""
        return [row for row in self.rows if not row.reason]

    @property
    def left(self) -> list[Row]:
        """Operations left alone that multiply matrices, or may."""
        return [row for row in self.rows if row.reason]

    def note(self, kind: Kind, seconds: float = 0.0, bound: float = math.nan) -> None:
        """Count one product."""
        with self._lock:
            row = self._rows.get(kind)
            if row is None:
                row = self._rows[kind] = _row(kind)
            row.add(seconds, bound)

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._rows.clear()

    def __reduce__(self) -> Any:
        """A copy, or a log that was pickled, has the same rows."""
        return Log, (dict(enumerate(self.rows)),)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        taken, left = (sum(row.count for row in rows) for rows in (self.taken, self.left))
        return (
            f"<widen.emulate: {_times(taken, 'product')} taken over, "
            f"{_times(left, 'operation')} left alone; print(log) lists them>"
        )

    def __str__(self) -> str:
        return "\n".join([*_taken_table(self.taken), *_left_table(self.left)])


def _row(kind: Kind) -> Row:
    shapes = tuple(tuple(int(size) for size in shape) for shape in kind.shapes)
    dtype = str(kind.dtype).removeprefix("torch.")
    where = place(_SEEN[kind.code][0] if kind.code else None, kind.line)
    return Row(operator_name(kind.operator), where, shapes, dtype, kind.notes, kind.reason)


def operator_name(func: Any) -> str:
    """The name of an operator, as PyTorch's documents have it."""
    name = getattr(getattr(func, "_schema", func), "name", str(func))
    return str(name() if callable(name) else name).removeprefix("aten::")


# ── where in the program ─────────────────────────────────────────────────────────────────────────

_SEEN: dict[int, tuple[CodeType, bool]] = {}
"""Code by its number, and whether it belongs to the user or to a package that is passed over."""


def caller(frame: FrameType | None) -> tuple[int, int]:
    """The innermost code outside PyTorch and widen, by its number, and its line.

    Zeros in a thread of PyTorch's own, where there is none.
    """
    while frame is not None:
        code = frame.f_code
        seen = _SEEN.get(id(code))
        if seen is None:
            seen = _SEEN[id(code)] = code, _is_own(frame)
        if seen[1]:
            return id(code), frame.f_lineno
        frame = frame.f_back
    return 0, 0


def _is_own(frame: FrameType) -> bool:
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return package not in INSIDE and not frame.f_code.co_filename.startswith("<frozen ")


def place(code: CodeType | None, line: int) -> str:
    """A file and a line for people: the last parts of the path."""
    if code is None:
        return "a thread of PyTorch"
    path = Path(code.co_filename)
    near = [str(path.relative_to(base)) for base in (Path.cwd(),) if path.is_relative_to(base)]
    packages = [
        str(path.relative_to(base)) for base in sys.path if base and path.is_relative_to(base)
    ]
    name = min([*near, *packages, "/".join(path.parts[-3:])], key=len)
    return f"{name}:{line}"


# ── the table ────────────────────────────────────────────────────────────────────────────────────


def _taken_table(rows: list[Row]) -> list[str]:
    if not rows:
        return ["widen took over no product."]
    count, seconds = sum(row.count for row in rows), sum(row.seconds for row in rows)
    head = ("where", "operation", "shapes", "dtype", "times", "seconds", "worst bound")
    ordered = sorted(rows, key=lambda row: -row.seconds)
    lines: list[tuple[str, ...]] = [
        (
            row.where, _named(row), _said(row.shapes), row.dtype, str(row.count),
            f"{row.seconds:.3g}", "-" if math.isnan(row.bound) else f"{row.bound:.2e}",
        )
        for row in ordered
    ]  # fmt: skip
    return [
        f"widen took over {_times(count, 'product')}, {seconds:.3g} s:",
        *_columns(head, lines, right=(4, 5, 6)),
    ]


def _left_table(rows: list[Row]) -> list[str]:
    if not rows:
        return ["Nothing was left alone."]
    count = sum(row.count for row in rows)
    head = ("where", "operation", "shapes", "dtype", "times", "reason")
    lines: list[tuple[str, ...]] = [
        (row.where, _named(row), _said(row.shapes), row.dtype, str(row.count), row.reason)
        for row in sorted(rows, key=lambda row: -row.count)
    ]
    return [f"Left alone, {_times(count, 'operation')}:", *_columns(head, lines, right=(4,))]


def _times(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _named(row: Row) -> str:
    return " ".join((row.operator, *(f"({note})" for note in row.notes)))


def _said(shapes: tuple[tuple[int, ...], ...]) -> str:
    return ", ".join("x".join(map(str, shape)) or "scalar" for shape in shapes)


def _columns(
    head: tuple[str, ...], lines: list[tuple[str, ...]], right: tuple[int, ...]
) -> list[str]:
    shown = [head, *lines[:LONGEST]]
    widths = [max(len(line[column]) for line in shown) for column in range(len(head))]
    text = [
        "  " + "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in shown
    ]  # fmt: skip
    if len(lines) > LONGEST:
        text.append(f"  ... and {len(lines) - LONGEST} more kinds (log.rows has them all)")
    return text
