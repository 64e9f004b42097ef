"""The files that one product walks through: `python bench/walk.py --device cpu`.

Prints a table of the steps of one float64 `widen.matmul`, contract "standard", all kernels compiled
before: for each step the files of `src/widen` whose functions it enters first, and the kernels that
it launches. The last line counts files. This is the table of docs/architecture.md.

`--device cuda` prints two walks: the first call of a kind, which goes through the stages and is
recorded, and the next one, which repeats the recorded launches. `--device interpreter` is the first
of these without a GPU: the same call in Triton's interpreter, with small matrices.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

if "interpreter" in sys.argv or "--device=interpreter" in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported

import numpy as np

import widen

ROOT = Path(widen.__file__).parent
VERBS = ("quantise", "certify", "encode", "multiply", "reconstruct", "repair")


class Walk:
    """Functions entered and kernels launched, by step, in the order in which they come first."""

    def __init__(self) -> None:
        self.steps: dict[str, dict[str, list[str]]] = {}
        self.kernels: dict[str, list[str]] = {}
        self._seen: set[tuple[str, str]] = set()
        self._verbs: list[str] = []
        self._running = False

    @property
    def step(self) -> str:
        """Where the walk is: before the stages, in one of them, or between two."""
        if self._verbs:
            return self._verbs[-1]
        return "between stages" if self._running else "call"

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """What `sys.setprofile` calls."""
        path = frame.f_code.co_filename
        if event not in ("call", "return") or not path.startswith(str(ROOT)):
            return
        place, name = Path(path).relative_to(ROOT).as_posix(), frame.f_code.co_qualname
        entered = event == "call"
        if place == "stages/run.py" and name == "run":
            self._running = entered
        is_verb = place.endswith("stages.py") and name.rpartition(".")[2] in VERBS
        if is_verb and entered:
            self._verbs.append(name.rpartition(".")[2])
        if entered:
            self._enter(place, name)
            for value in list(frame.f_locals.values()):
                self._launch(value)
        if is_verb and not entered:
            self._verbs.pop()

    def _enter(self, place: str, name: str) -> None:
        if "/kernels/triton/" in f"/{place}" or (place, name) in self._seen:
            return  # the interpreter enters kernels, a GPU does not
        if name.rpartition(".")[2].startswith(("<", "__")):
            return  # a comprehension, a lambda: part of the function around it
        self._seen.add((place, name))
        self.steps.setdefault(self.step, {}).setdefault(place, []).append(name)

    def _launch(self, value: Any) -> None:
        """Note a kernel that a function is given: Numba's, Triton's, or the name of Numba's."""
        function = None
        if type(value).__module__.startswith(("numba.", "triton.", "widen.cpu.kernels.")):
            function = getattr(value, "py_func", None) or getattr(value, "fn", None)
        module = getattr(function, "__module__", None)
        if isinstance(value, str) and value.count(".") == 1:
            file, _, name = value.partition(".")
            if file.isidentifier() and (ROOT / "cpu" / "kernels" / f"{file}.py").exists():
                self._note(f"cpu/kernels/{file}.py", name)
        elif function is not None and module and re.match(r"widen\..*\bkernels\.", module):
            place = module.removeprefix("widen.").replace(".", "/") + ".py"
            self._note(place, function.__name__)

    def _note(self, place: str, name: str) -> None:
        if (place, name) not in self._seen:
            self._seen.add((place, name))
            self.kernels.setdefault(self.step, []).append(f"{place}: {name}")

    def print(self, title: str) -> None:
        """A table, and how many files."""
        print(f"\n{title}\n\n| step | file: functions | kernels |\n| --- | --- | --- |")
        for step, files in self.steps.items():
            host = "<br>".join(f"{place}: {', '.join(names)}" for place, names in files.items())
            print(f"| {step} | {host} | {'<br>'.join(self.kernels.get(step, []))} |")
        host = {place for files in self.steps.values() for place in files}
        kernels = {each.partition(":")[0] for some in self.kernels.values() for each in some}
        kernels |= {place for place in host if "/kernels/" in f"/{place}"}
        print(f"\n{len(host - kernels)} files, and {len(kernels)} files of kernels")


def walk(a: Any, b: Any, **options: Any) -> Walk:
    """The walk of one product."""
    found = Walk()
    threading.setprofile(found)
    sys.setprofile(found)
    try:
        widen.matmul(a, b, **options)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return found


def pretend() -> None:
    """Send tensors on a CPU the way of those on a GPU, whose kernels the interpreter runs."""
    import torch

    from widen.calls import check, dispatch
    from widen.gpu import products, tiles

    products.check_unit = lambda unit, place=None: None
    dispatch.check_out = lambda out, call, place: None
    torch.cuda.device = lambda device: nullcontext()  # type: ignore[assignment, misc]
    check.library = lambda **given: "cuda"
    tiles.SMALL = 0  # the kernels that larger products have


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", choices=["cpu", "cuda", "interpreter"], default="cpu")
    given = parser.parse_args()
    # More than 64 rows: smaller matrices have kernels of their own.
    m, k, n = (72, 16, 8) if given.device == "interpreter" else (1000, 1000, 1000)
    rng = np.random.default_rng(1)
    a, b = rng.random((m, k)), rng.random((k, n))
    shape = f"float64, {m} x {k} x {n}"
    if given.device == "cpu":
        widen.matmul(a, b)
        walk(a, b).print(f"{shape}, NumPy arrays")
        return
    import torch

    options: dict[str, Any] = {}
    place = given.device
    if given.device == "interpreter":
        pretend()
        place, options["workspace"] = "cpu", "1GB"
    a, b = torch.from_numpy(a).to(place), torch.from_numpy(b).to(place)
    widen.matmul(a, b, out=a.new_empty(m, n), **options)  # compiles; it is of another kind
    walk(a, b, **options).print(f"{shape}, tensors, {given.device}: first call")
    if place == "cuda":
        walk(a, b).print("the next call of this kind")


if __name__ == "__main__":
    main()
