"""The process that compiles kernels for another one, several at once: it divides itself.

It reads jobs, (key, variant, architecture), keeps what it compiles where all processes look for it
(`gpu.code.store`), and says its key, whether that went well or not. It ends with its input.
"""

from __future__ import annotations

import os
import pickle
import sys
from contextlib import suppress
from typing import Any

from triton import knobs

from widen.gpu.code.compiler import made


def main() -> None:
    """Read, divide, compile, say."""
    knobs.compilation.disable_line_info = True
    most, running = max(1, len(os.sched_getaffinity(0))), 0
    while True:
        job = _next()
        if job is None:
            break
        if running >= most:
            os.wait()
            running -= 1
        if os.fork() == 0:
            _work(*job)
            os._exit(0)
        running += 1
    while running > 0:
        os.wait()
        running -= 1


def _next() -> Any:
    """The next job, None if there is none any more."""
    size = sys.stdin.buffer.read(4)
    data = sys.stdin.buffer.read(int.from_bytes(size, "little")) if len(size) == 4 else b""
    return pickle.loads(data) if data else None


def _work(key: str, variant: Any, architecture: int) -> None:
    with suppress(Exception):  # whoever asked compiles it then, and sees why
        made(variant, architecture)
    os.write(1, f"{key}\n".encode())


if __name__ == "__main__":
    main()
