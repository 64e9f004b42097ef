"""`widen warm`: kernels compiled now instead of in the first calls."""

from collections.abc import Callable
from typing import Annotated

import typer

from widen.cli.machines import machine

Steps = list[tuple[str, Callable[[], bool]]]
"""Pieces of work: a name, and a function that does it and says whether that was missing."""


def warm(
    device: Annotated[
        str, typer.Option("--device", "-d", metavar="NAME", help="cpu, cuda or cuda:1.")
    ] = "cpu",
) -> None:
    """Compile the kernels of products that are not on disk yet.

    First calls then take no longer than others. It may be interrupted and run again: what is done
    is kept, and a second run has nothing to do.
    """
    from widen.cli.progress import progress_bar

    done = new = 0
    with progress_bar("compiling kernels", patience=0.0) as progress:
        steps = _steps(device)
        for _, step in steps:
            new += step()
            done += 1
            progress(done / len(steps))
    text = f"{new} compiled now, {done - new} were there" if new else "all were there"
    typer.echo(f"{done} kernels for {device}: {text}")


def _steps(device: str) -> Steps:
    """Return what there is to do, which each wing knows of itself (`warm_steps`)."""
    if device == "cpu":
        from widen.cpu.warm import warm_steps

        return warm_steps()
    machine(device)  # which says why there is none
    from widen.gpu.warm import warm_steps as gpu_warm_steps

    return gpu_warm_steps(int(device.partition(":")[2] or 0))
