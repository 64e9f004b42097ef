"""What the README shows runs as it stands."""

import re
from pathlib import Path

import numpy as np

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def test_the_examples_run():
    first, second, third = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names = {}
    exec(first, names)
    assert names["c"].shape == (500, 400)
    assert names["info"].bound.shape == (500, 400)
    exec(second, names)
    assert names["p"].contract.correct
    assert names["r"].shape == (500,)
    for line, wanted in zip(third.splitlines()[2:], ["[[0.]]", "[[0.1]]"], strict=False):
        exec("\n".join(third.splitlines()[:2]), names)
        found = eval(line.split("#")[0].removeprefix("c = "), names)
        assert str(found) == wanted
        assert wanted in line
    exec(third, names)
    assert names["c"].tolist() == [[0.1]]


def test_the_sample_of_info_has_the_lines_it_prints_today():
    import widen

    a = np.linspace(0.1, 1, 64).reshape(8, 8)
    printed = str(widen.matmul(a, a, info=True)[1])
    sample = README.split("## How to read `info`")[1].split("```")[1]
    words = [re.findall(r"^  (\w+)", text, re.MULTILINE) for text in (sample, printed)]
    assert set(words[0]) == set(words[1])


def test_the_commands_exist():
    makefile = (Path(__file__).parent.parent / "Makefile").read_text(encoding="utf-8")
    for command in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert re.search(rf"^{command}:", makefile, re.MULTILINE), command
