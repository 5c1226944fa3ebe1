"""The passes of onnxexp_ort: rotary embeddings and activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import onnxexp
from tests.aten.passes.test_fuse_rotary import ANGLES, FITTING, X, of_positions
from tests.ort.llama import operators

torch.manual_seed(0)
SUM = torch.randn(2, 3, 8), torch.randn(2, 3, 8)


def exported(fn: Callable[..., Any], args: tuple[Any, ...], axes: Any = None, **options: Any) -> onnxexp.ONNXProgram:
    program = onnxexp.export(fn, args, dynamic_shapes=axes, target="onnxruntime-contrib", debug=True, **options)
    assert program.verify().ok
    return program


@pytest.mark.parametrize("name", FITTING)
def test_rotary_embeddings(name: str) -> None:
    fn, x, angles, *axes = FITTING[name]
    program = exported(fn, (x, angles), tuple(axes) if axes[0] else None, opset_version=17)
    assert operators(program)["com.microsoft::RotaryEmbedding"] == 1
    for batch, length in ((1, 1), (5, 7)) if axes[0] else ():
        more, shape = torch.randn(batch, 4, length, 8, dtype=x.dtype), list(angles.shape)
        shape[-2 if angles.is_floating_point() else -1] = length
        shape[0] = batch if angles.dim() == 3 or not angles.is_floating_point() else shape[0]
        given = torch.randn(shape, dtype=x.dtype) if angles.is_floating_point() else torch.randint(16, shape)
        tolerance = 1e-2 if x.dtype == torch.float16 else 1e-5
        torch.testing.assert_close(program(more, given), fn(more, given), rtol=tolerance, atol=tolerance)


def test_newer_opsets_have_their_own_rotary_embedding() -> None:
    assert operators(exported(of_positions, (X, ANGLES), opset_version=23))["RotaryEmbedding"] == 1


ROWS = {0: "batch", 1: "sequence"}


@pytest.mark.parametrize(
    ("fn", "alpha"),
    [(torch.nn.functional.silu, 1.0), (lambda x: x * torch.sigmoid(1.702 * x), 1.702), (lambda x: torch.sigmoid(x * 2) * x, 2.0)],
)
def test_quick_gelu(fn: Callable[..., Any], alpha: float) -> None:
    program = exported(fn, (SUM[0],), (ROWS,))
    (node,) = program.model.graph
    assert (node.op_type, node.attributes.get_float("alpha")) == ("QuickGelu", pytest.approx(alpha))
    for size in ((1, 1, 8), (0, 3, 8), (5, 7, 8)):
        x = torch.randn(size)
        torch.testing.assert_close(program(x), fn(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("fn", "args"),
    [
        (torch.nn.functional.silu, (SUM[0].double(),)),
        (lambda x, y: x * torch.sigmoid(y), SUM),
        (lambda x: x * torch.sigmoid(torch.arange(8.0) * x), SUM[:1]),
        (lambda x: x * torch.sigmoid(x * torch.ones(1, 1, 1, 1)).sum(0), SUM[:1]),
    ],
)
def test_other_gates_stay(fn: Callable[..., Any], args: tuple[torch.Tensor, ...]) -> None:
    assert operators(exported(fn, args))["com.microsoft::QuickGelu"] == 0
