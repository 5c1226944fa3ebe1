"""Sizes whose expression is too long to read have short names in the file."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from onnxexp import export


def model(x: Tensor) -> dict[str, Tensor]:
    pooled = functional.avg_pool2d(x, 1, 2)
    long = torch.cat([pooled.flatten(), x[:, 0, 0, 0]])
    return {"short": pooled, "first": long.exp(), "second": long * 2}


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_an_output_with_a_long_size_names_it_after_itself(capture: Any) -> None:
    axes = ({0: "batch", 2: "height", 3: "width"},)
    program = export(model, (torch.randn(2, 1, 6, 9),), capture=capture, dynamic_shapes=axes)
    shapes = [[str(size) for size in output.shape or ()] for output in program.model.graph.outputs]
    assert shapes[1:] == [["first_dim_0"], ["first_dim_0"]]
    assert shapes[0][0] == "batch"
    first = program.model.metadata_props["onnxexp.sizes"].partition("; ")[0]
    name, _, expression = first.partition(" = ")
    assert name == "first_dim_0"
    assert len(expression) > 40
    assert {"batch", "height", "width"} <= set(expression.replace("(", " ").replace(")", " ").replace("*", " ").split())
    assert f"# size: {first}\n" in str(program)
    inside = {str(size) for node in program.model.graph for value in node.outputs for size in value.shape or ()}
    assert all(len(size) <= 40 for size in inside)
    x = torch.randn(3, 1, 5, 4)
    for found, expected in zip(program(x).values(), model(x).values(), strict=True):
        torch.testing.assert_close(found, expected)


def test_a_short_size_and_a_name_of_the_user_stay() -> None:
    name = "the_number_of_the_tokens_of_the_longest_sentence"
    program = export(lambda x: (x, x[:, 1:] * 2), (torch.randn(3, 4),), dynamic_shapes=({0: name, 1: "n"},))
    assert [str(size) for size in program.model.graph.outputs[1].shape or ()] == [name, "n - 1"]
    assert "onnxexp.sizes" not in program.model.metadata_props
