"""What happens when processes do not do the same: clear errors everywhere, no hang, no result."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from pathlib import Path

import pytest

import failing_cases as cases
from ranks import ranks

TIMEOUT = 30.0
"""Seconds after which a process gives up; one that stops is mostly noticed sooner."""
SAID = r"did not answer during '[a-z -]+'.*all processes still run"


def check_others(answers, stopped):
    """All but the one that stopped have a clear error, in time, and wrote nothing."""
    assert answers[stopped] == (None, "stopped")
    for rank, (good, value) in enumerate(answers):
        if rank == stopped:
            continue
        assert good, value
        text, untouched, seconds = value
        assert re.search(SAID, text), text
        assert untouched
        assert seconds < TIMEOUT + 10


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("accuracy", "rank 0: .*standard.*rank 1: .*correct"),
        ("dtype", "rank 0: .*result float64.*rank 1: .*result float32"),
        ("operands", r"rank 0: .*b \(8, 5\) float64.*rank 1: .*b \(8, 5\) float32"),
        ("shapes", r"rank 0: .*b \(8, 5\).*rank 1: .*b \(8, 3\)"),
        ("error", "foolish"),
        ("placements", r"rank 0: .*Replicate.*rank 1: .*Shard"),
    ],
)
def test_products_that_send_nothing_are_compared_if_asked_for(four, name, said):
    four.start(cases.differs_locally, name)
    answers = [answer for answer in four.answers() if answer != (True, None)]
    assert len(answers) == 2
    for good, value in answers:
        assert good is False
        assert value[0] in ("MismatchError", "ValueError")
        assert re.search(said, value[1], re.DOTALL), value[1]


def test_comparing_takes_one_small_message(four):
    before, sent = next(x for x in four.run(cases.same_locally) if x is not None)
    assert before == {}
    assert sent == {"agree": 40}


def test_a_process_that_dies_is_an_error_everywhere_else():
    with ranks(3, TIMEOUT) as three:
        three.start(cases.dies_at, "inner", "exact parts")
        check_others(three.answers(150), 1)


# ── the rest, slow ───────────────────────────────────────────────────────────


STEPS = {
    "inner": ["agree", "scales", "layout", "exact parts", "repair"],
    "gathered": ["agree", "right operand"],
    "solved": ["agree", "matrix", "rows", "right-hand sides"],
    "summed": ["agree", "counts", "terms", "sums"],
}
"""What a call does with others, in order."""


@pytest.mark.slow
def test_steps_are_all_there_are():
    with ranks(3, TIMEOUT) as three:
        for name, steps in STEPS.items():
            for found in three.run(cases.collectives, name):
                assert [*dict.fromkeys(found)] == steps


@pytest.mark.slow
@pytest.mark.parametrize(("name", "step"), [(n, s) for n, steps in STEPS.items() for s in steps])
def test_a_process_that_dies_at_any_step(name, step):
    with ranks(3, TIMEOUT) as three:
        three.start(cases.dies_at, name, step)
        check_others(three.answers(150), 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_process_that_is_killed_at_a_random_moment(seed, tmp_path):
    rng = random.Random(seed)
    name, victim = rng.choice([*cases.CALLS]), rng.randrange(3)
    ready = tmp_path / "ready"
    with ranks(3, TIMEOUT) as three:
        three.start(cases.forever, name, str(ready))
        mark, deadline = Path(f"{ready}.{victim}"), time.monotonic() + 120
        while not (mark.exists() and mark.read_text()) and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.3))
        os.kill(three.processes[victim].pid, signal.SIGKILL)
        check_others(three.answers(150), victim)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["inner", "solved"])
def test_a_process_that_raises_in_the_middle(name):
    with ranks(3, timeout=6) as three:
        three.start(cases.raises_in_the_middle, name)
        answers = three.answers(60)
    assert [value[1] for _, value in answers] == [True] * 3
    assert answers[1][1][0] == "none left"
    for rank in (0, 2):
        text, _, seconds = answers[rank][1]
        assert re.search(SAID, text), text
        assert seconds < 16


@pytest.mark.slow
def test_a_process_that_is_late_is_an_error_within_the_timeout():
    with ranks(2, timeout=6) as two:
        two.start(cases.one_sleeps, 15)
        answers = two.answers(60)
    for good, (text, untouched, _) in answers:
        assert good
        assert "did not answer" in text
        assert untouched
    assert answers[0][1][2] < 12
