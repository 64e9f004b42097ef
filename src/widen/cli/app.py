"""The commands, put together."""

from collections.abc import Callable
from typing import Annotated

import typer

from widen.cli.bench import bench
from widen.cli.demo import demo
from widen.cli.gemm import gemm
from widen.cli.linalg import det, eig, solve
from widen.cli.matmul import matmul
from widen.cli.plan import plan
from widen.cli.reproduce import reproduce
from widen.cli.run import run
from widen.cli.units import units
from widen.cli.warm import warm

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",  # which fills paragraphs
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        from widen import __version__

        typer.echo(f"widen {__version__}")
        raise typer.Exit


@app.callback(
    invoke_without_command=True,
    epilog="Example: `widen matmul A.npy B.npy -o C.npy --accuracy correct`",
)
def widen(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Matrix products that are exact, or correctly rounded, or as accurate as you ask.

    The bits of an element depend on its row, its column and the accuracy alone.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


EXAMPLES: dict[Callable[..., None], str] = {
    matmul: "widen matmul A.npy B.npy -o C.npy --accuracy correct",
    gemm: "widen gemm A.npy x.npy b.npy --alpha -1 -o residual.npy --accuracy correct",
    solve: "widen solve A.npy b.npy -o x.npy",
    eig: "widen eig A.npy -o w.npy",
    det: "widen det A.npy --dtype float64x2",
    run: "widen run --accuracy correct train.py --epochs 3",
    plan: "widen plan 1024 1024 1024 --accuracy correct",
    units: "widen units",
    bench: "widen bench --device cuda --sizes 2048,4096 -a fast -a standard",
    reproduce: "widen reproduce 002-fig5 --out figures",
    demo: "widen demo",
    warm: "widen warm --device cpu",
}
OWN_WORDS: dict[Callable[..., None], dict[str, bool]] = {run: {"allow_interspersed_args": False}}
"""Commands that hand on all words after their first argument."""

for command, example in EXAMPLES.items():
    settings = OWN_WORDS.get(command)
    app.command(epilog=f"Example: `{example}`", context_settings=settings)(command)
