"""`widen bench`: its table, its file, its plot and its refusals. Nothing here looks at a clock."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import widen
from helpers import ROOT
from widen.cli import main, measure, plot, results
from widen.cli.errors import CommandError
from widen.cli.exact import exact_products
from widen.cli.machines import Cpu, Gpu
from widen.cli.measure import Case

ANSI = re.compile(r"\x1b\[[0-9;]*m")
SMALL = ["--sizes", "8,24", "--repeats", "1"]


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.chdir(tmp_path)


def bench(*words):
    return main(["bench", *words])


def saved(name="rows.jsonl"):
    return [json.loads(line) for line in Path(name).read_text(encoding="utf-8").splitlines()]


def refused(capsys, status, *mentions):
    out, err = capsys.readouterr()
    assert status == 2
    assert out == ""
    assert err.startswith("widen: ")
    assert err.count("\n") == 1
    for mention in mentions:
        assert mention in err
    assert list(Path().iterdir()) == []


# ── what is measured ──────────────────────────────────────────────────────────


def test_bench_prints_a_table_and_appends_rows(capsys, monkeypatch):
    words = [*SMALL, "-a", "fast", "-a", "correct", "-a", "60", "-o", "rows.jsonl"]
    assert bench(*words) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "24³" in out
    assert "float64 correct" in out
    assert "appended 6 rows to rows.jsonl" in out
    assert max(map(len, out.splitlines())) <= 120
    rows = saved()
    assert [(row["n"], row["accuracy"]) for row in rows] == [
        (n, accuracy) for accuracy in ("fast", "correct", "60") for n in (8, 24)
    ]
    for row in rows:
        assert row["ratio_to_native"] > 0
        assert row["tflops"] > 0
        assert row["multiply_tops"] > 0
        assert list(row["stages_ms"]) == list(results.STAGES)
        assert 0 <= row["error_u"] <= row["bound_u"]
        assert row["within_bound"]
        assert row["elapsed_s"] >= row["seconds"] > 0
        assert (row["numpy"], row["widen"]) == (np.__version__, widen.__version__)
        assert row["date"].startswith("20")
    assert bench(*words) == 0
    assert len(saved()) == 12
    monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal, a narrow one: no number is cut off
    monkeypatch.setenv("COLUMNS", "60")
    capsys.readouterr()
    results.show(results.table(rows, {"machine": "one"}, "NumPy"))
    narrow = capsys.readouterr().out
    assert "float64 correct" in narrow
    assert "…" not in narrow


@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128"])
@pytest.mark.parametrize("words", [[], ["--encoded"]])
def test_bench_measures_formats_and_shapes(dtype, words):
    shapes = ["--shape", "3x40x5", "--shape", "2x3x4x5"]
    assert bench(*shapes, "--repeats", "1", "--dtype", dtype, *words, "-o", "rows.jsonl") == 0
    rows = saved()
    assert [(row["m"], row["k"], row["n"], row["batch"]) for row in rows] == [
        (3, 40, 5, 1),
        (2, 3, 4, 5),
    ]
    for row in rows:
        assert row["dtype"] == dtype
        assert row["encoded"] == bool(words)
        assert row["within_bound"]
        assert row["native_error_u"] > 0


def test_units_are_columns_of_their_own():
    assert bench(*SMALL, "--unit", "int8", "--unit", "fp64", "-o", "rows.jsonl") == 0
    assert [row["unit"] for row in saved()] == ["int8", "int8", "fp64", "fp64"]


def test_large_results_are_timed_without_their_bounds(monkeypatch, capsys):
    monkeypatch.setattr(measure, "MOST_BOUNDS", 100)
    assert bench(*SMALL, "--encoded", "-o", "rows.jsonl") == 0
    small, large = saved()
    assert "bound_u" in small
    assert "bound_u" not in large
    assert large["products"] > 0
    assert large["error_u"] < 10
    assert "–" in capsys.readouterr().out


def test_an_error_above_its_bound_is_shown(monkeypatch, capsys):
    real = widen.matmul

    def wrong(a, b, *, info=False, **arguments):
        c, record = real(a, b, info=True, **arguments)
        return (c * (1 + 1e-9), record) if info else c

    monkeypatch.setattr(widen, "matmul", wrong)
    assert bench("--sizes", "8", "--repeats", "1", "-o", "rows.jsonl") == 0
    assert not saved()[0]["within_bound"]
    assert "above its certified bound" in " ".join(capsys.readouterr().out.split())


# ── what is refused ───────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "mention"),
    [
        (["--device", "abacus"], "use cpu, cuda or cuda:1"),
        (["--device", "cuda:one"], "use cpu, cuda or cuda:1"),
        (["--sizes", "8,eight"], "'eight'"),
        (["--sizes", "0"], "whole numbers"),
        (["--sizes", ""], "whole numbers"),
        (["--shape", "8x8"], "MxKxN"),
        (["--shape", "8x8x8x8x8"], "MxKxN"),
        (["--shape", "8x-8x8"], "MxKxN"),
        (["--accuracy", "best"], "accuracy"),
        (["--dtype", "int8"], "int8"),
        (["--unit", "abacus"], "abacus"),
        (["--workspace", "plenty"], "plenty"),
        (["--phi", "7"], "--phi"),
        (["--repeats", "0"], "--repeats"),
        (["--output", "nowhere/rows.jsonl"], "mkdir -p nowhere"),
        (["--output", "."], "is a directory"),
        (["--frobnicate"], "--frobnicate"),
    ],
)
def test_bad_options_are_refused_in_one_line(capsys, words, mention):
    refused(capsys, bench(*words), mention)


def test_no_gpu_is_said(capsys):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    refused(capsys, bench("--device", "cuda"), "no CUDA GPU", "--device cpu")


def test_no_torch_is_said(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "widen.gpu.measuring", raising=False)
    refused(capsys, bench("--device", "cuda"), "pip install 'widen[torch]'")


def test_no_matplotlib_is_said(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    refused(capsys, bench("--plot", "speed.png"), "pip install 'widen[plot]'")


def test_a_gpu_out_of_memory_is_said_in_one_line(capsys, monkeypatch):
    error = type("OutOfMemoryError", (RuntimeError,), {})
    message = "CUDA out of memory. Tried to allocate 8 GiB. And more."

    def full(*_, **__):
        raise error(message)

    monkeypatch.setattr(widen, "matmul", full)
    refused(capsys, bench(*SMALL), "out of memory (CUDA out of memory)")


def test_help_shows_an_example(capsys):
    assert bench("--help") == 0
    assert "Example: widen bench --device cuda" in ANSI.sub("", capsys.readouterr().out)


# ── the plot ──────────────────────────────────────────────────────────────────


def test_plot_writes_a_picture(capsys):
    pytest.importorskip("matplotlib")
    assert bench(*SMALL, "-a", "fast", "-a", "standard", "--plot", "speed.png") == 0
    assert Path("speed.png").read_bytes().startswith(b"\x89PNG")
    assert "wrote speed.png" in capsys.readouterr().out


def test_plot_draws_native_and_ceiling():
    figure = pytest.importorskip("matplotlib.figure").Figure()
    rows = [
        {
            **vars(Case(n, n, n)),
            "tflops": 60.0,
            "native_tflops": 55.0,
            "products": products,
            "ceiling_tflops": measure.ceiling(Case(n, n, n), products, "NVIDIA H200"),
        }
        for n, products in ((2048, 14), (4096, 15))
    ]
    axes = figure.subplots()
    plot.panel(axes, rows, "torch float64")
    drawn = {line.get_label(): list(line.get_ydata()) for line in axes.get_lines()}
    assert drawn == {
        "widen standard, φ = 0.5": [60.0, 60.0],
        "torch float64": [55.0, 55.0],
        "int8 ceiling of 14–15 products": [pytest.approx(1900 / 14), pytest.approx(1900 / 15)],
    }
    assert axes.get_xlabel() == "n"


@pytest.mark.parametrize(
    ("words", "mention"),
    [
        (["--plot", "speed.doc"], ".png"),
        (["--plot", "nowhere/speed.png"], "mkdir -p nowhere"),
        (["--plot", "speed.png", "--shape", "2x3x4"], "--sizes"),
    ],
)
def test_plots_that_cannot_be_are_refused(capsys, words, mention):
    pytest.importorskip("matplotlib")
    refused(capsys, bench(*words), mention)


def test_ceilings_are_known_where_they_were_measured():
    real, twice = Case(8, 8, 8), Case(8, 8, 8, dtype="complex128")
    assert measure.ceiling(real, 14, "NVIDIA H200 NVL") == pytest.approx(1900 / 14)
    assert measure.ceiling(twice, 42, "NVIDIA H200") == pytest.approx(4 * 1900 / 42)
    assert measure.ceiling(real, 14, "Intel(R) Xeon(R)") is None


# ── the parts ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("phi", [0.0, 0.5, 6.0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_exact_products_are_exact(dtype, phi):
    machine = Cpu()
    generator = machine.generator(3)
    rows, columns = (machine.random(generator, (size, 50), dtype, phi) for size in (3, 4))
    expected = [
        sum(map(lambda x, y: Fraction(x) * Fraction(y), row.tolist(), column.tolist()))
        for row in rows
        for column in columns
    ]
    assert exact_products(rows, columns) == [(x,) for x in expected]


def test_exact_products_of_lines_of_zeros():
    assert exact_products(np.zeros((1, 3)), np.ones((2, 3))) == [(Fraction(0),)] * 2


def test_a_file_that_cannot_be_written():
    with pytest.raises(CommandError, match="name another file"):
        results.append(Path("nowhere/rows.jsonl"), {})


def on_a_cpu(monkeypatch):
    """The code for GPUs, on a CPU: its events are made of nothing."""
    torch = pytest.importorskip("torch")
    from widen.gpu import measuring

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            pass

        def synchronize(self):
            pass

        def elapsed_time(self, _):
            return 2.0

    cuda = SimpleNamespace(
        Event=Event,
        synchronize=lambda _: None,
        empty_cache=lambda: None,
        get_device_name=lambda _: "NVIDIA H200",
    )
    names = ["Generator", "rand", "randn", "complex", "float32", "float64", "version"]
    names = {name: getattr(torch, name) for name in names}
    monkeypatch.setattr(measuring, "torch", SimpleNamespace(cuda=cuda, __version__="2.11", **names))
    gpu = object.__new__(Gpu)
    gpu.measured = object.__new__(measuring.Measured)
    gpu.measured.device = torch.device("cpu")
    return gpu


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_tensors_are_measured_alike(dtype, monkeypatch):
    gpu = on_a_cpu(monkeypatch)
    case = Case(40, 12, 35, dtype=dtype)
    for tried in (case, replace(case, batch=3), replace(case, accuracy="correct")):
        row = measure.measure(tried, gpu, 2, lambda share: None)
        json.dumps(row)
        assert row["native_ms"] == row["widen_ms"] == 2.0
        assert row["within_bound"]
        assert row["ceiling_tflops"] > 100
    gpu.free()
    assert gpu.facts()["machine"] == "NVIDIA H200"


def test_the_script_runs_and_goes_on_after_a_failure():
    command = [sys.executable, str(ROOT / "bench" / "gpu.py"), "--device", "cpu"]
    words = ["--sizes", "8", "--repeats", "1", "--rows", "encoded", "--rows", "complex"]
    done = subprocess.run(
        [*command, *words, "--output", "new/rows.jsonl"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "2 rows, 0 failed" in done.stdout
    assert [row["row"] for row in saved("new/rows.jsonl")] == [
        "float64-standard-encoded",
        "complex128-standard",
    ]
    failed = subprocess.run(
        [*command, "--sizes", "-8", "16", "--rows", "correct", "--no-save"],
        capture_output=True,
        text=True,
    )
    assert failed.returncode == 1
    assert "float64-correct, Case(m=-8" in failed.stderr
    assert "1 rows, 1 failed" in failed.stdout


@pytest.mark.gpu
@pytest.mark.parametrize("words", [["-a", "standard", "--encoded"], ["--dtype", "complex128"]])
def test_bench_on_a_gpu(words):
    shapes = ["--sizes", "256", "--shape", "64x32x48x3"]
    assert bench("--device", "cuda", *shapes, *words, "-o", "rows.jsonl") == 0
    for row in saved():
        assert row["within_bound"]
        assert row["error_u"] <= row["bound_u"]
        assert row["multiply_tops"] > 0


class Clock:
    """A machine on which every call takes so long."""

    def __init__(self, seconds):
        self.left = iter(seconds)

    def seconds(self, function):
        function()
        return next(self.left)


def test_progress_is_not_told_between_short_calls(monkeypatch):
    monkeypatch.setattr(measure, "TELL_AFTER", 60)
    told, calls = [], []
    times = [9.0, 9.0, 9.0, 3.0, 1.0, 2.0]
    typical = measure.typical(lambda: calls.append(len(told)), Clock(times), 3, told.append)
    assert typical == 2.0
    assert calls == [0] * 6
    assert told == [1.0]
    told.clear()
    monkeypatch.setattr(measure, "TELL_AFTER", -1)
    measure.typical(lambda: None, Clock(times), 3, told.append)
    assert told == pytest.approx([1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6, 1, 1])
