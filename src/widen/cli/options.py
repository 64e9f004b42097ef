"""The options that `widen matmul` and `widen plan` share, and the library's words for them.

Each command lists its options again, as parameters: Typer reads them from there.
"""

from typing import Annotated, Any

import typer

Accuracy = Annotated[
    str,
    typer.Option(
        "--accuracy",
        "-a",
        metavar="NAME|BITS",
        help="What is promised for every element. fast: the error bound of an ordinary product; "
        "standard: a tighter one; correct: the exact value, rounded once; a number: an error of "
        "at most 2^-BITS times the norms of its row and column.",
    ),
]
DType = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        metavar="NAME",
        help="Format of the result: float16, bfloat16, float32, float64, complex64 or complex128 "
        "(for a plan also one of several words, such as float64x2). Default: that of the inputs.",
    ),
]
Unit = Annotated[
    str | None,
    typer.Option(
        "--unit",
        metavar="NAME",
        help="What multiplies: one of those that 'widen units' lists. Changes the time, never the "
        "result. Default: the fastest.",
    ),
]
System = Annotated[
    str | None,
    typer.Option(
        "--system",
        metavar="NAME",
        help="How integers are written in small pieces: residues, digits, or triangle (digits "
        "without the products that do not matter, others for every unit). Default: the fastest.",
    ),
]
Workspace = Annotated[
    str | None,
    typer.Option(
        "--workspace",
        "-w",
        metavar="SIZE",
        help="Memory to work in, such as 256MB or a number of bytes. Changes the time, never the "
        "result.",
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device",
        "-d",
        metavar="NAME",
        help="cuda or cuda:1: multiply on this GPU, in panels that fit --workspace, while files "
        "stay in host memory. Changes the time, never the result. Default: the CPU.",
    ),
]


def library_arguments(
    accuracy: str, dtype: str | None, unit: str | None, system: str | None, workspace: str | None
) -> dict[str, Any]:
    """Return the keyword arguments of `widen.matmul` and `widen.plan`; those check them.

    >>> library_arguments("40", None, "int8", None, "1000000")
    {'accuracy': 40, 'dtype': None, 'unit': 'int8', 'system': None, 'workspace': 1000000}
    """
    return {
        "accuracy": number_or_word(accuracy),
        "dtype": dtype,
        "unit": unit,
        "system": system,
        "workspace": None if workspace is None else number_or_word(workspace),
    }


def number_or_word(text: str) -> int | str:
    """Return an integer where the text is one, and the text otherwise."""
    try:
        return int(text)
    except ValueError:
        return text
