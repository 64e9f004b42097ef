"""bench/evidence.py: its commands exist, what failed is told, what has passed is not run again."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import time
from types import SimpleNamespace

import pytest

from helpers import ROOT
from widen.cli import machines

spec = importlib.util.spec_from_file_location("evidence", ROOT / "bench" / "evidence.py")
evidence = importlib.util.module_from_spec(spec)
sys.modules["evidence"] = evidence  # which its dataclass asks for
spec.loader.exec_module(evidence)


@pytest.mark.parametrize("step", evidence.STEPS, ids=lambda step: step.name)
def test_a_step_is_a_command_that_there_is(step):
    scripts = [ROOT / path for path in re.findall(r"python (bench/\w+\.py)", step.command)]
    for script in scripts:
        text = script.read_text()
        for option in re.findall(r" (--[\w-]+)", step.command.partition(script.name)[2]):
            assert f'"{option}"' in text, (script.name, option)
    assert scripts or "python -m " in step.command
    assert [other.name for other in evidence.STEPS].count(step.name) == 1


def test_sources_are_told_by_their_content(tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "ROOT", tmp_path)
    (tmp_path / "src").mkdir()
    seen = [evidence.digest()]
    for name, text in (("a.py", ""), ("a.py", "1"), ("b.py", "1"), ("c.txt", "1")):
        (tmp_path / "src" / name).write_text(text)
        seen.append(evidence.digest())
    assert len(set(seen)) == 4
    assert seen[3] == seen[4], "no source"


def test_what_takes_too_long_is_ended_with_all_that_it_started(tmp_path):
    start, mark = time.monotonic(), tmp_path / "mark"
    step = evidence.Step("long", f"(sleep 30; touch {mark}) | cat", 1)
    status, seconds = evidence.run(step, tmp_path / "log", 0.3)
    assert status == 124
    assert 0.3 <= seconds <= time.monotonic() - start < 25
    failing = evidence.Step("failing", "python -c 'print(7); raise SystemExit(3)' | cat", 1)
    assert evidence.run(failing, tmp_path / "log", 30)[0] == 3
    assert (tmp_path / "log").read_text() == "7\n"


def test_what_has_passed_is_not_run_again(tmp_path, monkeypatch, capsys):
    steps = (
        evidence.Step("good", "echo well", 1),
        evidence.Step("bad", "echo oh; exit 2", 1),
        evidence.Step("endless", "sleep 100000", 100000),
    )
    monkeypatch.setattr(evidence, "STEPS", steps)
    monkeypatch.setattr(machines, "machine", lambda device: SimpleNamespace(facts=dict))
    rows = tmp_path / "rows.jsonl"

    def ran(*words):
        before = len(rows.read_text().splitlines()) if rows.exists() else 0
        given = ["evidence", "--results", str(rows), "--logs", str(tmp_path), "--minutes", "5"]
        monkeypatch.setattr(sys, "argv", [*given, *words])
        status = evidence.main()
        lines = rows.read_text().splitlines()[before:]
        return status, [(row["step"], row["status"]) for row in map(json.loads, lines)]

    assert ran() == (1, [("good", 0), ("bad", 2)])
    assert "endless" in capsys.readouterr().out, "what does not fit is told"
    assert ran() == (1, [("bad", 2)])
    assert ran("--only", "good") == (0, [("good", 0)])
    assert ran("--list") == (0, [])
    assert "good                 passed in" in capsys.readouterr().out
    monkeypatch.setattr(evidence, "digest", lambda: "others")
    assert ran() == (1, [("good", 0), ("bad", 2)])
