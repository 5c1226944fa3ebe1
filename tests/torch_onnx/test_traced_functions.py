"""traced_functions.py: plain functions in `custom_translation_table`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import onnx_ir as ir
import onnxscript
import pytest
import torch
from onnxscript.onnx_opset import opset18 as op

import onnxexp
import onnxexp_torch_onnx as onnx_exporter
from onnxexp_torch_onnx.errors import OnnxExporterWarning
from tests.core.test_restricted_calls import Model

X = torch.randn(3, 4)


def exported(function: Callable[..., Any], table: dict[Any, Any], x: torch.Tensor = X, **options: Any) -> Any:
    return onnx_exporter.export(Model(function), (x,), custom_translation_table=table, **options)


def bincount(self: Any, weights: Any = None, minlength: int = 0) -> Any:
    depth = op.Add(op.Unsqueeze(op.ReduceMax(self, keepdims=0), op.Constant(value_ints=[0])), op.Constant(value_ints=[1]))
    if minlength > 0:
        depth = op.Max(depth, op.Constant(value_ints=[minlength]))
    return op.ReduceSum(op.OneHot(self, depth, op.Constant(value_ints=[0, 1]), axis=-1), op.Constant(value_ints=[0]), keepdims=0)


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize("minlength", [0, 9])
def test_operators_of_onnxscript(opset: int, minlength: int) -> None:
    x = torch.tensor([1, 3, 3, 0])
    program = exported(lambda x: torch.bincount(x, minlength=minlength), {torch.ops.aten.bincount.default: bincount}, x,
                       opset_version=opset)  # fmt: skip
    torch.testing.assert_close(program(x), (torch.bincount(x, minlength=minlength),))
    assert "OneHot" in [node.op_type for node in program.model.graph]


def test_what_a_function_reads_of_a_value() -> None:
    seen: list[Any] = []

    def leaky(x: Any, negative_slope: Any = 0.01) -> Any:
        seen.append((str(x.shape), x.dtype, x.type, x.rank, x.const_value, x.name, negative_slope))
        return op.LeakyRelu(x, alpha=negative_slope)

    table = {torch.ops.aten.leaky_relu.default: leaky}
    program = exported(lambda x: torch.nn.functional.leaky_relu(x, 0.5), table, dynamic_shapes=({0: "rows"},))
    torch.testing.assert_close(program(X), (torch.nn.functional.leaky_relu(X, 0.5),))
    assert seen[-1] == ("[rows,4]", ir.DataType.FLOAT, ir.TensorType(ir.DataType.FLOAT), 2, None, "x", 0.5)


def test_python_operators_and_several_results() -> None:
    def unbind(x: Any, dim: int = 0) -> Any:
        parts = op.Split(x, axis=dim, num_outputs=x.shape[dim])
        return [op.Squeeze(-(1.0 - (part * 2.0 + 1.0)) / 2.0, op.Constant(value_ints=[dim])) for part in parts]

    program = exported(lambda x: x.unbind(0), {torch.ops.aten.unbind.int: unbind})
    torch.testing.assert_close(program(X), X.unbind(0))


def test_the_contents_of_a_constant() -> None:
    def fill(x: Any, mask: Any, value: Any) -> Any:
        return op.Where(mask, op.Constant(value_float=float(value.const_value.numpy()) + 1), x)

    program = exported(lambda x: x.masked_fill(x > 0, torch.tensor(0.5)), {torch.ops.aten.masked_fill.Tensor: fill})
    torch.testing.assert_close(program(X), (X.masked_fill(X > 0, 1.5),))


def test_functions_of_onnxscript_in_a_plain_one() -> None:
    @onnxscript.script(onnxscript.values.Opset("mine", 1))
    def doubled(x):
        return op.Add(x, x)

    def negative(x: Any) -> Any:
        return op.Neg(doubled(x))

    traced = onnxscript.values.TracedOnnxFunction(onnxscript.values.Opset("mine", 1), negative)
    program = exported(torch.relu, {torch.ops.aten.relu.default: traced})
    assert [(node.domain, node.op_type) for node in program.model.graph] == [("mine", "doubled"), ("", "Neg")]
    torch.testing.assert_close(program(X), (-2 * X,))


def test_arguments_that_a_function_lacks() -> None:
    def add(x: Any, y: Any) -> Any:
        return op.Add(x, y)

    table = {torch.ops.aten.add.Tensor: add}
    torch.testing.assert_close(exported(lambda x: torch.add(x, x), table)(X), (X + X,))
    with pytest.raises(onnxexp.LoweringError, match="add takes 2 arguments of the operator, and the call has 3"):
        exported(lambda x: torch.add(x, x, alpha=2), table)


def test_a_function_of_python_has_no_effect() -> None:
    with pytest.warns(OnnxExporterWarning, match="floordiv.* has no effect: onnxexp computes sizes itself"):
        program = exported(lambda x: x[: x.shape[0] // 2], {operator.floordiv: add_sizes}, dynamic_shapes=({0: "rows"},))
    torch.testing.assert_close(program(torch.ones(7, 4)), (torch.ones(3, 4),))


def add_sizes(x: Any, y: Any) -> Any:
    raise AssertionError
