"""How long first calls take: `python bench/first_call.py --device cpu` (or cuda).

Every measurement is a new process; all but those of a warm disk begin with empty caches.

- Nine kinds of calls, one after the other in one process: seconds until the result, CPU seconds,
  and the seconds of the same call repeated. NumPy or PyTorch has multiplied before.
- New processes with a warm disk: what their first call takes beyond a repeated one, the median.
- 4,000 random products, sizes from 32 to 700, three contracts.
- `--together 20` instead: so many processes that start at once, and so many threads of one process,
  with empty caches. Their CPU seconds show whether they do the same work twice; it fails unless all
  results are the same.

The table goes to bench/results/first-call-<device>.md. With `--check` the command fails if a limit
is passed (`LIMITS`). Seconds on a busy machine say little: CPU seconds, with those of the processes
that compile, and the load are given too.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
SIZES = (32, 64, 100, 128, 256, 500, 640, 700)
CONTRACTS = ("fast", "standard", "correct")

WARM = 5
"""New processes with a warm disk."""

# name, shape (batch or none, m = k = n), dtype, options of the call, phi of the data
KINDS: list[tuple[str, tuple[int, ...], str, dict[str, str], float]] = [
    ("float64 1000³", (1000, 1000), "float64", {}, 0.1),
    ('"correct"', (1000, 1000), "float64", {"accuracy": "correct"}, 0.1),
    ("float32", (1000, 1000), "float32", {}, 0.1),
    ("float64 999³", (999, 999), "float64", {}, 0.1),
    ("100³", (100, 100), "float64", {}, 0.1),
    ("float64x2", (1000, 1000), "float64", {"dtype": "float64x2"}, 0.1),
    ("complex128", (1000, 1000), "complex128", {}, 0.1),
    ("100 × 64³", (100, 64, 64), "float64", {}, 0.1),
    ("wide-ranging data", (1000, 1000), "float64", {}, 20.0),
]

# Seconds: the first kind; further ones and a warm disk, beyond a repeated call; random products.
LIMITS = {
    "cpu": {"first": 8.0, "further": 8.0, "warm": 0.3, "random": None},
    "cuda": {"first": 6.0, "further": 3.0, "warm": 0.3, "random": 40.0},
    "cuda, from a wheel": {"first": 1.5, "further": 0.5, "warm": 0.3, "random": 10.0},
}


# ── in a new process ─────────────────────────────────────────────────────────


class Clock:
    """Seconds, and CPU seconds with those of processes that have ended."""

    def __init__(self, device: str) -> None:
        self.device = device

    def time(self, call: Any) -> dict[str, float]:
        """How long a call takes, until its result is there."""
        started, before = time.perf_counter(), sum(os.times()[:4])
        call()
        if self.device != "cpu":
            import torch

            torch.cuda.synchronize()
        cpu = sum(os.times()[:4]) - before
        return {"seconds": time.perf_counter() - started, "cpu": cpu}


def compiling() -> float:
    """Seconds that this process has waited for compilers."""
    from widen.stages.compiling.notices import CPU, CUDA, GPU

    return CPU.seconds + GPU.seconds + CUDA.seconds


def wait_for_workers() -> None:
    """Wait for the processes that compile, so that their CPU seconds are counted."""
    for thread in threading.enumerate():
        if thread.name == "widen worker":
            thread.join()


def measure_kinds(device: str, chosen: list[str]) -> dict[str, Any]:
    """Kinds of calls one after the other; the device is up and NumPy or PyTorch has multiplied."""
    begun = time.perf_counter()
    import widen
    from widen.cli.machines import machine

    imported = time.perf_counter() - begun
    where, clock, rows = machine(device), Clock(device), []
    for name, shape, dtype, options, phi in KINDS:
        if name not in chosen:
            continue
        generator = where.generator(len(rows))
        a, b = (where.random(generator, shape, dtype, phi) for _ in range(2))
        clock.time(lambda a=a, b=b: a @ b)
        taken = compiling()
        row = clock.time(lambda a=a, b=b, options=options: widen.matmul(a, b, **options))
        row["compiling"] = compiling() - taken
        before = sum(os.times()[:4])
        wait_for_workers()
        row["cpu"] += sum(os.times()[:4]) - before
        again = [clock.time(lambda a=a, b=b, options=options: widen.matmul(a, b, **options))
                 for _ in range(3)]  # fmt: skip
        rows.append({"name": name, **row, "again": min(x["seconds"] for x in again)})
    return {"import": imported, "rows": rows, "facts": where.facts()}


def measure_random(device: str, count: int) -> dict[str, Any]:
    """Random products of random sizes under random contracts."""
    import numpy as np

    import widen
    from widen.cli.machines import machine

    where, rng, clock = machine(device), np.random.default_rng(0), Clock(device)
    generator = where.generator(0)
    matrix = where.random(generator, (max(SIZES), max(SIZES)), "float64", 0.1)

    def call() -> None:
        for _ in range(count):
            m, k, n = (int(x) for x in rng.choice(SIZES, 3))
            accuracy = str(rng.choice(CONTRACTS))
            widen.matmul(matrix[:m, :k], matrix[:k, :n], accuracy=accuracy)

    row = clock.time(call)
    return {**row, "count": count, "compiling": compiling(), "facts": where.facts()}


def measure_threads(device: str, count: int) -> dict[str, Any]:
    """The first product of this process, asked for by so many threads at once."""
    import numpy as np

    import widen
    from widen.cli.machines import machine

    where = machine(device)
    _, shape, dtype, options, phi = KINDS[0]
    generator = where.generator(0)
    a, b = (where.random(generator, shape, dtype, phi) for _ in range(2))
    results: list[Any] = [None] * count
    ready = threading.Barrier(count)

    def work(at: int) -> None:
        ready.wait()
        results[at] = widen.matmul(a, b, **options)

    def call() -> None:
        threads = [threading.Thread(target=work, args=(at,)) for at in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    row = Clock(device).time(call)
    wait_for_workers()
    hosts = [x if isinstance(x, np.ndarray) else x.cpu().numpy() for x in results]
    digests = {hashlib.sha256(x.tobytes()).hexdigest() for x in hosts}
    return {"seconds": row["seconds"], "cpu": sum(os.times()[:4]), "digests": sorted(digests)}


# ── processes, tables and rules ──────────────────────────────────────────────


def in_a_new_process(caches: str, *words: str) -> dict[str, Any]:
    """What this script measures with these words in a process with its caches in one folder."""
    return in_new_processes(caches, 1, *words)[0]


def in_new_processes(caches: str, count: int, *words: str) -> list[dict[str, Any]]:
    """The same in several processes that start at once."""
    folders = {
        "NUMBA_CACHE_DIR": "numba", "TRITON_CACHE_DIR": "triton", "CUDA_CACHE_PATH": "cuda",
        "XDG_CACHE_HOME": "cache", "HOME": "home",
    }  # fmt: skip
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what is warm has Python's own files too
    for name, folder in folders.items():
        path = Path(caches, folder)
        path.mkdir(exist_ok=True)
        environment[name] = str(path)
    command = [sys.executable, __file__, *words]
    started = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    texts = [process.communicate()[0] for process in started]
    for process in started:
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
    return [json.loads(text.splitlines()[-1]) for text in texts]


def measure_together(device: str, count: int) -> tuple[str, bool]:
    """First calls at once, as a table; whether all results are the same."""
    rows, digests = [], set()
    for name, processes, threads in (
        ("one process", 1, 1),
        (f"{count} processes", count, 1),
        (f"{count} threads of a process", 1, count),
    ):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as caches:
            for disk in ("empty", "warm"):
                words = ("--device", device, "--threads", str(threads))
                found = in_new_processes(caches, processes, *words)
                digests |= {digest for row in found for digest in row["digests"]}
                seconds, cpu = max(x["seconds"] for x in found), sum(x["cpu"] for x in found)
                rows.append(f"| {name} | {disk} | {seconds:.2f} | {cpu:.1f} |")
    lines = [
        f"{KINDS[0][0]} at once; CPU seconds are those of whole processes, imports too "
        f"(`python bench/first_call.py --device {device} --together {count}`, "
        f"{datetime.now(UTC).date()}, {os.cpu_count()} cores). SHA-256 of all results: "
        f"{', '.join(digest[:16] for digest in sorted(digests))}.", "",
        "| | disk | seconds until the last result | CPU seconds |", "| --- | --- | --- | --- |",
    ]  # fmt: skip
    return "\n".join([*lines, *rows]) + "\n", len(digests) == 1


def measure(device: str, count: int) -> dict[str, Any]:
    """All measurements."""
    names = [kind[0] for kind in KINDS]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as caches:
        kinds = in_a_new_process(caches, "--device", device, "--kinds", *names)
        warm = [
            in_a_new_process(caches, "--device", device, "--kinds", names[0])["rows"][0]
            for _ in range(WARM)
        ]
    found = {"kinds": kinds, "warm": warm, "facts": kinds["facts"]}
    if count:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as caches:
            found["random"] = in_a_new_process(
                caches, "--device", device, "--random", str(count), "--child"
            )
    return found


def beyond(rows: list[dict[str, float]]) -> list[float]:
    """What first calls took beyond repeated ones, shortest first."""
    return sorted(row["seconds"] - row["again"] for row in rows)


def broken(found: dict[str, Any], limits: dict[str, float | None]) -> list[str]:
    """The limits that are passed, one line each."""
    rows = found["kinds"]["rows"]
    pairs = [(f"the first call ({rows[0]['name']})", rows[0]["seconds"], limits["first"])]
    pairs += [
        (f"{row['name']}, beyond a repeated call", row["seconds"] - row["again"], limits["further"])
        for row in rows[1:]
    ]
    pairs.append(("a warm disk", statistics.median(beyond(found["warm"])), limits["warm"]))
    if "random" in found:
        pairs.append(("random products", found["random"]["seconds"], limits["random"]))
    return [
        f"{name}: {seconds:.2f} s, at most {limit} s"
        for name, seconds, limit in pairs
        if limit is not None and seconds > limit
    ]


def table(found: dict[str, Any], device: str) -> str:
    """The results as a page."""
    kinds, warm = found["kinds"], beyond(found["warm"])
    facts = dict(found["facts"], numba=importlib.metadata.version("numba"))
    machine = ", ".join(f"{name} {value}" for name, value in facts.items() if name != "machine")
    lines = [
        f"# First calls: {device}", "",
        f"{facts['machine']}, {os.cpu_count()} cores, {machine}; "
        f"{datetime.now(UTC).date()}, load {os.getloadavg()[0]:.1f} at the end. "
        f"`python bench/first_call.py --device {device}`.", "",
        "Empty caches, one process, one kind after the other. CPU seconds include the processes "
        "that compile.", "",
        "| kind | seconds | CPU seconds | seconds waiting for compilers | repeated |",
        "| --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    lines += [
        f"| {row['name']} | {row['seconds']:.2f} | {row['cpu']:.2f} | {row['compiling']:.2f} "
        f"| {row['again']:.3f} |"
        for row in kinds["rows"]
    ]
    lines += ["", f"`import widen` took {kinds['import']:.2f} s before that."]
    lines.append(
        f"The first kind in a new process, warm disk: {statistics.median(warm):.2f} s beyond a "
        f"repeated call, median of {len(warm)} ({warm[0]:.2f} to {warm[-1]:.2f})."
    )
    if "random" in found:
        row = found["random"]
        lines.append(
            f"{row['count']} random products, empty caches: {row['seconds']:.1f} s "
            f"({row['cpu']:.1f} CPU seconds), {row['compiling']:.1f} s waiting for compilers."
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure, or with words of its own be one of the processes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--wheel", action="store_true", help="the limits of an installed wheel")
    parser.add_argument("--check", action="store_true", help="fail if a limit is passed")
    parser.add_argument("--no-save", action="store_true", help="print, and write no file")
    parser.add_argument("--random", type=int, default=4000, help="random products; 0 for none")
    parser.add_argument("--together", type=int, help="first calls at once; writes no file")
    parser.add_argument("--threads", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--kinds", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.kinds is not None:
        print(json.dumps(measure_kinds(asked.device, asked.kinds)))
        return 0
    if asked.threads is not None:
        print(json.dumps(measure_threads(asked.device, asked.threads)))
        return 0
    if asked.together is not None:
        page, same = measure_together(asked.device, asked.together)
        print(page)
        return 0 if same else 1
    if asked.child:
        print(json.dumps(measure_random(asked.device, asked.random)))
        return 0
    found = measure(asked.device, asked.random)
    page = table(found, asked.device)
    print(page)
    if not asked.no_save:
        (RESULTS / f"first-call-{asked.device}.md").write_text(page, encoding="utf-8")
    wrong = broken(found, LIMITS["cuda, from a wheel" if asked.wheel else asked.device])
    for line in wrong:
        print(f"too slow: {line}", file=sys.stderr)
    return 1 if wrong and asked.check else 0


if __name__ == "__main__":
    sys.exit(main())
