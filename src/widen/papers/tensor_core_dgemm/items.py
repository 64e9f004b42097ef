"""Paper 000's accuracy (figures 3 and 8), counts of slices and products, and reproducibility."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import widen
from widen.papers.arrays import relative_error
from widen.papers.items import Claim, Figure, Item, Outcome, Panel, Series, Setting, verdict_of
from widen.papers.slicing.algorithm import block_size
from widen.papers.tensor_core_dgemm.algorithm import BLOCK, dgemm_tc, sgemm_tc
from widen.papers.tensor_core_dgemm.by_row import Groups, dgemm_tc_by_row, rows_by_slices

PHIS = (0.1, 1.0, 2.0)
PAPER_SIZES = tuple(range(1024, 10241, 1024))

FACTOR = 4.0
"""A mode counts as accurate as the ordinary product within this factor of its largest error."""


def drawn(sizes: Sequence[int]) -> str:
    """Sizes and draws, in words.

    >>> drawn([64, 128])
    'm = n = k = 64, 128; φ = 0.1, 1, 2; one draw of each'
    """
    return f"m = n = k = {', '.join(map(str, sizes))}; φ = 0.1, 1, 2; one draw of each"


# ── figures 3 and 8 ──────────────────────────────────────────────────────────


def accuracy(setting: Setting, dtype: str) -> Outcome:
    """Errors of the ordinary product and of ours over n and phi; wrong elements of CR-mode."""
    sizes = setting.choose((64, 128, 256, 512), full=PAPER_SIZES[1::2], quick=(16, 32))
    double = dtype == "float64"
    name, ordinary = ("DGEMM-TC-DP", "DGEMM") if double else ("SGEMM-TC-SP", "SGEMM")
    rows: list[list[Any]] = []
    for at, phi in enumerate(PHIS):
        for step, n in enumerate(sizes):
            a, b = (setting.random((n, n), phi, 10 * n + at + s, dtype) for s in (0, 5))
            exact = widen.matmul(a, b, accuracy="correct")
            ours = dgemm_tc(a, b) if double else sgemm_tc(a, b)
            row = [phi, n, *(relative_error(c, exact) for c in (a @ b, ours))]
            if double:
                row.append(int((dgemm_tc(a, b, "cr") != exact).sum()))
            rows.append(row)
            setting.machine.free()
            setting.progress((at + (step + 1) / len(sizes)) / len(PHIS))

    def errors(label: str, at: int, style: Any) -> list[Series]:
        return [
            Series(f"{label}, φ = {phi:g}", sizes, [row[at] for row in rows if row[0] == phi],
                   style, colour=colour)
            for colour, phi in enumerate(PHIS)
        ]  # fmt: skip

    panel = Panel(
        "Against the correctly rounded product", "n", "largest relative error",
        errors(name, 3, "line") + errors(ordinary, 2, "dashed"), log_x=True, log_y=True,
    )  # fmt: skip
    columns = ["φ", "n", f"error of {ordinary}", f"error of {name}"]
    return Outcome(
        columns + ["wrong elements in CR-mode"] * double, rows,
        accuracy_claims(rows, drawn(sizes), double), Figure([panel], 1),
        ["The reference is widen.matmul(accuracy='correct'); the paper used MPFR with 2048 bits."],
    )  # fmt: skip


def accuracy_claims(rows: list[list[Any]], setup: str, double: bool) -> list[Claim]:
    """What sections 5.2 and 5.3 say of errors; rows are those of `accuracy`."""
    ratios = [row[3] / row[2] for row in rows]
    claims = [
        Claim(
            sentence=f"{'DP' if double else 'SP'}-mode is as accurate as the ordinary product; "
            "some differences are expected",
            where="section 5.2, figure 3" if double else "section 5.3, figure 8",
            paper="equivalent",
            ours=f"its largest relative error is {min(ratios):.2g} to {max(ratios):.2g} times that "
            f"of the ordinary product; at most {FACTOR:g} counts as equivalent",
            setup=setup,
            verdict=verdict_of(max(ratios) <= FACTOR),
        )
    ]
    if double:
        wrong = sum(row[4] for row in rows)
        claims.append(
            Claim(
                sentence="CR-mode always gives the correctly rounded result",
                where="section 5.2",
                paper="no wrong element",
                ours=f"{wrong} wrong elements of {sum(row[1] ** 2 for row in rows):,}",
                setup=setup,
                verdict=verdict_of(wrong == 0),
            )
        )
    return claims


def figure3(setting: Setting) -> Outcome:
    """Return the accuracy of DGEMM-TC."""
    return accuracy(setting, "float64")


def figure8(setting: Setting) -> Outcome:
    """Return the accuracy of SGEMM-TC."""
    return accuracy(setting, "float32")


# ── counts ───────────────────────────────────────────────────────────────────


def products(groups: Groups) -> tuple[int, float]:
    """Products of slices for a block of rows: as the paper has it, and by row, in the mean.

    Of a block the worst row decides; in fast mode d(d + 1)/2, else d². Exact where the worst row
    has something left, as at the paper's sizes.

    >>> import numpy as np
    >>> products({(12, True): np.arange(3), (13, True): np.arange(1)})
    (91, 81.25)
    """
    of = {key: key[0] * (key[0] + 1) // 2 if key[1] else key[0] ** 2 for key in groups}
    worst = max(groups)
    rows = sum(map(len, groups.values()))
    return of[worst], sum(of[key] * len(own) for key, own in groups.items()) / rows


@cache
def _groups(setting: Setting, m: int, n: int, phi: float) -> Groups:
    a, b = setting.random((m, n), phi, n + 1), setting.random((n, n), phi, n + 2)
    groups = rows_by_slices(a, b)
    setting.machine.free()
    return groups


def blocks(setting: Setting) -> Iterator[tuple[float, int, int, Groups]]:
    """Rows by their slices in a block of the paper's sizes: phi, n, m, groups; found once a run."""
    sizes = setting.choose((7168,), full=(7168, 10240), quick=(1024,))
    same = replace(setting, progress=Setting.progress)
    for at, (n, phi) in enumerate(product(sizes, PHIS)):
        m = 64 if setting.quick else block_size(n, BLOCK)
        yield phi, n, m, _groups(same, m, n, phi)
        setting.progress((at + 1) / len(sizes) / len(PHIS))


def counts(setting: Setting) -> Outcome:
    """Algorithm 3 on blocks of the paper's sizes."""
    rows: list[list[Any]] = []
    shares: list[dict[int, float]] = []
    for phi, n, m, groups in blocks(setting):
        needs = Counter[int]()
        for (slices, _), own in groups.items():
            needs[slices] += len(own)
        shares.append({slices: count / m for slices, count in needs.items()})
        worst = max(needs)
        rows.append([phi, n, m, worst, needs[worst], products(groups)[0]])
    names = [f"φ = {row[0]:g}, n = {row[1]}" for row in rows]
    every = sorted({slices for share in shares for slices in share})
    panels = [
        Panel("Products of slices", "", "products",
              [Series("", names, [row[5] for row in rows], "bars")]),
        Panel("Rows of the block by the slices they need", "", "share of the rows",
              [Series(f"{slices} slices", names, [share.get(slices) for share in shares],
                      "bars") for slices in every], log_y=True),
    ]  # fmt: skip
    columns = ["φ", "n = k", "m", "slices", "rows that need so many", "products"]
    remark = (
        "A block of m rows with all n columns of B, as dgemm_tc makes it: its worst row decides."
    )
    claims = count_claims(rows, decided=not setting.quick)
    return Outcome(columns, rows, claims, Figure(panels), [remark])


def count_claims(rows: list[list[Any]], decided: bool) -> list[Claim]:
    """The paper's one count, and that counts grow with the range; rows are those of `counts`.

    They grow if none is less than one of a narrower range, and the widest has more than the
    narrowest: counts are integers that few rows decide. `decided` for blocks of the paper's sizes.
    """
    example = next((row[5] for row in rows if row[:2] == [0.1, 7168]), None)
    grown = {n: [row[5] for row in rows if row[1] == n] for n in {row[1] for row in rows}}
    return [
        Claim(
            sentence="At n = 7168, φ = 0.1 there are 66 products of slices",
            where="section 5.2, figure 5",
            paper="66",
            ours="not counted at this size" if example is None else f"{example}",
            setup="a block of 3584 rows and all columns of B; one draw",
            verdict=verdict_of(None if example is None else example == 66),
        ),
        Claim(
            sentence="The wider the range of magnitudes, the more slices are needed",
            where="section 5.1",
            paper="more; Table 1's rates are those of about 66, 78 and 90 products",
            ours="; ".join(
                f"{', '.join(map(str, counted))} products for φ = 0.1, 1, 2 at n = {n}"
                for n, counted in sorted(grown.items())
            ),
            setup=f"blocks of {', '.join(str(m) for m in sorted({row[2] for row in rows}))} rows; "
            "one draw of each",
            verdict=verdict_of(
                all(sorted(c) == c and c[0] < c[-1] for c in grown.values()) if decided else None
            ),
        ),
    ]


# ── reproducibility ──────────────────────────────────────────────────────────

ROUTINES: dict[str, Callable[..., Any]] = {
    "DGEMM-TC-DP": dgemm_tc,
    "DGEMM-TC-CR": lambda a, b, **how: dgemm_tc(a, b, "cr", **how),
    "SGEMM-TC-SP": lambda a, b, **how: sgemm_tc(*map(single, (a, b)), **how),
    "DP-mode by row": dgemm_tc_by_row,
    "a @ b": lambda a, b, **how: a @ b,
}
SETUP = "m = n = k = {n}; φ = 0.1 in A's upper half, 4 in the lower, 1 in B; one draw"


def single(x: Any) -> Any:
    """The same numbers in float32."""
    return x.astype(np.float32) if isinstance(x, np.ndarray) else x.float()


def cores() -> set[int]:
    """The cores that this process may use; none where the system cannot restrict them."""
    return os.sched_getaffinity(0) if sys.platform == "linux" else set()


def on_one_core(a: Any, b: Any) -> dict[str, Any]:
    """Every routine's result in a process of its own, whose kernels and BLAS have one core."""
    with TemporaryDirectory() as folder:
        np.savez(f"{folder}/given.npz", a=a, b=b)
        program = (
            f"import os; os.sched_setaffinity(0, {{{min(cores())}}}); "
            f"from {__name__} import in_folder; in_folder({folder!r})"
        )
        subprocess.run([sys.executable, "-c", program], check=True)
        return dict(np.load(f"{folder}/made.npz"))


def in_folder(folder: str) -> None:
    """What that process does."""
    given = np.load(Path(folder) / "given.npz")
    made = {name: routine(given["a"], given["b"]) for name, routine in ROUTINES.items()}
    np.savez(Path(folder) / "made.npz", **made)


def reproducibility(setting: Setting) -> Outcome:
    """Elements that change with the number of threads, with blocks and with the device."""
    n = setting.choose(160, full=256, quick=48)
    a, b = setting.random((n, n), 4.0, 1), setting.random((n, n), 1.0, 2)
    a[: n // 2] = setting.random((n // 2, n), 0.1, 3)
    host = [setting.machine.fetch(x) for x in (a, b)]
    whole = {name: routine(*host) for name, routine in ROUTINES.items()}
    rows: list[list[Any]] = []

    def compare(change: str, made: dict[str, Any]) -> None:
        for name, c in made.items():
            bits, wanted = (x.view(f"i{x.itemsize}") for x in (c, whole[name]))
            rows.append([change, name, int((bits != wanted).sum()), c.size])

    if len(cores()) > 1:
        compare(f"threads: 1 core instead of {len(cores())}", on_one_core(*host))
    setting.progress(0.5)
    for block in (n // 4, n // 2):
        compare(f"blocks: of {block}", {name: routine(*host, block=block)
                for name, routine in ROUTINES.items() if "@" not in name})  # fmt: skip
    if setting.gpu:
        compare("device: the GPU instead of the CPU",
                {name: setting.machine.fetch(routine(a, b))
                 for name, routine in ROUTINES.items()})  # fmt: skip
    changes = list(dict.fromkeys(row[0] for row in rows))
    panel = Panel(
        f"Elements that change, m = n = k = {n}", "", "share of all elements",
        [Series(name, changes,
                [sum(row[2] / row[3] for row in rows if row[:2] == [change, name])
                 for change in changes], "bars") for name in ROUTINES],
    )  # fmt: skip
    claims = reproducibility_claims(rows, SETUP.format(n=n))
    return Outcome(
        ["what changes", "product", "elements that differ", "of"], rows, claims, Figure([panel], 1)
    )


def reproducibility_claims(rows: list[list[Any]], setup: str) -> list[Claim]:
    """What section 1 promises, and section 3.2 fears; rows are those of `reproducibility`."""

    def differing(change: str, *names: str) -> list[int]:
        return [row[2] for row in rows if row[0].startswith(change) and row[1] in names]

    theirs = ("DGEMM-TC-DP", "DGEMM-TC-CR", "SGEMM-TC-SP")
    threads, devices = differing("threads", *theirs), differing("device", *theirs)
    ordinary = [sum(differing(change, "a @ b")) for change in ("threads", "device")]
    dp, cr = (sum(differing("blocks", name)) for name in theirs[:2])
    own = sum(differing("blocks", "DP-mode by row"))
    return [
        Claim(
            sentence="The same input gives the same bits, whatever the number of cores and threads",
            where="section 1",
            paper="bitwise identical",
            ours=f"{sum(threads)} elements of three modes differ, {ordinary[0]} of the ordinary "
            "product's" if threads else "there is one core only",
            setup=f"{setup}; the kernels' threads and those of BLAS",
            verdict=verdict_of(sum(threads) == 0 if threads else None),
        ),
        Claim(
            sentence="It gives the same bits on a CPU and on a GPU, whose cores differ",
            where="section 1",
            paper="bitwise identical",
            ours=f"a CPU and a GPU: {sum(devices)} elements of three modes differ, {ordinary[1]} "
            "of the ordinary product's" if devices else "only a CPU is here",
            setup=setup,
            verdict=verdict_of(sum(devices) == 0 if devices else None),
        ),
        Claim(
            sentence="The size of blocks may disturb reproducibility, except in CR-mode (said of "
            "blocks of the inner dimension, which the paper does not implement)",
            where="section 3.2",
            paper="may, except in CR-mode",
            ours=f"blocks of rows and columns: {dp} elements of DP-mode differ, whose blocks of "
            f"rows have their own number of slices; {cr} of CR-mode",
            setup=setup,
            verdict=verdict_of(False if cr else True if dp else None),
        ),
        Claim(
            sentence="With slices by row, blocks change no bit in DP-mode either",
            where="section 3.2",
            paper="one number of slices for a block of rows",
            ours=f"{own} elements differ",
            setup=setup,
            verdict=verdict_of(own == 0),
            future=True,
        ),
    ]  # fmt: skip


ITEMS = [
    Item("000-fig3", "000", "Accuracy of DGEMM and DGEMM-TC in DP-mode",
         "DP-mode is as accurate as cublasDgemm; CR-mode has no error.", figure3),
    Item("000-counts", "000", "Slices and products of DP-mode at the paper's sizes",
         "66 products at n = 7168, φ = 0.1; the worst row of a block decides.", counts),
    Item("000-fig8", "000", "Accuracy of SGEMM and SGEMM-TC in SP-mode",
         "SP-mode is as accurate as cublasSgemm.", figure8),
    Item("000-reproducibility", "000", "Bits that depend on threads, blocks or the device",
         "The same input gives the same bits for any number of cores and threads.",
         reproducibility),
]  # fmt: skip
