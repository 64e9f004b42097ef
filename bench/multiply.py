"""The Hopper int8 kernel: `python bench/multiply.py` checks it, then times it, and prints a table.

Checks: every tile of `tiles.HOPPER` against exact sums (float64 products of integers below 2^53)
at odd shapes, with bytes that must not count between k and the pitch, a poisoned `out` and guards
around it. Times: random residues of 14 moduli, all in one launch, median of 10 by CUDA events after
a pause; TOP/s counts 2 m n k operations a plane. `--json PATH` appends the rows to a file.
`--halves` compares products by halves (`gpu/multiply.py`) with ordinary ones instead,
`--sums` times paper 002's sums of products of slices (`papers/ozimmu`) in several tiles,
`--portable` times the Triton kernel that other GPUs have beside this one, bytes compared.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from unittest.mock import patch

import torch

from widen.cli.results import append
from widen.gpu import multiply as gpu_multiply
from widen.gpu import tiles
from widen.gpu.kernels.cuda.multiply import Planes, launcher
from widen.papers.ozimmu import addends, products, schedule
from widen.papers.ozimmu.kernels.cuda.sums import multiply_sums
from widen.systems import residues

DEVICE = torch.device("cuda")
MODULI = (256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199)
PAIRS = tuple((p, (37 * z + 11) % p) for z, p in enumerate(MODULI))
SIZES = (1, 7, 63, 64, 65, 129, 255, 257, 500)
SHAPES = [(n, n, n) for n in (1024, 2048, 4096, 8192, 16384)] + [
    (16384, 16384, 1024),
    (1024, 1024, 65536),
    (8192, 8192, 256),
    (64, 4096, 4096),
    (4096, 64, 4096),
]
POISON = 0xAA


def up(size: int, unit: int = 16) -> int:
    return -(-size // unit) * unit


def planes(batch: int, rows: int, pitch: int, moduli: tuple[int, ...], spare: int) -> torch.Tensor:
    """Random balanced residues, their storage going on for `spare` rows."""
    flat = torch.empty(
        (len(moduli) * batch * rows + spare) * pitch, dtype=torch.int8, device=DEVICE
    )
    shape = (len(moduli), batch, rows, pitch)
    found = flat[: len(moduli) * batch * rows * pitch].view(shape)
    for z, p in enumerate(moduli):
        found[z].random_(-(p // 2), (p + 1) // 2)
    return found


def multiply(
    left: torch.Tensor, right: torch.Tensor, out: torch.Tensor, pairs: Planes, k: int,
    tile: tiles.Tile | None = None,
) -> None:  # fmt: skip
    """One launch of the Hopper kernel."""
    run = launcher(left, right, out, pairs, k, tile=tile)
    run(left.data_ptr(), right.data_ptr(), out.data_ptr())


def expected(
    left: torch.Tensor, right: torch.Tensor, k: int, z: int, p: int, w: int
) -> torch.Tensor:
    """Plane z, (batch, m, n)."""
    sums = left[z, ..., :k].double() @ right[z, ..., :k].double().mT
    return (sums.long() * w) % p


def wrong(
    left: torch.Tensor,
    right: torch.Tensor,
    k: int,
    pairs: Planes,
    tile: tiles.Tile | None,
) -> int:
    """How many elements of a product are not as expected, and bytes around it that changed."""
    count, batch = len(pairs), max(left.shape[1], right.shape[1])
    m, n = left.shape[2], right.shape[2]
    pitch, guard = up(n) + random.choice((0, 16)), 4096
    size = count * batch * m * pitch
    flat = torch.full((size + 2 * guard,), POISON, dtype=torch.uint8, device=DEVICE)
    out = flat[guard : guard + size].view(count, batch, m, pitch)
    multiply(left, right, out, pairs, k, tile)
    outside = torch.cat((flat[:guard], flat[guard + size :]))
    bad = int((outside != POISON).sum())
    for z, (p, w) in enumerate(pairs):
        bad += int((out[z, ..., :n].long() != expected(left, right, k, z, p, w)).sum())
    return bad


def check_shapes(tile: tiles.Tile | None, count: int) -> int:
    """Random odd shapes, pitches, broadcast batches, moduli."""
    bad = 0
    for _ in range(count):
        m, n, k = (random.choice(SIZES) for _ in range(3))
        left_batch, right_batch = random.choice(((1, 1), (3, 1), (1, 3), (2, 2)))
        moduli = tuple(random.choice((*MODULI, 2, 3, 128, 254)) for _ in range(3))
        pairs = tuple((p, random.randrange(p)) for p in moduli)
        spare = random.choice((0, 63))
        left = planes(left_batch, m, up(k) + random.choice((0, 16)), moduli, 0)
        right = planes(right_batch, n, up(k) + random.choice((0, 16)), moduli, spare)
        bad += wrong(left, right, k, pairs, tile)
    return bad


def check_extremes() -> int:
    """Sums beyond int32: the largest digits with equal signs, any int8 at any modulus."""
    bad = 0
    pairs = ((256, 255), (255, 254), (253, 1), (3, 2))
    moduli = tuple(p for p, _ in pairs)
    for k in (1023 * 128, 1023 * 128 + 1, 2**17, 2**18 + 77):
        for x, y in ((-128, -128), (127, 127), (-128, 127), (127, -127)):
            left = torch.full((4, 1, 65, up(k)), x, dtype=torch.int8, device=DEVICE)
            right = torch.full((4, 1, 64, up(k)), y, dtype=torch.int8, device=DEVICE)
            bad += wrong(left, right, k, pairs, None)
    left, right = planes(1, 500, 140_000, moduli, 0), planes(1, 257, 140_000, moduli, 0)
    return bad + wrong(left, right, 139_999, pairs, None)


def check_large() -> int:
    """More tiles than blocks, neither a multiple of the other."""
    left = planes(1, 4097, 512, MODULI[:3], 0)
    right = planes(2, 4097, 512, MODULI[:3], 0)
    return wrong(left, right, 500, PAIRS[:3], None)


def check_graph() -> int:
    """A captured launch gives the same again."""
    left, right = planes(1, 300, 320, MODULI, 0), planes(1, 300, 320, MODULI, 0)
    outs = [torch.zeros((14, 1, 300, 304), dtype=torch.uint8, device=DEVICE) for _ in range(2)]
    multiply(left, right, outs[0], PAIRS, 320)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        multiply(left, right, outs[1], PAIRS, 320)
    graph.replay()
    return int((outs[0][..., :300] != outs[1][..., :300]).sum())


def named(tile: tiles.Tile) -> str:
    shared = "" if tile.cluster == 1 else " left" if tile.share_left else " right"
    return f"{tile.rows}x{tile.columns}{shared}"


def check() -> int:
    found = {"large": check_large(), "extremes": check_extremes(), "graph": check_graph()}
    for tile in (None, *tiles.HOPPER):
        name = named(tile) if tile else "chosen"
        found[name] = check_shapes(tile, 40)
    for name, bad in found.items():
        print(f"check {name:14} {'right' if bad == 0 else f'{bad} WRONG'}")
    return sum(found.values())


def seconds(m: int, n: int, k: int, tile: tiles.Tile | None, repetitions: int) -> float:
    """Median time of one launch, the launches queued up beforehand."""
    left, right = planes(1, m, up(k), MODULI, 0), planes(1, n, up(k), MODULI, 63)
    out = torch.full((14, 1, m, up(n)), POISON, dtype=torch.uint8, device=DEVICE)
    return timed(lambda: multiply(left, right, out, PAIRS, k, tile), repetitions)


def timed(work: Callable[[], object], repetitions: int) -> float:
    """Median seconds of `work`, queued up beforehand."""
    events = [
        (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
        for _ in range(repetitions)
    ]
    work()
    torch.cuda.synchronize()
    time.sleep(0.3)  # the card cools; long runs are slowed by its power limit
    torch.cuda._sleep(3_000_000)
    for start, stop in events:
        start.record()
        work()
        stop.record()
    torch.cuda.synchronize()
    return median(start.elapsed_time(stop) for start, stop in events) / 1000


def compare_halves(n: int) -> bool:
    """Print milliseconds of an ordinary product and of one by halves; whether bytes are equal."""
    layout = residues(128, 109.0, 1)
    left, right = planes(1, n, n, layout.moduli, 0), planes(1, n, n, layout.moduli, 0)
    wanted = gpu_multiply.multiply(left, right, layout, n)
    same = torch.equal(gpu_multiply.multiply_by_halves(left, right, layout, n, 2), wanted)
    del wanted
    ordinary = timed(lambda: gpu_multiply.multiply(left, right, layout, n), 6)
    halves = timed(lambda: gpu_multiply.multiply_by_halves(left, right, layout, n, 2), 6)
    print(
        f"n = {n}: ordinary {1000 * ordinary:.2f} ms, by halves {1000 * halves:.2f}, bytes "
        f"{'equal' if same else 'DIFFER'}", flush=True,
    )  # fmt: skip
    return same


def time_sums(n: int, slices: int) -> None:
    """Print TOP/s of all sums of ozIMMU_H, digits up to 64, in the large tiles, and the choice."""
    left, right = (
        torch.randint(-64, 65, (slices, 1, n, n), dtype=torch.int8, device=DEVICE) for _ in "ab"
    )
    out = torch.empty((slices, 1, n, n), dtype=torch.int32, device=DEVICE)
    sums = tuple(reversed(schedule(slices, addends(n))))
    rates = {
        named(tile) if tile else "chosen": 2e-12 * n**3 * products(slices)
        / timed(lambda tile=tile: multiply_sums(left, right, out, n, sums, tile), 6)
        for tile in (*tiles.HOPPER[:3], None)
    }  # fmt: skip
    print(n, slices, *(f"{name} {rate:.0f}" for name, rate in rates.items()), sep=", ", flush=True)


def compare_portable(n: int) -> bool:
    """Print TOP/s of Hopper's kernel and of the portable one; whether bytes are equal."""
    left, right = planes(1, n, n, MODULI, 0), planes(1, n, n, MODULI, 0)
    found, rates = [], []
    for portable in (False, True):
        with patch.object(gpu_multiply, "is_hopper", lambda device, own=not portable: own):
            found.append(gpu_multiply.products(left, right, PAIRS, n))
            seconds = timed(
                lambda: gpu_multiply.multiply_into(left, right, PAIRS, n, found[-1]), 10
            )
        rates.append(28e-12 * n**3 / seconds)
    same = torch.equal(*found)
    print(
        f"n = {n}: Hopper's {rates[0]:.0f} TOP/s, portable {rates[1]:.0f}, bytes "
        f"{'equal' if same else 'DIFFER'}", flush=True,
    )  # fmt: skip
    return same


def measure(shape: tuple[int, int, int], tile: tiles.Tile | None) -> dict[str, object]:
    m, n, k = shape
    used = tile or tiles.choose(m, n, k, 14, 132)
    found = seconds(m, n, k, tile, 10)
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "m": m,
        "n": n,
        "k": k,
        "planes": 14,
        "tile": named(used),
        "chosen": tile is None,
        "seconds": found,
        "tops": 14 * 2 * m * n * k / found / 1e12,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="append rows to this file")
    parser.add_argument("--every-tile", action="store_true", help="time each tile, not the choice")
    parser.add_argument("--no-check", action="store_true")
    parser.add_argument("--halves", action="store_true", help="compare products by halves instead")
    parser.add_argument("--sums", action="store_true", help="time sums of slices instead")
    parser.add_argument("--portable", action="store_true", help="compare with Triton's instead")
    arguments = parser.parse_args()
    random.seed(1)
    torch.manual_seed(1)
    if arguments.halves:
        raise SystemExit(not all(list(map(compare_halves, (8192, 12288, 16384)))))
    if arguments.portable:
        raise SystemExit(not all(list(map(compare_portable, (2048, 4096, 8192)))))
    if arguments.sums:
        for n, slices in ((4096, 8), (4096, 10), (4096, 12), (8192, 8), (16384, 3), (16384, 6)):
            time_sums(n, slices)
        return
    bad = 0 if arguments.no_check else check()
    print(f"{'m':>6} {'n':>6} {'k':>6}  tile                 ms   TOP/s")
    for shape in SHAPES:
        for tile in tiles.HOPPER if arguments.every_tile else (None,):
            row = measure(shape, tile)
            print(
                f"{shape[0]:6} {shape[1]:6} {shape[2]:6}  {row['tile']:14}"
                f"  {1000 * float(str(row['seconds'])):8.3f}  {float(str(row['tops'])):6.0f}",
                flush=True,
            )
            if arguments.json:
                append(arguments.json, row)
    raise SystemExit(bad != 0)


if __name__ == "__main__":
    main()
