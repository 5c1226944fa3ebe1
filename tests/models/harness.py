"""Export a model, and compare ONNX Runtime's results with eager's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import onnx
import torch
from torch import nn
from torch.utils import _pytree as pytree

import onnxexp

from .case import Inputs, ModelCase, Sizes


def opset_of(proto: onnx.ModelProto) -> int:
    """Return the version of the default domain that the model declares."""
    return next(entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx"))


def free_axes(proto: onnx.ModelProto) -> list[str]:
    """Return the sorted names of the inputs' dynamic axes, "" for unnamed ones."""
    dims = [dim for value in proto.graph.input for dim in value.type.tensor_type.shape.dim]
    return sorted(dim.dim_param for dim in dims if dim.WhichOneof("value") != "dim_value")


def assert_same(actual: Any, expected: Any, atol: float, rtol: float) -> None:
    """Compare structure, types and values; tensors within the tolerance."""
    actual_leaves, actual_structure = pytree.tree_flatten(actual)
    expected_leaves, expected_structure = pytree.tree_flatten(expected)
    assert actual_structure == expected_structure
    for one, other in zip(actual_leaves, expected_leaves, strict=True):
        if isinstance(other, torch.Tensor):
            torch.testing.assert_close(one, other, atol=atol, rtol=rtol)
        else:
            assert one == other


def assert_agrees(
    program: onnxexp.ONNXProgram,
    model: nn.Module,
    inputs: Callable[[Sizes], Inputs],
    at: Iterable[Sizes],
    atol: float,
    rtol: float,
) -> None:
    """Check that program and model give the same results at each of the sizes."""
    for sizes in at:
        args, kwargs = inputs(sizes)
        with torch.no_grad():
            expected = model(*args, **kwargs)
        args, kwargs = inputs(sizes)  # anew: a model may change its arguments, a cache for one
        try:
            assert_same(program(*args, **kwargs), expected, atol, rtol)
        except AssertionError as error:
            raise AssertionError(f"at {dict(sizes)}: {error}") from error


def check_case(case: ModelCase, opset: int, capture: str = "export") -> onnxexp.ONNXProgram:
    """Export the case; assert a valid file, named free axes, and eager's values."""
    model = case.build()
    args, kwargs = case.inputs(case.sizes)
    program = onnxexp.export(model, args, kwargs=kwargs, dynamic_shapes=case.dynamic_shapes, opset_version=opset, capture=capture)
    proto = program.model_proto
    onnx.checker.check_model(proto, full_check=True)
    assert opset_of(proto) == opset
    assert free_axes(proto) == sorted(leaf for leaf in pytree.tree_leaves(case.dynamic_shapes) if isinstance(leaf, str))
    assert_agrees(program, model, case.inputs, (case.sizes, *case.other_sizes), case.atol, case.rtol)
    return program
