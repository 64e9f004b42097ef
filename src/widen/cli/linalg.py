"""`widen solve`, `widen eig` and `widen det`: exact answers for matrices in .npy files."""

from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from widen.cli import options
from widen.cli.errors import CommandError, library_errors

Matrix = Annotated[str, typer.Argument(metavar="A.npy", help="A square matrix, or a batch.")]


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
    from widen.cli.files import map_matrix
    from widen.cli.progress import progress_bar

    started = perf_counter()
    left, right = np.asarray(map_matrix(a)), np.asarray(map_matrix(b))
    what = f"{Path(a).name} x = {Path(b).name}"
    with progress_bar(what) as progress, library_errors():
        x, info = widen.linalg.solve(left, right, dtype=dtype, info=True, progress=progress)
        check_plain(x, dtype, "solve(a, b")
    written(x, output, str(info), started)


def eig(
    a: Matrix,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="w.npy", help="Where the values go; - is standard output."
        ),
    ],
    dtype: options.DType = None,
) -> None:
    """Find the eigenvalues of a symmetric (or Hermitian) matrix, within proven radii.

    They are in ascending order, and the nearest numbers of their format wherever the radius decides
    that: the line that is printed says how many are.
    """
    import numpy as np

    import widen
    from widen.cli.files import map_matrix
    from widen.cli.progress import progress_bar

    started = perf_counter()
    with progress_bar(f"eigenvalues of {Path(a).name}") as progress, library_errors():
        matrix = np.asarray(map_matrix(a))
        values, info = widen.linalg.eigvalsh(matrix, dtype=dtype, info=True, progress=progress)
        check_plain(values, dtype, "eigvalsh(a")
    written(values, output, str(info), started)


def check_plain(values: Any, dtype: str | None, call: str) -> None:
    """Whether a result fits a file."""
    import widen

    if isinstance(values, widen.Words):
        raise CommandError(
            f"dtype={dtype} has several words, and .npy files hold plain floats; in Python, "
            f"widen.linalg.{call}, dtype={dtype!r}) gives widen.Words"
        )


def written(values: Any, output: str, said: str, started: float) -> None:
    """Write a result, and say what was proven and what it took."""
    from widen.cli.files import STANDARD, new_matrix, standard_output
    from widen.cli.shapes import words

    shape, kind, piped = values.shape, values.dtype, output == STANDARD
    with standard_output(shape, kind) if piped else new_matrix(Path(output), shape, kind) as out:
        out[...] = values
    name = "standard output" if piped else output
    seconds = perf_counter() - started
    for line in (*said.splitlines(), f"wrote     {name}: {words(shape)}, {kind}, {seconds:.3f} s"):
        typer.echo(line, err=piped)


def det(a: Matrix, dtype: options.DType = None) -> None:
    """Print the determinant of a matrix in a .npy file, exact and rounded once.

    With a batch, one line for every matrix. Formats of several words, such as float64x2, print all
    of their digits.
    """
    import numpy as np

    import widen
    from widen.cli.files import map_matrix
    from widen.cli.progress import progress_bar

    with progress_bar(f"determinant of {Path(a).name}") as progress, library_errors():
        matrix = np.asarray(map_matrix(a))
        value: Any = widen.linalg.det(matrix, dtype=dtype, progress=progress)
    for one in value.reshape(-1):
        typer.echo(str(one))
