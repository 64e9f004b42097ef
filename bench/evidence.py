"""All that a GPU must show before a release, in order, as far as time allows.

    python bench/evidence.py --list          # the steps, and which of them this tree has passed
    python bench/evidence.py --minutes 9     # those that are missing, until nine minutes are over

A step is a command of this repository that can fail. Each leaves a row in
bench/results/evidence.jsonl: the digest of the sources that it ran with, its exit status, its
seconds and the end of what it printed; all of that is in `--logs`. What has passed with the same
sources is not run again, so that several short stays on a GPU add up. `--only` takes those steps
whose names have one of its words, even if they have passed. Steps that do not fit the time that is
left are passed over, and one that takes three times as long as it should is ended.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from widen.cli.results import Row, append, stamped

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "evidence.jsonl"
PROCESSES = max(1, (os.cpu_count() or 2) - 1)
SHARES = f"seq 0 {PROCESSES - 1} | xargs -P {PROCESSES} -I{{}}"
ODD = f"python bench/odd_sizes.py --first {{}} --every {PROCESSES}"


@dataclass(frozen=True)
class Step:
    """A command, and the seconds that it takes on an H200 with 16 cores, kernels compiled."""

    name: str
    command: str
    seconds: float


STEPS = (
    Step("units", "python -m widen units --device cuda", 30),
    Step("first calls", "python bench/first_call.py --device cuda --check", 150),
    Step(
        "tests",
        f"python -m pytest -q -n {PROCESSES} --dist worksteal -m 'gpu or device' tests",
        300,
    ),
    Step("speed", "python bench/gpu.py", 170),
    Step("hard data, float64", "python bench/hard.py --device cuda --formats float64", 150),
    Step("shapes", "python bench/shapes.py --device cuda --check", 90),
    Step("linear algebra", "python bench/linalg_gpu.py --check", 90),
    Step("host memory", "python bench/host_memory.py", 60),
    Step("words", "python bench/words_gpu.py", 60),
    Step("soak", f"python bench/soak.py --cases 2000 --processes {PROCESSES}", 200),
    Step("odd sizes", f"python bench/odd_sizes.py --processes {PROCESSES}", 60),
    *(
        Step(
            tool,
            f"{SHARES} compute-sanitizer --tool {tool} --report-api-errors no "
            f"--error-exitcode 1 {ODD}",
            120,
        )
        for tool in ("memcheck", "racecheck")
    ),
    Step("soak, hard data", f"python bench/soak.py --families hard --processes {PROCESSES}", 550),
    Step("hard data", "python bench/hard.py --device cuda", 500),
    Step("stages", "python bench/stages.py", 60),
    Step("gradients", "python bench/gradients.py", 30),
    Step("a transformer", "python bench/programs.py transformer --device cuda", 60),
    Step("places", "python bench/places.py --device cuda", 30),
)


def digest(folders: Iterable[str] = ("src", "tests", "bench")) -> str:
    """Sources by their content: twelve digits of the SHA-256 of all Python and CUDA files."""
    made = hashlib.sha256()
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".cu", ".cuh") and "__pycache__" not in path.parts:
                text = path.read_bytes()
                made.update(f"{path.relative_to(ROOT)} {len(text)}\n".encode() + text)
    return made.hexdigest()[:12]


def passed(rows: Path, sources: str) -> dict[str, float]:
    """Seconds of the steps that have passed with these sources, by name."""
    lines = rows.read_text().splitlines() if rows.exists() else []
    found = [json.loads(line) for line in lines]
    return {x["step"]: x["seconds"] for x in found if x["sources"] == sources and x["status"] == 0}


def run(step: Step, log: Path, limit: float) -> tuple[int, float]:
    """Run a step, its output in a file, no longer than a limit; give its status and seconds."""
    start = time.monotonic()
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = step.command.replace("python ", f"{sys.executable} ")
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", "-o", "pipefail", "-c", command], cwd=ROOT, env=environment,
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = 124
    return status, time.monotonic() - start


def main() -> int:
    """Run what is missing; the exit status is 1 if a step failed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--list", action="store_true", help="print the steps, and run none")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--only", nargs="+", metavar="WORD")
    parser.add_argument("--logs", type=Path, default=ROOT / "build" / "evidence")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE.jsonl")
    arguments = parser.parse_args()
    sources, start = digest(), time.monotonic()
    done = passed(arguments.results, sources)
    if arguments.list:
        for step in STEPS:
            took = f"passed in {done[step.name]:.0f} s" if step.name in done else "missing"
            print(f"{step.name:20} {took:18} about {step.seconds:3.0f} s   {step.command}")
        return 0
    from widen.cli.machines import machine

    facts, failed = machine("cuda").facts(), 0
    arguments.logs.mkdir(parents=True, exist_ok=True)
    for step in STEPS:
        chosen = arguments.only and any(word in step.name for word in arguments.only)
        left = 60 * arguments.minutes - (time.monotonic() - start)
        if (arguments.only and not chosen) or (step.name in done and not chosen):
            continue
        if left < step.seconds:
            print(f"{step.name:20} not run: {left:.0f} s are left of about {step.seconds:.0f}")
            continue
        log = arguments.logs / f"{step.name.replace(' ', '_').replace(',', '')}.log"
        status, seconds = run(step, log, min(left, 3 * step.seconds))
        lines = log.read_text(errors="replace").splitlines()[-5:]
        row: Row = {
            "step": step.name,
            "command": step.command,
            "sources": sources,
            "status": status,
        }
        row |= {"seconds": seconds, "end": lines}
        append(arguments.results, stamped(row, facts, time.monotonic() - start))
        print(f"{step.name:20} status {status}, {seconds:.0f} s: {log}", *lines, sep="\n    ")
        failed += status != 0
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
