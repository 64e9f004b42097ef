"""`widen bench`: how fast products are beside the ordinary one, and how accurate."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from widen.cli import options
from widen.cli.errors import CommandError, library_errors

if TYPE_CHECKING:
    from widen.cli.machines import Cpu
    from widen.cli.measure import Case

Shape = tuple[int, int, int, int]

SIZES = {"cpu": "256,512,1024", "cuda": "2048,4096,8192"}
"""What is measured unless something is asked for."""

MOST_PHI = 6.0
"""exp(phi randn) of both operands then stays in the range of float32."""


def bench(
    device: Annotated[
        str,
        typer.Option("--device", "-d", metavar="NAME", help="cpu (NumPy), cuda or cuda:1 (torch)."),
    ] = "cpu",
    sizes: Annotated[
        str | None,
        typer.Option(
            "--sizes",
            "-n",
            metavar="N,N,...",
            help="Square matrices. Default: 256,512,1024 on a CPU, 2048,4096,8192 on a GPU.",
        ),
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option("--shape", metavar="MxKxN[xBATCH]", help="Another shape; may be repeated."),
    ] = None,
    accuracy: Annotated[
        list[str] | None,
        typer.Option(
            "--accuracy",
            "-a",
            metavar="NAME|BITS",
            help="fast, standard (the default), correct or a number; may be repeated.",
        ),
    ] = None,
    dtype: Annotated[
        list[str] | None,
        typer.Option(
            "--dtype",
            metavar="NAME",
            help="float64 (the default), float32, complex128 or complex64; may be repeated.",
        ),
    ] = None,
    unit: Annotated[
        list[str] | None,
        typer.Option("--unit", metavar="NAME", help="See 'widen units'; may be repeated."),
    ] = None,
    phi: Annotated[
        float,
        typer.Option(min=0.0, max=MOST_PHI, help="Data: (rand - 0.5) exp(phi randn)."),
    ] = 0.5,
    encoded: Annotated[
        bool, typer.Option("--encoded", help="Encode B once, before the clock starts.")
    ] = False,
    workspace: options.Workspace = None,
    repeats: Annotated[
        int, typer.Option(min=1, help="Calls that are timed, after three that are not.")
    ] = 10,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE.jsonl", help="Append the rows to this file."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE.png", help="Draw TFLOP/s against n (extra: plot)."),
    ] = None,
) -> None:
    """Measure products beside the ordinary a @ b of NumPy or torch, in the same run.

    Shows the time of every stage, the speed, the certified bound of the error and the error
    itself, which a sample of elements is checked for in exact arithmetic.
    """
    from widen.cli.machines import machine as machine_of
    from widen.cli.plot import check_plot, draw, square
    from widen.cli.progress import progress_bar
    from widen.cli.results import append, check_writable, show, table

    machine = machine_of(device)
    asked = shapes(sizes, shape or [], device)
    formats, contracts = dtype or ["float64"], accuracy or ["standard"]
    cases = all_cases(asked, formats, contracts, unit or [None], phi, encoded, workspace)
    if output is not None:
        check_writable(output)
    if plot is not None:
        check_plot(plot)
        if not square([vars(case) for case in cases]):
            raise CommandError("--plot draws square matrices: give --sizes as well")
    rows = []
    with progress_bar(f"{len(cases)} rows, {device}") as progress, library_errors():
        for row in measured(cases, machine, repeats, progress):
            rows.append(row)
            if output is not None:
                append(output, row)
    show(table(rows, machine.facts(), machine.library))
    if plot is not None:
        draw(rows, plot, machine.facts()["machine"], machine.library)
        typer.echo(f"wrote {plot}")
    if output is not None:
        typer.echo(f"appended {len(rows)} rows to {output}")


def shapes(sizes: str | None, others: Sequence[str], device: str) -> list[Shape]:
    """Return the shapes (m, k, n, batch) that were asked for, in words.

    >>> shapes("16,32", ["1x2x3", "4x5x6x7"], "cpu")
    [(16, 16, 16, 1), (32, 32, 32, 1), (1, 2, 3, 1), (4, 5, 6, 7)]
    """
    if sizes is None and not others:
        sizes = SIZES[device.partition(":")[0]]
    wanted = []
    for word in [] if sizes is None else sizes.split(","):
        (n,) = positive(word, [word], "--sizes", "whole numbers such as 1024,2048", {1})
        wanted.append((n, n, n, 1))
    for word in others:
        example = "MxKxN or MxKxNxBATCH, such as 64x128x32"
        m, k, n, batch, *_ = [*positive(word, word.split("x"), "--shape", example, {3, 4}), 1]
        wanted.append((m, k, n, batch))
    return wanted


def positive(
    word: str, pieces: Sequence[str], option: str, expected: str, counts: set[int]
) -> list[int]:
    """Return the positive numbers that a word is made of, or say what was expected."""
    numbers = [int(piece) for piece in pieces if piece.strip().isdecimal()]
    if len(numbers) != len(pieces) or len(numbers) not in counts or min(numbers) < 1:
        raise CommandError(f"{option}: {word!r} is not known: give {expected}")
    return numbers


def all_cases(
    asked: Sequence[Shape],
    formats: Sequence[str],
    contracts: Sequence[str],
    units: Sequence[str | None],
    phi: float,
    encoded: bool,
    workspace: str | None,
) -> "list[Case]":
    """Return every combination, after the library has agreed to its words."""
    import widen
    from widen.cli.measure import Case
    from widen.formats import PLAIN, computed_in

    cases = []
    for name in formats:
        timed = [word for word, fmt in PLAIN.items() if fmt == computed_in(fmt)]
        if name not in timed:
            known = ", ".join(timed)
            raise CommandError(f"--dtype {name} is not timed here: use one of {known}")
    for name, contract, unit, (m, k, n, batch) in product(formats, contracts, units, asked):
        arguments = options.library_arguments(contract, name, unit, None, workspace)
        with library_errors():
            widen.plan((m, k), (k, n), **arguments)
        words, room = arguments["accuracy"], arguments["workspace"]
        cases.append(Case(m, k, n, batch, name, words, phi, encoded, unit, room))
    return cases


def measured(
    cases: "Sequence[Case]", machine: "Cpu", repeats: int, progress: Callable[[float], None]
) -> Iterator[dict[str, Any]]:
    """Measure one case after the other, each row with the date, the machine and the time so far."""
    from widen.cli.measure import measure
    from widen.cli.progress import share_of
    from widen.cli.results import stamped

    started, facts = perf_counter(), machine.facts()
    total, done = sum(case.flops for case in cases), 0
    for case in cases:
        tick = share_of(progress, done / total, case.flops / total)
        try:
            row = measure(case, machine, repeats, tick)
        except RuntimeError as error:
            if type(error).__name__ != "OutOfMemoryError":  # torch's, which may not be there
                raise
            raise MemoryError(str(error).partition(". ")[0]) from error
        finally:
            machine.free()
        done += case.flops
        yield stamped(row, facts, perf_counter() - started)
