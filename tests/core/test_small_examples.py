"""Programs for an example of size 0 or 1, which torch.export takes as a larger one."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

import onnxexp

pytest.importorskip("onnxexp_aten", reason="the operators are the aten plugin's")
pytest.importorskip("onnxexp_torchscript", reason="it traces")

ONE = torch.rand(1, 3)
SHAPES = ({0: "n"},)


@torch.jit.script
def triple_if_small(x: torch.Tensor) -> torch.Tensor:
    if x.size(0) < 2:
        x = x * 3
        if x.size(0) == 0:
            x = torch.ones(2, x.size(1))
    return x


class Scripted(nn.Module):
    """A branch on a size in a scripted function."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return triple_if_small(x) + 1


@torch.jit.script
def double_if_empty(x: torch.Tensor) -> torch.Tensor:
    return torch.ones(2, x.size(1)) if x.size(0) == 0 else x * 2


class Emptiness(nn.Module):
    """A branch on a size of 0 in a scripted function."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return double_if_empty(x) + 1


class Branch(nn.Module):
    """A branch on a size in Python."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 3 if x.shape[0] < 2 else x


@pytest.mark.parametrize(("model", "example"), [(Scripted(), ONE), (Scripted(), ONE[:0]), (Emptiness(), ONE[:0])])
def test_a_scripted_branch_is_kept(model: nn.Module, example: torch.Tensor) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onnxexp.export(model, (example,), dynamic_shapes=SHAPES)
    assert "onnxexp.restrictions" not in program.model.metadata_props
    for size in (0, 1, 2, 5):
        x = torch.rand(size, 3)
        torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize("capture", ["auto", "export"])
def test_the_excluded_example_is_named(capture: str) -> None:
    model = Branch() if capture == "auto" else Scripted()
    text = "right only where n >= 2, and the example has other sizes: .* to fix this, give an example"
    with pytest.warns(UserWarning, match=text):
        program = onnxexp.export(model, (ONE,), dynamic_shapes=SHAPES, capture=capture)
    torch.testing.assert_close(program(torch.cat([ONE, ONE])), model(torch.cat([ONE, ONE])))
    with pytest.raises(onnxexp.OnnxExporterError, match="the call has other sizes"):
        program(ONE)


def test_emptiness_that_changes_the_result_is_named() -> None:
    """torch.export has no guard of ``size == 0``."""
    model = Emptiness()
    with pytest.warns(UserWarning, match=r"right only where n != 0, and the example has other sizes"):
        program = onnxexp.export(model, (ONE[:0],), dynamic_shapes=SHAPES, capture="export")
    torch.testing.assert_close(program(ONE), model(ONE))
    with pytest.raises(onnxexp.OnnxExporterError, match="the call has other sizes"):
        program(ONE[:0])


def test_an_empty_example_of_a_model_without_branches() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onnxexp.export(nn.Dropout(), (ONE[:0],), dynamic_shapes=SHAPES, training="training", capture="export")
    assert "onnxexp.restrictions" not in program.model.metadata_props
