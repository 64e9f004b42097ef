"""A product larger than memory.

Two matrices and their product lie in files, 168 MB in all, and the process may take 100 MB more
than it has. `widen.matmul` reads and writes memory maps in blocks that fit `workspace`, so that it
never holds the product. The bits are those of a product in memory: blocks change nothing.

It prints:

    the product does not fit in memory
    the product is in its file, with the same bits: True
"""

import resource
import tempfile
from pathlib import Path

import numpy as np

import widen

N, K, LIMIT = 4096, 512, 100 * 10**6


def file(name, rows, columns):
    """A matrix in a new file."""
    return np.lib.format.open_memmap(name, "w+", "float64", (rows, columns))


def memory():
    """Bytes of memory of its own that this process has."""
    status = Path("/proc/self/status").read_text()
    return next(int(x.split()[1]) * 1024 for x in status.splitlines() if x.startswith("VmData"))


with tempfile.TemporaryDirectory() as folder:
    a, b = file(f"{folder}/a.npy", N, K), file(f"{folder}/b.npy", K, N)
    c = file(f"{folder}/c.npy", N, N)
    rng = np.random.default_rng(1)
    a[:], b[:] = rng.random((N, K)) - 0.5, rng.random((K, N)) - 0.5

    widen.matmul(a[:64], b[:, :64], accuracy="fast")  # compiles, and starts threads
    resource.setrlimit(resource.RLIMIT_DATA, (memory() + LIMIT, resource.RLIM_INFINITY))
    try:
        np.empty((N, N)).fill(0.0)
    except MemoryError:
        print("the product does not fit in memory")
    widen.matmul(a, b, out=c, workspace="64MB", accuracy="fast")

    row = widen.matmul(a[:1], b[:, :8], accuracy="fast")
    print("the product is in its file, with the same bits:", bool(np.all(c[0, :8] == row)))
