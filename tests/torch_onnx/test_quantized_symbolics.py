"""The symbolics of quantized operators, and other names of ``symbolic_opset9`` to 20, called by a symbolic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import onnxexp
import onnxexp_torch_onnx as onnx_exporter
from onnxexp_autograd import Autograd
from onnxexp_torch_onnx import symbolic_helper, symbolic_opset8, symbolic_opset9, symbolic_opset10, symbolic_registry
from onnxexp_torch_onnx.errors import SymbolicValueError, UnsupportedOperatorError

SCALE, ZERO = 0.05, 3
X = torch.quantize_per_tensor(torch.randn(2, 4, 6), 0.04, 128, torch.quint8)
IMAGE = torch.quantize_per_tensor(torch.randn(1, 4, 5, 5), 0.04, 128, torch.quint8)
VOLUME = torch.quantize_per_tensor(torch.randn(1, 4, 4, 4, 4), 0.04, 128, torch.quint8)


def weight(*shape: int) -> torch.Tensor:
    return torch.quantize_per_tensor(torch.randn(shape) / 4, 0.01, 0, torch.qint8)


BIAS = torch.randn(4)
ONES, ZEROS = torch.ones(4), torch.zeros(4)
CASES: dict[str, tuple[torch.Tensor, list[Any], Callable[..., torch.Tensor]]] = {
    # name: the quantized input, the further arguments, what they compute in float32
    "add": (X, [X], torch.add),
    "add_relu": (X, [X], lambda x, y: (x + y).relu()),
    "mul": (X, [X], torch.mul),
    "hardswish": (X, [], F.hardswish),
    "sigmoid": (X, [], torch.sigmoid),
    "leaky_relu": (X, [0.1, False], lambda x, slope, inplace: F.leaky_relu(x, slope)),
    "layer_norm": (X, [[6], torch.ones(6), torch.zeros(6), 1e-5], F.layer_norm),
    "group_norm": (X, [2, ONES, ZEROS, 1e-5], F.group_norm),
    "instance_norm": (X, [ONES, ZEROS, 1e-5], lambda x, w, b, eps: F.instance_norm(x, weight=w, bias=b, eps=eps)),
    "linear": (X, [weight(3, 6), torch.randn(3)], F.linear),
    "linear_relu": (X, [weight(3, 6), None], lambda *args: F.linear(*args).relu()),
}
for rank, given in ((1, X), (2, IMAGE), (3, VOLUME)):
    places = [[1] * rank, [0] * rank, [1] * rank]
    conv, transposed = getattr(F, f"conv{rank}d"), getattr(F, f"conv_transpose{rank}d")
    CASES[f"conv{rank}d"] = (given, [weight(4, 2, *[2] * rank), BIAS, *places, 2], conv)
    CASES[f"conv{rank}d_relu"] = (given, [weight(4, 4, *[2] * rank), BIAS, *places, 1], lambda *a, conv=conv: conv(*a).relu())
    CASES[f"conv_transpose{rank}d"] = (
        given, [weight(4, 4, *[2] * rank), BIAS, [2] * rank, [0] * rank, [1] * rank, [1] * rank, 1],
        lambda x, w, b, stride, pad, out, dilation, groups, f=transposed: f(x, w, b, stride, pad, out, groups, dilation),
    )  # fmt: skip


class Stand(torch.autograd.Function):
    """A Function that the symbolic under test replaces."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        return like.clone()


def run(symbolic: Callable[..., Any], x: torch.Tensor, like: torch.Tensor, opset: int = 20) -> torch.Tensor:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return Stand.apply(x, like)

    program = onnxexp.export(Model(), (x,), opset_version=opset, plugins=[Autograd({Stand: symbolic}), ...])
    (result,) = onnx_exporter.ONNXProgram.of(program, None)(x)
    return result


def quantized(g: Any, tensor: torch.Tensor) -> Any:
    """Build a quantized constant in a symbolic."""
    scale = g.op("Constant", value_t=torch.tensor(tensor.q_scale(), dtype=torch.float32))
    zero = g.op("Constant", value_t=torch.tensor(tensor.q_zero_point(), dtype=tensor.int_repr().dtype))
    return g.op("prim::TupleConstruct", g.op("Constant", value_t=tensor.int_repr()), scale, zero)


def argument(g: Any, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return quantized(g, value) if value.is_quantized else g.op("Constant", value_t=value)
    return g.scratch.value(value)


@pytest.mark.parametrize("name", CASES)
def test_quantized(name: str) -> None:
    first, rest, function = CASES[name]
    floats = [each.dequantize() if isinstance(each, torch.Tensor) and each.is_quantized else each for each in rest]
    expected = torch.quantize_per_tensor(function(first.dequantize(), *floats), SCALE, ZERO, torch.quint8)

    def symbolic(g: Any, x: Any, like: Any) -> Any:
        scale = g.op("Constant", value_t=torch.tensor(0.04))
        zero = g.op("Constant", value_t=torch.tensor(128, dtype=torch.uint8))
        operator = getattr(symbolic_opset10, f"quantized_{name}")
        into = g.op("Constant", value_t=torch.tensor(SCALE)), g.op("Constant", value_t=torch.tensor(ZERO, dtype=torch.uint8))
        given = [symbolic_helper.quantize_helper(g, x, scale, zero), *(argument(g, each) for each in rest)]
        return symbolic_helper.dequantize_helper(g, operator(g, *given, *into))[0]

    result = run(symbolic, first.dequantize(), expected.dequantize())
    steps = (result - expected.dequantize()).abs() / SCALE
    assert steps.max() < 1.01 and (steps > 0.5).float().mean() < 0.05


def test_quantized_cat() -> None:
    def symbolic(g: Any, x: Any, like: Any) -> Any:
        one, scale = quantized(g, X), g.op("Constant", value_t=torch.tensor(SCALE))
        zero = g.op("Constant", value_t=torch.tensor(ZERO, dtype=torch.uint8))
        made = symbolic_opset10.quantized_cat(g, g.op("prim::ListConstruct", one, one), 1, scale, zero)
        return symbolic_helper.dequantize_helper(g, made)[0]

    expected = torch.quantize_per_tensor(torch.cat([X.dequantize()] * 2, 1), SCALE, ZERO, torch.quint8).dequantize()
    assert (run(symbolic, X.dequantize(), expected) - expected).abs().max() < 1.01 * SCALE


def test_names_of_python_operators() -> None:
    def symbolic(g: Any, x: Any, like: Any) -> Any:
        value = [g.op("Constant", value_t=torch.tensor(number)) for number in (2, 3)]
        listed = g.op("prim::ListConstruct", *value)
        found = [
            symbolic_opset9.__contains_(g, listed, value[1]), symbolic_opset9.__is_(g, x, g.scratch.value(None)),
            symbolic_opset9.__isnot_(g, x, g.scratch.value(None)), symbolic_opset9.__contains_(g, listed, 7),
        ]  # fmt: skip
        ints = [g.op("Cast", each, to_i=onnx_exporter.TensorProtoDataType.FLOAT) for each in found]
        return g.op("Concat", *(symbolic_helper._reshape_helper(g, each, [1]) for each in ints), axis_i=0)

    assert run(symbolic, torch.ones(4), torch.ones(4)).tolist() == [1, 0, 1, 0]


def test_trunc_divide_and_casts() -> None:
    def symbolic(g: Any, x: Any, like: Any) -> Any:
        assert symbolic_opset9._list(g, x) is x and symbolic_opset9.convert_grid_sample_mode("bicubic") == "cubic"
        half = symbolic_opset9.convert_element_type(g, x, g.scratch.value(onnx_exporter.JitScalarType.HALF.value))
        return symbolic_opset9._trunc_divide(g, g.op("Cast", half, to_i=1), g.op("Constant", value_t=torch.tensor(2.0)))

    assert run(symbolic, torch.tensor([-3.0, 5.0, 0.5]), torch.ones(3)).tolist() == [-1, 2, 0]


def test_integers_as_floats_and_back() -> None:
    def symbolic(g: Any, x: Any, like: Any) -> Any:
        assert symbolic_opset8._try_cast_integer_to_float(g, x, x) == (None, x, x)
        whole = g.op("Cast", x, to_i=onnx_exporter.TensorProtoDataType.INT32)
        kind, made = symbolic_opset8._try_cast_integer_to_float(g, whole)
        assert kind == "Int" and symbolic_opset8._cast_to_type(g, x, None) is x
        return symbolic_opset8._cast_to_type(g, g.op("Div", made, g.op("Constant", value_t=torch.tensor(2.0))), kind)

    assert run(symbolic, torch.tensor([3.5, 5.0]), torch.ones(2, dtype=torch.int32)).tolist() == [1, 2]


def test_ceil_padding_of_a_pool() -> None:
    x = torch.randn(1, 2, 8, 7)

    def symbolic(g: Any, x: Any, like: Any) -> Any:
        added = symbolic_opset9.get_pool_ceil_padding(x, (3, 2), (2, 2), (0, 1))
        with pytest.raises(SymbolicValueError, match="needs the sizes"):
            symbolic_opset9.get_pool_ceil_padding(g.op("my::Unknown", x), (3, 2), (2, 2), (0, 1))
        return g.op("MaxPool", x, kernel_shape_i=[3, 2], strides_i=[2, 2], pads_i=[0, 1, added[0], 1 + added[1]])

    expected = F.max_pool2d(x, (3, 2), (2, 2), (0, 1), ceil_mode=True)
    np.testing.assert_array_equal(run(symbolic, x, expected), expected)


def test_symbolic_registry() -> None:
    assert symbolic_registry.is_registered_op("relu", "", 9) and not symbolic_registry.is_registered_op("relu", "mine", 9)
    symbolic_registry.register_op("relu", lambda g, x: g.op("Neg", x), "", 11)
    program = onnx_exporter.export(torch.nn.ReLU(), torch.ones(2), opset_version=11)
    assert [node.op_type for node in program.model.graph] == ["Neg"]
    own = symbolic_registry.get_registered_op("relu", "aten", 12)
    assert symbolic_registry.get_registered_op("relu", "aten", 10) is not own
    symbolic_registry.unregister_op("relu", "", 11)
    assert symbolic_registry.get_registered_op("relu", "", 12) is not own
    with pytest.raises(UnsupportedOperatorError, match="no symbolic is registered for mine::relu at opset 9; to fix this"):
        symbolic_registry.get_registered_op("relu", "mine", 9)
