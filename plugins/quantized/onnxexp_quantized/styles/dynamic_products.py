"""Products of activations that are quantized at run time, for com.microsoft."""

from __future__ import annotations

import onnx_ir as ir

from onnxexp_quantized.passes.graph_editor import GraphEditor, constant_of, producer, sole_user

_FLOAT = ir.DataType.FLOAT


def dynamic_product(node: ir.Node, editor: GraphEditor) -> bool:
    """Convert a scaled MatMulInteger to an operator of com.microsoft.

    DynamicQuantizeMatMul replaces a DynamicQuantizeLinear too, since it quantizes the operand. MatMulIntegerToFloat takes
    other operands.
    """
    cast = sole_user(node.outputs[0])
    scaled = None if cast is None or cast.op_type != "Cast" else sole_user(cast.outputs[0])
    if cast is None or scaled is None or scaled.op_type != "Mul" or len(node.inputs) != 4:
        return False
    factor = producer(scaled.inputs[1 if scaled.inputs[0] is cast.outputs[0] else 0], "Mul")
    if factor is None or constant_of(node, 1) is None:
        return False
    index = 0 if constant_of(factor, 0) is not None else 1
    scale, zero = constant_of(factor, index), constant_of(node, 3)
    a_scale, b_scale, b_zero = factor.inputs[1 - index], factor.inputs[index], node.inputs[3]
    if scale is None or zero is None or scale.dim() > 1 or not _is_scalar(a_scale):
        return False
    if zero.shape != scale.shape:
        if zero.numel() != 1:
            return False
        b_zero = editor.constant(zero.reshape(()).expand(scale.shape), zero.dtype, "zero_point")
    last, bias = _with_bias(scaled, 1 if scale.dim() == 0 else scale.numel())
    quantize = producer(node.inputs[0], "DynamicQuantizeLinear")
    if quantize is not None and a_scale is quantize.outputs[1] and node.inputs[2] is quantize.outputs[2]:
        operator, inputs = "DynamicQuantizeMatMul", [quantize.inputs[0], node.inputs[1], b_scale, b_zero, bias]
    else:
        operator, inputs = "MatMulIntegerToFloat", [*node.inputs[:2], a_scale, b_scale, node.inputs[2], b_zero, bias]
    made = editor.insert(last, operator, inputs, like=last.outputs[0], dtype=_FLOAT, domain="com.microsoft")
    editor.replace(last.outputs[0], made)
    return True


def _is_scalar(value: ir.Value | None) -> bool:
    return value is not None and value.shape is not None and all(size == 1 for size in value.shape)


def _with_bias(scaled: ir.Node, columns: int) -> tuple[ir.Node, ir.Value | None]:
    """Return the node that returns the sum with a bias, and the bias."""
    total = sole_user(scaled.outputs[0])
    if total is None or total.op_type != "Add" or total.domain:
        return scaled, None
    index = 1 if total.inputs[0] is scaled.outputs[0] else 0
    bias = constant_of(total, index)
    fits = bias is not None and bias.dim() == 1 and columns in (1, bias.numel())
    return (total, total.inputs[index]) if fits else (scaled, None)
