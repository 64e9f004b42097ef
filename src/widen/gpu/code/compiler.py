"""Triton kernels compiled for any GPU, whether it is there or not; Triton's own stages, one by one.

`triton.compile` would first work out a key from all of Triton's files (0.3 s a process) and keep
what it made; here the key is our own (`variants`), and so is what is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import ASTSource, make_backend

from widen.gpu.code import store
from widen.gpu.code.records import Code, TensorMap, Unsuitable, passing
from widen.gpu.code.variants import DIVISIBLE, ONE, Variant

HOST_KINDS = {8: 10, 9: 8, 10: 9}
"""Numbers of types in tensor maps, where the driver's differ from the device's (float64 and so)."""


def source_of(variant: Variant) -> Any:
    """A kernel for arguments of these types, as Triton's compiler reads it."""
    names = variant.kernel.arg_names
    given = len(variant.types)
    signature = {
        name: "constexpr" if kind == ONE else kind.removesuffix(DIVISIBLE)
        for name, kind in zip(names, variant.types, strict=False)
    }
    signature |= dict.fromkeys(names[given:], "constexpr")
    constants = {(at,): 1 for at, kind in enumerate(variant.types) if kind == ONE}
    constants |= {(given + at,): value for at, value in enumerate(variant.constants)}
    known = {
        (at,): [["tt.divisibility", 16]]
        for at, kind in enumerate(variant.types)
        if kind.endswith(DIVISIBLE)
    }
    return ASTSource(variant.kernel, signature, constants, known)


def compiled(variant: Variant, architecture: int) -> Code:
    """Machine code of a kernel for GPUs of a compute capability, 90 for 9.0."""
    target = GPUTarget("cuda", architecture, 32)
    backend, source = make_backend(target), source_of(variant)
    options = backend.parse_options(variant.how.options)
    facts: dict[str, Any] = {"target": target, **vars(options)}
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    module = source.make_ir(
        target, options, backend.get_codegen_implementation(options), backend.get_module_map(),
        context,
    )  # fmt: skip
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, source.language)
    made: dict[str, Any] = {}
    for name, stage in stages.items():
        made[name] = module = stage(module, facts)
    scratch = facts.get("global_scratch_size", 0) or facts.get("profile_scratch_size", 0)
    if scratch or facts["num_ctas"] > 1:
        raise Unsuitable(f"{variant.name} wants scratch memory or clusters")
    entry, maps = facts["name"], _maps(variant, facts)
    passed, hidden = passing(variant.types, maps, made["ptx"], entry)
    threads = 32 * facts["num_warps"]
    return Code(entry, threads, facts["shared"], passed, maps, hidden, made["cubin"])


def made(variant: Variant, architecture: int, refused: Sequence[bytes] = ()) -> bytes:
    """The same as it is kept, and kept; unless another process has made it meanwhile.

    What the driver `refused` to load is made again.
    """
    key = variant.key(architecture)
    with store.turn(key):
        code = store.read(key)
        if code is None or code in refused:
            code = compiled(variant, architecture).to_bytes()
            store.keep(key, code)
    return code


def _maps(variant: Variant, facts: dict[str, Any]) -> dict[int, TensorMap]:
    """Tensor maps of the descriptors among the arguments; none where GPUs have no bulk copies."""
    described = [at for at, kind in enumerate(variant.types) if kind.startswith("tensordesc")]
    known = facts.get("tensordesc_meta") or []
    if known and len(known) != len(described):
        raise Unsuitable(f"{variant.name}: {len(known)} maps of {len(described)} descriptors")
    maps = {}
    for at, fields in zip(described, known, strict=False):
        kind = HOST_KINDS.get(fields["elem_type"], fields["elem_type"])
        box = tuple(reversed(fields["block_size"]))
        maps[at] = TensorMap(kind, fields["elem_size"], fields["swizzle"], box)
    return maps
