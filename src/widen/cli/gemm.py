"""`widen gemm`: alpha A B + beta C of three files, into a fourth."""

from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from widen.cli import options
from widen.cli.errors import CommandError, library_errors
from widen.cli.matmul import memory_errors, say


def gemm(
    a: Annotated[str, typer.Argument(metavar="A", help="The left matrix.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The right matrix.")],
    c: Annotated[str, typer.Argument(metavar="C", help="What is added; its shape is broadcast.")],
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="D.npy", help="Where the sum goes; - is standard output."
        ),
    ],
    alpha: Annotated[str, typer.Option("--alpha", metavar="NUMBER", help="Multiplies A B.")] = "1",
    beta: Annotated[str, typer.Option("--beta", metavar="NUMBER", help="Multiplies C.")] = "1",
    accuracy: options.Accuracy = "standard",
    dtype: options.DType = None,
    unit: options.Unit = None,
    system: options.System = None,
    workspace: options.Workspace = None,
    device: options.Device = None,
) -> None:
    """Compute alpha A B + beta C, exact and rounded once, and say how accurate it is.

    A residual, for one, is --alpha -1: the product is not rounded before C is added. Files are as
    for widen matmul. The output appears when it is complete.
    """
    import numpy as np

    import widen
    from widen.cli.files import STANDARD, map_matrix, new_matrix, standard_output
    from widen.cli.progress import progress_bar
    from widen.cli.shapes import product_shape

    started = perf_counter()
    left, right, added = map_matrix(a), map_matrix(b), map_matrix(c)
    shape = product_shape(left.shape, right.shape, (a, b))
    scalars = {"alpha": _number(alpha, "--alpha"), "beta": _number(beta, "--beta")}
    arguments: dict[str, Any] = {
        **options.library_arguments(accuracy, dtype, unit, system, workspace), **scalars,
        "device": device,
    }  # fmt: skip
    try:
        np.broadcast_to(added, shape)
    except ValueError:
        raise CommandError(
            f"{c} has shape {added.shape}, which does not broadcast to that of the product, {shape}"
        ) from None
    with library_errors():
        nothing = (np.zeros((0, 0), x.dtype) for x in (left, right, added))
        empty = widen.gemm(*nothing, **arguments)
    if isinstance(empty, widen.Words):
        raise CommandError(f"--dtype {dtype} has several words, which widen.gemm gives in Python")
    kind, piped = np.asarray(empty).dtype, output == STANDARD
    what = f"{Path(a).name} × {Path(b).name} + {Path(c).name}"
    with (
        standard_output(shape, kind) if piped else new_matrix(Path(output), shape, kind) as out,
        progress_bar(what) as progress,
        library_errors(),
        memory_errors(arguments["workspace"]),
    ):
        _, info = widen.gemm(
            left, right, added, out=out, info="largest", progress=progress, **arguments
        )
    say(output, out, info, perf_counter() - started)


def _number(word: str, option: str) -> Any:
    """A real or complex number."""
    for kind in (float, complex):
        try:
            return kind(word.replace(" ", ""))
        except ValueError:
            continue
    raise CommandError(f"{option} {word} is not a number: give one such as -1, 0.5 or 1+2j")
