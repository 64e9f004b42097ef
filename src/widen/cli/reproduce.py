"""`widen reproduce`: the papers' tables and figures, made here, with their claims beside ours."""

import os
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from traceback import format_exc
from typing import TYPE_CHECKING, Annotated

import typer

from widen.cli.errors import CommandError

if TYPE_CHECKING:
    from widen.papers.items import Item, Outcome


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="ITEM", help="002-fig5, 002 (all of a paper) or all."),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", "-l", help="List the items and stop.")] = False,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="DIR", help="Folder for tables, figures and the page."),
    ] = Path("reproduced"),
    device: Annotated[
        str,
        typer.Option("--device", "-d", metavar="NAME", help="cpu (NumPy), cuda or cuda:1 (torch)."),
    ] = "cpu",
    full: Annotated[
        bool, typer.Option("--full", help="The papers' sizes, which want a GPU.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="The smallest sizes that still draw a figure.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of random matrices.")] = 1,
) -> None:
    """Make tables and figures of the five papers and say which of their claims hold here.

    Each item writes a CSV and a PNG; index.html and claims.md in the same folder show all items
    that the folder holds. Sizes are such that everything takes minutes on two cores.
    """
    from widen.papers.items import all_items

    items = all_items()
    if listed:
        width = max(map(len, items))
        for item in items.values():
            typer.echo(f"{item.id:{width}}  {item.title}")
        return
    if full and quick:
        raise CommandError("--full and --quick exclude each other: give one of them")
    run(chosen(names or [], items), out, device, full, quick, seed)


def chosen(names: Sequence[str], items: "dict[str, Item]") -> "list[Item]":
    """Return the items that are asked for, in their order."""
    if not names:
        raise CommandError(
            "name items, such as 002-fig5, 002 or all; widen reproduce --list shows them"
        )
    papers = {item.paper for item in items.values()}
    for name in names:
        if name != "all" and name not in items and name not in papers:
            raise CommandError(f"there is no item {name}; widen reproduce --list shows them")
    return [item for item in items.values() if {"all", item.paper, item.id} & set(names)]


def run(
    items: "Sequence[Item]", folder: Path, device: str, full: bool, quick: bool, seed: int
) -> None:
    """Run items one by one; files and the page are up to date after each, also if others fail."""
    from widen.cli.claims import markdown
    from widen.cli.figures import check_matplotlib
    from widen.cli.machines import machine as machine_of
    from widen.cli.page import page
    from widen.cli.progress import progress_bar
    from widen.cli.records import load, record_of, save, write
    from widen.papers.items import Setting

    check_matplotlib()
    machine = machine_of(device)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"{folder}: {error.strerror}; name another folder") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CommandError(f"{folder} is read-only; name another folder")
    load(folder)  # what cannot be read there is said before minutes of work, not after
    failed = []
    for item in items:
        started = perf_counter()
        try:
            with progress_bar(item.id) as progress:
                setting = Setting(machine, device, full, quick, seed, progress)
                outcome = item.run(setting)
            machine.free()
        except Exception:  # one item's defect, or its want of memory, is not the others'
            typer.echo(f"{item.id}  failed\n{format_exc()}", err=True)
            failed.append(item.id)
            continue
        record = record_of(item, outcome, setting, machine.facts(), perf_counter() - started)
        files = save(folder, record, outcome)
        records = load(folder)
        write(folder / "index.html", page(records).encode())
        write(folder / "claims.md", markdown(records).encode())
        tell(item, outcome, perf_counter() - started, files)
    if failed:
        raise CommandError(f"{', '.join(failed)} failed, as said above; the others are written")
    typer.echo(f"wrote {folder / 'index.html'} and claims.md")


def tell(item: "Item", outcome: "Outcome", seconds: float, files: Sequence[Path]) -> None:
    """Print what the paper says and what came out."""
    typer.echo(f"{item.id}  {item.title}  ({seconds:.1f} s)")
    typer.echo(f"  {item.claim}")
    for claim in outcome.claims:
        typer.echo(f"  {claim.sentence} ({claim.where})")
        typer.echo(f"    paper: {claim.paper}")
        typer.echo(f"    here:  {claim.ours} — {claim.verdict} ({claim.setup})")
    typer.echo(f"  {', '.join(str(path) for path in files if path.suffix != '.json')}")
