"""The programs in examples/ are short and print what they say they print.

`make test` runs one, `make test-slow` the others, and `make docs` all.
"""

import pytest

import programs

QUICK = "stiff_system"


def test_there_are_six_and_they_are_short():
    assert len(programs.PROGRAMS) == 6
    for path in programs.PROGRAMS:
        assert len(path.read_text(encoding="utf-8").splitlines()) < 80, path


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[] if path.stem == QUICK else pytest.mark.slow, id=path.stem)
        for path in programs.PROGRAMS
    ],
)
def test_it_prints_what_it_says(path):
    assert programs.failure(path) == ""


def test_another_output_is_found(tmp_path):
    path = tmp_path / "program.py"
    path.write_text('"""It adds.\n\nIt prints:\n\n    3\n"""\n\nprint(1 + 1)\n')
    assert "got:\n2" in programs.failure(path)
    path.write_text('"""It fails.\n\nIt prints:\n\n    3\n"""\n\nraise SystemExit(3)\n')
    assert "ended with 3" in programs.failure(path)
