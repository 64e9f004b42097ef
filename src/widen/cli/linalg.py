"""`widen solve` and `widen det`: exact answers for matrices in .npy files."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from widen.cli import options
from widen.cli.errors import CommandError, library_errors

Matrix = Annotated[str, typer.Argument(metavar="A.npy", help="A square matrix, or a batch.")]


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show that something runs, on stderr, where that is a terminal."""
    from rich.console import Console

    from widen.cli.progress import compiling_told

    console = Console(stderr=True)
    if not console.is_terminal:
        with compiling_told():
            yield
        return
    with (
        console.status(what) as status,
        compiling_told(lambda text: status.update(text or what)),
    ):
        yield


def solve(
    a: Matrix,
    b: Annotated[str, typer.Argument(metavar="b.npy", help="Right-hand sides.")],
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="x.npy", help="Where the solution goes; - is standard output."
        ),
    ],
    dtype: options.DType = None,
) -> None:
    """Solve a linear system exactly, every element rounded once, and say what was proven.

    Shapes as np.linalg.solve has them. A singular matrix is an error that says how it was found,
    and no file is written then.
    """
    import numpy as np

    import widen
    from widen.cli.files import STANDARD, map_matrix, new_matrix, standard_output
    from widen.cli.shapes import words

    started = perf_counter()
    left, right = np.asarray(map_matrix(a)), np.asarray(map_matrix(b))
    with waiting(f"solving {Path(a).name} x = {Path(b).name} ..."), library_errors():
        x, info = widen.linalg.solve(left, right, dtype=dtype, info=True)
        if isinstance(x, widen.Words):
            raise CommandError(
                f"dtype={dtype} has several words, and .npy files hold plain floats; in Python, "
                f"widen.linalg.solve(a, b, dtype={dtype!r}) gives widen.Words"
            )
    piped = output == STANDARD
    with (
        standard_output(x.shape, x.dtype) if piped else new_matrix(Path(output), x.shape, x.dtype)
    ) as out:
        out[...] = x
    name = "standard output" if piped else output
    lines = [
        *str(info).splitlines(),
        f"wrote     {name}: {words(x.shape)}, {x.dtype}, in {perf_counter() - started:.3f} s",
    ]
    for line in lines:
        typer.echo(line, err=piped)


def det(a: Matrix, dtype: options.DType = None) -> None:
    """Print the determinant of a matrix in a .npy file, exact and rounded once.

    With a batch, one line for every matrix. Formats of several words, such as float64x2, print all
    of their digits.
    """
    import numpy as np

    import widen
    from widen.cli.files import map_matrix

    with waiting(f"determinant of {Path(a).name} ..."), library_errors():
        value: Any = widen.linalg.det(np.asarray(map_matrix(a)), dtype=dtype)
    for one in value.reshape(-1):
        typer.echo(str(one))
