"""A product in panels that survive an interruption: each is recorded when it lies on the disk.

Beside the target `C.npy` are two files while the product is computed: `.C.npy.part`, the result as
far as it is known, and `.C.npy.part.json`, which says which panels are finished, with their
checksums, and what product they are of. The record is written anew after every panel, under
another name first, so that it is whole at any time. The target appears when all is done.
"""

import hashlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import widen
from widen.cli.errors import CommandError
from widen.cli.files import (
    Array,
    check_target,
    create,
    terminate_by_exception,
    write_errors,
)
from widen.cli.progress import share_of

LEAST_ROWS, MOST_PANELS = 256, 64
"""A panel has as many rows or more, since columns are encoded anew for every panel."""

MOST_ON_A_GPU = 8
"""Panels of a product on a GPU, to which the other operand is sent anew for every panel."""

CHUNK = 1 << 24
"""Bytes that are read at once for a checksum."""


@dataclass
class Record:
    """What is finished of a product, and which product that is."""

    path: Path
    asked: dict[str, Any]
    panels: list[dict[str, Any]] = field(default_factory=list)

    def save(self) -> None:
        """Write it to the disk, whole or not at all."""
        content = {"asked": self.asked, "panels": self.panels}
        text = json.dumps({**content, "digest": _digest(content)}, indent=1)
        temporary = self.path.with_name(f"{self.path.name}.tmp")
        with write_errors(self.path):
            with temporary.open("w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path)

    def finished(self, start: int) -> dict[str, Any] | None:
        """What is known of the panel that begins there, if it is finished."""
        return next((panel for panel in self.panels if panel["start"] == start), None)


def load(path: Path, asked: dict[str, Any]) -> Record:
    """Read a record of this product; refuse one that is damaged, or of another.

    Its panels are as large as they were, wherever they are computed now.
    """
    again = f"delete {path.with_suffix('')} and {path} to begin anew"
    try:
        content = json.loads(path.read_text())
        digest = content.pop("digest")
        theirs, panels = content["asked"], content["panels"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CommandError(f"{path} is damaged ({error}): {again}") from error
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}; {again}") from error
    if digest != _digest(content):
        raise CommandError(f"{path} is damaged (its own checksum differs): {again}")
    differing = [
        name
        for name in asked
        if (name != "panel" or name not in theirs) and theirs.get(name) != asked[name]
    ]
    if differing:
        differences = ", ".join(
            f"{name} {theirs.get(name)} there, {asked[name]} here" for name in differing
        )
        raise CommandError(
            f"{path} is of another product ({differences}): choose another output with -o, "
            f"or {again}"
        )
    return Record(path, {**asked, "panel": theirs["panel"]}, panels)


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def checksum(x: Array) -> str:
    """SHA-256 of an array's numbers, row by row, whatever its strides; read in pieces."""
    digest = hashlib.sha256(f"{x.dtype.str} {x.shape}".encode())
    if x.ndim == 0:
        x = x.reshape(1)
    step = max(1, CHUNK // max(1, x.nbytes // max(1, x.shape[0])))
    for start in range(0, x.shape[0], step):
        digest.update(np.ascontiguousarray(x[start : start + step]).data)
    return digest.hexdigest()


@dataclass(frozen=True)
class Cut:
    """A product in panels along the first axis of its result: batch items, rows or columns."""

    left: Array
    right: Array
    shape: tuple[int, ...]

    def step(self, most: int) -> int:
        """Items, rows or columns of a panel, where there are so many panels or fewer."""
        size = self.shape[0] if self.shape else 1
        return max(1 if self.batched else LEAST_ROWS, -(-size // most))

    @property
    def batched(self) -> bool:
        """Whether the first axis is one of a batch."""
        return max(self.left.ndim, self.right.ndim) > 2

    def panels(self, step: int) -> Iterator[slice]:
        """All of them."""
        size = self.shape[0] if self.shape else 1
        return (slice(start, min(start + step, size)) for start in range(0, size, step))

    def operands(self, panel: slice) -> tuple[Array, Array]:
        """What a panel is the product of."""
        left, right = self.left, self.right
        if not self.shape:
            return left, right
        if self.batched:
            axes = max(left.ndim, right.ndim)
            ours, theirs = (
                x[panel] if x.ndim == axes and x.shape[0] == self.shape[0] else x
                for x in (left, right)
            )
            return ours, theirs
        return (left[panel], right) if left.ndim == 2 else (left, right[:, panel])


def multiply(
    cut: Cut, target: Path, dtype: np.dtype[Any], arguments: dict[str, Any],
    progress: Callable[[float], None],
) -> tuple[Array, Any]:  # fmt: skip
    """Compute what is not finished of a product; give it and its Info when it is in its file."""
    check_target(target)
    target = Path(os.path.realpath(target))
    part = target.with_name(f".{target.name}.part")
    path = target.with_name(f".{target.name}.part.json")
    on_gpu = arguments.get("device") not in (None, "cpu")
    asked = {
        "a": checksum(cut.left), "b": checksum(cut.right), "shape": list(cut.shape),
        "dtype": dtype.str, "accuracy": str(arguments.get("accuracy")),
        "system": arguments.get("system"), "widen": widen.__version__,
        "panel": cut.step(MOST_ON_A_GPU if on_gpu else MOST_PANELS),
    }  # fmt: skip
    with terminate_by_exception(), _alone(path):
        record = load(path, asked) if path.exists() else Record(path, asked)
        if not part.exists() and _is_result(target, record, cut, dtype):
            part = target  # it was ended between its last two steps
        array = _opened(part, record, cut.shape, dtype)
        infos = _compute(cut, record, array, arguments, progress)
        array.flush()
        with write_errors(target):
            part.replace(target)
            path.unlink()
    return np.asarray(array), _summary(cut, record, infos, arguments)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Refuse to work on a product that another process works on."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    lock = path.with_name(f"{path.name}.lock")
    while True:
        with write_errors(lock):
            file = lock.open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise CommandError(
                f"another process computes {path.with_suffix('')}: wait for it, or choose another "
                "output with -o"
            ) from error
        if os.fstat(file.fileno()).st_nlink > 0:
            break
        file.close()  # who had the lock has removed the file since it was opened here
    with file:
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def _opened(
    part: Path, record: Record, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> "np.memmap[Any, Any]":
    """The result as far as it is finished, checked; or a new one."""
    if not record.panels:
        record.save()
        with write_errors(part):
            part.unlink(missing_ok=True)
            return create(part, shape, dtype)
    again = f"delete {part} and {record.path} to begin anew"
    try:
        array = np.lib.format.open_memmap(part, mode="r+")
    except (OSError, ValueError) as error:
        raise CommandError(f"{part} is missing or damaged ({error}): {again}") from error
    if array.shape != shape or array.dtype != dtype:
        raise CommandError(
            f"{part} holds {array.shape} {array.dtype}, not {shape} {dtype}: {again}"
        )
    for panel in record.panels:
        if not _is_whole(array, panel):
            raise CommandError(
                f"{part} is damaged between {panel['start']} and {panel['stop']} of its first "
                f"axis: {again}"
            )
    return array


def _is_result(target: Path, record: Record, cut: Cut, dtype: np.dtype[Any]) -> bool:
    """Whether a file is the product, all panels of which are recorded."""
    if any(record.finished(panel.start) is None for panel in cut.panels(record.asked["panel"])):
        return False
    try:
        array = np.load(target, mmap_mode="r")
    except (OSError, ValueError):
        return False
    same = array.shape == cut.shape and array.dtype == dtype
    return same and all(_is_whole(array, panel) for panel in record.panels)


def _is_whole(array: Array, panel: dict[str, Any]) -> bool:
    """Whether a panel's numbers are those that were recorded."""
    own = _panel(array, slice(panel["start"], panel["stop"]))
    return bool(checksum(own) == panel["sha256"])


def _panel(array: Array, panel: slice) -> Array:
    return array[panel] if array.ndim else array


def _compute(
    cut: Cut, record: Record, array: "np.memmap[Any, Any]", arguments: dict[str, Any],
    progress: Callable[[float], None],
) -> list[Any]:  # fmt: skip
    """Compute and record all panels that are not finished; give their Infos."""
    infos = []
    size = max(1, cut.shape[0] if cut.shape else 1)
    for panel in cut.panels(record.asked["panel"]):
        if record.finished(panel.start) is not None:
            continue
        share = share_of(progress, panel.start / size, (panel.stop - panel.start) / size)
        target = _panel(np.asarray(array), panel)
        left, right = cut.operands(panel)
        _, info = widen.matmul(
            left, right, out=target, info="largest", progress=share, **arguments
        )  # fmt: skip
        array.flush()
        infos.append(info)
        record.panels.append(
            {
                "start": panel.start,
                "stop": panel.stop,
                "sha256": checksum(target),
                "bound": info.bound,
                "repaired": info.repaired,
                "not_finite": info.not_finite,
            }
        )
        record.save()
    return infos


def _summary(cut: Cut, record: Record, infos: list[Any], arguments: dict[str, Any]) -> Any:
    """What is known of the whole product: the largest bound, and sums of the rest."""
    if infos:
        last = infos[-1]
    else:  # all was finished before
        _, last = widen.matmul(
            *cut.operands(slice(0, 1)), info="largest", **arguments
        )  # fmt: skip
        last = replace(last, seconds=dict.fromkeys(last.seconds, 0.0))
    bounds = [panel["bound"] for panel in record.panels if not math.isnan(panel["bound"])]
    k = cut.left.shape[-1]
    rows, columns = (
        x.shape[at] if x.ndim > 1 else 1 for x, at in ((cut.left, -2), (cut.right, -1))
    )
    batch = math.prod(cut.shape) // max(1, rows * columns)
    return replace(
        last,
        plan=replace(last.plan, shape=(batch, rows, k, columns)),
        bound=max(bounds, default=math.nan),
        repaired=sum(panel["repaired"] for panel in record.panels),
        not_finite=sum(panel["not_finite"] for panel in record.panels),
        workspace=max((info.workspace for info in infos), default=0),
        seconds={name: sum(info.seconds[name] for info in infos) for name in last.seconds},
    )
