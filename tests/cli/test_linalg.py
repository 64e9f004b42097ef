"""`widen solve` and `widen det`."""

from __future__ import annotations

import io
from contextlib import contextmanager

import numpy as np
import pytest

import widen
from widen.cli import main


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    np.save("A.npy", rng.standard_normal((5, 5)))
    np.save("b.npy", rng.standard_normal(5))
    np.save("S.npy", np.ones((3, 3)))
    np.save("L.npy", rng.standard_normal((20, 20)))  # of smaller ones integers find det at once
    return tmp_path


def test_solve_writes_the_exact_solution(files, capsys):
    assert main(["solve", "A.npy", "b.npy", "-o", "x.npy"]) == 0
    wanted = widen.linalg.solve(np.load("A.npy"), np.load("b.npy"))
    assert (np.load("x.npy") == wanted).all()
    out = capsys.readouterr().out
    assert "every element is the exact solution's, rounded once" in out
    assert "wrote     x.npy: a vector of 5, float64" in out


def test_solve_to_standard_output(files, capfdbinary):
    assert main(["solve", "A.npy", "b.npy", "-o", "-", "--dtype", "float32"]) == 0
    found = np.load(io.BytesIO(capfdbinary.readouterr().out))
    assert found.dtype == np.float32


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["solve", "S.npy", "b.npy", "-o", "x.npy"], "b needs 3 rows"),
        (["solve", "S.npy", "S.npy", "-o", "x.npy"], "a is singular"),
        (["solve", "A.npy", "b.npy", "-o", "x.npy", "--dtype", "float64x2"], "several words"),
        (["det", "b.npy"], "square"),
        (["solve", "A.npy", "no.npy", "-o", "x.npy"], "does not exist"),
    ],
)
def test_errors_are_one_line_and_write_nothing(files, capsys, words, text):
    assert main(words) == 2
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1
    assert not (files / "x.npy").exists()


def test_eig_writes_eigenvalues(files, capsys):
    a = np.load("A.npy")
    np.save("H.npy", a + a.T)
    assert main(["eig", "H.npy", "-o", "w.npy"]) == 0
    assert (np.load("w.npy") == widen.linalg.eigvalsh(a + a.T)).all()
    assert "5 values within their radii, 5 of them the nearest" in capsys.readouterr().out
    assert main(["eig", "A.npy", "-o", "v.npy"]) == 2
    assert "not symmetric" in capsys.readouterr().err


def test_det_prints_a_number(files, capsys):
    assert main(["det", "A.npy"]) == 0
    assert float(capsys.readouterr().out) == widen.linalg.det(np.load("A.npy"))
    assert main(["det", "A.npy", "--dtype", "float64x2"]) == 0
    assert len(capsys.readouterr().out.strip()) > 25
    np.save("batch.npy", np.stack([np.eye(2), np.ones((2, 2))]))
    assert main(["det", "batch.npy"]) == 0
    assert capsys.readouterr().out.split() == ["1.0", "0.0"]


@pytest.mark.parametrize("words", [["solve", "A.npy", "b.npy", "-o", "x.npy"], ["det", "L.npy"],
                                   ["eig", "S.npy", "-o", "w.npy"]])  # fmt: skip
def test_a_bar_shows_how_far_a_command_has_come(files, monkeypatch, words):
    shares = []

    @contextmanager
    def bar(what):
        assert ".npy" in what
        yield shares.append

    monkeypatch.setattr("widen.cli.progress.progress_bar", bar)
    assert main(words) == 0
    assert len(shares) >= 2
    assert shares == sorted(shares)
    assert 0 <= shares[0] < 1
    assert shares[-1] == 1
