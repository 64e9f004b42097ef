"""The command line: every command, every error, and files that are whole or not there."""

import errno
import io
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import widen
from widen.cli import cases as demonstration
from widen.cli import demo, main
from widen.cli.errors import CommandError
from widen.cli.progress import progress_bar
from widen.cli.shapes import product_shape
from widen.cpu import memory as scratch_memory

ANSI = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("FORCE_COLOR", raising=False)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A directory to work in, with matrices A (7×9) and B (9×5) and an old C."""
    random = np.random.default_rng(1)
    np.save(tmp_path / "A.npy", random.standard_normal((7, 9)))
    np.save(tmp_path / "B.npy", random.standard_normal((9, 5)))
    (tmp_path / "C.npy").write_bytes(b"old")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def matmul(*words):
    return main(["matmul", "A.npy", "B.npy", "-o", "C.npy", *words])


def refused(capsys, status, *mentions):
    """Assert one line on stderr, exit status 2, nothing on stdout."""
    out, err = capsys.readouterr()
    assert status == 2
    assert out == ""
    assert err.startswith("widen: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert "Traceback" not in err
    for mention in mentions:
        assert mention in err


def snapshot(directory):
    return {path.name: path.is_file() and path.read_bytes() for path in directory.iterdir()}


def untouched(directory, before):
    assert snapshot(directory) == before


# ── widen matmul ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ([], {}),
        (["--accuracy", "fast"], {"accuracy": "fast"}),
        (["--accuracy", "correct"], {"accuracy": "correct"}),
        (["-a", "40"], {"accuracy": 40}),
        (["--dtype", "float32"], {"dtype": "float32"}),
        (["--unit", "int8", "--system", "residues"], {"unit": "int8", "system": "residues"}),
        (["--workspace", "16MB"], {"workspace": "16MB"}),
        (["-w", "16000000"], {"workspace": 16000000}),
    ],
)
def test_matmul_writes_the_librarys_bits(files, capsys, words, arguments):
    assert matmul(*words) == 0
    expected = widen.matmul(np.load("A.npy"), np.load("B.npy"), **arguments)
    written = np.load("C.npy")
    assert written.dtype == expected.dtype
    assert written.tobytes() == expected.tobytes()
    assert sorted(path.name for path in files.iterdir()) == ["A.npy", "B.npy", "C.npy"]
    out, err = capsys.readouterr()
    assert "error   at most" in out
    assert "time    " in out
    assert "wrote   C.npy: 7×5" in out
    assert err == ""


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3,), (3,)),
        ((3,), (3, 4)),
        ((2, 3), (3,)),
        ((5, 1, 2, 3), (4, 3, 2)),
        ((4, 3), (2, 3, 5)),
        ((2, 0), (0, 3)),
        ((0, 3), (3, 2)),
    ],
)
def test_matmul_has_the_shapes_of_numpy(files, a, b):
    random = np.random.default_rng(2)
    left, right = random.standard_normal(a), random.standard_normal(b)
    np.save("A.npy", left)
    np.save("B.npy", right)
    assert matmul() == 0
    written = np.load("C.npy")
    assert written.shape == np.matmul(left, right).shape
    assert written.tobytes() == np.asarray(widen.matmul(left, right)).tobytes()


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64", "complex128"])
def test_matmul_reads_every_format_of_npy(files, dtype):
    left, right = np.load("A.npy").astype(dtype), np.load("B.npy").astype(dtype)
    np.save("A.npy", np.asfortranarray(left))
    np.save("B.npy", right)
    assert matmul() == 0
    expected = widen.matmul(left, right)
    written = np.load("C.npy")
    assert written.dtype == expected.dtype
    assert written.tobytes() == expected.tobytes()


def test_matmul_may_overwrite_its_input(files):
    expected = widen.matmul(np.load("A.npy"), np.load("B.npy"))
    assert main(["matmul", "A.npy", "B.npy", "-o", "A.npy"]) == 0
    assert np.array_equal(np.load("A.npy"), expected)


def test_matmul_follows_a_link_and_keeps_the_mode(files):
    (files / "C.npy").chmod(0o640)
    (files / "link.npy").symlink_to("C.npy")
    assert main(["matmul", "A.npy", "B.npy", "-o", "link.npy"]) == 0
    assert (files / "link.npy").is_symlink()
    assert np.load("C.npy").shape == (7, 5)
    assert (files / "C.npy").stat().st_mode & 0o777 == 0o640


def archive():
    with open("A.npy", "wb") as file:
        np.savez(file, a=np.ones((7, 9)))


def objects():
    np.save("A.npy", np.array([[None, 1.0]], dtype=object), allow_pickle=True)


def batches():
    np.save("A.npy", np.ones((2, 3, 4)))
    np.save("B.npy", np.ones((5, 4, 3)))


def header(shape):
    """A .npy file that says it has this shape."""
    words = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
    start = b"\x93NUMPY\x01\x00" + len(words).to_bytes(2, "little")
    Path("A.npy").write_bytes(start + words.encode() + bytes(504))


def pipe():
    Path("A.npy").unlink()
    os.mkfifo("A.npy")


DAMAGES = {
    "missing": (lambda: Path("A.npy").unlink(), "A.npy does not exist"),
    "directory": (lambda: (Path("A.npy").unlink(), Path("A.npy").mkdir()), "is a directory"),
    "text": (lambda: Path("A.npy").write_text("1 2\n3 4\n"), "np.save"),
    "empty": (lambda: Path("A.npy").write_text(""), "np.save"),
    "truncated": (lambda: os.truncate("A.npy", 200), "np.save"),
    "archive": (archive, "archive"),
    "objects": (objects, "pickled"),
    "integers": (lambda: np.save("A.npy", np.ones((7, 9), int)), "astype(float)"),
    "booleans": (lambda: np.save("A.npy", np.ones((7, 9), bool)), "astype(float)"),
    "bfloat16": (lambda: np.save("A.npy", np.ones((7, 9), "V2")), "bfloat16"),
    "inner": (lambda: np.save("A.npy", np.ones((9, 7))), "7 and 9 must be equal"),
    "batch": (batches, "batch"),
    "number": (lambda: np.save("A.npy", 1.0), "single number"),
    "negative": (lambda: header((-7, 9)), "negative shape, (-7, 9)"),
    "very negative": (lambda: header((-(10**4), 9)), "negative"),
    "huge": (lambda: header((1 << 32, 1 << 32)), "it holds 504"),
    "beyond integers": (lambda: header((1 << 80, 9)), "it holds 504"),
    "no integers": (lambda: header((True, 9)), "is damaged"),
    "pipe": (pipe, "A.npy is not a regular file"),
}
if not hasattr(os, "mkfifo"):
    del DAMAGES["pipe"]


@pytest.mark.filterwarnings("error")  # one would be another line
@pytest.mark.parametrize("damage", DAMAGES)
def test_matmul_refuses_inputs_in_one_line(files, capsys, damage):
    change, mention = DAMAGES[damage]
    change()
    before = snapshot(files)
    refused(capsys, matmul(), mention)
    untouched(files, before)


@pytest.mark.parametrize(
    "words",
    [
        ["--accuracy", "best"],
        ["--accuracy", "-3"],
        ["--dtype", "int32"],
        ["--dtype", "float64x2"],  # which no .npy file holds
        ["--dtype", "nonsense"],
        ["--unit", "abacus"],
        ["--system", "roman"],
        ["--workspace", "plenty"],
    ],
)
def test_matmul_refuses_options_in_one_line(files, capsys, words):
    before = snapshot(files)
    refused(capsys, matmul(*words))
    untouched(files, before)


@pytest.mark.parametrize(
    ("output", "mention"),
    [
        ("nowhere/C.npy", "mkdir -p nowhere"),
        ("A.npy/C.npy", "not a directory"),
        ("folder", "folder/C.npy"),
        ("/dev/null", "not a regular file"),
    ],
)
def test_matmul_refuses_outputs_in_one_line(files, capsys, output, mention):
    (files / "folder").mkdir()
    before = snapshot(files)
    refused(capsys, main(["matmul", "A.npy", "B.npy", "-o", output]), mention)
    untouched(files, before)
    assert list((files / "folder").iterdir()) == []


def test_matmul_refuses_a_directory_that_is_not_writable(files, capsys, monkeypatch):
    def denied(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    before = snapshot(files)
    monkeypatch.setattr("widen.cli.files.os.open", denied)  # root may write anywhere
    status = matmul()
    monkeypatch.undo()
    refused(capsys, status, "permission denied", "-o")
    untouched(files, before)


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="space is not reserved here")
def test_matmul_refuses_a_full_disk_before_it_starts(files, capsys, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    before = snapshot(files)
    monkeypatch.setattr("widen.cli.files.os.posix_fallocate", full)
    refused(capsys, matmul(), "no space left", "free some space")
    untouched(files, before)


def broken_off(error):
    """A product that fills half of its result and then fails."""
    real = widen.matmul

    def product(a, b, *, out=None, **arguments):
        if out is None:
            return real(a, b, **arguments)
        out[:3] = 1.0
        raise error

    return product


def test_matmul_out_of_memory(files, capsys, monkeypatch):
    before = snapshot(files)
    monkeypatch.setattr(widen, "matmul", broken_off(MemoryError("Unable to allocate 8 TiB")))
    refused(capsys, matmul(), "out of memory (Unable to allocate 8 TiB)", "--workspace")
    untouched(files, before)


def test_matmul_interrupted(files, capsys, monkeypatch):
    before = snapshot(files)
    monkeypatch.setattr(widen, "matmul", broken_off(KeyboardInterrupt()))
    assert matmul() == 130
    assert capsys.readouterr().err == "widen: interrupted\n"
    untouched(files, before)


def test_a_defect_keeps_its_traceback_and_leaves_nothing(files, monkeypatch):
    before = snapshot(files)
    monkeypatch.setattr(widen, "matmul", broken_off(ZeroDivisionError("ours")))
    with pytest.raises(ZeroDivisionError, match="ours"):
        matmul()
    untouched(files, before)


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
@pytest.mark.parametrize(
    ("name", "status"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129), ("ignored", 0)]
)
def test_matmul_leaves_nothing_when_a_signal_ends_it(files, name, status):
    number = signal.SIGHUP if name == "ignored" else getattr(signal, name)
    before = snapshot(files)
    script = f"""
import os, signal, sys, time, widen
from widen.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
signal.signal(signal.SIGHUP, signal.SIG_IGN if "{name}" == "ignored" else signal.SIG_DFL)
real = widen.matmul
def product(a, b, *, out=None, **arguments):
    if out is None:
        return real(a, b, **arguments)
    out[:3] = 1.0
    os.kill(os.getpid(), {int(number)})
    if "{name}" == "ignored":  # as under nohup
        return real(a, b, out=out, **arguments)
    time.sleep(30)
widen.matmul = product
sys.exit(main(["matmul", "A.npy", "B.npy", "-o", "C.npy"]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == status
    assert "Traceback" not in done.stderr
    if status:
        untouched(files, before)


def test_matmul_out_of_memory_in_a_small_workspace(files, capsys, monkeypatch):
    """A smaller one would not help."""
    monkeypatch.setattr(widen, "matmul", broken_off(MemoryError()))
    status = matmul("-w", "16MB")
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert "free some memory" in err
    assert "--workspace" not in err


def test_matmul_holds_no_memory_of_the_results_size(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    np.save("A.npy", rng.standard_normal((1200, 5)))
    np.save("B.npy", rng.standard_normal((5, 1200)))
    words = ("-w", "2MB")  # of a product of 11.5 MB, which is mapped
    assert matmul(*words) == 0
    scratch_memory._kept.clear()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        assert matmul(*words) == 0
        most = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert most <= 4e6
    _, info = widen.matmul(np.load("A.npy"), np.load("B.npy"), info=True)
    assert f"at most {info.bound.max():.2e} in any element" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda a: a.fill(np.nan), "no element is finite, all 35 are infinite or NaN"),
        (lambda a: a[2:].fill(np.inf), "in any finite element"),
        (lambda a: a[2:].fill(np.inf), "; 25 are infinite or NaN"),
    ],
)
def test_matmul_says_what_is_not_finite(files, capsys, change, said):
    a = np.load("A.npy")
    change(a)
    np.save("A.npy", a)
    assert matmul() == 0
    out = capsys.readouterr().out
    assert said in out
    assert "0.00e+00" not in out


def test_matmul_of_nothing(files, capsys):
    np.save("A.npy", np.ones((0, 9)))
    assert matmul() == 0
    assert "error   none: the product has no elements" in capsys.readouterr().out


# ── widen matmul, standard input and output ───────────────────────────────────


def test_matmul_writes_to_standard_output(files, capfdbinary):
    assert main(["matmul", "A.npy", "B.npy", "-o", "-"]) == 0
    out, err = capfdbinary.readouterr()
    assert np.array_equal(
        np.load(io.BytesIO(out)), widen.matmul(np.load("A.npy"), np.load("B.npy"))
    )
    assert b"wrote   standard output: 7\xc3\x975, float64" in err
    assert sorted(snapshot(files)) == ["A.npy", "B.npy", "C.npy"]


def test_matmul_writes_nothing_to_standard_output_after_an_error(files, capfdbinary, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(files))
    before = snapshot(files)
    monkeypatch.setattr(widen, "matmul", broken_off(MemoryError()))
    assert main(["matmul", "A.npy", "B.npy", "-o", "-"]) == 2
    assert capfdbinary.readouterr().out == b""
    untouched(files, before)


def test_matmul_writes_no_numbers_to_a_terminal(files, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    refused(capsys, main(["matmul", "A.npy", "B.npy", "-o", "-"]), "terminal", "-o")


def test_matmul_without_room_for_temporary_files(files, capsys, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(files / "nowhere"))
    refused(capsys, main(["matmul", "A.npy", "B.npy", "-o", "-"]), "TMPDIR", "-o")


@pytest.mark.parametrize("place", [1, 2])
def test_matmul_refuses_standard_input(files, capsys, place):
    words = ["matmul", "A.npy", "B.npy", "-o", "C.npy"]
    words[place] = "-"
    refused(capsys, main(words), "standard input", "cat > A.npy")


def test_a_file_whose_name_is_a_dash(files, capsys):
    (files / "A.npy").rename("-")
    assert main(["matmul", "./-", "B.npy", "-o", "./-"]) == 0
    assert np.load("-").shape == (7, 5)
    assert "wrote   ./-: " in capsys.readouterr().out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize(("output", "unbuffered"), [("C.npy", ""), ("-", "1")])
def test_matmul_when_standard_output_is_full(files, output, unbuffered):
    words = [sys.executable, "-m", "widen", "matmul", "A.npy", "B.npy", "-o", output]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "wb") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, env=environment)
    assert done.returncode == 2
    line = b"widen: cannot write standard output: no space left on device; send it somewhere else"
    written = b" (C.npy is written)" if output == "C.npy" else b""
    assert done.stderr == line + written + b"\n"
    assert output == "-" or np.load("C.npy").shape == (7, 5)


@pytest.mark.skipif(os.name != "posix", reason="pipes of another kind")
@pytest.mark.parametrize(
    "words", [["matmul", "A.npy", "B.npy", "-o", "-"], ["plan", "9", "9", "9"]]
)
def test_nobody_reads(files, words):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "widen", *words]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


# ── the other commands ────────────────────────────────────────────────────────


def test_plan_prints_the_librarys_plan(capsys):
    assert main(["plan", "30", "40", "50", "--accuracy", "correct", "--unit", "int8"]) == 0
    expected = widen.plan((30, 40), (40, 50), accuracy="correct", unit="int8")
    assert capsys.readouterr().out == f"{expected}\n"


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "30", "40"],
        ["plan", "30", "forty", "50"],
        ["plan", "--", "30", "-40", "50"],
        ["plan", "30", "40", "50", "--accuracy", "best"],
        ["plan", "30", "40", "50", "--unit", "abacus"],
        ["plan", "30", "40", "50", "--frobnicate"],
        ["matmul", "A.npy", "B.npy"],
        ["frobnicate"],
    ],
)
def test_wrong_words_are_refused_in_one_line(capsys, words):
    refused(capsys, main(words))


@pytest.mark.parametrize("columns", ["120", "40"])
def test_units_lists_every_unit_with_a_rate(capsys, monkeypatch, columns):
    from widen.units import UNITS

    monkeypatch.setenv("COLUMNS", columns)
    assert main(["units"]) == 0
    out = capsys.readouterr().out
    for unit in UNITS.values():
        routine = {"float64": "dgemm", "float32": "sgemm"}[unit.engine]
        row = rf"^ *{unit.name}\b.*BLAS {routine}.*\b[1-9]\d*\s*$"
        assert re.search(row, out, re.MULTILINE)


@pytest.mark.parametrize(
    "command", [[], ["matmul"], ["plan"], ["units"], ["demo"], ["solve"], ["eig"], ["det"]]
)
def test_help_shows_an_example(capsys, command):
    assert main([*command, "--help"]) == 0
    out = ANSI.sub("", capsys.readouterr().out)
    assert re.search(rf"Example: widen {' '.join(command)}", out)


def test_no_words_show_the_help(capsys):
    assert main([]) == 0
    assert "Usage: widen" in ANSI.sub("", capsys.readouterr().out)


def test_version_as_a_process():
    done = subprocess.run(
        [sys.executable, "-m", "widen.cli", "--version"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"widen {widen.__version__}\n", "")


def test_an_encoding_without_our_letters(monkeypatch):
    """As of Windows where the output is a file: it has no φ."""
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="cp1252"))
    assert main(["reproduce", "--list"]) == 0
    print("φ")
    sys.stdout.seek(0)
    assert sys.stdout.read().endswith("?\n")


def test_an_error_as_a_process(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "widen.cli", "matmul", "no.npy", "no.npy", "-o", "C.npy"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert done.stderr == "widen: no.npy does not exist: check the name\n"
    assert list(tmp_path.iterdir()) == []


# ── widen demo ────────────────────────────────────────────────────────────────

CASES = {case.name: case for case in demonstration.cases()}
CANCELLING = ["residual of an inverse", "small among large", "overflow on the way"]


@pytest.mark.parametrize("name", CASES)
def test_demo_claims_hold(name):
    scores = demo.scores_of(CASES[name])
    assert scores["widen correct"].wrong == 0
    assert scores["widen correct"].finite
    assert all(score.checked == 200 for score in scores.values())
    if name in CANCELLING:
        assert scores["NumPy"].digits < 1
        assert scores["NumPy"].wrong > 190
    else:
        assert scores["widen standard"].digits > 11


def test_demo_bits_do_not_change():
    changed = demo.changed_bits()
    assert changed["widen standard"] == changed["widen correct"] == 0


def test_demo_of_linear_systems_holds():
    found = demo.digits_of_systems()
    assert len(found) == 2
    for digits, is_nearest in found.values():
        assert digits < 10
        assert is_nearest


def test_demo_prints_a_table(capsys):
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    for name in CASES:
        assert name in out
    assert out.count("all digits") >= len(CASES)
    assert "widen.linalg.solve all" in " ".join(out.split())


# ── the parts ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("a", "b"), [((2, 3), (4, 2)), ((3,), (4,)), ((), (3,)), ((3,), ()), ((2, 1, 3), (3, 3, 1))]
)
def test_shapes_agree_with_numpy(a, b):
    try:
        expected = np.matmul(np.ones(a), np.ones(b)).shape
    except ValueError:
        with pytest.raises(CommandError):
            product_shape(a, b)
    else:
        assert product_shape(a, b) == expected


@pytest.mark.parametrize(("patience", "shown"), [(0.0, True), (60.0, False)])
def test_progress_bar_appears_only_after_a_while(capsys, monkeypatch, patience, shown):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress_bar("A × B", patience) as report:
        report(0.5)
        time.sleep(0.05)
        report(1.0)
    assert ("A × B" in ANSI.sub("", capsys.readouterr().err)) == shown


def test_progress_bar_is_silent_without_a_terminal(capsys):
    with progress_bar("A × B", 0.0) as report:
        report(0.5)
        time.sleep(0.05)
    assert capsys.readouterr().err == ""
