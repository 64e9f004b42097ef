"""Five hundred products and more, with the SHA-256 of their results: what no change may change.

``python tests/shared/digests.py > tests/shared/digests.json`` writes the list anew, after a
change of the contracts that is meant to change bits. Operands are made of integers, so that they
are the same on every machine and with every version of NumPy.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import widen
from widen.calls.cpu_tensors import as_array
from widen.formats import FORMATS, PLAIN, computed_in, default_result

COUNT = 500
IN_HALVES = 40
"""Products beyond these, whose results are halves."""

LIST = Path(__file__).with_suffix(".json")

ACCURACIES = ("standard", "correct", "fast", 45, 20)
SPREADS = {"flat": 1, "near": 6, "wide": 60, "widest": 400}
"""Powers of two that magnitudes range over."""

SHAPES = [
    ((7, 5), (5, 6)), ((33, 70), (70, 29)), ((1, 130), (130, 1)), ((40, 3), (3, 50)),
    ((64, 64), (64, 64)), ((9,), (9, 4)), ((5, 12), (12,)), ((300,), (300,)),
    ((3, 8, 16), (16, 7)), ((2, 1, 6, 10), (3, 10, 5)), ((4, 9, 11), (4, 11, 8)),
    ((0, 4), (4, 3)), ((3, 0), (0, 2)), ((17, 600), (600, 19)),
]  # fmt: skip
UNITS = ("fp64", "int8", "fp16", "bf16", "fp8")
SYSTEMS = (None, "digits")
LAYOUTS = ("plain", "transposed", "reversed")


@dataclass(frozen=True)
class Case:
    """One product, drawn from its number alone."""

    number: int
    left: str
    right: str
    result: str | None
    accuracy: str | int
    spread: str
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    options: tuple[tuple[str, Any], ...]
    layout: str
    call: str
    odd: bool

    @property
    def name(self) -> str:
        """What it is, in words that tell it from all others."""
        chosen = "".join(f", {key}={value}" for key, value in self.options)
        return (
            f"{self.number:03d} {self.call} {self.left} x {self.right} -> {self.result}, "
            f"{self.accuracy}, {self.spread}{' with NaN and Inf' if self.odd else ''}, "
            f"{self.layout}, {self.shapes}{chosen}"
        )


def cases() -> list[Case]:
    """All of them: every format on the left with every contract; the rest is drawn."""
    names = list(FORMATS)
    pairs = itertools.cycle(itertools.product(names, ACCURACIES))
    found = []
    for number, (left, accuracy) in zip(range(COUNT), pairs, strict=False):
        rng = random.Random(number)
        right = left if rng.random() < 0.6 else rng.choice(names)
        parts = max(FORMATS[x].parts for x in (left, right))
        results = [
            x for x, fmt in FORMATS.items() if fmt == computed_in(fmt) and fmt.parts >= parts
        ]
        several = any(len(FORMATS[x].part.words) > 4 for x in (left, right))
        shapes = rng.choice(SHAPES[:4] if several else SHAPES)
        options: list[tuple[str, Any]] = []
        call = rng.choice(["matmul", "matmul", "matmul", "gemm", "encode"])
        if rng.random() < 0.25:
            unit = rng.choice(UNITS)
            options = [("unit", unit), ("system", rng.choice(SYSTEMS))]
        found.append(
            Case(
                number,
                left,
                right,
                rng.choice(results) if rng.random() < 0.4 else None,
                accuracy,
                rng.choice(list(SPREADS)),
                shapes,
                tuple(options),
                rng.choice(LAYOUTS),
                call,
                rng.random() < 0.15,
            )
        )
    return [*found, *(_in_halves(number) for number in range(COUNT, COUNT + IN_HALVES))]


def _in_halves(number: int) -> Case:
    """A product whose result is float16 or bfloat16."""
    rng = random.Random(number)
    real = [name for name, fmt in FORMATS.items() if fmt.parts == 1 and len(fmt.words) < 5]
    left, right = (rng.choice(["float16", "bfloat16", rng.choice(real)]) for _ in range(2))
    result, call = rng.choice(["float16", "bfloat16"]), rng.choice(["matmul", "gemm", "encode"])
    return Case(
        number, left, right, result, ACCURACIES[number % 5], rng.choice(list(SPREADS)),
        rng.choice(SHAPES), (), rng.choice(LAYOUTS), call, rng.random() < 0.15,
    )  # fmt: skip


def _floats(rng: np.random.PCG64, shape: tuple[int, ...], spread: int) -> np.ndarray[Any, Any]:
    """Float64 numbers of 53 bits over so many powers of two; one in eight is 0."""
    size = int(np.prod(shape))
    raw = rng.random_raw(2 * size).reshape(2, *shape)
    mantissa = (raw[0] >> 11).astype(np.float64) - 2.0**52
    exponents = (raw[1] % np.uint64(spread)).astype(np.int64) - spread // 2
    kept = raw[1] >> np.uint64(61) != 0
    return np.ldexp(mantissa, exponents - 52) * kept


def operand(case: Case, side: int) -> Any:
    """The left or the right operand, or the addend (side 2), a NumPy array or `Words`."""
    fmt = FORMATS[(case.left, case.right, case.left)[side]]
    rng = np.random.PCG64([case.number, side])
    shape = case.shapes[side] if side < 2 else ()
    first = fmt.part.words[0]
    room = 4 * (first.highest - first.precision) // 3
    spread = min(SPREADS[case.spread], room)
    words = []
    for at in range(len(fmt.part.words)):
        parts = [_floats(rng, shape, spread) for _ in range(fmt.parts)]
        number = parts[0] if fmt.parts == 1 else parts[0] + 1j * parts[1]
        words.append(number * 2.0 ** (-at * (first.precision + 1)))
    if case.odd and words[0].size and side < 2:
        flat = words[0].reshape(-1)
        flat[0], flat[-1] = np.inf, np.nan if side else -np.inf
        for word in words[1:]:
            word.reshape(-1)[[0, -1]] = 0
    with np.errstate(all="ignore"):
        if fmt.name in PLAIN:
            dtype = ml_dtypes.bfloat16 if fmt.name == "bfloat16" else fmt.name
            return _laid_out(np.asarray(words[0]).astype(dtype), case.layout)
        return widen.Words.from_words(np.array(words), fmt)


def _laid_out(x: np.ndarray[Any, Any], layout: str) -> np.ndarray[Any, Any]:
    """The same numbers in another order of memory."""
    if layout == "plain" or x.ndim == 0:
        return x
    if layout == "transposed":
        return np.ascontiguousarray(x.T).T
    return np.ascontiguousarray(x[..., ::-1])[..., ::-1]


def product(case: Case, place: Any = lambda x: x) -> Any:
    """The result, of operands put somewhere by `place`."""
    a, b = (place(operand(case, side)) for side in (0, 1))
    options = {"accuracy": case.accuracy, "dtype": case.result, **dict(case.options)}
    if case.result is None and case.left == case.right:
        options["dtype"] = computed_in(FORMATS[case.left]).name
    if case.call == "gemm":
        c = place(operand(case, 2))
        return widen.gemm(a, b, c, alpha=-1.5, beta=0.625, **options)
    if case.call == "encode":
        left, right = FORMATS[case.left], FORMATS[case.right]
        fmt = computed_in(default_result(left, right))
        fmt = fmt if case.result is None else FORMATS[case.result]
        worked_in = fmt if max(left.parts, right.parts) == 2 else fmt.part
        encoded = widen.encode(b, side="right", **{**options, "dtype": worked_in.name})
        return widen.matmul(a, encoded, dtype=fmt.name)
    return widen.matmul(a, b, **options)


def digest(result: Any) -> str:
    """SHA-256 of the shape, the format and the bits of a result; all NaN are one."""
    fmt = result.format.name if isinstance(result, widen.Words) else str(result.dtype)
    found = hashlib.sha256(f"{fmt.removeprefix('torch.')} {tuple(result.shape)}".encode())
    planes = result.planes if isinstance(result, widen.Words) else [result]
    for plane in planes:
        plane = np.asarray(as_array(plane.cpu()) if hasattr(plane, "cpu") else plane)
        floats = np.ascontiguousarray(plane)
        if floats.dtype.kind == "c":
            floats = floats.reshape(-1).view(floats.real.dtype)
        found.update(np.where(np.isnan(floats), np.array(np.nan, floats.dtype), floats).tobytes())
    return found.hexdigest()


if __name__ == "__main__":
    print(json.dumps({case.name: digest(product(case)) for case in cases()}, indent=0))
