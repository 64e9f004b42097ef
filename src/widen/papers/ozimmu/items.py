"""Paper 002's table of specifications, and its figures of accuracy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from statistics import fmean
from time import sleep
from typing import Any, NamedTuple

import widen
from widen.papers.items import Claim, Figure, Item, Outcome, Panel, Series, Setting, verdict_of
from widen.papers.ozimmu.algorithm import VARIANTS, beta, error_bound, ozimmu

SPECIFICATIONS: dict[str, tuple[float | None, ...]] = {
    "FP64": (1.29, 9.7, 34, 40, 90),
    "FP64 TC": (None, 19.5, 67, 40, 90),
    "FP32": (82.6, 19.5, 67, 80, 180),
    "TF32 TC": (82.6, 156, 494, 1100, 5000),
    "BF16 TC": (165, 312, 989, 2250, 5000),
    "FP16 TC": (165, 312, 989, 2250, 5000),
    "INT8 TC": (661, 624, 1979, 4500, 10000),
    "FP8 TC": (661, None, 1979, 4500, 10000),
    "FP6 TC": (None, None, None, 4500, 10000),
    "INT4 TC": (1321, None, None, None, None),
    "FP4 TC": (None, None, None, 9000, 20000),
}
"""Table 1: TFLOPS or TOPS of dense products; H100 and H200 are as GH200."""

GPUS = ("RTX 4090", "A100", "GH200", "B200", "GB200")
MEASURE = "The paper's measure is the largest relative error of an element, max |c − c*| / |c*|. "


def table1(setting: Setting) -> Outcome:
    """Table 1, and what the native product reaches here."""
    n = setting.choose(1024, full=4096, quick=256)
    a, b = (setting.random((n, n), 0.0, stream) for stream in (1, 2))
    rates = {"FP64 TC" if setting.gpu else "FP64": rate(setting, lambda: a @ b, n)}
    rows = [[name, *row, rates.get(name)] for name, row in SPECIFICATIONS.items()]
    int8, fp64 = (SPECIFICATIONS[name] for name in ("INT8 TC", "FP64"))
    ratios = [round(x / y) for x, y in zip(int8, fp64, strict=True) if x and y]
    claim = Claim(
        sentence=(
            "INT8 tensor cores are nearly 512 times (RTX 4090) and 60 times (GH200) as fast as FP64"
        ),
        where="table 1",
        paper="512 and 60",
        ours=f"{ratios[0]} and {ratios[2]} by the table's own numbers",
        setup="sizes as in the table",
        verdict=verdict_of(abs(ratios[0] - 512) <= 1 and abs(ratios[2] - 60) <= 2),
    )
    remark = f"The last column is a @ b in float64 here at n = {n}, in TFLOP/s."
    return Outcome(["TFLOPS or TOPS", *GPUS, "measured here"], rows, [claim], remarks=[remark])


REST, LONG = 0.2, 8192
"""Seconds before a series of timings, since a GPU that is warm from the last one runs slower; and
the size from which on few calls warm it anyway."""


def rate(setting: Setting, product: Callable[[], Any], n: int, repeats: int = 10) -> float:
    """Return the TFLOP/s of a product of n×n matrices, on a GPU that was at rest if n is small."""
    product()  # compiles
    if setting.gpu and n < LONG:
        sleep(REST)
    return 2 * n**3 / setting.seconds(product, repeats, 3 if n < LONG else 0) / 1e12


class Errors(NamedTuple):
    """Largest errors of a product: relative to its elements, and to |A||B|."""

    relative: float
    against_magnitude: float


class Case:
    """Two random matrices, their correctly rounded product, and |A||B|."""

    def __init__(self, setting: Setting, m: int, n: int, phi: float, draw: int = 0) -> None:
        self.a = setting.random((m, n), phi, 2 * draw + 1)
        self.b = setting.random((n, m), phi, 2 * draw + 2)
        self.exact = widen.matmul(self.a, self.b, accuracy="correct")
        self.magnitude = abs(self.a) @ abs(self.b)

    def errors(self, product: Any) -> Errors:
        """Return a product's errors; the reference is rounded, so that 2^-53 is not resolved."""
        wrong = abs(product - self.exact)
        relative = wrong / abs(self.exact)
        return Errors(float(relative.max()), float((wrong / self.magnitude).max()))

    def bounded(self, product: Any, slices: int, variant: str) -> float:
        """Return the largest ratio of error and section 5's bound."""
        wrong = abs(product - self.exact) - abs(self.exact) * 2.0**-53
        return float((wrong / error_bound(self.a, self.b, slices, variant)).max())


def steps(setting: Setting, cases: list[Any]) -> Iterator[Any]:
    """Go through cases and report how many are done."""
    for done, case in enumerate(cases):
        setting.progress(done / len(cases))
        yield case


def fig1(setting: Setting) -> Outcome:
    """Accuracy of ozIMMU-k against n, for some phi."""
    sizes = setting.choose([64, 128, 256], full=[1024, 2048, 4096, 8192], quick=[32, 64])
    phis = setting.choose([0.0, 0.5, 1.0, 2.0], full=[0.0, 0.5, 1.0, 2.0], quick=[0.0, 2.0])
    counts = range(5, 12)
    rows: list[list[Any]] = []
    for phi, n in steps(setting, [(phi, n) for phi in phis for n in sizes]):
        case = Case(setting, n, n, phi)
        rows.append([phi, n, "FP64", *case.errors(case.a @ case.b)])
        rows += [[phi, n, k, *case.errors(ozimmu(case.a, case.b, k))] for k in counts]
    long = [1 << 17, 1 << 18] if not setting.quick else []
    for n in long:  # a slice has 7 bits up to here, then 6
        case = Case(setting, 4, n, 0.0)
        rows += [[0.0, n, k, *case.errors(ozimmu(case.a, case.b, k))] for k in (7, 8)]
    panels = [
        Panel(
            f"φ = {phi:g}",
            "n",
            "largest relative error",
            [
                series(rows, f"ozIMMU-{k}" if k != "FP64" else k, phi, k, sizes)
                for k in (*counts, "FP64")
            ],
            log_x=True,
            log_y=True,
        )
        for phi in phis
    ]
    needed = {phi: enough(rows, phi, sizes[-1]) for phi in phis}
    said = ", ".join(f"φ = {phi:g}: {k}" for phi, k in needed.items())
    claims = [
        Claim(
            sentence=(
                "At least 7 or 8 slices are required for accurate results of "
                "well-conditioned products"
            ),
            where="figure 1",
            paper="7 or 8",
            ours=f"{needed[0.0]} slices reach the error of FP64 at φ = 0, n = {sizes[-1]}",
            setup="sizes as in the table",
            verdict=verdict_of(needed[0.0] in (7, 8)),
        ),
        Claim(
            sentence="As φ increases, more slices are required",
            where="figure 1",
            paper="more",
            ours=said,
            setup="sizes as in the table",
            verdict=verdict_of(
                sorted(needed.values()) == list(needed.values()) and needed[0.0] < needed[phis[-1]]
            ),
        ),
    ]
    if long:
        claims.append(deteriorated(rows, long))
    remark = (
        MEASURE
        + "The other column is relative to |A||B|. Rows of n > 100000 have 4 rows and columns."
    )
    columns = ["φ", "n", "slices", "largest relative error", "error / |A||B|"]
    return Outcome(columns, rows, claims, Figure(panels), [remark])


def series(rows: list[list[Any]], label: str, phi: float, k: Any, sizes: list[int]) -> Series:
    """Return the line of some slices."""
    own = {n: error for at, n, slices, error, _ in rows if (at, slices) == (phi, k)}
    style: Any = "dashed" if k == "FP64" else "line"
    return Series(label, sizes, [max(own[n], 2.0**-54) for n in sizes], style)


def enough(rows: list[list[Any]], phi: float, n: int) -> int:
    """Return the slices that reach the error of FP64, within a factor of two."""
    own = {slices: error for at, size, slices, error, _ in rows if (at, size) == (phi, n)}
    goal = 2 * own.pop("FP64")
    return next((k for k, error in own.items() if error <= goal), 99)


def deteriorated(rows: list[list[Any]], long: list[int]) -> Claim:
    """Return the claim about n > 2^17, which is measured with few rows and columns."""
    error = {n: other for _, n, k, _, other in rows if k == 7 and n in long}
    first, second = (error[n] for n in long)
    return Claim(
        sentence="The accuracy deteriorated for n > 2^17 because β is less than 7",
        where="section 4.1, figure 5",
        paper="deteriorated",
        ours=(
            f"β = {beta(long[0])} and {beta(long[1])}; ozIMMU-7: {first:.1e} and "
            f"{second:.1e} |A||B|"
        ),
        setup="sizes as in the table",
        verdict=verdict_of(second > 10 * first),
    )


def fig5(setting: Setting) -> Outcome:
    """Accuracy of the four variants for 7 to 11 slices."""
    n = setting.choose(256, full=4096, quick=64)
    phis = setting.choose([0.0, 0.5, 1.0, 2.0], full=[0.0, 0.5, 1.0, 2.0], quick=[0.0, 2.0])
    counts = list(range(7, 12))
    rows: list[list[Any]] = []
    for phi in steps(setting, phis):
        case = Case(setting, n, n, phi)
        rows.append([phi, "FP64", None, *case.errors(case.a @ case.b), None])
        for variant, record in VARIANTS.items():
            for k in counts:
                product = ozimmu(case.a, case.b, k, variant)
                share = case.bounded(product, k, variant)
                rows.append([phi, record.name, k, *case.errors(product), share])
    error = {(phi, name, k): Errors(*both) for phi, name, k, *both, _ in rows}
    panels = [
        Panel(
            f"φ = {phi:g}",
            "slices k",
            "largest relative error",
            [
                Series(name, counts, [max(error[phi, name, k].relative, 2.0**-54) for k in counts])
                for name in (variant.name for variant in VARIANTS.values())
            ]
            + [Series("FP64", counts, [error[phi, "FP64", None].relative] * 5, "dashed")],
            log_y=True,
        )
        for phi in phis
    ]
    columns = ["φ", "method", "slices", "largest relative error", "error / |A||B|", "error / bound"]
    claims = [*accuracy_claims(rows, error, phis, counts), *saved_slice(setting, phis[-1])]
    remark = MEASURE + f"n = {n}. The last column is the largest ratio of error and section 5's "
    remark += "bound, after the reference's own rounding is taken off."
    return Outcome(columns, rows, claims, Figure(panels), [remark])


def accuracy_claims(
    rows: list[list[Any]], error: dict[Any, Errors], phis: list[float], counts: list[int]
) -> list[Claim]:
    """Return what section 4.1 says of the variants, and section 5 of the error.

    The largest relative error hangs on the one element that cancels most, and varies by factors;
    variants are compared by the error against |A||B|.
    """
    wrong = {key: each.against_magnitude for key, each in error.items()}
    cut = [  # where the slices that are missing decide, not the additions
        (phi, k)
        for phi in phis
        for k in counts
        if wrong[phi, "ozIMMU", k] > 4 * wrong[phi, "FP64", None]
    ]
    alike = max(
        max(wrong[phi, x, k] / wrong[phi, y, k], wrong[phi, y, k] / wrong[phi, x, k])
        for phi, k in cut
        for x, y in (("ozIMMU", "ozIMMU_EF"), ("ozIMMU_RN", "ozIMMU_H"))
    )
    better = mean(wrong[phi, "ozIMMU", k] / wrong[phi, "ozIMMU_H", k] for phi, k in cut)
    worst = max(row[5] for row in rows if row[5] is not None)
    return [
        Claim(
            sentence="ozIMMU and ozIMMU_EF are comparable, as are ozIMMU_RN and ozIMMU_H",
            where="section 4.1, figures 4 and 5",
            paper="comparable",
            ours=f"against |A||B| they differ by a factor of {alike:.2f} where slices decide",
            setup="sizes as in the table",
            verdict=verdict_of(alike < 2),
        ),
        Claim(
            sentence="ozIMMU_RN and ozIMMU_H are more accurate than ozIMMU and ozIMMU_EF",
            where="section 4.1, figures 4 and 5",
            paper="more accurate",
            ours=(
                f"against |A||B| H's errors are {better:.1f} times smaller where slices "
                f"decide, in the "
                "geometric mean"
            ),
            setup="sizes as in the table",
            verdict=verdict_of(better > 1),
        ),
        Claim(
            sentence="Section 5: the error is below the bound",
            where="section 4.1, figures 4 and 5",
            paper="always",
            ours=f"at most {worst:.3f} of it",
            setup="sizes as in the table",
            verdict=verdict_of(worst <= 1),
        ),
    ]


def saved_slice(setting: Setting, phi: float) -> list[Claim]:
    """Return what section 4.1 says of phi = 2, by some draws of some sizes."""
    sizes = setting.choose([128, 256], full=[1024, 2048, 4096, 8192], quick=[64])
    draws = setting.choose(5, full=5, quick=1)
    methods = {"ozIMMU-9": (9, "ozimmu"), "ozIMMU-10": (10, "ozimmu"), "H-9": (9, "h")}
    all_errors: dict[str, list[float]] = {name: [] for name in ("FP64", *methods)}
    for n in sizes:
        for draw in range(draws):
            case = Case(setting, n, n, phi, draw)
            all_errors["FP64"].append(case.errors(case.a @ case.b).relative)
            for name, (k, variant) in methods.items():
                all_errors[name].append(case.errors(ozimmu(case.a, case.b, k, variant)).relative)
        setting.machine.free()
    reached = {
        name: [x <= 2 * y for x, y in zip(errors, all_errors["FP64"], strict=True)]
        for name, errors in all_errors.items()
    }
    saved = sum(x > y for x, y in zip(reached["H-9"], reached["ozIMMU-9"], strict=True))
    lost = sum(x < y for x, y in zip(reached["H-9"], reached["ozIMMU-9"], strict=True))
    counts = ", ".join(f"{name} in {sum(reached[name])}" for name in methods)
    means = {name: mean(errors) for name, errors in all_errors.items()}
    said = ", ".join(f"{name} {error:.1e}" for name, error in means.items())
    nine, ten, h = means["ozIMMU-9"], means["ozIMMU-10"], means["H-9"]
    return [
        Claim(
            sentence=(
                f"φ = {phi:g}: occasionally H-9, as ozIMMU-10, is comparable to FP64 "
                f"where ozIMMU-9 is "
                "worse"
            ),
            where="section 4.1, figure 5",
            paper="so on the paper's matrices",
            ours=f"in {saved} of {len(reached['H-9'])} draws ({draws} of each n = "
            f"{', '.join(map(str, sizes))}), the other way round in {lost}; within twice the error "
            f"of FP64 are {counts}; geometric means of the largest relative errors: {said}",
            setup="sizes as in the table",
            verdict=verdict_of(saved > lost),
        ),
        Claim(
            sentence=f"φ = {phi:g}: H with k slices may be as accurate as ozIMMU with k + 1",
            where="section 4.1, figure 5",
            paper="H-9 about ozIMMU-10",
            ours=(
                f"H-9 errs {nine / h:.1f} times less than ozIMMU-9, ozIMMU-10 "
                f"{nine / ten:.0f} times"
            ),
            setup="sizes as in the table",
            verdict=verdict_of(h <= 4 * ten),
        ),
    ]


def mean(numbers: Iterable[float]) -> float:
    """Return the geometric mean."""
    return math.exp(fmean(math.log(x) for x in numbers))


ITEMS = [
    Item(
        "002-table1",
        "002",
        "Specifications of NVIDIA GPUs for dense data",
        "Low-precision units are far faster than FP64, and more so with every generation.",
        table1,
    ),
    Item(
        "002-fig1",
        "002",
        "Accuracy of ozIMMU for 5 to 11 slices",
        "Seven or eight slices give sufficiently accurate results; more are needed as φ increases.",
        fig1,
    ),
    Item(
        "002-fig5",
        "002",
        "Accuracy of the four variants for 7 to 11 slices",
        "Rounding to nearest (RN, H) is more accurate than bit masks (ozIMMU, EF) and can save a "
        "slice; group-wise accumulation (EF, H) costs no accuracy.",
        fig5,
    ),
]
