"""The programs in examples/ are short and print what they say they print."""

import pytest

import programs
from helpers import slow_except

QUICK = [
    path
    for path in programs.PROGRAMS
    if path.stem in ("eigenvalues", "stiff_system", "training_step")
]


def test_there_are_six():
    assert len(programs.PROGRAMS) == 6


@pytest.mark.parametrize("path", slow_except(QUICK, programs.PROGRAMS), ids=lambda path: path.stem)
def test_it_is_short_and_prints_what_it_says(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) < 80
    assert programs.failure(path) == ""


def test_another_output_is_found(tmp_path):
    path = tmp_path / "program.py"
    path.write_text('"""It adds.\n\nIt prints:\n\n    3\n"""\n\nprint(1 + 1)\n')
    assert "got:\n2" in programs.failure(path)
    path.write_text('"""It fails.\n\nIt prints:\n\n    3\n"""\n\nraise SystemExit(3)\n')
    assert "ended with 3" in programs.failure(path)
