"""When the product of multiple doubles is accurate: inputs, ways and steps, against exact sums."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

import widen
from widen.formats.arrays import library_of
from widen.papers.items import Claim, Figure, Outcome, Panel, Series, Setting, Verdict, verdict_of
from widen.papers.multiple_double.algorithm import multiply_words

NAMES = {2: "double double", 4: "quad double", 8: "octo double", 16: "hexa double"}
SLIDES = {"way": 1, "equalise": True, "balance": True, "group": None, "grid": "number"}

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

Errors = Mapping[tuple[str, str, str], tuple[float, float]]
"""Median and largest error by numbers, inputs and product."""


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


def integers(words: Any) -> tuple[Any, int]:
    """Python integers i and e: the sums of words (words, m, n) are i 2^e.

    >>> integers(np.array([[[1.0]], [[2.0**-60]]]))[0].tolist() == [[2**112 + 2**52]]
    True
    """
    fractions, exponents = np.frexp(words)
    low = int(exponents.min()) - 53  # zeros have exponent 0
    scaled = np.ldexp(fractions, 53).astype(np.int64).astype(object)
    return (scaled << (exponents - 53 - low).astype(object)).sum(0), low


class Exact:
    """The product of two matrices of words in integers, to measure others by."""

    def __init__(self, a: Any, b: Any) -> None:
        (x, low), (y, lower) = integers(a), integers(b)
        self.product = x @ y, low + lower
        self.size = integers((abs(a[0]) @ abs(b[0]))[None])  # |A||B|, to 14 digits

    def errors(self, c: Any) -> tuple[float, float, float]:
        """Return the median and the largest |C - AB| / (|A||B|) of words of C, and a share.

        It is that of elements that err by more than 2^10 units of the format, in percent.
        """
        numbers = integers(c), self.product, self.size
        low = min(exponent for _, exponent in numbers)
        computed, exact, size = (number << (exponent - low) for number, exponent in numbers)
        relative = (abs(computed - exact) / size).astype(float)
        share = 100 * float((relative > 2.0 ** (10 - 53 * len(c))).mean())
        return float(np.median(relative)), float(relative.max()), share


def accuracy(setting: Setting) -> Outcome:
    """Errors of all products on all inputs."""
    elements, k = setting.choose((4096, 341), full=(4096, 341), quick=(64, 16))
    rows: list[list[Any]] = []
    cases = [(count, kind) for count in NAMES for kind in INPUTS]
    fetch = setting.machine.fetch
    for done, (count, kind) in enumerate(cases):
        setting.progress(done / len(cases))
        m = 128 // count if elements == 4096 else 8  # rewritten numbers of many words are large
        shapes = (m, k), (k, elements // m)
        a, b = (words_of(setting, shape, count, kind, at) for at, shape in enumerate(shapes, 1))
        exact = Exact(fetch(a), fetch(b))
        for name, options in VARIANTS.items():
            group = options.get("group")
            if count > 2 and (name not in SHOWN or (count > 4 and group)):
                continue
            if group == "both" and not setting.gpu:  # 26 x 26 products, minutes on two cores
                continue
            product = multiply_words(a, b, **{**SLIDES, **options})
            rows.append([NAMES[count], kind, name, *exact.errors(fetch(product))])
        fmt = f"float64x{count}"
        left, right = (widen.Words.from_words(x, fmt) for x in (a, b))
        own = widen.matmul(left, right, dtype=fmt)
        rows.append([NAMES[count], kind, OWN, *exact.errors(fetch(own.words))])
    errors = {(row[0], row[1], row[2]): (row[3], row[4]) for row in rows}
    remark = (
        f"K = {k}; errors are exact, relative to |A||B|, of {elements:,} elements of each product. "
        "Numbers are positive of one exponent (equal), of (0, 1), of (-1, 1), or "
        "(u - 0.5) exp(φ rn)."
    )
    columns = ["numbers", "inputs", "product", "median error", "largest error",
               "% above 2^10 units"]  # fmt: skip
    claims = accuracy_claims(errors, k, elements)
    return Outcome(columns, rows, claims, digits_kept(errors), [remark])


def digits_kept(errors: Errors) -> Figure:
    """Return bars of what an ordinary element keeps, and what the worst one does."""

    def digits(case: tuple[str, str, str], at: int) -> float | None:
        return -math.log10(max(errors[case][at], 1e-300)) if case in errors else None

    panels = [
        Panel(
            f"{numbers}s, {name} error",
            "inputs",
            "digits kept",
            [
                Series(
                    product,
                    list(INPUTS),
                    [digits((numbers, kind, product), at) for kind in INPUTS],
                    "bars",
                )
                for product in SHOWN
            ],
        )
        for numbers in NAMES.values()
        for at, name in enumerate(("median", "largest"))
    ]
    return Figure(panels)


def accuracy_claims(errors: Errors, k: int, elements: int) -> list[Claim]:
    """What the slides say, or ask, about accuracy.

    A few elements in a thousand are wrong, so fewer than 4,096 decide nothing.
    """
    setup = f"K = {k}, {elements:,} elements, one draw"

    def largest(product: str, *kinds: str, numbers: str = "double double") -> list[float]:
        return [errors[numbers, kind, product][1] for kind in kinds]

    def listed(values: list[float]) -> str:
        return ", ".join(f"{value:.1e}" for value in values)

    def decided(holds: bool) -> Verdict:
        return verdict_of(holds if elements >= 4096 else None)

    close = ("(0, 1)", "(-1, 1)", "φ = 1")
    medians = [errors["double double", kind, "way 1"][0] for kind in close]
    equal = largest("way 1", "equal") + largest("way 2", "equal")
    apart, grouped = (largest(name, *close) for name in ("way 1", "grouped by exponent"))
    wide = [largest(name, "φ = 4")[0] for name in ("way 1", "grouped by exponent", OWN)]
    signs = [largest(name, "(-1, 1)")[0] for name in ("way 1", "grouped by sign")]
    steps = {
        f"{numbers}s {kind}": [
            errors[numbers, kind, name][1] for name in ("way 1", "both as they are")
        ]
        for numbers in ("double double", "quad double")
        for kind in INPUTS
    }
    gains = {case: without / max(kept, 1e-300) for case, (kept, without) in steps.items()}
    best, worst = max(gains, key=gains.__getitem__), min(gains, key=gains.__getitem__)
    lost = [
        math.log10(largest("way 1", "equal", numbers=numbers)[0])
        - math.log10(largest(OWN, "equal", numbers=numbers)[0])
        for numbers in NAMES.values()
    ]
    groups, steps_slide = "slide of grouping by sign and size", "slides of signs and exponents"
    return [
        Claim(
            sentence="Is the result accurate? Positive double doubles of one exponent, both ways",
            where="slide of the overview",
            paper="a question; their 2-norm in double doubles errs by 4e-32",
            ours=f"largest errors {listed(equal)}",
            setup=setup,
            verdict=decided(max(equal) <= 4e-32),
        ),
        Claim(
            sentence="Adding numbers of different exponents may lose many bits",
            where=groups,
            paper="may lose many",
            ours=f"(0, 1), (-1, 1), φ = 1: medians {listed(medians)}, largest {listed(apart)}",
            setup=setup,
            verdict=decided(max(apart) > 1e-28),
        ),
        Claim(
            sentence="Groups by leading exponent bring them back",
            where=groups,
            paper="A_0 to A_12",
            ours=f"the same inputs: largest {listed(grouped)}",
            setup=setup,
            verdict=decided(max(grouped) <= 1e-30),
        ),
        Claim(
            sentence="Thirteen groups are enough, also for exponents that are far apart",
            where=groups,
            paper="A_0 to A_12, no input named",
            ours=f"φ = 4: {wide[0]:.1e}, in groups {wide[1]:.1e}; widen.matmul {wide[2]:.1e}",
            setup=setup,
            verdict=decided(wide[1] <= 1e-30),
        ),
        Claim(
            sentence="Groups by sign help where numbers of either sign are added",
            where=groups,
            paper="subtractions may lose many bits",
            ours=f"(-1, 1): {signs[0]:.1e}, in groups {signs[1]:.1e}",
            setup=setup,
            verdict=decided(signs[1] < signs[0] / 10),
        ),
        Claim(
            sentence="Without equal signs and balanced exponents much accuracy is lost",
            where=steps_slide,
            paper="great loss",
            ours=f"largest errors with both steps and without: at best {listed(steps[best])} "
            f"({best}), at worst {listed(steps[worst])} ({worst})",
            setup=setup,
            verdict=decided(gains[best] > 10 and gains[worst] > 0.1),
        ),
        Claim(
            sentence="More parts lead to more exponent shifts",
            where="slide of conclusions",
            paper="a trade-off",
            ours="digits lost against widen.matmul, one exponent, 2 to 16 words: "
            + ", ".join(f"{digits:.1f}" for digits in lost),
            setup=setup,
            verdict=decided(all(x < y for x, y in itertools.pairwise(lost))),
        ),
    ]
