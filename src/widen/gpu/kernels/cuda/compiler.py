"""CUDA C++ compiled by NVRTC at run time, kept on disk, and loaded: no nvcc, no toolkit headers.

NVRTC is called through cuda.bindings, which come with PyTorch and know where its library is; the
driver, whose library is in one place, through `gpu.replay.driver`.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from widen.gpu.code import store
from widen.gpu.replay import driver
from widen.stages.compiling import kept
from widen.stages.compiling.notices import CUDA, logger
from widen.stages.compiling.once import Once


def _called(result: tuple[Any, ...]) -> Any:
    """What a function of NVRTC gives beside its status, which must be success."""
    if int(result[0]) != 0:
        raise RuntimeError(f"NVRTC: {result[0]!r}")
    return result[1] if len(result) == 2 else result[1:]


def _cache_directory() -> Path:
    return Path.home() / ".cache" / "widen"


def _compiled(source: str, headers: dict[str, str], options: tuple[str, ...]) -> bytes:
    nvrtc = import_module("cuda.bindings.nvrtc")
    texts, names = [x.encode() for x in headers.values()], [x.encode() for x in headers]
    program = _called(
        nvrtc.nvrtcCreateProgram(source.encode(), b"multiply.cu", len(names), texts, names)
    )
    status = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])[0]
    if int(status) != 0:
        log = b" " * _called(nvrtc.nvrtcGetProgramLogSize(program))
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(f"NVRTC refused multiply.cu: {status!r}\n{log.decode()}")
    binary: bytes = b" " * _called(nvrtc.nvrtcGetCUBINSize(program))
    _called(nvrtc.nvrtcGetCUBIN(program, binary))
    nvrtc.nvrtcDestroyProgram(program)
    return binary


FOLDER = Path(__file__).parent


def _sources(end: Path) -> dict[str, str]:
    """All that a compilation reads: this folder's files, and the end under its name."""
    texts = {
        path.name: path.read_text(encoding="utf-8")
        for path in sorted(FOLDER.iterdir())
        if path.suffix in (".cu", ".cuh")
    }
    return {**texts, "end.cuh": end.read_text(encoding="utf-8")}


def shipped_key(end: Path, options: tuple[str, ...]) -> str:
    """What a kernel that came with the package is known by: all that was compiled."""
    return hashlib.sha256(repr((_sources(end), options)).encode()).hexdigest()


def compiled(end: Path, options: tuple[str, ...]) -> bytes:
    """The kernel with one of its ends, compiled now."""
    texts = _sources(end)
    return _compiled(texts.pop("multiply.cu"), texts, options)


def _binary(end: Path, options: tuple[str, ...]) -> bytes:
    """The compiled kernel, from the cache on disk where it is there: keyed by all that made it."""
    texts = _sources(end)
    compiler = _called(import_module("cuda.bindings.nvrtc").nvrtcVersion())
    made_by = texts, options, compiler, driver.version()
    key = hashlib.sha256(repr(made_by).encode()).hexdigest()
    name = f"multiply-{key[:32]}.cubin"
    with suppress(RuntimeError):  # there is no home at all
        stored = kept.read(_cache_directory() / name, stamp=b"")
        if stored is not None:
            return stored
    started = CUDA.start("multiply.cu")
    binary = compiled(end, options)
    CUDA.finish("multiply.cu", started)
    with suppress(OSError, RuntimeError):  # then the next process compiles again
        kept.write(_cache_directory() / name, b"", binary)
    return binary


def _loaded(end: Path, options: tuple[str, ...], shared_bytes: int) -> int:
    """The kernel in the current context, a Hopper GPU's."""
    shipped = store.pack_of(ARCHITECTURE).get(shipped_key(end, options))
    if shipped is not None:
        try:
            return driver.load(shipped, b"multiply", shared_bytes)
        except RuntimeError as error:  # made by an assembler that the driver does not know
            logger.warning("multiply.cu is compiled: what was kept does not load (%s)", error)
    return driver.load(_binary(end, options), b"multiply", shared_bytes)


ARCHITECTURE = 90

_functions: Once[int] = Once()


def function(end: Path, options: tuple[str, ...], shared_bytes: int, device: int) -> int:
    """The kernel with one of its ends (a header), loaded on a device, whose context is current."""
    key = end, options, shared_bytes, device
    return _functions.made(key, lambda: _loaded(end, options, shared_bytes), turn=key)
