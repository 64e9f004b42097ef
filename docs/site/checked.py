"""Figures that rows of bench/results give: each is made here, and must stand on its pages as made.

`python docs/site/checked.py` prints the texts, to be copied when newer rows are shown (`rows.py`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import rows
from widen.formats import FORMATS

SIZES = (2048, 4096, 8192, 16384)
CONTRACTS = ("fast", "standard", "correct")


@dataclass(frozen=True)
class Checked:
    """A text that stands on some pages, and the same text made from rows."""

    pages: tuple[str, ...]
    made: Callable[[], str]


def wrong(shown: dict[str, str], checks: Iterable[Checked] = ()) -> list[str]:
    """Return texts made from rows (all, or these) that do not stand on their pages."""
    return [
        f"{page}: {made!r} is not there"
        for check in checks or CHECKED
        for made in [" ".join(check.made().split())]
        for page in check.pages
        if made not in " ".join(shown[page].split())
    ]


def line(*cells: str) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(cells)} |"


def short(number: float) -> str:
    """Return a number with two digits.

    >>> short(1315.3), short(0.0113), short(2.92)
    ('1300', '0.011', '2.9')
    """
    return f"{float(f'{number:.2g}'):g}"


def times(ratio: float) -> str:
    """Return how many times, with one decimal below ten.

    >>> times(5.98), times(48.24)
    ('6.0', '48')
    """
    return f"{ratio:.1f}" if ratio < 9.95 else f"{ratio:.0f}"


# ── a CPU ────────────────────────────────────────────────────────────────────


def cube(n: int) -> tuple[int, int, int]:
    """Return the shape of a product of n × n matrices."""
    return n, n, n


def cpu_row(label: str, shape: tuple[int, int, int]) -> str:
    """Return a line of the table of a CPU; products that are alike have the quicker floor."""
    named = [rows.cpu(name, shape) for name in CONTRACTS]
    standard = named[1]
    floor = min(x["floor_ms"] for x in named if x["products"] == standard["products"])
    products = ", ".join(str(row["products"]) for row in named)
    ratios = [times(row["ratio"]) for row in named]
    return line(label, short(standard["numpy_ms"]), *ratios, products, short(floor))


def thin_row(shape: str) -> str:
    """Return a line of the table of vectors and thin matrices on a CPU."""
    return line(shape, times(rows.thin(shape)["ratio"]))


def large_on_a_cpu() -> str:
    """Return how many times as long as NumPy's a product takes from n = 512 on."""
    ratios = [rows.cpu("standard", cube(n))["ratio"] for n in (512, 1024, 2048, 4096)]
    return f"{min(ratios):.0f} to {max(ratios):.0f} times as long"


def small_on_a_cpu() -> str:
    """Return the same of small matrices."""
    found = [times(rows.cpu("standard", cube(n))["ratio"]) for n in (256, 64)]
    return "{} times at n = 256 and {} times at n = 64".format(*found)


def vectors_on_a_cpu() -> str:
    """Return the same of a matrix and a vector."""
    shapes = ["2048 × 2048 × 1", "1 × 2048 × 2048", "4096 × 4096 × 1", "1 × 4096 × 4096"]
    ratios = [rows.thin(shape)["ratio"] for shape in shapes]
    return f"A matrix times a vector takes {min(ratios):.0f} to {max(ratios):.0f} times as long"


def stages_on_a_cpu() -> str:
    """Return the sentence about the stages of a product."""
    row = rows.cpu("standard", cube(1024))
    stages = row["stages_ms"]
    others = [f"{name} takes" if name == "quantise" else name for name in stages]
    told = [f"{name} {stages[name.split()[0]]:.1f}" for name in others if name != "multiply"]
    told[-1] = f"and {told[-1]}"
    listed = ", ".join(told).replace(", and", " and")
    return f"take {stages['multiply']:.0f} of {row['widen_ms']:.0f} ms; {listed}"


def exact_on_a_cpu() -> tuple[str, str]:
    """Return the seconds of python-flint's exact product and of ours."""
    row = next(row for row in reversed(rows.shown("cpu")) if "flint_s" in row)
    return f"{row['flint_s']:.1f} s", f"{row['correct_s']:.2f} s"


def words_row(name: str) -> str:
    """Return a line of the table of numbers of several words on a CPU."""
    row = rows.latest("words", format=name, n=1024)
    faster = [f"{times(row[key])} ×" for key in ("times_faster", "times_faster_converted")]
    return line(f"`{name}`", f"{row['widen_ms']:.0f}", times(row["ratio"]), *faster)


def hard_row(label: str, family: str) -> str:
    """Return a line of the table of hard data: ratios on a GPU, ms on a CPU."""
    measured = rows.hard_gpu()[family]
    row = rows.latest("hard", family=family, dtype="float64", n=1000)
    on_cpu = [f"{row[f'{name}_ms']:.0f} ms" for name in CONTRACTS[1:]]
    ratios = [f"{measured['native'] / measured[name]:.2f}" for name in CONTRACTS]
    return line(label, *ratios, *on_cpu)


def time_row(label: str) -> str:
    """Return the line of times at n = 1024."""
    named = [rows.cpu(name, cube(1024)) for name in CONTRACTS]
    cells = [f"{named[1]['numpy_ms']:.0f} ms", *(f"{row['widen_ms']:.0f} ms" for row in named)]
    return line(label, *cells)


def error_row(label: str, phi: float) -> str:
    """Return a line of the table of errors."""
    found = rows.accuracy(phi)
    errors = [found[name][0] for name in ("numpy", *CONTRACTS)]
    return line(label, *map(short, errors))


def off_row(label: str) -> str:
    """Return the line of elements that are not the nearest float64."""
    found = rows.accuracy(0.5)
    cells = [f"{found[name][1]:,}" for name in ("numpy", "fast", "standard")]
    return line(label, *cells, f"**{found['correct'][1]}**")


def peer_row(label: str, library: str, operand_bits: int, n: int) -> str:
    """Return a line of the table of other libraries."""
    row = rows.peer(library, operand_bits, n)
    milliseconds = [1e3 * row[key] for key in ("cpu_s", "converting_s")]
    cells = [short(time) if time >= 0.095 else "0" for time in milliseconds]
    return line(label, *cells, f"{row['right_bits'] * math.log10(2):.1f}")


def elementwise_row(label: str, on_gpu: bool, name: str, operations: tuple[str, ...]) -> str:
    """Return a line of a table of arithmetic: times a copy's time, or shares of its speed."""
    found = [rows.elementwise(on_gpu, name, one)["ratio"] for one in operations]
    cells = [f"{1 / x:.2f}" if on_gpu else f"{times(x)} ×" for x in found]
    return line(label, *cells, *[""] * (4 - len(cells)))


def processes_row(label: str, scaling: str, processes: int) -> str:
    """Return a line of the table of many processes."""
    row = rows.latest("distributed", scaling=scaling, processes=processes)
    size = f"{row['m']} × {row['k']} × {row['n']}"
    if processes == 1:
        return line(label, size, f"{row['cpu_s']:.3f} s", "", "", "")
    cells = [f"{row['cpu_s']:.3f} s", f"{row['cpu_communication']:.0%}".replace("%", " %"),
             f"{row['model_s']:.3f} s", f"{row['cpu_s'] / row['model_s']:.2f}"]  # fmt: skip
    return line(label, size, *cells)


def scope_cost(operation: str) -> str:
    """Return what a scope costs an operation, with and without the compiler imported."""
    costs = [
        rows.latest("emulate", operation=operation, compiler=compiler)["overhead_us"]
        for compiler in (False, True)
    ]
    return "{:.1f} µs of CPU time more ({:.1f}".format(*costs)


# ── a GPU ────────────────────────────────────────────────────────────────────


def ratios(kind: str, sizes: tuple[int, ...] = SIZES) -> list[str]:
    """Return ratios to the ordinary product on an H200."""
    return [f"{rows.gpu(kind, n)['ratio_to_native']:.2f}" for n in sizes]


def gpu_row(label: str, kind: str) -> str:
    """Return a line of the table of an H200: ratios at four sizes."""
    return line(label, *ratios(kind))


def gpu_shape_row(label: str, m: int, k: int, n: int, batch: int) -> str:
    """Return a line of the table of other shapes on an H200."""
    row = rows.latest("gpu", row="shapes-standard", m=m, k=k, n=n, batch=batch)
    return line(label, f"{row['ratio_to_native']:.2f}")


def tenths(kind: str) -> str:
    """Return the range of ratios from n = 4096 on, with one decimal."""
    found = [rows.gpu(kind, n)["ratio_to_native"] for n in SIZES[1:]]
    return f"{min(found):.1f} to {max(found):.1f}"


def words_gpu_row() -> str:
    """Return the line of TFLOP/s of numbers of several words."""
    return line(*(f"{row['tflops']:.1f}" for row in rows.words_gpu().values()))


# ── README and others ────────────────────────────────────────────────────────


def digits(name: str) -> int:
    """Return the decimal digits of a format."""
    return int(FORMATS[name].precision * math.log10(2))


def known_products() -> str:
    """Return how many products have a known SHA-256."""
    path = rows.RESULTS.parents[1] / "tests" / "shared" / "digests.json"
    return f"{len(json.loads(path.read_text(encoding='utf-8')))} products"


def first_calls() -> Iterator[str]:
    """Return what the page says of the table of first calls."""
    text = (rows.RESULTS / "first-call-cpu.md").read_text(encoding="utf-8")
    first = re.search(r"^\| float64 1000³ \| ([\d.]+) \| ([\d.]+) ", text, re.MULTILINE)
    correct = re.search(r'^\| "correct" \| ([\d.]+) ', text, re.MULTILINE)
    disk = re.search(r"warm disk: ([\d.]+) s beyond", text)
    assert first
    assert correct
    assert disk
    yield f"{float(first[1]):.1f} s on two cores, {float(first[2]):.1f} CPU seconds"
    yield f'`"correct"` adds {float(correct[1]):.1f} s'
    yield f"takes {disk[1]} s longer than a repeated call"


PEERS = [
    ("NumPy, float64", "NumPy float64", 53, 512),
    ('**widen**, `"standard"`', 'widen "standard"', 53, 512),
    ('**widen**, `"correct"`', 'widen "correct"', 53, 512),
    ("python-flint, exact (`fmpz_mat`), rounded at the end", "python-flint fmpz_mat", 53, 512),
    ("**widen**, result in `float64x2`", "widen float64x2", 53, 512),
    ("Ozaki scheme over NumPy, 35 lines of Python", "Ozaki scheme over NumPy, 35 lines", 53, 512),
    ("NumPy, longdouble (80 bits)", "NumPy longdouble", 53, 512),
    ("**widen**, `float64x2`", "widen float64x2", 106, 512),
    ("python-flint, `arb_mat`", "python-flint arb_mat, 106 bits", 106, 512),
    ("xprec, `ddouble`", "xprec ddouble", 106, 512),
    ("numpy-quaddtype", "numpy-quaddtype", 106, 512),
    ("**widen**, `float64x4`", "widen float64x4", 212, 512),
    ("python-flint, `arb_mat`, 212 bits", "python-flint arb_mat, 212 bits", 212, 512),
    ("**widen**, `float64x2`, n = 64", "widen float64x2", 106, 64),
    ("mpmath, 106 bits, n = 64", "mpmath, 106 bits", 106, 64),
]
"""Lines of the table of docs/comparison.md: what is said, and the row it comes from."""

THIN = ["2048 × 2048 × 1", "1 × 2048 × 2048", "4096 × 4096 × 1", "1 × 4096 × 4096",
        "1 × 1000000 × 1", "2048 × 2048 × 4", "2048 × 2048 × 16", "16 × 2048 × 2048"]  # fmt: skip
HARD = ["phi = 0.1", "phi = 1", "phi = 2", "phi = 3", "phi = 4", "Cauchy", "outliers of 1e4",
        "outliers of 1e8", "outliers of 1e8 in A", "columns of 1e8 in A", "3 % dense", "10 % dense",
        "lower triangles", "near the identity", "permutation", "graded together",
        "graded against"]  # fmt: skip
ON_GPU = {
    'float64, `"fast"`': "float64-fast", 'float64, `"standard"`': "float64-standard",
    "the same, B encoded before": "float64-standard-encoded",
    'float32, `"standard"`': "float32-standard", 'complex128, `"standard"`': "complex128-standard",
    'float64, `"correct"`': "float64-correct",
}  # fmt: skip
GPU_SHAPES = {
    "8192 × 256 × 8192": (8192, 256, 8192, 1), "8192 × 8192 × 256": (8192, 8192, 256, 1),
    "1024 × 65536 × 1024 *": (1024, 65536, 1024, 1),
    "16384 × 1024 × 16384 *": (16384, 1024, 16384, 1),
    "4096³, a batch of 8 *": (4096, 4096, 4096, 8),
    "64³, a batch of 10,000": (64, 64, 64, 10000), "16³, a batch of 100,000": (16, 16, 16, 100000),
}  # fmt: skip
ALL_FOUR = ("add", "multiply", "divide", "sqrt")


def on(page: str, made: Callable[..., str], *words: object) -> Checked:
    """Return one text of one page."""
    return Checked((page,), partial(made, *words))


CHECKED = [
    Checked(("README.md", "accuracy.md", "performance.md", "comparison.md"), large_on_a_cpu),
    on("README.md", lambda: f"**{digits('float64x2')} to {digits('float64x16')} digits**"),
    on("README.md", known_products),
    on("README.md", lambda: "{} to {} times PyTorch's float64 speed on an H200 from n = 4096 on, "
       'with `"fast"` {} to {}'.format(*ratios("float64-standard", (4096, 16384)),
                                       *ratios("float64-fast", (4096, 16384)))),
    on("CONTRIBUTING.md", known_products),
    on("index.md", lambda: f"up to {digits('float64x16')} digits"),
    on("accuracy.md", small_on_a_cpu),
    on("accuracy.md", vectors_on_a_cpu),
    on("accuracy.md", lambda: f"At n = 2048 an H200 has {ratios('float64-standard')[0]} of"),
    on("accuracy.md", error_row, r"largest error, n = 256, φ = 0.5, in u·\|A\|\|B\|", 0.5),
    on("accuracy.md", error_row, "the same, φ = 2", 2.0),
    on("accuracy.md", off_row, "elements that are not the nearest float64, of 65,536, φ = 0.5"),
    on("accuracy.md", time_row, "time at n = 1024, φ = 0.1"),
    *(on("performance.md", cpu_row, f"{n}³", cube(n))
      for n in (64, 128, 256, 512, 1024, 2048, 4096)),
    on("performance.md", cpu_row, "4096 × 64 × 4096", (4096, 64, 4096)),
    on("performance.md", cpu_row, "64 × 65536 × 64", (64, 65536, 64)),
    *(on("performance.md", thin_row, shape) for shape in THIN),
    on("performance.md", stages_on_a_cpu),
    on("performance.md", lambda: "takes {} for the exact product, with conversion from NumPy and "
       'back; `"correct"` gave the same bits in {}'.format(*exact_on_a_cpu())),
    *(on("performance.md", lambda at=at: list(first_calls())[at]) for at in range(3)),
    *(on("performance.md", words_row, name) for name in
      ("float64x2", "float64x4", "float64x8", "float64x16")),
    *(on("performance.md", gpu_row, *row) for row in ON_GPU.items()),
    *(on("performance.md", gpu_shape_row, label, *shape) for label, shape in GPU_SHAPES.items()),
    on("performance.md", words_gpu_row),
    on("performance.md", lambda: "{products} int8 products at {multiply_tops:.0f} TOP/s".format(
        **rows.gpu("float64-standard", 8192))),
    *(on("performance.md", hard_row, family.replace("phi", "φ"), family) for family in HARD),
    on("comparison.md", lambda: f"14 to {digits('float64x16')} digits"),
    on("comparison.md", lambda: "takes {} there with conversion, on the one core that it uses; "
       '`accuracy="correct"` gave the same bits in {}'.format(*exact_on_a_cpu())),
    on("comparison.md", lambda: "{}, {}, {} and {} times the speed of PyTorch's".format(
        *ratios("float64-standard"))),
    on("comparison.md", lambda: "take {:.1f}, {:.1f}, {:.1f} and {:.1f} times as long".format(
        *(rows.latest("words", format=f"float64x{n}", n=1024)["times_faster"]
          for n in (2, 4, 8, 16)))),
    *(on("comparison.md", peer_row, *row) for row in PEERS),
    on("tutorials/large_gpu.md", lambda: "{} times as fast as PyTorch's float64 product at n = "
       "4096, {} times at 8192 and {} times at 16384".format(*ratios("float64-standard")[1:])),
    on("tutorials/large_gpu.md", lambda: f"With float32 it is {tenths('float32-standard')} times, "
       f"with complex128 {tenths('complex128-standard')} times"),
    on("tutorials/more_digits.md",
       lambda: f"double doubles at {rows.words_gpu()['float64x2']['tflops']:.1f} TFLOP/s"),
    on("words.md", elementwise_row, "`float64x2`, 10^7 numbers", False, "float64x2", ALL_FOUR),
    *(on("words.md", elementwise_row, f"`{name}`", False, name, ALL_FOUR)
      for name in ("float64x4", "float32x3")),
    on("words.md", elementwise_row, "NumPy's `a + b` of as many bytes as `float64x2`", False,
       "float64", ("add",)),
    *(on("words.md", elementwise_row, f"`{name}`", True, name, ALL_FOUR)
      for name in ("float64x2", "float32x2", "float64_float32", "float32x3", "float64x4",
                   "float64x8", "float64x16")),
    on("distributed.md", processes_row, "1 (nothing is cut)", "strong", 1),
    *(on("distributed.md", processes_row, f"{count}, {scaling}", scaling, count)
      for scaling in ("strong", "weak") for count in (2, 4)),
    on("programs.md", scope_cost, "another operation"),
    on("programs.md", scope_cost, "a product left alone"),
]  # fmt: skip


if __name__ == "__main__":
    for check in CHECKED:
        print(f"{', '.join(check.pages)}:\n    {check.made()}")
