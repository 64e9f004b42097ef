"""What the command line says when something is wrong: one line, and an exit status."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum
from typing import Any, TextIO, cast


class Status(IntEnum):
    """Exit statuses: 2 is something the user can fix; those of signals are as shells have them."""

    OK = 0
    MISUSE = 2
    INTERRUPTED = 130  # Ctrl-C
    NOBODY_READS = 141  # a pipe whose other end is closed, as that of `| head -1`


class CommandError(Exception):
    """Something the user can fix; the message is one line that says how."""


@contextmanager
def library_errors() -> Iterator[None]:
    """Show the library's own one-line messages about its arguments without a traceback."""
    try:
        yield
    except (TypeError, ValueError, ImportError) as error:
        raise CommandError(str(error)) from error


def reason(error: OSError) -> str:
    """Return the system's words for an error, without its number."""
    return (error.strerror or str(error)).lower()


class OutputError(Exception):
    """Standard output cannot be written; `rest` is what to say beside that."""

    def __init__(self, error: OSError, rest: str = "") -> None:
        super().__init__(error)
        self.error, self.rest = error, rest


@contextmanager
def output_errors() -> Iterator[None]:
    """Tell errors of standard output from those of other files."""
    try:
        yield
    except OSError as error:
        raise OutputError(error) from error


class Output:
    """Standard output, a `stream`, whose errors are `OutputError`."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write a text."""
        with output_errors():
            return self.stream.write(text)

    def flush(self) -> None:
        """Write out what is held back."""
        with output_errors():
            self.stream.flush()


@contextmanager
def watched_output() -> Iterator[None]:
    """A context in which errors of standard output are `OutputError`.

    After one, what is still held back is dropped: Python would complain again at its end.
    """
    stream = sys.stdout
    if stream is None:  # it was closed
        yield
        return
    sys.stdout = cast(TextIO, Output(stream))
    try:
        yield
        sys.stdout.flush()
    except OutputError:
        with suppress(OSError):  # of a stream that is no file
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
        raise
    finally:
        sys.stdout = stream


def explain(error: BaseException) -> tuple[str, Status] | None:
    """Return the line (or none) and the exit status for an error, or None for a defect of ours."""
    if isinstance(error, OutputError):
        if isinstance(error.error, BrokenPipeError):
            return "", Status.NOBODY_READS
        why = f"cannot write standard output: {reason(error.error)}; send it somewhere else"
        return why + error.rest, Status.MISUSE
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", Status.INTERRUPTED
    if isinstance(error, CommandError):
        return one_line(str(error)), Status.MISUSE
    if isinstance(error, MemoryError):
        detail = one_line(str(error)).rstrip(".") or "an allocation failed"
        advice = "free some memory, or give smaller matrices"
        return f"out of memory ({detail}): {advice}", Status.MISUSE
    # Wrong words on the command line. Typer's releases take this class from different modules;
    # what they share is the method.
    if hasattr(error, "format_message"):
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "widen"
        message = one_line(error.format_message()).rstrip(".")
        return f"{message[:1].lower()}{message[1:]}; see {command} --help", Status.MISUSE
    return None


def one_line(text: str) -> str:
    """Put a text on one line."""
    return " ".join(text.split())
