"""`widen run`: an unmodified Python script whose PyTorch products are widen's."""

import builtins
import importlib.util
import io
import runpy
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Annotated

import typer

from widen.cli import options
from widen.cli.errors import CommandError, Output, library_errors, reason

Log = Annotated[
    str | None,
    typer.Option(
        "--log",
        metavar="FILE",
        help="Where the log goes; standard error unless given.",
    ),
]


def run(
    script: Annotated[
        list[str],
        typer.Argument(metavar="SCRIPT.py [ARGS]...", help="The script, and its own arguments."),
    ],
    module: Annotated[
        bool, typer.Option("--module", "-m", help="SCRIPT is the name of a module, as python -m.")
    ] = False,
    accuracy: options.Accuracy = "standard",
    dtypes: Annotated[
        str | None,
        typer.Option(
            "--dtypes",
            metavar="NAME,...",
            help="Dtypes of the operands to take over, such as float64,float32. Default: all.",
        ),
    ] = None,
    min_flops: Annotated[
        int,
        typer.Option("--min-flops", metavar="N", help="Leave products of fewer operations alone."),
    ] = 0,
    fused: Annotated[
        bool,
        typer.Option("--fused", help="Round a product and what is added to it once, together."),
    ] = False,
    missed: Annotated[
        str,
        typer.Option(
            "--missed",
            metavar="log|raise",
            help="What to do with operations that multiply and cannot be taken over.",
        ),
    ] = "log",
    bounds: Annotated[
        bool, typer.Option("--bounds/--no-bounds", help="Ask each product for its proven error.")
    ] = True,
    steady: Annotated[
        bool,
        typer.Option("--steady", help="Compute gelu, silu and their kin alike at every place."),
    ] = False,
    log: Log = None,
) -> None:
    """Run an unmodified Python script inside `widen.emulate`, and print the log at its end.

    Options of widen stand before the script; all words after it are the script's own. Its exit
    status and its exceptions are as they would be without.
    """
    import widen

    name = script[0]
    if not module and not Path(name).is_file():
        raise CommandError(f"cannot open script {name}: no such file")
    if module and not _is_found(name.partition(".")[0]):
        raise CommandError(f"there is no module {name}: check the name; a file goes without -m")
    target = None if log is None else _writable(Path(log).absolute())
    with library_errors():
        scope = widen.emulate(
            options.number_or_word(accuracy),
            dtypes=None if dtypes is None else [word.strip() for word in dtypes.split(",")],
            min_flops=min_flops,
            fused=fused,
            missed=missed,  # type: ignore[arg-type]
            bounds=bounds,
            steady=steady,
        )
    try:
        with _started(script, module), _own_traceback(), scope:
            if module:
                runpy.run_module(name, run_name="__main__", alter_sys=True)
            else:
                _execute(Path(name).absolute())
    finally:
        _write(str(scope.log), target)


@contextmanager
def _started(words: list[str], module: bool) -> Iterator[None]:
    """Words, path, modules and standard output as of a script that Python itself started."""
    before = sys.argv, sys.path[:], sys.modules["__main__"], sys.stdout
    sys.argv = list(words)
    sys.path.insert(0, str(Path.cwd() if module else Path(words[0]).resolve().parent))
    if isinstance(sys.stdout, Output):
        sys.stdout = sys.stdout.stream
    try:
        yield
    finally:
        sys.argv, sys.path[:], sys.modules["__main__"], sys.stdout = before


def _execute(path: Path) -> None:
    """Run a script as the module `__main__`."""
    main = types.ModuleType("__main__")
    main.__file__ = str(path)
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    with io.open_code(str(path)) as file:
        code = compile(file.read(), str(path), "exec", dont_inherit=True)
    exec(code, main.__dict__)


@contextmanager
def _own_traceback() -> Iterator[None]:
    """Show an exception of the script as Python would, from the script's first line on."""
    try:
        yield
    except Exception as error:
        trace = error.__traceback__
        ours = (__file__, runpy.__file__, "<frozen runpy>")
        while trace is not None and trace.tb_frame.f_code.co_filename in ours:
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        raise SystemExit(1) from None


def _is_found(package: str) -> bool:
    """Whether Python finds a module, from where it would be run; nothing is imported."""
    here = [str(Path.cwd())]
    return package in sys.modules or bool(
        package and (importlib.util.find_spec(package) or PathFinder.find_spec(package, here))
    )


def _writable(path: Path) -> Path:
    """The same path, if a log can be written there: this is asked before hours of work."""
    try:
        path.open("a").close()
    except OSError as error:
        raise CommandError(
            f"cannot write the log {path}: {reason(error)}; choose another --log"
        ) from error
    return path


def _write(text: str, path: Path | None) -> None:
    if path is not None:
        try:
            path.write_text(text + "\n", encoding="utf-8")
            return
        except OSError as error:  # the script's own status stays; its log is not lost
            print(f"widen: cannot write the log {path}: {reason(error)}", file=sys.stderr)
    sys.stdout.flush()
    print(text, file=sys.stderr)
