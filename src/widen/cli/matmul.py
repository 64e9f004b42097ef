"""`widen matmul`: the product of two .npy files, into a third."""

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from widen.cli import options
from widen.cli.errors import library_errors

if TYPE_CHECKING:
    import numpy as np

    from widen.cli.files import Array


def matmul(
    a: Annotated[Path, typer.Argument(metavar="A.npy", help="The left matrix.")],
    b: Annotated[Path, typer.Argument(metavar="B.npy", help="The right matrix.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="C.npy", help="Where the product goes."),
    ],
    accuracy: options.Accuracy = "standard",
    dtype: options.DType = None,
    unit: options.Unit = None,
    system: options.System = None,
    workspace: options.Workspace = None,
) -> None:
    """Multiply two matrices in .npy files and say how accurate the result is.

    Shapes as np.matmul has them: vectors, matrices, batches. The inputs are mapped, not read at
    once. The output appears when it is complete: after an error or Ctrl-C there is no new file,
    and an old one is as it was.
    """
    import widen
    from widen.cli.files import map_matrix, new_matrix
    from widen.cli.progress import progress_bar
    from widen.cli.shapes import product_shape

    started = perf_counter()
    left, right = map_matrix(a), map_matrix(b)
    shape = product_shape(left.shape, right.shape, (str(a), str(b)))
    arguments = options.library_arguments(accuracy, dtype, unit, system, workspace)
    with progress_bar(f"{a.name} × {b.name}"), library_errors():
        # Asked before a file is made, so that a wrong option touches nothing.
        result_dtype = dtype_of_product(left.dtype, right.dtype, arguments)
    with (
        new_matrix(output, shape, result_dtype) as out,
        progress_bar(f"{a.name} × {b.name}") as progress,
        library_errors(),
    ):
        _, info = widen.matmul(left, right, out=out, info=True, progress=progress, **arguments)
    for line in report(output, out, info, perf_counter() - started):
        typer.echo(line)


def dtype_of_product(
    left: "np.dtype[Any]", right: "np.dtype[Any]", arguments: dict[str, Any]
) -> "np.dtype[Any]":
    """Return the dtype the library gives such a product, by multiplying nothing by nothing."""
    import numpy as np

    import widen

    empty = widen.matmul(np.zeros((1, 0), left), np.zeros((0, 1), right), **arguments)
    if isinstance(empty, widen.Words):
        raise ValueError(
            f"dtype={empty.format.name} has several words, and .npy files hold plain floats; in "
            f"Python, widen.matmul(a, b, dtype={empty.format.name!r}) gives widen.Words"
        )
    return np.asarray(empty).dtype


def report(output: Path, c: "Array", info: Any, seconds: float) -> list[str]:
    """Return the lines that say what ran, how accurate it is and what it took."""
    from widen.cli.shapes import words

    bound, scale = largest(info.bound, c), largest(c, c)
    relative = f", {bound / scale:.1e} of the largest element" if scale > 0 else ""
    stages = ", ".join(f"{stage} {time:.3f}" for stage, time in info.seconds.items())
    return [
        str(info.plan),
        f"error   at most {bound:.2e} in any element{relative}; {info.repaired} repaired",
        f"time    {seconds:.3f} s ({stages})",
        f"wrote   {output}: {words(c.shape)}, {c.dtype}",
    ]


def largest(values: "Array | float", among: "Array", block: int = 1 << 20) -> float:
    """Return the largest magnitude of values, over the elements where `among` is finite.

    Works in blocks: no temporary has the size of the whole.

    >>> import numpy as np
    >>> largest(np.array([1.0, -3.0, 9.0]), np.array([0.0, 0.0, np.inf]))
    3.0
    """
    import numpy as np

    finite = among.reshape(-1)
    flat = np.broadcast_to(np.asarray(values).reshape(-1), finite.shape)
    found = np.float64(0.0)
    for start in range(0, flat.size, block):
        part = slice(start, start + block)
        magnitudes = np.abs(flat[part][np.isfinite(finite[part])])
        found = np.maximum(found, magnitudes.max(initial=0.0))  # which keeps a NaN
    return float(found)
