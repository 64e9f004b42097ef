"""`widen matmul`: the product of two files, into a third."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from widen.cli import options
from widen.cli.errors import CommandError, OutputError, library_errors, one_line

if TYPE_CHECKING:
    import numpy as np

    from widen.cli.files import Array

WORTH_LESS = 16 * 10**6
"""Bytes of workspace below which a smaller one saves no memory to speak of."""


def matmul(
    a: Annotated[str, typer.Argument(metavar="A", help="The left matrix.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The right matrix.")],
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="C.npy", help="Where the product goes; - is standard output."
        ),
    ],
    accuracy: options.Accuracy = "standard",
    dtype: options.DType = None,
    unit: options.Unit = None,
    system: options.System = None,
    workspace: options.Workspace = None,
    device: options.Device = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Keep finished panels if interrupted, and go on from those there are."
        ),
    ] = False,
) -> None:
    """Multiply two matrices in files and say how accurate the result is.

    Files are .npy, .npz or .safetensors (FILE.npz:NAME says which array), .mtx (dense) or .csv, by
    their names; outputs are .npy, .npz, .mtx or .safetensors. Shapes are as np.matmul has them:
    vectors, matrices, batches. Inputs in .npy files are mapped, not read at once.

    The output appears when it is complete: after an error, Ctrl-C or a signal that ends the program
    there is no new file, and an old one is as it was. With -o - it is written to standard output
    when it is complete, and what is said of it goes to standard error.

    With --resume, finished panels are kept beside the output with their checksums, whatever ends
    the program; the same command goes on from there, and the bits are the same. A record that is
    damaged, or of another product, is refused.
    """
    import widen
    from widen.cli.files import STANDARD, map_matrix, new_matrix, standard_output
    from widen.cli.formats import WRITERS
    from widen.cli.progress import progress_bar
    from widen.cli.shapes import product_shape

    started = perf_counter()
    left, right = map_matrix(a), map_matrix(b)
    shape = product_shape(left.shape, right.shape, (a, b))
    arguments = {
        **options.library_arguments(accuracy, dtype, unit, system, workspace), "device": device
    }  # fmt: skip
    what = f"{Path(a).name} × {Path(b).name}"
    with progress_bar(what), library_errors():
        # Asked before a file is made, so that a wrong option touches nothing.
        result_dtype = dtype_of_product(left.dtype, right.dtype, arguments)
    piped = output == STANDARD
    if resume:
        if piped:
            raise CommandError("--resume needs a file to keep panels beside: name one with -o")
        if Path(output).suffix.lower() in (*WRITERS, ".csv"):
            raise CommandError("--resume writes .npy files: name one with -o")
        from widen.cli.resume import Cut, multiply

        with progress_bar(what) as progress, library_errors(), memory_errors(
            arguments["workspace"]
        ):  # fmt: skip
            out, info = multiply(
                Cut(left, right, shape), Path(output), result_dtype, arguments, progress
            )
        say(output, out, info, perf_counter() - started)
        return
    with (
        standard_output(shape, result_dtype)
        if piped
        else new_matrix(Path(output), shape, result_dtype) as out,
        progress_bar(what) as progress,
        library_errors(),
        memory_errors(arguments["workspace"]),
    ):
        _, info = widen.matmul(left, right, out=out, info="largest", progress=progress, **arguments)
    say(output, out, info, perf_counter() - started)


def say(output: str, out: "Array", info: Any, seconds: float) -> None:
    """Say what ran; on standard error if the product itself is on standard output."""
    from widen.cli.files import STANDARD

    piped = output == STANDARD
    lines = report("standard output" if piped else output, out, info, seconds)
    try:
        for line in lines:
            typer.echo(line, err=piped)
    except OutputError as error:
        raise OutputError(error.error, f" ({output} is written)") from error


@contextmanager
def memory_errors(workspace: int | str | None) -> Iterator[None]:
    """Say what can help where there is too little memory."""
    from widen.calls.check import workspace_bytes

    try:
        yield
    except MemoryError as error:
        detail = one_line(str(error)).rstrip(".") or "an allocation failed"
        room = workspace_bytes(workspace)
        smaller = max(room // 4, WORTH_LESS) // 10**6
        advice = (
            f"give a smaller --workspace than {room / 1e6:.0f} MB, such as {smaller}MB"
            if room > WORTH_LESS
            else "free some memory, or multiply blocks of rows one by one"
        )
        raise CommandError(f"out of memory ({detail}): {advice}") from error
    except RuntimeError as error:
        if type(error).__name__ != "OutOfMemoryError":  # PyTorch's, which may not be there
            raise
        raise CommandError(one_line(str(error))) from error


def dtype_of_product(
    left: "np.dtype[Any]", right: "np.dtype[Any]", arguments: dict[str, Any]
) -> "np.dtype[Any]":
    """Return the dtype the library gives such a product, by multiplying nothing by nothing."""
    import numpy as np

    import widen

    empty = widen.matmul(np.zeros((0, 0), left), np.zeros((0, 0), right), **arguments)
    if isinstance(empty, widen.Words):
        raise ValueError(
            f"dtype={empty.format.name} has several words, and these files hold plain floats; in "
            f"Python, widen.matmul(a, b, dtype={empty.format.name!r}) gives widen.Words"
        )
    return np.asarray(empty).dtype


def report(output: str, c: "Array", info: Any, seconds: float) -> list[str]:
    """Return the lines that say what ran, how accurate it is and what it took."""
    from widen.cli.shapes import words

    stages = ", ".join(f"{stage} {time:.3f}" for stage, time in info.seconds.items())
    return [
        str(info.plan),
        f"error   {accuracy_of(c, info)}",
        f"time    {seconds:.3f} s ({stages})",
        f"wrote   {output}: {words(c.shape)}, {c.dtype}",
    ]


def accuracy_of(c: "Array", info: Any) -> str:
    """Return what is known of the errors of a product."""
    if c.size == 0:
        return "none: the product has no elements"
    if info.not_finite == c.size:
        return f"unknown: no element is finite, all {c.size} are infinite or NaN"
    scale = largest(c)
    relative = f", {info.bound / scale:.1e} of the largest element" if scale > 0 else ""
    noun, rest = "element", ""
    if info.not_finite:
        noun, rest = "finite element", f"; {info.not_finite} are infinite or NaN"
    return f"at most {info.bound:.2e} in any {noun}{relative}; {info.repaired} repaired{rest}"


def largest(values: "Array", block: int = 1 << 16) -> float:
    """Return the largest finite magnitude, 0 if there is none.

    Works in blocks: no temporary has the size of the whole.

    >>> import numpy as np
    >>> largest(np.array([1.0, -3.0, np.inf]))
    3.0
    """
    import numpy as np

    flat, most = values.reshape(-1), 0.0
    for start in range(0, flat.size, block):
        magnitudes = np.abs(flat[start : start + block])
        most = max(most, float(magnitudes[np.isfinite(magnitudes)].max(initial=0.0)))
    return most
