"""A progress bar that appears only when there is something to wait for, and what it waits for."""

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 1.0  # seconds without a bar


@contextmanager
def progress_bar(what: str, patience: float = PATIENCE) -> Iterator[Callable[[float], None]]:
    """Give a function to call with the share done, 0 to 1; show a bar after a second.

    The bar goes to stderr, and only where that is a terminal. A second bar runs while kernels are
    compiled.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    console = Console(stderr=True)
    if not console.is_terminal:
        with compiling_told():
            yield lambda done: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), Remaining())
    progress = Progress(*columns, console=console, transient=True)
    task = progress.add_task(what, total=1.0)
    compiling = progress.add_task("", total=None, visible=False)

    def show(text: str | None) -> None:
        progress.update(compiling, description=text or "", visible=text is not None)

    timer = threading.Timer(patience, progress.start)
    timer.daemon = True
    timer.start()
    try:
        with compiling_told(show):
            yield lambda done: progress.update(task, completed=done)
    finally:
        timer.cancel()
        timer.join()  # either the bar has started or it never will
        progress.stop()


@contextmanager
def compiling_told(show: Callable[[str | None], None] | None = None) -> Iterator[None]:
    """Tell the user when the library compiles kernels, which may take half a minute.

    `show` is called with a text while it does, and with None when it goes on. Without it one line
    on stderr says so, if it happens at all. Warnings are lines on stderr.
    """
    logger, handler = logging.getLogger("widen"), _Told(show)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


class _Told(logging.Handler):
    """What becomes of the library's records (`notices`) on the command line."""

    def __init__(self, show: Callable[[str | None], None] | None) -> None:
        super().__init__()
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record."""
        about = getattr(record, "compiling", None)
        if record.levelno >= logging.WARNING:
            print(f"widen: {record.getMessage()}", file=sys.stderr)
        elif self._show is None:
            if about == "first":
                print(f"widen: {record.getMessage()} …", file=sys.stderr)
        elif about == "start":
            self._show(f"compiling kernels, once: {getattr(record, 'done', 0)} done")
        elif about == "finish":
            self._show(None)


def share_of(
    progress: Callable[[float], None], before: float, width: float
) -> Callable[[float], None]:
    """Return a function that reports the share of one part as one of the whole."""
    return lambda share: progress(before + share * width)
