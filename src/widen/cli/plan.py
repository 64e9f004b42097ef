"""`widen plan`: what a product of that size would run, and why."""

from typing import Annotated

import typer

from widen.cli import options
from widen.cli.errors import library_errors


def plan(
    m: Annotated[int, typer.Argument(metavar="M", min=0, help="Rows of A.")],
    k: Annotated[int, typer.Argument(metavar="K", min=0, help="Columns of A, rows of B.")],
    n: Annotated[int, typer.Argument(metavar="N", min=0, help="Columns of B.")],
    accuracy: options.Accuracy = "standard",
    dtype: options.DType = None,
    unit: options.Unit = None,
    system: options.System = None,
    workspace: options.Workspace = None,
) -> None:
    """Show what an M×K by K×N product would run, and why, without running it.

    The plan is for typical data: numbers of similar size, of random sign.
    """
    import widen

    arguments = options.library_arguments(accuracy, dtype, unit, system, workspace)
    with library_errors():
        chosen = widen.plan((m, k), (k, n), **arguments)
    typer.echo(str(chosen))
