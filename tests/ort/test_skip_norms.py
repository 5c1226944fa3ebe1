"""A residual sum with its norm, on demand."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import onnxexp
from onnxexp_ort import SkipNorms
from tests.ort.llama import operators

torch.manual_seed(0)
SUM = torch.randn(2, 3, 8), torch.randn(2, 3, 8)
SKIP, SIMPLE = "com.microsoft::SkipLayerNormalization", "com.microsoft::SkipSimplifiedLayerNormalization"


def exported(fn: torch.nn.Module, args: tuple[Any, ...], axes: Any = None, **options: Any) -> onnxexp.ONNXProgram:
    program = onnxexp.export(fn, args, dynamic_shapes=axes, plugins=[SkipNorms(), ...], debug=True, **options)
    assert program.verify().ok
    return program


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


def test_the_target_alone_has_none() -> None:
    program = onnxexp.export(Norm(torch.nn.LayerNorm(8)), SUM, target="onnxruntime-contrib")
    assert (operators(program)[SKIP], operators(program)["Add"]) == (0, 1)
