"""Machine code of a kernel and all that launching it takes: nothing of Triton is needed any more.

Triton hands a kernel its arguments in order but for constants, a descriptor as several, and then
addresses of scratch memory, which these kernels do not use. That is worked out when a kernel is
compiled, checked against the parameters that the assembler saw, and kept with the code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any

from widen.gpu.code.variants import DIVISIBLE, ONE
from widen.gpu.replay import driver
from widen.gpu.replay.driver import word

SIZES = {"i64": 8, "i32": 4, "fp32": 4, "u1": 1}
"""Bytes of arguments, by type."""

PTX_SIZES = {"8": 1, "16": 2, "32": 4, "64": 8}

MAP_BYTES = 128

_tensor_map = lru_cache(maxsize=1024)(driver.tensor_map)


class Unsuitable(Exception):
    """Code whose launch would take more than is known here: scratch memory, clusters."""


@dataclass(frozen=True)
class TensorMap:
    """How bulk copies read a matrix that a descriptor describes."""

    kind: int
    size: int
    swizzle: int
    box: tuple[int, ...]

    def of(self, descriptor: Any) -> bytes:
        """The map of a matrix."""
        address, strides = descriptor.base.data_ptr(), descriptor.strides
        return _tensor_map(
            address, tuple(reversed(descriptor.shape)),
            tuple(self.size * step for step in reversed(strides[:-1])), self.box,
            kind=self.kind, swizzle=self.swizzle, promotion=driver.L2_128B,
        )  # fmt: skip


@dataclass(frozen=True)
class Code:
    """Machine code of a kernel.

    Attributes
    ----------
    entry
        The kernel's name in the code.
    threads, shared_bytes
        Of a block.
    passed
        What the kernel is given: (argument, field). "" is its value, "map" a descriptor's tensor
        map, "base", "shape" and "strides" what a descriptor says; "no" is a zero byte.
    maps
        Tensor maps of descriptors, by argument.
    hidden
        Addresses that follow, all 0.
    binary
        The code.
    """

    entry: str
    threads: int
    shared_bytes: int
    passed: tuple[tuple[int, str], ...]
    maps: dict[int, TensorMap]
    hidden: int
    binary: bytes

    def to_bytes(self) -> bytes:
        """As it is kept."""
        facts = asdict(self)
        del facts["binary"]
        return json.dumps(facts, separators=(",", ":")).encode() + b"\n" + self.binary

    @classmethod
    def from_bytes(cls, data: bytes) -> Code:
        """What `to_bytes` gave."""
        line, _, binary = data.partition(b"\n")
        facts = json.loads(line)
        facts["passed"] = tuple((at, field) for at, field in facts["passed"])
        facts["maps"] = {
            int(at): TensorMap(**{**known, "box": tuple(known["box"])})
            for at, known in facts["maps"].items()
        }
        return cls(**facts, binary=binary)

    @cached_property
    def plain(self) -> bool:
        """Whether no argument is a descriptor."""
        return all(field == "" for _, field in self.passed)

    def words(self, given: Sequence[Any]) -> tuple[list[int], dict[int, bytes]]:
        """What the kernel is given for these arguments: words, and tensor maps by their places."""
        if self.plain:
            plain = [given[at] for at, _ in self.passed]
            return [x if type(x) is int else _value(x) for x in plain] + [0] * self.hidden, {}
        made: list[int] = []
        maps: dict[int, bytes] = {}
        for at, field in self.passed:
            argument = given[at]
            if field == "":
                made.append(_value(argument))
            elif field == "base":
                made.append(argument.base.data_ptr())
            elif field in ("shape", "strides"):
                made += getattr(argument, field)
            else:  # "map", or "no"
                if field == "map":
                    maps[len(made)] = self.maps[at].of(argument)
                made.append(0)
        return made + [0] * self.hidden, maps


def _value(argument: Any) -> int:
    own = type(argument)
    if own is int or own is float or own is bool:
        return word(argument)
    return 0 if argument is None else int(argument.data_ptr())


# ── how a kernel is handed its arguments ─────────────────────────────────────────────────────────


def passing(
    types: tuple[str, ...], maps: dict[int, TensorMap], ptx: str, entry: str
) -> tuple[tuple[tuple[int, str], ...], int]:
    """`passed` and `hidden` of a kernel with arguments of these types, by its assembly."""
    seen = parameter_sizes(ptx, entry)
    for flags in (1, 2):  # a descriptor without a map: how it is filled; newer, how it is rounded
        passed: list[tuple[int, str]] = []
        sizes: list[int] = []
        for at, name in enumerate(types):
            for field, bytes_of in _fields(name, at in maps, flags):
                passed.append((at, field))
                sizes += bytes_of
        hidden = seen[len(sizes) :]
        if seen[: len(sizes)] == sizes and hidden == [8] * len(hidden) and len(hidden) <= 2:
            return tuple(passed), len(hidden)
    raise Unsuitable(f"{entry} has parameters of {seen} bytes, for arguments {types}")


def _fields(name: str, mapped: bool, flags: int) -> list[tuple[str, list[int]]]:
    """Fields of an argument that the kernel is handed, and their sizes."""
    kind = name.removesuffix(DIVISIBLE)
    if name == ONE:
        return []
    if kind[0] == "*":
        return [("", [8])]
    if not kind.startswith("tensordesc"):
        return [("", [SIZES[kind]])]
    rank = kind.count(",") + 1
    last: list[tuple[str, list[int]]] = [("shape", [4] * rank), ("strides", [8] * rank)]
    if mapped:
        return [("map", [MAP_BYTES]), *last]
    first = [("base", [8]), ("shape", [8] * rank), ("strides", [8] * rank)]
    return [*first, *[("no", [1])] * flags, *last]


def parameter_sizes(ptx: str, entry: str) -> list[int]:
    """Bytes of a kernel's parameters, as its assembly declares them."""
    declaration = re.search(rf"\.entry\s+{re.escape(entry)}\s*\((.*?)\)", ptx, re.DOTALL)
    if declaration is None:
        raise Unsuitable(f"no kernel {entry} in what was compiled")
    sizes = []
    for line in declaration[1].split(","):
        kind = re.search(r"\.param.*?\.[bfsu](8|16|32|64)\b", line)
        if kind is None:
            continue
        count = re.search(r"\[(\d+)\]", line)
        sizes.append(PTX_SIZES[kind[1]] * (1 if count is None else int(count[1])))
    return sizes
