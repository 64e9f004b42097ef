"""Pictures of README and site, drawn from bench/results: `python docs/site/pictures.py`."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import rows
from charts import Axis, Bar, Panel, Series, bar_chart, line_chart

FOLDER = Path(__file__).parents[1] / "pictures"
H200 = "NVIDIA H200, CUDA 13.0, PyTorch 2.11, Triton 3.6"
EPYC = "two cores of an AMD EPYC, NumPy 2.4.6"
CONTRACTS = ("fast", "standard", "correct")
DIGITS = {"float64x2": "32", "float64x4": "64", "float64x8": "129", "float64x16": "259"}


def digits(error_u: float) -> str:
    """Return how many decimal digits of |A||B| an error in units of u = 2^-53 leaves right."""
    return f"{-math.log10(error_u * 2.0**-53):.1f}"


def digits_and_speed(columns: int = 1) -> str:
    """Return digits and speed beside NumPy and PyTorch; in two columns for the README."""
    flops = 2 * 1024**3
    errors = rows.accuracy(0.5)
    row = rows.cpu("standard", (1024, 1024, 1024))
    seconds = {"numpy": row["numpy_ms"] / 1e3}
    for name in CONTRACTS:
        seconds[name] = rows.cpu(name, (1024, 1024, 1024))["widen_ms"] / 1e3
    for name in ("float64x2", "float64x4"):
        seconds[name] = rows.latest("words", format=name, n=1024)["widen_ms"] / 1e3
    speeds = {name: flops / time / 1e9 for name, time in seconds.items()}
    known = {name: digits(errors[name][0]) for name in ("numpy", "fast", "standard")}
    known |= {"correct": "every bit"} | DIGITS
    on_cpu = [
        Bar("NumPy a @ b" if name == "numpy" else shown(name), known[name], speed, f"{speed:.3g}",
            colour_of(name))
        for name, speed in speeds.items()
    ]  # fmt: skip
    measured = {name: rows.gpu(f"float64-{name}", 8192) for name in CONTRACTS}
    native = measured["standard"]
    words = rows.words_gpu()
    fast = {"torch": native["native_tflops"]}
    fast |= {name: row["tflops"] for name, row in measured.items()}
    fast |= {name: words[name]["tflops"] for name in ("float64x2", "float64x4")}
    known = {name: digits(measured[name]["error_u"]) for name in ("fast", "standard")}
    known |= {"torch": digits(native["native_error_u"]), "correct": "every bit"} | DIGITS
    on_gpu = [
        Bar("PyTorch a @ b" if name == "torch" else shown(name), known[name], speed, f"{speed:.1f}",
            colour_of(name))
        for name, speed in fast.items()
    ]  # fmt: skip
    return bar_chart(
        "Digits and speed of widen beside NumPy and PyTorch",
        [
            Panel("On a large GPU: TFLOP/s at n = 8192", "digits", on_gpu, H200),
            Panel("On a CPU: GFLOP/s at n = 1024", "digits", on_cpu, EPYC),
        ],
        columns,
    )


def shown(name: str) -> str:
    """Return what a row of widen is called in a picture."""
    return f"widen {name}"


def colour_of(name: str) -> int:
    """Return the colour of a row: the ordinary product, widen, and numbers of several words."""
    return 5 if name in ("numpy", "torch") else 2 if "x" in name else 0


def gpu_speed() -> str:
    """Return speed against PyTorch's own product, by size."""
    sizes = (2048, 4096, 8192, 16384)
    kinds = {
        "fast": "float64-fast", "standard": "float64-standard", "correct": "float64-correct",
        "float32": "float32-standard", "complex128": "complex128-standard",
    }  # fmt: skip
    series = [
        Series(name, [(n, rows.gpu(kind, n)["ratio_to_native"]) for n in sizes])
        for name, kind in kinds.items()
    ]
    return line_chart(
        "Times as fast as PyTorch's a @ b of the same format",
        Axis("n of n × n matrices", sizes), Axis("times as fast", (0.5, 1, 2, 4)), series, H200,
    )  # fmt: skip


def cpu_speed() -> str:
    """Return time against NumPy's own product, by size."""
    sizes = (64, 128, 256, 512, 1024, 2048, 4096)
    series = [
        Series(name, [(n, rows.cpu(name, (n, n, n))["ratio"]) for n in sizes]) for name in CONTRACTS
    ]
    return line_chart(
        "Times as long as NumPy's a @ b, float64 on a CPU",
        Axis("n of n × n matrices", sizes), Axis("times as long", (1, 5, 10, 20, 50)), series, EPYC,
    )  # fmt: skip


def errors() -> str:
    """Return the largest errors of four products, by the spread of the data."""
    spreads = (0.0, 0.5, 1.0, 2.0, 4.0)
    found = {phi: rows.accuracy(phi) for phi in spreads}
    names = {"numpy": "NumPy a @ b", "fast": "fast", "standard": "standard", "correct": "correct"}
    series = [
        Series(shown_, [(phi, found[phi][name][0]) for phi in spreads])
        for name, shown_ in names.items()
    ]
    return line_chart(
        "Largest error of 65,536 elements, n = 256",
        Axis("φ: how widely magnitudes are spread", (0, 1, 2, 3, 4), logarithmic=False),
        Axis("in units of u |A||B|, u = 2^-53", (0.1, 1, 10, 100, 1000)), series, EPYC,
    )  # fmt: skip


def words_speed() -> str:
    """Return speeds of products of several words on a GPU and on a CPU."""
    on_gpu = [
        Bar(name, f"n = {row['n']}", row["tflops"], f"{row['tflops']:.1f}", 2)
        for name, row in rows.words_gpu().items()
    ]
    on_cpu = []
    for name in DIGITS:
        row = rows.latest("words", format=name, n=1024)
        seconds = row["widen_ms"] / 1e3
        on_cpu.append(Bar(name, "widen", 1 / seconds, f"{seconds:.2f} s", 2))
        on_cpu.append(Bar("", "arb_mat", 1 / row["arb_s"], f"{row['arb_s']:.1f} s", 5))
    return bar_chart(
        "Products of numbers of several words",
        [
            Panel("On a large GPU: TFLOP/s", "", on_gpu, H200),
            Panel("On a CPU, n = 1024: longer bars are faster", "", on_cpu,
                  "an AMD EPYC, two cores; arb_mat is python-flint's"),
        ],
    )  # fmt: skip


def hard_data() -> str:
    """Return times of data that are not even, on a CPU."""
    kept = [row for row in rows.shown("hard") if (row["dtype"], row["n"]) == ("float64", 1000)]
    times = {row["family"].replace("phi", "φ"): row["standard_ms"] for row in kept}
    bars = [Bar(family, "", time, f"{time:.0f}") for family, time in times.items()]
    source = f"an AMD EPYC, one thread; NumPy 2.4.6 takes {kept[-1]['native_ms']:.0f} ms"
    heading = "Milliseconds of standard, n = 1000, float64"
    return bar_chart("Data that are hard, on a CPU", [Panel(heading, "", bars, source)])


def stages() -> str:
    """Return where the time of a product goes on a GPU."""
    row = rows.gpu("float64-standard", 8192)
    bars = [Bar(name, "", time, f"{time:.2f}", 0) for name, time in row["stages_ms"].items()]
    return bar_chart(
        "Where the time of a product goes on a GPU",
        [Panel("Milliseconds by stage, n = 8192, standard", "", bars, H200)],
    )


PICTURES: dict[str, Callable[[], str]] = {
    "digits-and-speed": digits_and_speed,
    "digits-and-speed-wide": partial(digits_and_speed, columns=2),
    "gpu-speed": gpu_speed,
    "cpu-speed": cpu_speed,
    "errors": errors,
    "words-speed": words_speed,
    "hard-data": hard_data,
    "stages": stages,
}


def main() -> None:
    """Draw all pictures."""
    FOLDER.mkdir(exist_ok=True)
    for name, drawn in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(drawn(), encoding="utf-8")


if __name__ == "__main__":
    main()
