"""Paper 001's numbers: operations, a norm, accuracy of both ways, rate of the running example."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

import widen
from widen.formats.arrays import library_of
from widen.papers.items import Claim, Figure, Item, Outcome, Panel, Series, Setting, verdict_of
from widen.papers.multiple_double import counts
from widen.papers.multiple_double.algorithm import multiply_words, sum_parts
from widen.papers.multiple_double.parts import parts_of_numbers, widths
from widen.papers.multiple_double.rewriting import dimensions, extract, rewrite_left, rewrite_right

NAMES = {2: "double double", 4: "quad double", 8: "octo double", 16: "hexa double"}
SLIDES = {"way": 1, "equalise": True, "balance": True, "group": None, "grid": "number"}
NORM_ERRORS = {2: 4.46815747097839e-32, 4: 8.23258305145073e-65,
               8: 5.56764060802733e-128, 16: 1.54394135726410e-257}  # fmt: skip
"""Magnitudes of the errors on the slide."""


def operations(setting: Setting) -> Outcome:
    """The table "Cost overhead", beside this library's operations and the rewritten product."""
    rows: list[list[Any]] = []
    for done, words in enumerate(NAMES):
        setting.progress(done / len(NAMES))
        add, multiply, divide = counts.SLIDES[words]
        rows.append(
            [
                NAMES[words], add, multiply, divide, round(counts.average(words), 1),
                counts.addition(words), counts.multiplication(words),
                sum(map(len, widths(words))), *counts.rewritten(words),
            ]
        )  # fmt: skip
    panel = Panel(
        "Operations with doubles of a multiplication and an addition",
        "",
        "operations",
        [
            Series("slides' arithmetic", list(NAMES.values()),
                   [row[1] + row[2] for row in rows], "bars"),
            Series("this library's kernels", list(NAMES.values()),
                   [row[5] + row[6] for row in rows], "bars"),
            Series("rewritten product", list(NAMES.values()), [row[8] for row in rows], "bars"),
        ],
        log_y=True,
    )  # fmt: skip
    claims = [
        Claim(
            sentence="The average of an addition, a multiplication and a division",
            where="slide of the cost overhead",
            paper="37.7, 439.3, 2379.0, 15155.0",
            ours=", ".join(str(row[4]) for row in rows),
            setup="sizes as in the table",
            verdict=verdict_of([row[4] for row in rows] == [37.7, 439.3, 2379.0, 15155.0]),
        ),
        Claim(
            sentence="A double double addition takes 20 operations, a multiplication 23",
            where="slide of the cost overhead",
            paper="20 and 23",
            ours=(
                f"{rows[0][5]} and {rows[0][6]}, with a fused multiply-add for the "
                f"error of a product"
            ),
            setup="sizes as in the table",
            verdict=verdict_of(rows[0][5] == 20 and rows[0][6] <= 23),
        ),
        Claim(
            sentence="The running example needs 682 × 8192 inner products of length 12 × 341",
            where="slide of the cost overhead",
            paper="5,586,944",
            ours=f"{682 * 8192:,}, a float64 product of {dimensions(682, 341, 8192, 12, 1)}",
            setup="sizes as in the table",
            verdict=verdict_of(682 * 8192 == 5_586_944),
        ),
    ]
    remark = (
        "Additions of four words and more are exact sums rounded once here, hence dearer than the "
        "slides'. The rewritten product has 2·parts² operations for a multiplication and an "
        "addition, of which parts·(parts + 1) are not with zeros; tensor cores do them without "
        "branches. The slides give 12 parts for a double double; the other numbers are ours."
    )
    columns = ["numbers", "slides: add", "mul", "div", "average", "here: add", "mul", "parts",
               "rewritten product", "not with zeros"]  # fmt: skip
    return Outcome(columns, rows, claims, Figure([panel], columns=1), [remark])


def norm(setting: Setting) -> Outcome:
    """The 2-norm of 64 random complex numbers on the unit circle, which is 8."""
    rng = np.random.default_rng(setting.seed)
    rows: list[list[Any]] = []
    for done, words in enumerate(NAMES):
        setting.progress(done / len(NAMES))
        x, y = (widen.Words(rng.standard_normal(64), dtype=f"float64x{words}") for _ in range(2))
        length = np.sqrt(x * x + y * y)
        x, y = x / length, y / length
        length_of_all = np.sqrt((x * x + y * y).sum())
        error = (length_of_all - 8).words.sum()
        rows.append([NAMES[words], float(error), NORM_ERRORS[words]])
    claims = [
        Claim(
            sentence=f"{name}: error of the computed norm",
            where="slide of the 2-norm",
            paper=f"{theirs:.1e}",
            ours=f"{ours:.1e}",
            setup="sizes as in the table",
            verdict=verdict_of(abs(ours) <= 10 * theirs),
        )
        for name, ours, theirs in rows
    ]
    remark = (
        "The numbers are normal ones over their length, all in the format itself; by NumPy on the "
        "CPU on every device, which would give the same bits."
    )
    return Outcome(
        ["numbers", "norm - 8", "the slide's |norm - 8|"], rows, claims, remarks=[remark]
    )


# ── accuracy ─────────────────────────────────────────────────────────────────

INPUTS = {
    "equal": lambda x: 0.75 + x / 2,
    "(0, 1)": lambda x: 0.5 + x,
    "(-1, 1)": lambda x: 2 * x,
    "φ = 1": None,
    "φ = 4": None,
}
"""Positive numbers of one exponent, of (0, 1), numbers of (-1, 1), and (u - 0.5) exp(φ rn)."""

VARIANTS: dict[str, dict[str, Any]] = {
    "way 1": {},
    "way 2": {"way": 2},
    "signs as they are": {"equalise": False},
    "exponents as they are": {"balance": False},
    "both as they are": {"equalise": False, "balance": False},
    "grouped by sign": {"group": "sign"},
    "grouped by exponent": {"group": "exponent"},
    "grouped by both": {"group": "both"},
    "one grid a row": {"grid": "row"},
}
OWN = "widen.matmul"
SHOWN = ("way 1", "both as they are", "one grid a row", OWN, "grouped by exponent")
"""What is drawn; of octo and hexa doubles no groups, which take minutes."""


def words_of(setting: Setting, shape: tuple[int, int], count: int, kind: str, stream: int) -> Any:
    """Words of a matrix, every later one below half a unit of the one before it."""
    phi = float(kind[4:]) if kind.startswith("φ") else 0.0
    first = setting.random(shape, phi, 100 * stream)
    change = INPUTS[kind]
    words = [first if change is None else change(first)]
    for at in range(1, count):
        share = setting.random(shape, 0.0, 100 * stream + at)
        words.append(words[-1] * share * 2.0**-53)
    return library_of(first).stack(words)


def error(setting: Setting, *matrices: Any) -> float:
    """Largest |C - AB| / (|A||B|) of words of C, A and B, exactly; at most 1."""
    c, x, y = (
        [[sum(map(Fraction, w[:, i, j].tolist()), Fraction(0)) for j in range(w.shape[2])]
         for i in range(w.shape[1])]
        for w in map(setting.machine.fetch, matrices)
    )  # fmt: skip
    worst = Fraction(0)
    for i in range(len(x)):
        for j in range(len(y[0])):
            terms = [x[i][h] * y[h][j] for h in range(len(y))]
            size = sum((abs(term) for term in terms), Fraction(0))
            worst = max(worst, abs(c[i][j] - sum(terms)) / size)
    return float(worst)


def accuracy(setting: Setting) -> Outcome:
    """When the product is accurate: inputs, ways and steps, number by number."""
    k = setting.choose(341, full=341, quick=16)
    rows: list[list[Any]] = []
    cases = [(count, kind) for count in NAMES for kind in INPUTS]
    for done, (count, kind) in enumerate(cases):
        setting.progress(done / len(cases))
        a, b = (words_of(setting, s, count, kind, at) for at, s in ((1, (2, k)), (2, (k, 2))))
        for name, options in VARIANTS.items():
            if count == 2 or (name in SHOWN and (count == 4 or "group" not in options)):
                product = multiply_words(a, b, **{**SLIDES, **options})
                rows.append([NAMES[count], kind, name, error(setting, product, a, b)])
        fmt = f"float64x{count}"
        left, right = (widen.Words.from_words(x, fmt) for x in (a, b))
        own = widen.matmul(left, right, dtype=fmt)
        rows.append([NAMES[count], kind, OWN, error(setting, own.words, a, b)])
    errors = {(numbers, kind, name): wrong for numbers, kind, name, wrong in rows}
    panels = [
        Panel(
            f"{numbers}s",
            "numbers",
            "digits kept, -log10(error / |A||B|)",
            [
                Series(
                    name,
                    list(INPUTS),
                    [-math.log10(max(errors[numbers, kind, name], 1e-300)) for kind in INPUTS],
                    "bars",
                )
                for name in SHOWN
                if (numbers, "equal", name) in errors
            ],
        )
        for numbers in NAMES.values()
    ]
    remark = (
        f"K = {k}; errors are exact, relative to |A||B|, the largest of 4 elements. Numbers are "
        "positive of one exponent (equal), of (0, 1), of (-1, 1), or (u - 0.5) exp(φ rn). Sums of "
        "parts are exact while the exponents of a row and of a column are close; one sign for all "
        "parts makes sums longer, and bits moved between parts make them finer."
    )
    columns = ["numbers", "inputs", "product", "error / |A||B|"]
    return Outcome(columns, rows, accuracy_claims(errors), Figure(panels), [remark])


def accuracy_claims(errors: dict[Any, float]) -> list[Claim]:
    """What the slides say, or ask, about accuracy."""
    equal, general = "equal", "φ = 4"
    double = {name: errors["double double", equal, name] for name in ("way 1", "way 2", OWN)}
    wide = [errors["double double", general, name] for name in ("way 1", OWN)]
    grouped = [errors["quad double", "φ = 1", name] for name in ("way 1", "grouped by exponent")]
    quad = [errors["quad double", equal, name] for name in ("way 1", "both as they are")]
    octo = [errors["octo double", equal, name] for name in ("way 1", "one grid a row")]
    return [
        Claim(
            sentence="Is the result accurate? Positive double doubles of one exponent, both ways",
            where="slides on accuracy",
            paper="4e-32 (the slides' 2-norm)",
            ours=f"{double['way 1']:.1e} and {double['way 2']:.1e}; widen.matmul {double[OWN]:.1e}",
            setup="sizes as in the table",
            verdict=verdict_of(max(double.values()) <= 4e-32),
        ),
        Claim(
            sentence="Adding numbers of different exponents may lose many bits",
            where="slides on accuracy",
            paper="may lose",
            ours=f"φ = 4: {wide[0]:.1e}; widen.matmul {wide[1]:.1e}",
            setup="sizes as in the table",
            verdict=verdict_of(wide[0] > 1e-28),
        ),
        Claim(
            sentence="Therefore group by exponent, and execute many products",
            where="slides on accuracy",
            paper="A_0 to A_12",
            ours=(
                f"quad doubles, φ = 1: {grouped[0]:.1e} without groups, {grouped[1]:.1e} with them"
            ),
            setup="sizes as in the table",
            verdict=verdict_of(grouped[1] < grouped[0] / 1e6),
        ),
        Claim(
            sentence="Unequal signs and unbalanced exponents cause great loss of accuracy",
            where="slides on accuracy",
            paper="great loss",
            ours=(
                f"quad doubles of one exponent: {quad[0]:.1e} with both steps, "
                f"{quad[1]:.1e} without"
            ),
            setup="sizes as in the table",
            verdict=verdict_of(quad[0] < quad[1]),
        ),
        Claim(
            sentence="More parts may lead to more exponent shifts",
            where="slides on accuracy",
            paper="trade-off",
            ours=f"octo doubles of one exponent: {octo[0]:.1e}, one grid a row {octo[1]:.1e}",
            setup="sizes as in the table",
            verdict=verdict_of(octo[0] > octo[1]),
        ),
    ]


# ── rate ─────────────────────────────────────────────────────────────────────


def rate(setting: Setting) -> Outcome:
    """The running example, and the time of its steps."""
    m, k, n = setting.choose((60, 30, 720), full=(682, 341, 8192), quick=(6, 5, 24))
    rows: list[list[Any]] = []
    bare = setting.random((12 * m, 12 * k), 0.0, 1), setting.random((12 * k, n), 0.0, 2)
    seconds = setting.seconds(lambda: bare[0] @ bare[1])
    flops = 2 * 144 * m * k * n
    rows.append(["float64 a @ b", *dimensions(m, k, n, 12, 1), None, None, seconds, None,
                 flops / seconds / 1e12, None])  # fmt: skip
    shapes = [(1, (m, k, n)), (2, (n, k, m))]
    if setting.full:
        shapes += [(1, (n, k, n))]
    for done, (way, shape) in enumerate(shapes):
        setting.progress(done / len(shapes))
        rows.append(timed(setting, way, *shape))
    best = max(row[8] for row in rows[1:])
    whole = max(row[9] for row in rows[1:])
    steps_of = [row[4:8] for row in rows[1:]]
    rows.append(own_rate(setting, *shapes[-1][1]))
    claims = [
        Claim(
            sentence="The float64 product of the running example on FP64 tensor cores",
            where="slides on the running example",
            paper="13.75 TFLOP/s on an A100 (peak 19.5)",
            ours=f"{best:.3g} TFLOP/s; a product of random numbers of 53 bits {rows[0][8]:.3g}",
            setup="sizes as in the table",
            verdict=verdict_of(best > 13.75 if setting.gpu and setting.full else None),
        ),
        Claim(
            sentence="The float64 product remains the most computationally intensive step",
            where="slides on the running example",
            paper="most",
            ours=f"{max(times[2] / sum(times) for times in steps_of):.0%} of the time at best; "
            f"{1000 * whole:.3g} GFLOP/s counted as double double operations, widen.matmul "
            f"{1000 * rows[-1][9]:.3g}",
            setup="sizes as in the table",
            verdict=verdict_of(
                all(times[2] == max(times) for times in steps_of) if setting.full else None
            ),
        ),
    ]
    columns = ["product", "M", "K", "N", "split, s", "rewrite, s", "multiply, s", "add up, s",
               "float64 TFLOP/s", "double double TFLOP/s"]  # fmt: skip
    steps = ["split", "rewrite", "multiply", "add up"]
    panel = Panel(
        "Time of the steps",
        "",
        "seconds",
        [
            Series(step, [row[0] for row in rows[1:-1]], [times[at] for times in steps_of], "stack")
            for at, step in enumerate(steps)
        ],
    )
    remark = (
        f"Double doubles {m} × {k} times {k} × {n} (way 1), {n} × {k} times {k} × {m} (way 2). "
        "Double double TFLOP/s are 2mkn over the time of all four steps; the last row is the "
        "library's own product, which has no such steps."
    )
    return Outcome(columns, rows, claims, Figure([panel], columns=1), [remark])


def timed(setting: Setting, way: int, m: int, k: int, n: int) -> list[Any]:
    """A row of the table of rates."""
    a, b = (example(setting, shape, at) for at, shape in ((1, (m, k)), (2, (k, n))))

    def parts() -> Any:
        return [parts_of_numbers(x, equalise=True, balance=True) for x in (a, b)]

    left, right = parts()
    rewritten = rewrite(left, right, way)
    product = rewritten[0] @ rewritten[1]
    pieces = extract(product, 12, way)
    how = {"repeats": 5, "warm_ups": 2}
    steps = [
        setting.seconds(parts, **how),
        setting.seconds(lambda: rewrite(left, right, way), **how),
        setting.seconds(lambda: rewritten[0] @ rewritten[1], **how),
        setting.seconds(lambda: sum_parts([pieces], 2), **how),
    ]
    size = dimensions(m, k, n, 12, way)
    rates = 2 * math.prod(size) / steps[2] / 1e12, 2 * m * k * n / sum(steps) / 1e12
    return [f"way {way}, {m}×{k}×{n}", *size, *steps, *rates]


def own_rate(setting: Setting, m: int, k: int, n: int) -> list[Any]:
    """The same product by `widen.matmul`, to its contract."""
    a, b = (
        widen.Words.of(widen.float64x2, [word[None] for word in example(setting, shape, at)])
        for at, shape in ((1, (m, k)), (2, (k, n)))
    )
    seconds = setting.seconds(
        lambda: widen.matmul(a, b, dtype=widen.float64x2), repeats=5, warm_ups=2
    )
    rate = 2 * m * k * n / seconds / 1e12
    return [f"widen.matmul, {m}×{k}×{n}", m, k, n, None, None, seconds, None, None, rate]


def example(setting: Setting, shape: tuple[int, int], stream: int) -> Any:
    """Positive double doubles of one exponent."""
    first = setting.random(shape, 0.0, 100 * stream) / 2 + 0.75
    second = setting.random(shape, 0.0, 100 * stream + 1) * 2.0**-54
    return library_of(first).stack([first, second])


ITEMS = [
    Item(
        "001-operations",
        "001",
        "Operations with doubles of multiple double arithmetic",
        "An addition, a multiplication and a division of double doubles average 37.7 operations.",
        operations,
    ),
    Item(
        "001-norm",
        "001",
        "2-norm of 64 random complex numbers on the unit circle",
        "Errors of 4e-32, 8e-65, 6e-128 and 2e-257 in double, quad, octo and hexa doubles.",
        norm,
    ),
    Item(
        "001-accuracy",
        "001",
        "Accuracy of both ways, of signs, exponents and groups",
        "Groups by sign and size, equal signs and balanced exponents keep the result accurate.",
        accuracy,
    ),
    Item(
        "001-rate",
        "001",
        "Rate of the running example",
        "13.75 TFLOP/s of float64 products on an A100's FP64 tensor cores.",
        rate,
    ),
]
