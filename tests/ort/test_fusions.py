"""The passes of onnxexp_ort: rotary embeddings, sums with their norms, activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import onnxexp
from tests.aten.test_fuse_rotary import ANGLES, FITTING, X, of_positions
from tests.ort.llama import operators

torch.manual_seed(0)
SUM = torch.randn(2, 3, 8), torch.randn(2, 3, 8)
SKIP, SIMPLE = "com.microsoft::SkipLayerNormalization", "com.microsoft::SkipSimplifiedLayerNormalization"


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


class Norm(torch.nn.Module):
    """The norm of a sum; the sum is returned, or used before and after."""

    def __init__(self, norm: torch.nn.Module, returned: bool = True) -> None:
        super().__init__()
        self.norm, self.returned = norm, returned
        for parameter in norm.parameters():
            torch.nn.init.normal_(parameter)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        total = x + y
        before = total.tanh()
        return (self.norm(total), total, before) if self.returned else self.norm(total)


class ByHand(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-3))


ROWS = {0: "batch", 1: "sequence"}
NORMS = {
    "layer norm": (Norm(torch.nn.LayerNorm(8)), SKIP, 17),
    "layer norm without bias": (Norm(torch.nn.LayerNorm(8, bias=False)), SKIP, 20),
    "only the norm": (Norm(torch.nn.LayerNorm(8, eps=1e-3), returned=False), SKIP, 17),
    "RMS norm": (Norm(torch.nn.RMSNorm(8)), SIMPLE, 20),
    "RMS norm of opset 23": (Norm(torch.nn.RMSNorm(8, eps=1e-4)), SIMPLE, 23),
    "by hand": (Norm(ByHand()), SIMPLE, 13),
    "by hand, opset 24": (Norm(ByHand(), returned=False), SIMPLE, 24),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms_of_sums(name: str) -> None:
    model, operator, opset = NORMS[name]
    program = exported(model, SUM, (ROWS, ROWS), opset_version=opset)
    assert operators(program)[operator] == 1
    assert operators(program)["Add"] == 0
    for batch, length in ((1, 1), (5, 7), (0, 2)):
        more = torch.randn(batch, length, 8), torch.randn(batch, length, 8)
        torch.testing.assert_close(program(*more), model(*more), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("model", "args"),
    [
        (Norm(torch.nn.LayerNorm(8)), (SUM[0], torch.randn(8))),
        (Norm(torch.nn.LayerNorm(8)), (SUM[0], torch.randn(1, 3, 8))),
        (Norm(torch.nn.LayerNorm((3, 8))), SUM),
        (Norm(torch.nn.RMSNorm(8)), (torch.randn(2, 3, 4, 8), torch.randn(2, 3, 4, 8))),
        (Norm(torch.nn.LayerNorm(8)).double(), (SUM[0].double(), SUM[1].double())),
        (Norm(torch.nn.RMSNorm(8)).half(), (SUM[0].half(), SUM[1].half())),
    ],
)
def test_norms_that_do_not_fit_stay(model: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> None:
    found = operators(exported(model, args))
    assert (found[SKIP], found[SIMPLE]) == (0, 0)


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
