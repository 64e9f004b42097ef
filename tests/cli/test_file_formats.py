"""Matrices in .npz, .mtx, .csv and .safetensors files, and `widen gemm`."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import widen
from widen.cli import formats, main

A = np.random.default_rng(1).standard_normal((4, 5))
B = np.random.default_rng(2).standard_normal((5, 3))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("A.npy", A)
    np.save("B.npy", B)
    return tmp_path


def ran(*words):
    """The status of a command."""
    return main([*map(str, words)])


def written_mtx(path, x, field="real", symmetry="general"):
    first = {"general": lambda j: 0, "skew-symmetric": lambda j: j + 1}
    start = first.get(symmetry, lambda j: j)
    lines = [f"%%MatrixMarket matrix array {field} {symmetry}", "% a comment", ""]
    lines.append(f"{len(x)} {x.shape[1]}")
    for j in range(x.shape[1]):
        for i in range(start(j), len(x)):
            parts = [x[i, j].real, x[i, j].imag][: 2 if field == "complex" else 1]
            lines.append(" ".join(repr(float(part)) for part in parts))
    Path(path).write_text("\n".join(lines) + "\n")


def inputs():
    np.savez("one.npz", weights=A)
    np.savez_compressed("two.npz", a=A, b=B)
    save_file({"x": A}, "one.safetensors")
    save_file({"a": A, "b": B}, "two.safetensors")
    written_mtx("a.mtx", A)
    Path("a.csv").write_text("\n".join(",".join(map(repr, row)) for row in A.tolist()) + "\n")


NAMES = ["one.npz", "one.npz:weights", "two.npz:a", "one.safetensors", "two.safetensors:a", "a.mtx",
         "a.csv"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_inputs(name, capsys):
    inputs()
    assert ran("matmul", name, "B.npy", "-o", "C.npy") == 0
    np.testing.assert_array_equal(np.load("C.npy"), widen.matmul(A, B))
    assert "wrote   C.npy" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["C.npz", "C.mtx", "C.safetensors"])
@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "complex64"])
def test_outputs(name, kind, folder):
    assert ran("matmul", "A.npy", "B.npy", "-o", name, "--dtype", kind) == 0
    wanted = widen.matmul(A, B, dtype=kind)
    assert sorted(x.name for x in folder.iterdir()) == sorted(["A.npy", "B.npy", name])
    if name == "C.npz":
        with np.load(name) as archive:
            np.testing.assert_array_equal(archive["C"], wanted, strict=True)
    if name == "C.safetensors":
        np.testing.assert_array_equal(load_file(name)["C"], wanted, strict=True)
    assert ran("matmul", name, "B.npy", "-o", "D.npy") == 2  # 3 columns, 5 rows: it was read
    np.save("I.npy", np.eye(3, dtype=wanted.dtype))
    assert ran("matmul", name, "I.npy", "-o", "D.npy", "--accuracy", "correct") == 0
    np.testing.assert_array_equal(np.load("D.npy"), wanted)


def test_vectors_and_numbers_in_text():
    np.save("x.npy", B[:, 0])
    assert ran("matmul", "A.npy", "x.npy", "-o", "y.mtx") == 0
    assert Path("y.mtx").read_text().splitlines()[1] == "4 1"
    Path("z.csv").write_text("\ufeff1, 2.5e-310\n\n inf ,1+2j\n", encoding="utf-8")
    np.save("I.npy", np.eye(2))
    assert ran("matmul", "z.csv", "I.npy", "-o", "z.npy") == 0
    assert np.load("z.npy").dtype == np.complex128
    assert np.load("z.npy")[0].tolist() == [1, 2.5e-310]


@pytest.mark.parametrize(
    ("symmetry", "field"),
    [("symmetric", "real"), ("symmetric", "integer"), ("skew-symmetric", "real"),
     ("hermitian", "complex"), ("symmetric", "complex"), ("general", "complex")],
)  # fmt: skip
def test_symmetries(symmetry, field):
    x = np.arange(9.0).reshape(3, 3) + (
        1j * np.arange(9.0).reshape(3, 3).T if field == "complex" else 0
    )
    if symmetry == "symmetric":
        x = x + x.T
    elif symmetry == "skew-symmetric":
        x = x - x.T
    elif symmetry == "hermitian":
        x = x + x.conj().T
    written_mtx("s.mtx", x, field, symmetry)
    np.save("I.npy", np.eye(3))
    assert ran("matmul", "s.mtx", "I.npy", "-o", "s.npy", "--accuracy", "correct") == 0
    np.testing.assert_array_equal(np.load("s.npy"), x)


def text(name, words):
    return lambda: Path(name).write_text(words)


def eighths(name):
    """A tensor of eight bits a number, which NumPy has no name for."""
    head = b'{"a":{"dtype":"F8_E4M3","shape":[4,5],"data_offsets":[0,20]}}'
    Path(name).write_bytes(len(head).to_bytes(8, "little") + head + bytes(20))


def unknown_compression(name):
    """An archive whose list of members was damaged."""
    np.savez(name, a=A)
    whole = bytearray(Path(name).read_bytes())
    whole[whole.index(b"PK\x01\x02") + 10] = 99
    Path(name).write_bytes(whole)


BANNER = "%%MatrixMarket matrix array real general\n"
REFUSED = {
    "which": (inputs, "two.npz", "holds a, b: say which, two.npz:NAME"),
    "no such": (inputs, "two.safetensors:c", "has no c: it holds a, b"),
    "missing": (inputs, "three.npz:a", "three.npz does not exist"),
    "objects": (lambda: np.savez("o.npz", a=np.array([{}], object)), "o.npz", "pickled"),
    "no archive": (text("n.npz", "nothing"), "n.npz", "np.savez"),
    "an array": (lambda: Path("A.npy").rename("m.npz"), "m.npz", "not a .npz file"),
    "a way to compress": (lambda: unknown_compression("c.npz"), "c.npz", "damaged, or no .npz"),
    "integers": (lambda: np.savez("i.npz", a=np.ones((2, 5), int)), "i.npz", "int64"),
    "no tensors": (text("n.safetensors", "nothing"), "n.safetensors", "damaged"),
    "no tensors there": (inputs, "x.safetensors", "does not exist"),
    "float8": (lambda: eighths("b.safetensors"), "b.safetensors", "holds F8_E4M3: save it as"),
    "wide floats": (lambda: np.savez("w.npz", a=A.astype(np.longdouble)), "w.npz", "np.float64"),
    "wide integers": (text("a.mtx", BANNER.replace("real", "integer") + f"1 1\n{2**53 + 1}\n"),
                      "a.mtx", "no float64 holds the integer 9007199254740993"),
    "no banner": (text("a.mtx", "4 5\n"), "a.mtx", "%%MatrixMarket"),
    "sparse": (text("a.mtx", BANNER.replace("array", "coordinate")), "a.mtx", "sparse"),
    "pattern": (text("a.mtx", BANNER.replace("real", "pattern")), "a.mtx", "pattern"),
    "sizes": (text("a.mtx", BANNER + "4 5 6\n"), "a.mtx", "two sizes"),
    "too short": (text("a.mtx", BANNER + "2 2\n1\n2\n3\n"), "a.mtx", "too early"),
    "far too short": (text("a.mtx", BANNER + "99999999 99999999\n1\n"), "a.mtx", "too early"),
    "too long": (text("a.mtx", BANNER + "1 1\n1\n2\n"), "a.mtx", "more numbers"),
    "two in a line": (text("a.mtx", BANNER + "1 1\n1 2\n"), "a.mtx", "2 numbers instead of 1"),
    "imaginary": (text("a.mtx", BANNER + "1 1\n2j\n"), "a.mtx", "not real"),
    "not square": (text("a.mtx", BANNER.replace("general", "symmetric") + "1 2\n1\n"), "a.mtx",
                   "1 rows and 2 columns"),
    "words": (text("a.csv", "1,2\n3,four\n"), "a.csv", "line 2: 'four' is not a number"),
    "a header": (text("a.csv", "x,y\n1,2\n"), "a.csv", "begin their line with #"),
    "a gap": (text("a.csv", "1,\n3,4\n"), "a.csv", "write nan where none is known"),
    "semicolons": (text("a.csv", "1;2\n"), "a.csv", "separate numbers by commas"),
    "quotes": (text("a.csv", '"1","2"\n'), "a.csv", "without quotation marks"),
    "underscores": (text("a.csv", "1_0,2\n"), "a.csv", "'1_0' is not a number"),
    "ragged": (text("a.csv", "1,2\n3\n"), "a.csv", "line 2: 1 numbers"),
    "empty": (text("a.csv", "\n"), "a.csv", "is empty"),
    "bytes": (lambda: Path("a.csv").write_bytes(b"\xff\xfe\x00"), "a.csv", "not text"),
}  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", REFUSED)
def test_inputs_that_are_refused_in_one_line(kind, capsys):
    make, name, words = REFUSED[kind]
    make()
    assert ran("matmul", name, "B.npy", "-o", "C.npy") == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert words in err
    assert not Path("C.npy").exists()


@pytest.mark.parametrize(
    ("words", "mention"),
    [
        (["-o", "C.csv"], ".csv files are read, not written"),
        (["-o", "C.npy", "--dtype", "bfloat16"], "use -o C.safetensors"),
        (["-o", "C.mtx", "--dtype", "bfloat16"], "use -o C.safetensors"),
        (["-o", "C.safetensors", "--dtype", "complex128"], "no complex128"),
        (["-o", "C.npz", "--resume"], "--resume writes .npy files"),
    ],
)
def test_outputs_that_are_refused(words, mention, capsys, folder):
    assert ran("matmul", "A.npy", "B.npy", *words) == 2
    assert mention in capsys.readouterr().err
    assert sorted(x.name for x in folder.iterdir()) == ["A.npy", "B.npy"]


def test_batches_do_not_fit_text(capsys):
    np.save("A.npy", np.ones((2, 4, 5)))
    assert ran("matmul", "A.npy", "B.npy", "-o", "C.mtx") == 2
    assert "use -o C.npy" in capsys.readouterr().err


def test_bfloat16_in_safetensors():
    assert ran("matmul", "A.npy", "B.npy", "-o", "C.safetensors", "--dtype", "bfloat16") == 0
    torch_file = pytest.importorskip("safetensors.torch")
    found = torch_file.load_file("C.safetensors")["C"]
    wanted = widen.matmul(A, B, dtype="bfloat16").astype(float)
    np.testing.assert_array_equal(found.double().numpy(), wanted)


def test_bfloat16_is_read(capsys):
    a, b = A.astype(ml_dtypes.bfloat16), B.astype(ml_dtypes.bfloat16)
    save_file({"x": np.ones(3), "a": a, "b": b, "empty": a[:0]}, "t.safetensors")
    assert ran("matmul", "t.safetensors:a", "t.safetensors:b", "-o", "C.npy") == 2
    assert "--dtype float32" in capsys.readouterr().err
    for name, rows in (("a", 4), ("empty", 0)):
        words = ["matmul", f"t.safetensors:{name}", "t.safetensors:b", "-o", "C.npy"]
        assert ran(*words, "--dtype", "float32") == 0
        np.testing.assert_array_equal(np.load("C.npy"), widen.matmul(a[:rows], b, dtype="float32"))
    assert ran("matmul", "t.safetensors:a", "t.safetensors:b", "-o", "C.safetensors") == 0


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f8", ">f8", ">f4", ">c16", "<f2"])
def test_orders_and_bytes(dtype, order):
    """What NumPy saves in other orders has the same product."""
    array = np.asarray(A, dtype, order=order)
    np.save("other.npy", array)
    np.savez("other.npz", a=array)
    for name in ("other.npy", "other.npz"):
        assert ran("matmul", name, "B.npy", "-o", "C.npy") == 0
        expected = widen.matmul(array.astype(array.dtype.newbyteorder("=")), B)
        np.testing.assert_array_equal(np.load("C.npy"), expected)


def test_comments_spaces_nan_and_capitals():
    Path("A.CSV").write_text("# of a run\n 1 , nan\n\n-inf,2e-3\n")
    np.save("I.npy", np.eye(2))
    assert ran("gemm", "I.npy", "I.npy", "A.CSV", "--alpha", "0", "-o", "C.NPZ") == 0
    np.testing.assert_array_equal(np.load("C.NPZ")["C"], [[1, np.nan], [-np.inf, 2e-3]])


def test_an_output_that_fails_leaves_nothing(monkeypatch, folder, capsys):
    Path("C.npz").write_bytes(b"old")

    def full(array, path):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(formats.WRITERS, ".npz", full)
    assert ran("matmul", "A.npy", "B.npy", "-o", "C.npz") == 2
    assert "no space left" in capsys.readouterr().err
    assert Path("C.npz").read_bytes() == b"old"
    assert sorted(x.name for x in folder.iterdir()) == ["A.npy", "B.npy", "C.npz"]


# ── gemm ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("alpha", "beta"), [("1", "1"), ("-1", "0.5"), ("1e-3", "0"), ("2", "-3")])
def test_gemm(alpha, beta, capsys):
    c = np.random.default_rng(3).standard_normal((4, 3))
    np.save("c.npy", c)
    words = ["gemm", "A.npy", "B.npy", "c.npy", "--alpha", alpha, "--beta", beta, "-a", "correct"]
    assert ran(*words, "-o", "D.npy") == 0
    wanted = widen.gemm(A, B, c, alpha=float(alpha), beta=float(beta), accuracy="correct")
    np.testing.assert_array_equal(np.load("D.npy"), wanted)
    assert "wrote   D.npy: 4×3, float64" in capsys.readouterr().out


def test_gemm_of_other_files_and_complex_numbers():
    np.savez("c.npz", c=np.array([1.0, 2.0, 3.0]))
    assert ran("gemm", "A.npy", "B.npy", "c.npz", "-o", "D.mtx") == 0
    words = ["--alpha", "1+2j", "--dtype", "complex128", "-o", "E.npy"]
    assert ran("gemm", "A.npy", "B.npy", "c.npz:c", *words) == 0
    wanted = widen.gemm(A, B, np.array([1.0, 2, 3]), alpha=1 + 2j, beta=1.0, dtype="complex128")
    np.testing.assert_array_equal(np.load("E.npy"), wanted)


@pytest.mark.parametrize(
    ("words", "mention"),
    [
        (["--alpha", "one"], "--alpha one is not a number"),
        (["--beta", "nan"], "not finite"),
        (["--alpha", "1j"], "dtype='complex128'"),
        (["--dtype", "float64x2"], "several words"),
        (["--accuracy", "best"], "best"),
    ],
)
def test_gemm_refuses(words, mention, capsys, folder):
    np.save("c.npy", np.ones((4, 3)))
    assert ran("gemm", "A.npy", "B.npy", "c.npy", "-o", "D.npy", *words) == 2
    assert mention in capsys.readouterr().err
    assert not (folder / "D.npy").exists()


def test_gemm_refuses_what_does_not_broadcast(capsys):
    np.save("c.npy", np.ones((2, 3)))
    assert ran("gemm", "A.npy", "B.npy", "c.npy", "-o", "D.npy") == 2
    assert "c.npy has shape (2, 3), which does not broadcast" in capsys.readouterr().err
