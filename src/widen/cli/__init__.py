"""The command line: `widen matmul | run | plan | units | bench | reproduce | demo | warm`."""

import io
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    Parameters
    ----------
    arguments
        The words after ``widen``; those of the process when left out.

    Returns
    -------
    int
        0 when it worked; 2 when something the user can fix is wrong, which one line on stderr
        says; 130 after Ctrl-C; 141, without a line, when nobody reads what is written.

    Examples
    --------
    >>> main(["--version"])
    widen 0.2.0
    0
    """
    # Imported here so that `import widen` never pays for a command line it does not use.
    from typer.main import get_command

    from widen.cli.app import app
    from widen.cli.errors import Status, explain, watched_output

    words = sys.argv[1:] if arguments is None else list(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # where a file's encoding has no φ, a ? will do
            stream.reconfigure(errors="replace")
    try:
        with watched_output():
            status = get_command(app).main(args=words, prog_name="widen", standalone_mode=False)
    except (Exception, KeyboardInterrupt) as error:
        explained = explain(error)
        if explained is None:
            raise  # a defect of ours: the traceback is what a report needs
        message, status = explained
        if message:
            print(f"widen: {message}", file=sys.stderr)
        return status
    if status == Status.INTERRUPTED:  # Typer has made a status of Ctrl-C
        print("widen: interrupted", file=sys.stderr)
    return status if isinstance(status, int) else Status.OK
