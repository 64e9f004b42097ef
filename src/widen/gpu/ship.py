"""Machine code for the package, compiled without a GPU: `python -m widen.gpu.ship`, `make wheel`.

Kernels of the usual calls (`gpu.usual`) are compiled for four kinds of GPUs and packed, one pack
each (`gpu.code.store.SHIPPED`). What was compiled is kept in a folder, so that the next time only
kernels whose sources changed are compiled.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter

from triton import knobs

from widen.gpu.code import store
from widen.gpu.code.compiler import compiled
from widen.gpu.code.variants import Variant
from widen.gpu.kernels.cuda import compiler as nvrtc
from widen.gpu.kernels.cuda.certify import Certificate
from widen.gpu.kernels.cuda.launcher import options
from widen.gpu.kernels.cuda.multiply import Residues
from widen.gpu.tiles import HOPPER, HOPPER_CERTIFY
from widen.gpu.usual import usual_variants
from widen.stages.compiling import kept, packs

ARCHITECTURES = (80, 90, 100, 120)


def _without_lines() -> None:
    """Where a source line went to is of no use to a user, and four times the size."""
    knobs.compilation.disable_line_info = True


def _compile(variant: Variant, architecture: int, path: Path) -> float:
    started = perf_counter()
    code = compiled(variant, architecture)
    kept.write(path, path.name.encode(), code.to_bytes())
    return perf_counter() - started


def made(
    variants: Iterable[Variant], architecture: int, folder: Path, processes: int
) -> Iterator[tuple[str, float]]:
    """Compile what is not in a folder yet; give names and seconds as they come."""
    missing = {}
    for variant in variants:
        path = folder / variant.key(architecture)
        if kept.read(path, path.name.encode()) is None:
            missing[path] = variant
    context = get_context("spawn")
    with ProcessPoolExecutor(processes, context, _without_lines) as pool:
        names = {
            pool.submit(_compile, variant, architecture, path): variant.name
            for path, variant in missing.items()
        }
        for future in as_completed(names):
            yield names[future], future.result()


def hopper_kernels() -> dict[str, tuple[Path, tuple[str, ...]]]:
    """What NVRTC compiles for Hopper GPUs, by its key: products of bytes, and certificates."""
    wanted = [
        (Residues.header, options(tile, permuted=permuted, wide=wide))
        for tile, permuted, wide in product(HOPPER, (True, False), (False, True))
    ]
    wanted += [(Certificate.header, options(tile)) for tile in HOPPER_CERTIFY]
    return {nvrtc.shipped_key(*kernel): kernel for kernel in wanted}


def made_by_nvrtc(folder: Path) -> dict[str, bytes]:
    """These, compiled unless they are in a folder; none without NVRTC, which is said."""
    pieces = {}
    for key, (end, macros) in hopper_kernels().items():
        code = kept.read(folder / key, key.encode())
        if code is None:
            try:
                code = nvrtc.compiled(end, macros)
            except (ImportError, RuntimeError) as error:
                print(f"Hopper's kernels are left to the first call: there is no NVRTC ({error})")
                return {}
            kept.write(folder / key, key.encode(), code)
        pieces[key] = code
    return pieces


def pack(variants: Iterable[Variant], architecture: int, folder: Path, target: Path) -> int:
    """Pack what was made; give how many pieces there are."""
    pieces = {}
    for variant in sorted(variants, key=lambda x: (x.name, x.types, repr(x.constants))):
        key = variant.key(architecture)
        data = kept.read(folder / key, key.encode())
        if data is None:
            raise RuntimeError(f"{variant.name} for sm_{architecture} was not compiled")
        pieces[key] = data
    if architecture == nvrtc.ARCHITECTURE:
        pieces |= made_by_nvrtc(folder)
    packs.write(target, pieces)
    return len(pieces)


def main(arguments: list[str] | None = None) -> None:
    """Compile and pack."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--architectures", type=int, nargs="+", default=ARCHITECTURES)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--folder", type=Path, default=Path("build/machine_code"))
    parser.add_argument("--target", type=Path, default=store.SHIPPED)
    given = parser.parse_args(arguments)
    for architecture in given.architectures:
        started = perf_counter()
        variants = usual_variants(architecture)
        for at, (name, seconds) in enumerate(
            made(variants, architecture, given.folder, given.processes), start=1
        ):
            print(f"sm_{architecture} {at}: {name}, {seconds:.1f} s", flush=True)
        target = given.target / f"sm_{architecture}.pack"
        count = pack(variants, architecture, given.folder, target)
        print(
            f"{target}: {count} kernels, {target.stat().st_size / 1e6:.1f} MB, "
            f"{perf_counter() - started:.0f} s", flush=True
        )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
