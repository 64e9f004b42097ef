"""All operators of PyTorch: each is taken over, opened, reported, or known not to multiply."""

from __future__ import annotations

import pytest
import torch

from widen.emulate import operators
from widen.emulate.operators import HARMLESS, INTERPOLATES, MULTIPLIES, STRUCTURAL, Action, way_of
from widen.emulate.products import READERS


def overloads():
    """Every operator of the namespace aten that Python can call."""
    found = []
    for full in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = full.partition("::")
        name, _, overload = rest.partition(".")
        packet = getattr(torch.ops.aten, name, None) if namespace == "aten" else None
        if packet is not None and (overload or "default") in packet.overloads():
            try:
                found.append(getattr(packet, overload or "default"))
            except RuntimeError:  # registered without a schema
                continue
    return found


OVERLOADS = overloads()
NAMES = {func._schema.name.removeprefix("aten::") for func in OVERLOADS}


def test_there_are_operators():
    assert len(OVERLOADS) > 2000
    assert {"mm", "addmm", "convolution", "linalg_inv_ex"} <= NAMES


def test_names_in_the_tables_are_operators():
    """So that a name which PyTorch changes is not lost silently."""
    assert set(READERS) <= NAMES
    assert set(HARMLESS) <= NAMES
    assert set(STRUCTURAL) - NAMES <= {"mT", "mH", "adjoint", "numpy_T", "matrix_H", "ravel"}


def test_every_operator_that_multiplies_by_name_is_accounted_for():
    for func in OVERLOADS:
        name = func._schema.name.removeprefix("aten::")
        if not MULTIPLIES.search(name) or name in HARMLESS or INTERPOLATES.search(name):
            continue
        if name in STRUCTURAL:
            assert func._can_decompose()
            continue
        way = way_of(func)
        assert way.action is not Action.PASS, name
        assert (way.action is Action.REPORT) == bool(way.reason)


@pytest.mark.parametrize(("name", "action"), [
    ("mm.default", Action.TAKE), ("mm.out", Action.TAKE), ("mm.dtype", Action.TAKE),
    ("addmm_.default", Action.TAKE), ("matmul.default", Action.OPEN),
    ("linear.default", Action.OPEN),
    ("scaled_dot_product_attention.default", Action.OPEN), ("lstm.input", Action.OPEN),
    ("_euclidean_dist.default", Action.OPEN), ("convolution.default", Action.REPORT),
    ("_scaled_dot_product_flash_attention_for_cpu.default", Action.REPORT),
    ("mkldnn_rnn_layer.default", Action.REPORT), ("_cudnn_rnn.default", Action.REPORT),
    ("linalg_lu_factor_ex.default", Action.REPORT), ("_int_mm.default", Action.REPORT),
    ("_scaled_mm.default", Action.REPORT), ("add.Tensor", Action.PASS),
    ("detach.default", Action.PASS),
    ("native_layer_norm.default", Action.PASS), ("upsample_bilinear2d.default", Action.PASS),
    ("reshape.default", Action.PASS), ("_thnn_fused_lstm_cell.default", Action.PASS),
])  # fmt: skip
def test_examples(name, action):
    packet, overload = name.split(".")
    assert way_of(getattr(getattr(torch.ops.aten, packet), overload)).action is action


def test_an_operator_that_pytorch_adds_is_reported_by_its_name():
    assert MULTIPLIES.search("_new_grouped_matmul_v3")
    assert operators.reason_of("_new_grouped_matmul_v3") == "operands with scales or in groups"
    assert MULTIPLIES.search("some_fused_attention")
    assert not MULTIPLIES.search("embedding")
