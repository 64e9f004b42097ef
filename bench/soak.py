"""Random products, GPU = CPU = definition, bit for bit: `python bench/soak.py --cases 4000`.

Every format meets every contract and every family: those of `families.py` (`--families hard`), of
`widen.testing` (`usual`), or `all`. Shapes, batches and strides are drawn from a seed and the
case's number, so that any case can be repeated (`--first 417 --cases 1`). Some are large enough for
the kernels that are compiled for one layout and one list of moduli. Every product is computed again
with its lines in another order, by launches that were recorded if they were; half of all cases in
inference mode, and half with no number of open elements too small for a second pass. A few rows and
columns of every CPU result are compared with the definition: bits of an element depend on its row
and column alone.

Several processes share the GPU: most of the time is the CPU's, and the compiler's where kernels are
new. A line says how far it is; the last ones say how many cases there were of each family, format
and contract, and how many differ. Without a GPU, `--device interpreter` runs its kernels in
Triton's interpreter, on small matrices, and `--device cpu` compares the CPU with the definition.
"""

from __future__ import annotations

import argparse
import faulthandler
import math
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

import numpy as np

from families import FAMILIES as HARD

FORMATS = (
    "float64", "float32", "complex128", "float16", "complex64", "float64x2", "float32x3",
    "complex128x2", "float64x4",
)  # fmt: skip
ACCURACIES = ("standard", "correct", "fast", 45, 20)
LAYOUTS = ("plain", "transposed", "stepped", "offset")
SIZES = {"cuda": (1, 90), "cpu": (1, 90), "interpreter": (1, 5)}
LARGE_SIZES, LARGE = (360, 620), 0.05
"""Of shapes, those of large ones, and how many are large where kernels are not interpreted."""

DEFINED = 3
"""Rows, and columns, whose elements are compared with the definition."""

BATCHES = ((), ()), ((3,), ()), ((), (2,)), ((2,), (2,)), ((2, 1), (3,)), ((1, 2), (2, 1))
BATCHED = 0.3
"""Axes before the matrices of either operand, and how many of the others have some."""

Operand = Any  # an array or Words


@dataclass(frozen=True)
class Case:
    """One product: neighbours differ in format and contract, so that processes compile apart."""

    seed: int
    number: int
    families: str
    device: str

    @property
    def table(self) -> dict[str, Any]:
        """The families that cases are of; both tables have one that is graded against."""
        import widen.testing as wt

        usual = {f"usual {name}": family for name, family in wt.FAMILIES.items()}
        return {"usual": usual, "hard": HARD, "all": usual | HARD}[self.families]

    @property
    def kind(self) -> tuple[str, str | int, str]:
        """Format, contract and family: all of them, one after the other."""
        turn, at = divmod(self.number, len(FORMATS) * len(ACCURACIES))
        family = list(self.table)[(turn + at) % len(self.table)]
        return FORMATS[at % len(FORMATS)], ACCURACIES[at // len(FORMATS)], family

    def draw(self) -> tuple[dict[str, Any], Operand, Operand]:
        """What it is called, and its operands."""
        import widen.testing as wt

        rng = np.random.default_rng([self.seed, self.number])
        name, accuracy, family = self.kind
        sizes = SIZES[self.device]
        if self.device != "interpreter" and rng.random() < LARGE:
            sizes = LARGE_SIZES
        m, k, n = (int(size) for size in rng.integers(*sizes, 3))
        layouts = [LAYOUTS[int(rng.integers(len(LAYOUTS)))] for _ in range(2)]
        batches = BATCHES[0]
        if sizes != LARGE_SIZES and rng.random() < BATCHED:
            few = 4 if self.device == "interpreter" else len(BATCHES)
            batches = BATCHES[int(rng.integers(1, few))]

        def pair() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
            if name.startswith("complex"):
                return wt.complex_pair(self.table[family], rng, m, k, n)
            return self.table[family].make(rng, m, k, n)

        items = [pair() for _ in range(max(math.prod(batch) for batch in batches))]
        operands = []
        for side, batch in enumerate(batches):
            matrices = np.stack([item[side] for item in items[: math.prod(batch)]])
            with np.errstate(all="ignore"):
                operands.append(in_format(rng, matrices.reshape(*batch, *matrices.shape[1:]), name))
        said = {"case": self.number, "format": name, "accuracy": accuracy, "family": family}
        said |= {"shape": (m, k, n), "batches": batches, "layouts": layouts}
        said |= {"inference": bool(rng.random() < 0.5), "passes": bool(rng.random() < 0.5)}
        return said, *operands

    def on_gpu(self) -> list[np.ndarray[Any, Any]]:
        """The product on the GPU, twice, in arrays: one, or one for each word.

        The second time rows and columns come last first, and so do those of its result.
        """
        import torch

        from widen.gpu import exact_products

        said, *operands = self.draw()
        fewest = exact_products.FEWEST_TERMS
        found: list[np.ndarray[Any, Any]] = []
        for turned in (False, True):
            x, y = (
                laid_out(self.moved(operand), layout, axis if turned else None)
                for operand, layout, axis in zip(operands, said["layouts"], (-2, -1), strict=True)
            )
            exact_products.FEWEST_TERMS = 0 if said["passes"] else fewest
            try:
                with torch.inference_mode(said["inference"]):
                    product = planes_of(self.multiplied(x, y, said["accuracy"]))
            finally:
                exact_products.FEWEST_TERMS = fewest
            arrays = [plane.cpu().numpy() for plane in product]
            found += [z[..., ::-1, ::-1] for z in arrays] if turned else arrays
        return found

    def moved(self, x: Operand) -> Operand:
        """The same numbers in tensors, where the kernels run."""
        import torch

        import widen

        tensor = torch.from_numpy(np.stack(planes_of(x)))
        tensor = tensor.cuda() if self.device == "cuda" else tensor
        return widen.Words.of(x.format, list(tensor)) if isinstance(x, widen.Words) else tensor[0]

    def multiplied(self, x: Operand, y: Operand, accuracy: str | int) -> Operand:
        """The product of tensors on the GPU, or by its stages in the interpreter."""
        import widen

        if self.device == "cuda":
            return widen.matmul(x, y, accuracy=accuracy)
        from widen.calls.check import check_call
        from widen.gpu import batches, products
        from widen.gpu.clock import Clock
        from widen.options import Options

        options = Options(accuracy=accuracy)
        call = check_call(x, y, options, 1 << 30)
        out = batches.empty(call.fmt, call.dims, planes_of(x)[0].device)
        products._run(call, None, out, None, options, Clock(timed=False))
        return out

    def outcome(self) -> dict[str, Any]:
        """What the case is, and how many numbers differ: GPU from CPU, CPU from definition.

        The definition has finite numbers only: None where others are among those that it was given.
        """
        import widen

        said, a, b = self.draw()
        product = widen.matmul(a, b, accuracy=said["accuracy"])
        on_gpu = 0
        if self.device != "cpu":
            wanted = 2 * planes_of(product)
            on_gpu = sum(differing(*pair) for pair in zip(self.on_gpu(), wanted, strict=True))
        return said | {"on_gpu": on_gpu, "undefined": undefined(a, b, product, said["accuracy"])}


def undefined(a: Operand, b: Operand, product: Operand, accuracy: str | int) -> int | None:
    """Numbers of a few elements of a product that are not those of the definition."""
    from widen import definition
    from widen.contract import as_contract
    from widen.formats.arrays import format_of_array
    from widen.stages.problem import Account, Problem
    from widen.stages.run import run

    ours, theirs, found = (words_of(x) for x in (a, b, product))
    rows, columns = (
        np.unique(np.linspace(0, size - 1, DEFINED).astype(int)) for size in found[0].shape
    )
    left, right = [x[rows] for x in ours], [x[:, columns] for x in theirs]
    if not all(np.isfinite(x).all() for x in (*left, *right)):
        return None
    fmt = format_of_array(product)
    problem = Problem(
        definition.operand(tuple(left), "left", fmt.parts),
        definition.operand(tuple(right), "right", fmt.parts), as_contract(accuracy), fmt, 1 << 30,
    )  # fmt: skip
    out = np.empty((len(found), fmt.parts, 1, len(rows), len(columns)))
    run(definition, problem, out, Account())
    return sum(
        differing(np.ascontiguousarray(part), word[np.ix_(rows, columns)])
        for parts, whole in zip(out[:, :, 0], found, strict=True)
        for part, word in zip(parts, (whole.real, whole.imag), strict=False)
    )


def words_of(x: Operand) -> list[np.ndarray[Any, Any]]:
    """Words of the first matrix of a batch, in float64 or complex128."""
    import widen

    if not isinstance(x, widen.Words):
        wide = x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)
        return [wide.reshape(-1, *x.shape[-2:])[0]]
    words = []
    for plane in x.planes:
        parts = plane.astype(np.float64).reshape(len(plane), -1, *x.shape[-2:])[:, 0]
        word = np.empty(parts.shape[1:], np.complex128 if len(parts) == 2 else np.float64)
        word.real = parts[0]
        if len(parts) == 2:  # a sum would lose the sign of a zero
            word.imag = parts[1]
        words.append(word)
    return words


def in_format(rng: np.random.Generator, x: np.ndarray[Any, Any], name: str) -> Operand:
    """An array in a format; numbers of several words get random ones after the first."""
    import widen
    import widen.testing as wt
    from widen import formats

    if name in formats.PLAIN:
        return wt.as_format(x, np.dtype(name))
    precisions = [word.precision for word in formats.FORMATS[name].part.words]
    words = [x.astype("c8" if x.dtype.kind == "c" else "f4") if precisions[0] == 24 else x]
    for precision in precisions[:-1]:
        words.append(words[-1] * 2.0**-precision * rng.uniform(-0.5, 0.5, x.shape))
    return widen.Words.from_words(np.array(words), name)


def planes_of(x: Operand) -> list[Any]:
    """The arrays of `Words`, or the one array."""
    import widen

    return list(x.planes) if isinstance(x, widen.Words) else [x]


def laid_out(x: Operand, layout: str, turned: int | None = None) -> Any:
    """The same numbers with other strides, and an axis turned round."""
    import torch

    import widen

    tensor = torch.stack(planes_of(x))
    if turned is not None:
        tensor = tensor.flip(turned)
    *outer, rows, columns = tensor.shape
    if layout == "transposed":
        tensor = tensor.mT.contiguous().mT
    elif layout == "stepped":
        room = tensor.new_zeros((*outer, 2 * rows, 3 * columns))
        room[..., ::2, 1::3] = tensor
        tensor = room[..., ::2, 1::3]
    elif layout == "offset":
        room = tensor.new_zeros(tensor.numel() + 3)
        room[3:] = tensor.ravel()
        tensor = room[3:].view(tensor.shape)
    return widen.Words.of(x.format, list(tensor)) if isinstance(x, widen.Words) else tensor[0]


def differing(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> int:
    """Numbers (parts of them) whose bits differ; every NaN is the same."""
    assert (x.shape, x.dtype) == (y.shape, y.dtype)
    ours, theirs = (z.view(z.real.dtype) for z in map(np.ascontiguousarray, (x, y)))
    same = ours.view(f"u{ours.itemsize}") == theirs.view(f"u{ours.itemsize}")
    return int((~(same | (np.isnan(ours) & np.isnan(theirs)))).sum())


def work(case: Case) -> dict[str, Any]:
    """`Case.outcome`; a failure is a difference too."""
    try:
        return case.outcome()
    except Exception as error:  # the report says which case it was, and the soak goes on
        return case.draw()[0] | {"error": f"{type(error).__name__}: {error}"}


def is_wrong(outcome: dict[str, Any]) -> bool:
    """Whether a case failed, or anything differs."""
    return "error" in outcome or bool(outcome["on_gpu"]) or bool(outcome["undefined"])


def cases(
    count: int, first: int = 0, seed: int = 11, families: str = "all", device: str = "cuda"
) -> list[Case]:
    """So many cases, from a number on."""
    return [Case(seed, number, families, device) for number in range(first, first + count)]


def compile_one(what: str | Case) -> None:
    """Compile a CPU kernel, or what a case needs on the GPU."""
    if isinstance(what, str):
        from widen.cpu.warm import prepare_all

        prepare_all([what])
    elif what.device != "cpu":
        what.on_gpu()


def watched(task: Callable[[Any], Any], what: Any, limit: float) -> Any:
    """What a task gives; one that takes longer than its limit says where it is, and all is over."""
    faulthandler.dump_traceback_later(limit, exit=True)
    try:
        return task(what)
    finally:
        faulthandler.cancel_dump_traceback_later()


def run(chosen: list[Case], processes: int, limit: float) -> Iterator[dict[str, Any]]:
    """The cases' outcomes as they come.

    Compilers run first, each process at something else: caches on disk then have it all. A process
    that dies ends the soak (`BrokenProcessPool`).
    """
    if processes == 1:
        yield from (watched(work, case, limit) for case in chosen)
        return
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from widen.cpu.warm import LONGEST_FIRST

    first = [*LONGEST_FIRST, *chosen[: len(FORMATS) * len(ACCURACIES)]]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, spawn, faulthandler.enable) as pool:
        compiled = [pool.submit(watched, compile_one, what, limit) for what in first]
        for done, outcome in enumerate(as_completed(compiled), 1):
            outcome.result()
            print(f"compiled {done} of {len(first)}", end="\r", file=sys.stderr, flush=True)
        found = [pool.submit(watched, work, case, limit) for case in chosen]
        try:
            yield from (outcome.result() for outcome in as_completed(found))
        finally:
            pool.shutdown(cancel_futures=True)


def main() -> int:
    """Run the soak; 1 if anything differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--families", choices=["usual", "hard", "all"], default="all")
    parser.add_argument("--device", choices=list(SIZES), default="cuda")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after these")
    parser.add_argument("--limit", type=float, default=200, help="seconds that a case may take")
    given = parser.parse_args()
    if given.device == "interpreter":
        os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported
    begun, said, done, wrong = time.monotonic(), 0.0, 0, 0
    counts: dict[str, Counter[Any]] = {what: Counter() for what in ("family", "format", "accuracy")}
    defined = 0
    chosen = cases(given.cases, given.first, given.seed, given.families, given.device)
    for outcome in run(chosen, given.processes, given.limit):
        done += 1
        defined += outcome.get("undefined") is not None
        for what, count in counts.items():
            count[outcome[what]] += 1
        if is_wrong(outcome):
            wrong += 1
            print(f"differs, seed {given.seed}: {outcome}", flush=True)
        spent = time.monotonic() - begun
        if spent >= said + 10:
            said = spent
            print(f"{done} of {given.cases} after {spent:.0f} s", flush=True)
        if spent > given.seconds:
            break
    for what, count in counts.items():
        print(f"{what}: {', '.join(f'{name} {number}' for name, number in count.items())}")
    print(
        f"{done} of {given.cases} cases in {time.monotonic() - begun:.0f} s, {defined} compared "
        f"with the definition, {wrong} differ"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
