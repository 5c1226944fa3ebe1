"""The symbolics of quantized operators.

``quantized_add``, ``quantized_conv2d`` and others are in ``symbolic_opset10`` and later modules of torch.onnx. Each dequantizes
its tensors, computes in float32, and quantizes the result with the scale and the zero point that are its last two arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onnxexp_torch_onnx.symbolic_helper.quantizing import dequantize_helper, quantize_helper, requantize_bias_helper
from onnxexp_torch_onnx.symbolic_helper.reading import _is_none, _unpack_list
from onnxexp_torch_onnx.torch_op import torch_op

__all__ = ["QUANTIZED_SYMBOLICS"]

_Arguments = Callable[..., Sequence[Any]]


def _finished(g: Any, name: str, args: Sequence[Any], relu: bool, scale: Any, zero_point: Any) -> Any:
    """Compute an operator of float tensors, and quantize its result."""
    made = torch_op(g, name, *args)
    return quantize_helper(g, torch_op(g, "relu", made) if relu else made, scale, zero_point)


def _elementwise(name: str, tensors: int = 1, relu: bool = False, arguments: _Arguments = lambda *args: args) -> Any:
    """Return the symbolic of an operator whose first arguments are quantized.

    `arguments` puts the others into the order of the float operator.
    """

    def symbolic(g: Any, *args: Any) -> Any:
        *given, scale, zero_point = args
        floats = [dequantize_helper(g, each)[0] for each in given[:tensors]]
        return _finished(g, name, arguments(*floats, *given[tensors:]), relu, scale, zero_point)

    return symbolic


def _layer(name: str, relu: bool = False, arguments: _Arguments = lambda *args: args) -> Any:
    """Return the symbolic of a layer.

    Its arguments are the input, the weight, the bias, and what `arguments` reorders. The bias is a float tensor, or None. It is
    rounded to the product of the two scales, as the quantized kernels do.
    """

    def symbolic(g: Any, q_input: Any, q_weight: Any, bias: Any, *args: Any) -> Any:
        *given, scale, zero_point = args
        input, input_scale, _, _ = dequantize_helper(g, q_input)
        weight, weight_scale, _, axis = dequantize_helper(g, q_weight)
        if not _is_none(bias):
            bias, _, _, _ = dequantize_helper(g, requantize_bias_helper(g, bias, input_scale, weight_scale, axis))
        return _finished(g, name, [input, weight, bias, *arguments(*given)], relu, scale, zero_point)

    return symbolic


def _cat(g: Any, q_inputs: Any, dim: Any, op_scale: Any, op_zero_point: Any) -> Any:
    floats = [dequantize_helper(g, each)[0] for each in _unpack_list(q_inputs)]
    return _finished(g, "cat", [floats, dim], False, op_scale, op_zero_point)


def _transposed(stride: Any, padding: Any, output_padding: Any, dilation: Any, groups: Any) -> list[Any]:
    return [stride, padding, output_padding, groups, dilation]


QUANTIZED_SYMBOLICS: dict[str, Callable[..., Any]] = {
    "quantized_add": _elementwise("add", 2),
    "quantized_add_relu": _elementwise("add", 2, relu=True),
    "quantized_cat": _cat,
    "quantized_group_norm": _elementwise("group_norm"),
    "quantized_hardswish": _elementwise("hardswish"),
    "quantized_instance_norm": _elementwise(
        "instance_norm", arguments=lambda x, weight, bias, eps: [x, weight, bias, None, None, True, 0.0, eps, False]
    ),
    "quantized_layer_norm": _elementwise("layer_norm"),
    "quantized_leaky_relu": _elementwise("leaky_relu", arguments=lambda x, slope, inplace: [x, slope]),
    "quantized_linear": _layer("linear"),
    "quantized_linear_relu": _layer("linear", relu=True),
    "quantized_mul": _elementwise("mul", 2),
    "quantized_sigmoid": _elementwise("sigmoid"),
}
"""The functions by name."""
for _rank in (1, 2, 3):
    QUANTIZED_SYMBOLICS[f"quantized_conv{_rank}d"] = _layer(f"conv{_rank}d")
    QUANTIZED_SYMBOLICS[f"quantized_conv{_rank}d_relu"] = _layer(f"conv{_rank}d", relu=True)
    QUANTIZED_SYMBOLICS[f"quantized_conv_transpose{_rank}d"] = _layer(f"conv_transpose{_rank}d", arguments=_transposed)
