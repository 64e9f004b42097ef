"""A progress bar that appears only when there is something to wait for."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 1.0  # seconds without a bar


@contextmanager
def progress_bar(what: str, patience: float = PATIENCE) -> Iterator[Callable[[float], None]]:
    """Give a function to call with the share done, 0 to 1; show a bar after a second.

    The bar goes to stderr, and only where that is a terminal.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda done: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), Remaining())
    progress = Progress(*columns, console=console, transient=True)
    task = progress.add_task(what, total=1.0)
    timer = threading.Timer(patience, progress.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda done: progress.update(task, completed=done)
    finally:
        timer.cancel()
        timer.join()  # either the bar has started or it never will
        progress.stop()


def share_of(
    progress: Callable[[float], None], before: float, width: float
) -> Callable[[float], None]:
    """Return a function that reports the share of one part as one of the whole."""
    return lambda share: progress(before + share * width)
