"""The stages around the product on a GPU, each alone: `python bench/stages.py` prints a table.

Milliseconds of the kernels, median of 10 by CUDA events after 3 warm-ups, without what the host
does between them. Random data as in `widen bench`, (rand - 0.5) exp(0.5 randn), contract
"standard". `--shapes float64:8192,8192,8192 complex128:8,4096,4096,4096` takes others, (batch,) m,
k and n.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median

import torch

from widen import bounds
from widen.contract import as_contract
from widen.formats import FORMATS
from widen.gpu import certify as gpu_certify
from widen.gpu import encode as gpu_encode
from widen.gpu import lines as gpu_lines
from widen.gpu import multiply as gpu_multiply
from widen.gpu import operands as gpu_operands
from widen.gpu import reconstruct as gpu_reconstruct
from widen.gpu import repair as gpu_repair
from widen.gpu import stages as gpu_stages
from widen.gpu.clock import Clock
from widen.gpu.reconstruct import ResultBlock
from widen.stages.problem import Problem

SHAPES = [
    *(f"float64:{n},{n},{n}" for n in (2048, 4096, 8192)),
    "float64:1024,65536,1024",
    "float64:16384,1024,16384",
    "float64:10000,64,64,64",
    "float32:8192,8192,8192",
    "complex128:8192,8192,8192",
]
STAGES = ["survey", "scale", "certify", "encode", "multiply", "reconstruct", "repair"]


def timed(work: Callable[[], object], before: Callable[[], object] = lambda: None) -> float:
    times = []
    for turn in range(13):
        before()
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(2_000_000)  # a millisecond: the host gets ahead
        start.record()
        work()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) if turn > 2 else 0.0)
    return median(times[3:])


def operand(dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    if dtype.is_complex:
        return torch.complex(*(operand(dtype.to_real(), shape) for _ in range(2)))
    noise = torch.randn(shape, dtype=dtype, device="cuda")
    return (torch.rand(shape, dtype=dtype, device="cuda") - 0.5) * torch.exp(0.5 * noise)


def measured(name: str, batch: int, m: int, k: int, n: int) -> tuple[int, list[float]]:
    """The number of moduli, and milliseconds of every stage."""
    fmt, dtype = FORMATS[name], getattr(torch, name)
    a, b = operand(dtype, (batch, m, k)), operand(dtype, (batch, k, n))
    out = gpu_operands.bits_of(torch.empty((batch, m, n), dtype=dtype, device="cuda"), fmt.parts)
    sides = [
        gpu_operands.as_lines(x, side, fmt.parts, fmt.part)
        for x, side in ((a, "left"), (b, "right"))
    ]
    problem = Problem(*sides, as_contract("standard"), fmt, 1 << 40)
    prepared = gpu_stages.quantise(problem, Clock(timed=False))
    tables, layout, test = prepared.tables, prepared.plan.layout, problem.test
    goal = bounds.goal(problem.contract, fmt.precision, k, fmt.parts, None)
    scratch, needs = [x.clone() for x in tables], tables[0].new_zeros((2, 5)).unbind()
    ms = []
    zeros = tables[0].new_zeros(11)
    if gpu_lines.are_short(sides):
        survey, more = gpu_lines.survey_short, (zeros,)
    else:
        survey, more = gpu_lines.survey, ()
    ms.append(timed(lambda: survey(sides, scratch, prepared.leads, prepared.kept, *more)))
    scratch = [x.clone() for x in tables]
    ms.append(timed(lambda: gpu_lines.quantise(sides, scratch, goal, test, needs)))

    def certify() -> torch.Tensor:
        return gpu_certify.certify(
            *prepared.leads, tables, k, test, kept=prepared.kept, terms=prepared.terms
        )

    ms.append(timed(certify))
    ms.append(timed(lambda: gpu_encode.encode_bytes(sides, list(tables), layout)))
    planes = gpu_encode.encode_bytes(sides, list(tables), layout)
    ms.append(timed(lambda: gpu_multiply.multiply(*planes, layout, k)))
    groups, marks = gpu_multiply.multiply(*planes, layout, k), certify()
    block, slack = ResultBlock(tuple(sides), tables, fmt, out, test), prepared.plan.cap is not None
    ms.append(timed(lambda: gpu_reconstruct.reconstruct(groups, layout, block, marks, slack=slack)))
    repaired = torch.zeros((), dtype=torch.int32, device="cuda")
    ms.append(timed(lambda: gpu_repair.repair(block, marks, repaired)))
    return len(layout.moduli), ms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", nargs="+", default=SHAPES)
    given = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    print("| | moduli |", " | ".join(STAGES), "|\n|", "--- | " * (2 + len(STAGES)))
    for shape in given.shapes:
        name, _, sizes = shape.partition(":")
        moduli, ms = measured(name, *([1] * (3 - sizes.count(","))), *map(int, sizes.split(",")))
        print(f"| {shape} | {moduli} |", " | ".join(f"{x:.3f}" for x in ms), "|", flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
