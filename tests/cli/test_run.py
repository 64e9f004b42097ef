"""`widen run`: a script runs as it would under Python, with widen's products, and a log."""

from __future__ import annotations

import subprocess
import sys

import pytest

from widen.cli import main

SCRIPT = """
import sys, torch
a = torch.tensor([[1e16, 1.0, -1e16]], dtype=torch.float64)
b = torch.ones(3, 1, dtype=torch.float64)
print((a @ b).item(), sys.argv, __name__, __file__, sys.path[0])
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT)
    return tmp_path


def test_a_script_multiplies_with_widen(folder, capsys):
    before = sys.argv, sys.path[:], sys.modules["__main__"]
    assert main(["run", "-a", "correct", "script.py", "--epochs", "3", "-x", "--help"]) == 0
    out, err = capsys.readouterr()
    words = ["script.py", "--epochs", "3", "-x", "--help"]
    assert out == f"1.0 {words} __main__ {folder / 'script.py'} {folder}\n"
    assert "widen took over 1 product" in err
    assert "script.py:5  mm" in err
    assert "Nothing was left alone." in err
    assert before == (sys.argv, sys.path[:], sys.modules["__main__"])


def test_a_module(folder, capsys):
    assert main(["run", "--accuracy", "correct", "-m", "script", "word"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"1.0 ['{folder / 'script.py'}', 'word'] __main__")
    assert "widen took over 1 product" in err


def test_options_are_those_of_emulate(folder, capsys):
    words = ["--dtypes", "float32, complex64", "--min-flops", "7", "--fused", "--no-bounds"]
    assert main(["run", *words, "script.py"]) == 0
    assert "dtypes= leaves float64 out" in capsys.readouterr().err


def test_a_log_in_a_file(folder, capsys):
    assert main(["run", "--log", "log.txt", "script.py"]) == 0
    assert capsys.readouterr().err == ""
    assert "widen took over 1 product" in (folder / "log.txt").read_text()


def test_a_log_lies_where_the_script_began(folder, capsys):
    (folder / "script.py").write_text(SCRIPT + "import os; os.mkdir('x'); os.chdir('x')")
    assert main(["run", "--log", "log.txt", "script.py"]) == 0
    assert "widen took over 1 product" in (folder / "log.txt").read_text()


def test_a_log_that_can_no_longer_be_written_is_printed(folder, capsys):
    (folder / "script.py").write_text(
        SCRIPT + "import os; os.remove('log.txt'); os.mkdir('log.txt')"
    )
    assert main(["run", "--log", "log.txt", "script.py"]) == 0
    err = capsys.readouterr().err
    assert "widen: cannot write the log" in err
    assert "widen took over 1 product" in err


@pytest.mark.parametrize(("line", "status"), [("sys.exit(7)", 7), ("sys.exit()", None)])
def test_the_script_s_exit_status(folder, capsys, line, status):
    (folder / "script.py").write_text(SCRIPT + line)
    with pytest.raises(SystemExit) as caught:
        main(["run", "script.py"])
    assert caught.value.code == status
    assert "widen took over 1 product" in capsys.readouterr().err


def test_the_script_s_exceptions_are_shown_as_python_does(folder):
    (folder / "script.py").write_text(SCRIPT + "def f():\n    raise ValueError('wrong')\nf()\n")
    command = [sys.executable, "-m", "widen", "run", "script.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1] == f'  File "{folder / "script.py"}", line 8, in <module>'
    assert "ValueError: wrong" in lines
    assert "widen took over 1 product" in done.stderr


def test_what_was_missed_can_be_an_error(folder, capsys):
    (folder / "script.py").write_text(SCRIPT + "torch.linalg.inv(b @ a[:, :3])\n")
    with pytest.raises(SystemExit) as caught:
        main(["run", "--missed", "raise", "script.py"])
    assert caught.value.code == 1
    assert "MissedProductError: widen.emulate left linalg_inv_ex alone" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "message"), [
    (["nothing.py"], "cannot open script nothing.py: no such file"),
    (["-a", "best", "script.py"], "accuracy='best' is not known"),
    (["--missed", "ignore", "script.py"], "missed='ignore' is not known"),
    ([], "missing argument"),
    (["-m", "nothing.at_all"], "there is no module nothing.at_all: check the name"),
    (["-m", ".script"], "there is no module .script"),
    (["--log", "nowhere/log.txt", "script.py"], "cannot write the log"),
    (["--log", ".", "script.py"], "is a directory; choose another --log"),
])  # fmt: skip
def test_wrong_words(folder, capsys, words, message):
    assert main(["run", *words]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert message in err


def test_without_pytorch(folder):
    """An error of one line, and no traceback."""
    code = "import sys; sys.modules['torch'] = None; from widen.cli import main; sys.exit(main())"
    words = [sys.executable, "-c", code, "run", "script.py"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr == "widen: widen.emulate needs PyTorch: pip install 'widen[torch]'\n"
