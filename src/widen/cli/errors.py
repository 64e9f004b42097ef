"""What the command line says when something is wrong: one line, and an exit status."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum


class Status(IntEnum):
    """Exit statuses: 2 is something the user can fix, 130 is Ctrl-C, as shells have it."""

    OK = 0
    MISUSE = 2
    INTERRUPTED = 130


class CommandError(Exception):
    """Something the user can fix; the message is one line that says how."""


@contextmanager
def library_errors() -> Iterator[None]:
    """Show the library's own one-line messages about its arguments without a traceback."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise CommandError(str(error)) from error


def explain(error: BaseException) -> tuple[str, Status] | None:
    """Return the line and the exit status for an error, or None for a defect of ours."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", Status.INTERRUPTED
    if isinstance(error, CommandError):
        return one_line(str(error)), Status.MISUSE
    if isinstance(error, MemoryError):
        detail = one_line(str(error)).rstrip(".") or "an allocation failed"
        return f"out of memory ({detail}): give a smaller --workspace or matrices", Status.MISUSE
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
