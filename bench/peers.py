"""Other libraries' matrix products beside widen's, on one core: time and accuracy in one run.

`python bench/peers.py` prints a table and appends dated rows to bench/results/peers.jsonl. It needs
`pip install python-flint mpmath numpy-quaddtype xprec`; what is missing is left out, and said so.

Three kinds of operands, random and (rand - 0.5) exp(randn / 2) in size: float64; 106 bits; 212
bits. All libraries multiply the same matrices. Times are seconds of CPU time on one thread, the
median of several calls (one call where it takes seconds), so other programs on the machine disturb
them little. Conversion from NumPy's arrays and back is timed apart. The error is the largest of 200
elements, against the exact value in Python's integers, over (|A||B|) of the element: it is shown as
right bits, -log2 of it.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = "1"

# isort: split
import argparse
import math
import operator
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import widen
from cpu import machine
from widen.cli.results import append

RESULTS = Path(__file__).parent / "results" / "peers.jsonl"
PACKAGES = ("python-flint", "mpmath", "numpy-quaddtype", "xprec")
SAMPLE = 200
SCALE = 700
"""Operands are integers over 2^SCALE."""
WORDS = {53: 1, 106: 2, 212: 4}

Array = Any
Planes = list[Array]
"""Float64 arrays whose sum is the matrix."""


@dataclass(frozen=True)
class Peer:
    """A way to multiply: bits of its operands, three steps, and the largest n it is asked for."""

    name: str
    bits: int
    enter: Callable[[Planes], Any]
    multiply: Callable[[Any, Any], Any]
    leave: Callable[[Any, tuple[int, int]], Planes]
    largest: int = 1 << 20


def operand(rng: np.random.Generator, n: int, bits: int) -> Planes:
    """A random matrix of so many bits, in words of float64."""
    first = (rng.random((n, n)) - 0.5) * np.exp(0.5 * rng.standard_normal((n, n)))
    rest = [first * (rng.random((n, n)) - 0.5) * 2.0 ** (-53 * at) for at in range(1, WORDS[bits])]
    words = widen.Words.from_words(np.array([first, *rest]), f"float64x{max(2, WORDS[bits])}")
    return [plane[0] for plane in words.planes][: WORDS[bits]]


# ── a plain script of the Ozaki scheme over the ordinary product ──────────────


def ozaki(a: Array, b: Array) -> Planes:
    """The product to about 106 bits: exact products of slices, added in two words."""
    width = (53 - math.ceil(math.log2(a.shape[1]))) // 2
    left, right = slices(a, width), [x.T for x in slices(b.T, width)]
    high, low = np.zeros((a.shape[0], b.shape[1])), np.zeros((a.shape[0], b.shape[1]))
    for total in range(len(left) + len(right) - 1):
        for at in range(max(0, total - len(right) + 1), min(total + 1, len(left))):
            term = left[at] @ right[total - at]
            both = high + term
            part = both - high
            low += (high - (both - part)) + (term - part)
            high = both
    both = high + low
    return [both, low - (both - high)]


def slices(a: Array, width: int) -> Planes:
    """Rows cut into pieces of so many bits, until nothing is left."""
    found, rest = [], a.copy()
    while rest.any():
        top = np.abs(rest).max(axis=1, keepdims=True)
        unit = np.exp2(np.ceil(np.log2(np.where(top > 0, top, 1.0))) + 53 - width)
        found.append((rest + unit) - unit)
        rest -= found[-1]
    return found


# ── the others ───────────────────────────────────────────────────────────────


def from_words(words: widen.Words) -> Planes:
    """Planes of widen's numbers."""
    return [plane[0] for plane in words.planes]


def own(name: str, bits: int, **options: Any) -> Peer:
    """widen's product with some options."""

    def enter(planes: Planes) -> Any:
        if len(planes) == 1:
            return planes[0]
        return widen.Words.of(widen.formats.FORMATS[f"float64x{len(planes)}"],
                              [plane[None] for plane in planes])  # fmt: skip

    def leave(c: Any, shape: tuple[int, int]) -> Planes:
        return from_words(c) if isinstance(c, widen.Words) else [c]

    return Peer(f"widen {name}", bits, enter, lambda a, b: widen.matmul(a, b, **options), leave)


def cast(name: str, bits: int, find: Callable[[], Any], largest: int) -> Peer:
    """The product of arrays of another dtype, which `+` and `astype` convert to and from."""

    def enter(planes: Planes) -> Any:
        return sum((plane.astype(find()) for plane in planes[1:]), planes[0].astype(find()))

    def leave(c: Any, shape: tuple[int, int]) -> Planes:
        high = c.astype(np.float64)
        return [high, (c - high.astype(find())).astype(np.float64)]

    return Peer(name, bits, enter, np.matmul, leave, largest)


def quad() -> Any:
    """numpy-quaddtype's format of 113 bits, on one thread."""
    import numpy_quaddtype

    numpy_quaddtype.set_num_threads(1)
    return numpy_quaddtype.QuadPrecDType(backend="sleef")


def double_double() -> Any:
    """xprec's format."""
    import xprec

    return xprec.ddouble


def integers() -> Peer:
    """python-flint's exact product of integers; the scale is that of the smallest exponent."""
    import flint

    scale = 120

    def enter(planes: Planes) -> Any:
        rows = [[int(x) for x in row] for row in np.ldexp(planes[0], scale).tolist()]
        return flint.fmpz_mat(rows)

    def leave(c: Any, shape: tuple[int, int]) -> Planes:
        # int to float rounds correctly; then by a power of two.
        found = np.array([float(int(x)) for x in c.entries()]).reshape(shape)
        return [np.ldexp(found, -2 * scale)]

    return Peer("python-flint fmpz_mat", 53, enter, operator.mul, leave)


def balls(bits: int) -> Peer:
    """python-flint's product of balls."""
    import flint

    def enter(planes: Planes) -> Any:
        flint.ctx.prec = bits
        shape = planes[0].shape
        found = flint.arb_mat(*shape, planes[0].ravel().tolist())
        for plane in planes[1:]:
            found += flint.arb_mat(*shape, plane.ravel().tolist())
        return found

    def leave(c: Any, shape: tuple[int, int]) -> Planes:
        words = []
        for _ in range(WORDS[bits]):
            word = [float(entry.mid()) for entry in c.entries()]
            words.append(np.array(word).reshape(shape))
            c -= flint.arb_mat(*shape, word)
        return words

    name = f"python-flint arb_mat, {bits} bits"
    return Peer(name, bits, enter, operator.mul, leave)


def many_digits(bits: int) -> Peer:
    """mpmath's product."""
    import mpmath

    def enter(planes: Planes) -> Any:
        mpmath.mp.prec = bits
        found = mpmath.matrix(planes[0].tolist())
        for plane in planes[1:]:
            found += mpmath.matrix(plane.tolist())
        return found

    def leave(c: Any, shape: tuple[int, int]) -> Planes:
        words = []
        for _ in range(WORDS[bits]):
            words.append(np.array([[float(x) for x in row] for row in c.tolist()]))
            c -= mpmath.matrix(words[-1].tolist())
        return words

    name = f"mpmath, {bits} bits"
    return Peer(name, bits, enter, operator.mul, leave, 64)


def plain(name: str, multiply: Callable[[Any, Any], Any]) -> Peer:
    """A product of float64 arrays."""

    def leave(c: Any, shape: tuple[int, int]) -> Planes:
        return c if isinstance(c, list) else [c]

    return Peer(name, 53, lambda planes: planes[0], multiply, leave)


def peers() -> list[Peer]:
    """All that can be imported."""
    has = {name: find_spec(name) is not None for name in
           ("flint", "mpmath", "numpy_quaddtype", "xprec")}  # fmt: skip
    found = [
        plain("NumPy float64", np.matmul),
        own('"fast"', 53, accuracy="fast"),
        own('"standard"', 53),
        own('"correct"', 53, accuracy="correct"),
        own("float64x2", 53, dtype="float64x2"),
        plain("Ozaki scheme over NumPy, 35 lines", ozaki),
        cast("NumPy longdouble", 53, lambda: np.longdouble, 512),
    ]
    found += [integers()] if has["flint"] else []
    found += [own("float64x2", 106)]
    found += [cast("xprec ddouble", 106, double_double, 512)] if has["xprec"] else []
    quadruple = cast("numpy-quaddtype", 106, quad, 512)
    found += [quadruple] if has["numpy_quaddtype"] else []
    found += [balls(106)] if has["flint"] else []
    found += [many_digits(106)] if has["mpmath"] else []
    found += [own("float64x4", 212)]
    found += [balls(212)] if has["flint"] else []
    found += [many_digits(212)] if has["mpmath"] else []
    for name in [name for name, there in has.items() if not there]:
        print(f"{name} is not installed: left out")
    return found


# ── time and error ───────────────────────────────────────────────────────────


def seconds(call: Callable[[], Any], least: int) -> float:
    """CPU time of a call: the median of at least so many, fewer where they take seconds."""
    taken: list[float] = []
    while len(taken) < least and sum(taken) < 2:
        start = time.process_time()
        call()
        taken.append(time.process_time() - start)
    return statistics.median(taken)


def whole(planes: Planes, line: tuple[Any, ...]) -> list[int]:
    """Elements of a matrix as exact integers over 2^SCALE."""
    parts = [[Fraction(x) * 2**SCALE for x in plane[line].tolist()] for plane in planes]
    sums = [sum(column) for column in zip(*parts, strict=True)]
    assert all(x.denominator == 1 for x in sums)
    return [int(x) for x in sums]


def right_bits(a: Planes, b: Planes, c: Planes) -> float:
    """-log2 of the largest error over |A||B|, of elements drawn at random; infinite if exact."""
    n = a[0].shape[0]
    rng, worst = np.random.default_rng(9), Fraction(0)
    for i in rng.choice(n, min(n, 20), replace=False).tolist():
        row = whole(a, (i,))
        for j in rng.choice(n, SAMPLE // 20, replace=False).tolist():
            column = whole(b, (slice(None), j))
            exact = sum(x * y for x, y in zip(row, column, strict=True))
            size = sum(abs(x * y) for x, y in zip(row, column, strict=True))
            got = sum((Fraction(float(plane[i, j])) for plane in c), Fraction(0)) * 4**SCALE
            worst = max(worst, abs(got - exact) / size)
    return -math.log2(worst) if worst else math.inf


def measure(peer: Peer, n: int, repeats: int) -> dict[str, Any]:
    """One row: a library at one size."""
    rng = np.random.default_rng(n)
    a, b = operand(rng, n, peer.bits), operand(rng, n, peer.bits)
    x, y = peer.enter(a), peer.enter(b)
    product = peer.multiply(x, y)  # widen compiles
    taken = seconds(lambda: peer.multiply(x, y), repeats)
    entering = seconds(lambda: (peer.enter(a), peer.enter(b)), 1)
    start = time.process_time()
    planes = peer.leave(product, (n, n))
    leaving = time.process_time() - start
    return {
        "library": peer.name, "operand_bits": peer.bits, "n": n, "cpu_s": taken,
        "converting_s": entering + leaving, "right_bits": right_bits(a, b, planes),
    }  # fmt: skip


def versions() -> dict[str, str]:
    """Versions of the other libraries."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", default="64,256,512", help="n of n x n matrices, with commas")
    parser.add_argument("--repeats", type=int, default=5, help="calls whose median is taken")
    parser.add_argument("--no-save", action="store_true", help="do not append to bench/results")
    options = parser.parse_args()
    here = machine() | versions() | {"load": round(os.getloadavg()[0], 1)}
    print(", ".join(f"{key} {value}" for key, value in here.items()))
    print("\n| operands | library | n | ms of one core | ms of conversion | right bits |")
    print("| --- | --- | --- | --- | --- | --- |")
    known = peers()
    for n in map(int, options.sizes.split(",")):
        for peer in [peer for peer in known if n <= peer.largest]:
            row = measure(peer, n, options.repeats)
            print(
                f"| {row['operand_bits']} bits | {row['library']} | {n} | {1e3 * row['cpu_s']:.4g} "
                f"| {1e3 * row['converting_s']:.3g} | {row['right_bits']:.1f} |",
                flush=True,
            )
            if not options.no_save:
                append(RESULTS, here | row)


if __name__ == "__main__":
    main()
