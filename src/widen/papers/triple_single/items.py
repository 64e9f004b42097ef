"""Paper 003's figures: blocked products and the Ozaki scheme, their times and errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import widen
from widen.formats.arrays import cast, library_of
from widen.papers.items import (
    Claim,
    Figure,
    Item,
    Outcome,
    Panel,
    Series,
    Setting,
    lines,
    verdict_of,
)
from widen.papers.triple_single.algorithm import multiply, multiply_sliced, slice_matrix

COUNTS = (9, 10, 11, 12)
"""Slices, as in the paper."""

WORDS = {
    "double": ("float64",),
    "DF": ("float32", "float32"),
    "TS": ("float32", "float32", "float32"),
    "D+S": ("float64", "float32"),
    "DD": ("float64", "float64"),
}
SCALE = 2.0**40
"""Of all matrices: products of their last slices are then no subnormal float32, slow on a CPU."""

INPUTS = "Matrices are (u - 0.5) exp(rn), all words filled to their last bit."


def numbers(setting: Setting, shape: tuple[int, int], name: str, stream: int) -> list[Any]:
    """Words of (u - 0.5) exp(rn), every later one below half a unit of the one before it."""
    first, *later = WORDS[name]
    words = [SCALE * setting.random(shape, 1.0, 10 * stream, first)]
    for at, word in enumerate(later):
        share = setting.random(shape, 0.0, 10 * stream + at + 1, first)  # from -1/2 to 1/2
        small = words[-1] * share * 2.0 ** (-53 if first == "float64" else -24)
        words.append(cast(small, word))
    return words


# ── figures 19 to 22: speed of blocked products ──────────────────────────────


Measured = TypeVar("Measured")
_measured: dict[Any, Any] = {}


def once(measure: Callable[[Setting], Measured], setting: Setting) -> Measured:
    """What figures of two GPUs share is measured once."""
    key = measure.__name__, setting.device, setting.full, setting.quick, setting.seed
    if key not in _measured:
        _measured[key] = measure(setting)
    result: Measured = _measured[key]
    return result


def measure_rates(setting: Setting) -> dict[tuple[str, int], float]:
    """GFLOP/s of blocked products, 2 n^3 operations of the type each."""
    sizes = setting.choose(
        [32, 64, 128, 256], full=[32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], quick=[32, 64]
    )
    rates = {}
    cases = [(name, n) for name in WORDS for n in sizes]
    for done, (name, n) in enumerate(cases):
        setting.progress(done / len(cases))
        a, b = (numbers(setting, (n, n), name, stream) for stream in (1, 2))
        repeats = (10 if n <= 2048 else 3 if n <= 4096 else 2) if setting.gpu else 3
        seconds = setting.seconds(
            lambda a=a, b=b: multiply(a, b),  # type: ignore[misc]
            repeats,
            warm_ups=1 if n <= 4096 else 0,  # minutes would be spent on TS of 8192
        )
        rates[name, n] = 2 * n**3 / seconds / 1e9
    return rates


def speeds(setting: Setting, names: tuple[str, ...], claims: list[Any]) -> Outcome:
    """A table and a figure of some types' rates."""
    rate = once(measure_rates, setting)
    sizes = sorted({n for _, n in rate})
    rows = [[n, *(rate[name, n] for name in names)] for n in sizes]
    panel = Panel(
        "Blocked matrix products",
        "n",
        "GFLOP/s (operations of the type)",
        lines(names, rows),
        log_x=True,
        log_y=True,
    )
    remark = f"{INPUTS} 2 n³ operations of the type. "
    remark += (
        "Triton kernels, tiles in shared memory." if setting.gpu else "Numba kernels, all threads."
    )
    columns = ["n", *(f"{name}, GFLOP/s" for name in names)]
    return Outcome(columns, rows, claims, Figure([panel], columns=1), [remark])


def faster(
    setting: Setting, ours: str, theirs: tuple[str, ...], gpu: str, paper: float, text: str
) -> Claim:
    """The claim that a type beats others on a GPU of the paper."""
    rate = once(measure_rates, setting)
    sizes = sorted({n for _, n in rate})
    best = {n: min(rate[ours, n] / rate[other, n] for other in theirs) for n in sizes}
    most = max(max(rate[ours, n] / rate[other, n] for other in theirs) for n in sizes)
    top = sizes[-1]
    said = f"at n = {top}: " + ", ".join(
        f"{rate[ours, top] / rate[other, top]:.2f} × {other}" for other in theirs
    )
    said += f"; at most {most:.2f}. float64 runs at half the rate of float32 here, not at 1/32"
    return Claim(
        sentence=text,
        where="figures 19 to 22",
        paper=f"up to {paper} ({gpu})",
        ours=said,
        setup="sizes as in the table",
        verdict=verdict_of(best[top] > 1 if setting.gpu else None),
    )


def fig19(setting: Setting) -> Outcome:
    """TS, DD and D+S, on the first of the paper's GPUs."""
    text = "Blocked TS products are faster than D+S and DD ones on a GPU with slow float64"
    claim = faster(setting, "TS", ("D+S", "DD"), "GTX 1080", 5.9, text)
    return speeds(setting, ("TS", "DD", "D+S"), [claim])


def fig20(setting: Setting) -> Outcome:
    """TS, DD and D+S, on the second of the paper's GPUs."""
    text = "Blocked TS products are faster than D+S and DD ones on a GPU with slow float64"
    claim = faster(setting, "TS", ("D+S", "DD"), "RTX 6000; the number is hard to read", 15, text)
    return speeds(setting, ("TS", "DD", "D+S"), [claim])


def fig21(setting: Setting) -> Outcome:
    """DF and double, on the first of the paper's GPUs."""
    text = "Blocked DF products are faster than blocked double ones"
    claim = faster(setting, "DF", ("double",), "GTX 1080", 2.1, text)
    return speeds(setting, ("double", "DF"), [claim])


def fig22(setting: Setting) -> Outcome:
    """DF and double, on the second of the paper's GPUs."""
    text = "Blocked DF products are faster than blocked double ones"
    claim = faster(setting, "DF", ("double",), "RTX 6000", 1.4, text)
    return speeds(setting, ("double", "DF"), [claim])


# ── figures 23 and 24: time of the Ozaki scheme ──────────────────────────────


def scheme(a: list[Any], b: list[Any], slices: int, order: str = "rows") -> tuple[Any, ...]:
    """Algorithm 1 on words."""
    cut = slice_matrix(tuple(a), slices, 1), slice_matrix(tuple(b), slices, 0)
    return multiply_sliced(*cut, order)


def measure_times(setting: Setting) -> list[list[Any]]:
    """Rows (n, seconds of the blocked product, seconds with 9 to 12 slices)."""
    sizes = setting.choose([64, 128, 256], full=[256, 512, 1024, 2048, 4096], quick=[32, 64])
    rows = []
    for done, n in enumerate(sizes):
        setting.progress(done / len(sizes))
        a, b = (numbers(setting, (n, n), "TS", stream) for stream in (1, 2))

        def timed(product: Any, n: int = n) -> float:
            slow = n > 1024 or not setting.gpu
            return setting.seconds(product, repeats=2 if slow else 10, warm_ups=1 if slow else 3)

        row = [timed(lambda a=a, b=b: multiply(a, b))]
        row += [timed(lambda a=a, b=b, d=d: scheme(a, b, d)) for d in COUNTS]
        rows.append([n, *row])
    return rows


def seconds(setting: Setting, gpu: str) -> Outcome:
    """Time of the Ozaki scheme beside the blocked product."""
    rows = once(measure_times, setting)
    sizes = [row[0] for row in rows]
    labels = ["blocked TS", *(f"Ozaki scheme, {d} slices" for d in COUNTS)]
    panel = Panel(
        "TS matrix products",
        "n",
        "seconds",
        lines(labels, rows, "dashed"),
        log_x=True,
        log_y=True,
    )
    slower = [row[0] for row in rows if min(row[2:]) > row[1]]
    ratios = {d: rows[-1][at + 2] / rows[-1][1] for at, d in enumerate(COUNTS)}
    said = ", ".join(f"{d} slices {ratio:.2f}" for d, ratio in ratios.items())
    claims = [
        Claim(
            sentence="The Ozaki scheme takes longer than the blocked product at every size",
            where="figures 23 and 24",
            paper=f"longer ({gpu}), the less so the larger n",
            ours=f"times of the blocked product at n = {sizes[-1]}: {said}",
            setup="sizes as in the table",
            verdict=verdict_of(len(slower) == len(rows) if setting.gpu else None),
        )
    ]
    remark = f"{INPUTS} Slicing and TS additions are counted; slices² float32 products."
    return Outcome(
        ["n", *(f"{label}, s" for label in labels)],
        rows,
        claims,
        Figure([panel], columns=1),
        [remark],
    )


def fig23(setting: Setting) -> Outcome:
    """Times on the first of the paper's GPUs."""
    return seconds(setting, "GTX 1080")


def fig24(setting: Setting) -> Outcome:
    """Times on the second of the paper's GPUs."""
    return seconds(setting, "RTX 6000")


# ── figure 25: accuracy ──────────────────────────────────────────────────────

KINDS = {"float64": "numbers of 53 bits", "words": "all words filled"}
PRODUCTS: dict[str, Callable[..., Any]] = {
    "blocked": multiply,
    **{f"{d} slices": partial(scheme, slices=d) for d in COUNTS},
    "12 slices by weight": partial(scheme, slices=12, order="weights"),
}
"""The last one adds in an order of ours."""


def doubles(setting: Setting, shape: tuple[int, int], stream: int) -> list[Any]:
    """(u - 0.5) exp(rn) computed in float64, as three float32 that sum to it."""
    rest, words = SCALE * setting.random(shape, 1.0, 10 * stream), []
    for _ in range(3):
        words.append(cast(rest, "float32"))
        rest = rest - cast(words[-1], "float64")
    return words


def fig25(setting: Setting) -> Outcome:
    """Largest relative errors of the Ozaki scheme and of the blocked product."""
    sizes = setting.choose([256, 512, 1024, 2048, 4096], full=[256, 512, 1024, 2048, 4096],
                           quick=[32, 64])  # fmt: skip
    sample = setting.choose((16, 64), full=(4096, 4096), quick=(4, 8))
    rows: list[list[Any]] = []
    cases = [(kind, n) for kind in KINDS for n in sizes]
    for done, (kind, n) in enumerate(cases):
        m, columns = (min(n, most) for most in sample)
        a, b = (
            doubles(setting, shape, at) if kind == "float64" else numbers(setting, shape, "TS", at)
            for at, shape in ((1, (m, n)), (2, (n, columns)))
        )
        exact = quad_product(a, b)
        for step, (name, product) in enumerate(PRODUCTS.items()):
            rows.append([KINDS[kind], n, m * columns, name, *errors(product(a, b), exact)])
            setting.progress((done + (step + 1) / len(PRODUCTS)) / len(cases))
        setting.machine.free()
    largest = {(kind, n, name): error for kind, n, _, name, error, *_ in rows}
    panels = [
        Panel(
            f"TS against quad double, {kind}",
            "n",
            "largest relative error",
            [
                Series(
                    "blocked" if name == "blocked" else f"Ozaki scheme, {name}",
                    sizes,
                    [largest[kind, n, name] for n in sizes],
                    "dashed" if name == "blocked" else "line",
                )
                for name in PRODUCTS
            ],
            log_x=True,
            log_y=True,
        )
        for kind in KINDS.values()
    ]
    remark = (
        "Matrices are (u - 0.5) exp(rn). The paper does not say in which format: computed in "
        "float64, 53 bits of a TS number's 72, they give errors nearer to its figure than with all "
        "words filled. The largest relative error hangs on the element that cancels most: it grows "
        f"with their number, of each product {sample[0]} rows and {sample[1]} columns at most. "
        "The other columns are the median and the largest error over the largest element. The "
        "reference is widen.matmul in float64x4, to its contract. Line 16 of Algorithm 1 as "
        "printed takes the last but one slice from the rest a second time; the rest itself is the "
        "last slice here. By weight: products of slices i and j are added by i + j, not row by row."
    )
    columns_shown = ["numbers", "n", "elements", "product", "largest relative error", "median",
                     "error / largest element"]  # fmt: skip
    claims = accuracy_claims(rows, sizes)
    return Outcome(columns_shown, rows, claims, Figure(panels), [remark])


def accuracy_claims(rows: list[list[Any]], sizes: list[int]) -> list[Claim]:
    """What section 5.2.2 says of figure 25, by numbers of 53 bits."""
    top, kinds = sizes[-1], list(KINDS.values())
    errors = {(kind, n, name): rest for kind, n, elements, name, *rest in rows}
    own = {(n, name): error for (kind, n, name), (error, *_) in errors.items() if kind == kinds[0]}
    _, typical, against_largest = errors[kinds[0], top, "12 slices"]
    twelve, nine, plain = ([own[n, name] for n in sizes] for name in (
        "12 slices", "9 slices", "blocked"))  # fmt: skip
    best, by_weight = min(sizes, key=lambda n: abs(n - 512)), "12 slices by weight"
    return [
        Claim(
            sentence="12 slices reach a relative error of 1e-20 at n = 4096",
            where="figure 25",
            paper="1e-20",
            ours=f"{twelve[-1]:.1e} at n = {top}, the largest of {rows[-1][2]:,} elements; median "
            f"{typical:.1e}, largest error over largest element {against_largest:.1e}; with all "
            f"words filled {errors[kinds[1], top, '12 slices'][0]:.1e}",
            setup="sizes as in the table",
            verdict=verdict_of(twelve[-1] <= 1e-20 if top == 4096 else None),
        ),
        Claim(
            sentence="The same 12 slices added by weight, our order",
            where="figure 25",
            paper="1e-20, row by row",
            ours=(
                f"{own[top, by_weight]:.1e}, the largest of as many elements; with all "
                f"words filled "
                f"{errors[kinds[1], top, by_weight][0]:.1e}"
            ),
            setup="sizes as in the table",
            verdict=verdict_of(own[top, by_weight] <= 1e-20 if top == 4096 else None),
        ),
        Claim(
            sentence=(
                "The more slices, the smaller the error: 9 slices lose accuracy from n = 1024 on"
            ),
            where="figure 25",
            paper="1e-21 at n = 512, 1e-17 at 1024",
            ours=(
                f"9 slices: {own[best, '9 slices']:.1e} at n = {best}, {nine[-1]:.1e} "
                f"at n = {top}, "
                f"12 slices {twelve[-1]:.1e}"
            ),
            setup="sizes as in the table",
            verdict=verdict_of(nine[-1] > 10 * twelve[-1] if top >= 2048 else None),
        ),
        Claim(
            sentence="The blocked product loses to 12 slices by orders of magnitude",
            where="figure 25",
            paper="1e-17 at n = 256, 1e-15 at 4096",
            ours=f"{plain[0]:.1e} at n = {sizes[0]}, {plain[-1]:.1e} at n = {top}",
            setup="sizes as in the table",
            verdict=verdict_of(plain[-1] > 10 * twelve[-1]),
        ),
    ]


def quad_product(a: list[Any], b: list[Any]) -> Any:
    """The quad double product of TS matrices by the library's own product: words (4, m, n)."""
    left, right = (
        widen.Words.from_words([cast(word, "float64") for word in x], widen.float64x4)
        for x in (a, b)
    )
    return widen.matmul(left, right, dtype=widen.float64x4).words


def errors(computed: Any, exact: Any) -> tuple[float, float, float]:
    """Largest and median relative error, and the largest error over the largest element.

    The differences cancel word by word, each exactly but for the last.
    """
    rest = exact[0]
    for word in computed:
        rest = rest - word
    wrong = abs(rest + exact[1])
    relative, against_largest = wrong / abs(exact[0]), wrong.max() / abs(exact[0]).max()
    median = library_of(relative).median(relative)
    return float(relative.max()), float(median), float(against_largest)


ITEMS = [
    Item("003-fig19", "003", "Speed of blocked TS, DD and D+S products (GTX 1080)",
         "TS is up to 5.9 times as fast as D+S and DD.", fig19),
    Item("003-fig20", "003", "Speed of blocked TS, DD and D+S products (RTX 6000)",
         "TS is many times as fast as D+S and DD.", fig20),
    Item("003-fig21", "003", "Speed of blocked DF and double products (GTX 1080)",
         "DF is up to 2.1 times as fast as double.", fig21),
    Item("003-fig22", "003", "Speed of blocked DF and double products (RTX 6000)",
         "DF is up to 1.4 times as fast as double.", fig22),
    Item("003-fig23", "003", "Time of the Ozaki scheme and of the blocked product (GTX 1080)",
         "The scheme takes longer than the blocked product at all sizes.", fig23),
    Item("003-fig24", "003", "Time of the Ozaki scheme and of the blocked product (RTX 6000)",
         "The scheme takes longer than the blocked product at all sizes.", fig24),
    Item("003-fig25", "003", "Error of the Ozaki scheme and of the blocked product",
         "12 slices reach 1e-20 at n = 4096; the blocked product has 1e-17 to 1e-15.", fig25),
]  # fmt: skip
