"""Weights as the right operand of MatMul, with the inner axis first.

torch stores the weight of a linear layer as [outputs, inputs]. ONNX Runtime multiplies by integers where a DequantizeLinear of
[inputs, outputs] goes into a MatMul; of a Transpose or a Gemm it dequantizes the weight in each run: 768 -> 3072 takes 30 times
as long as the float layer then, and 0.4 of its time here.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxexp_quantized.passes.graph_editor import GraphEditor, QuantizedPass, constant_of, producer, sole_user

BLOCKS = (256, 128, 64, 32, 16)
"""The sizes of blocks for which ONNX Runtime has a kernel."""


class ArrangeWeights(QuantizedPass):
    """Transpose constant quantized weights; a float Gemm becomes MatMul and Add."""

    operators = frozenset({"MatMul", "Gemm"})

    def __init__(self) -> None:
        self._former_names: dict[ir.Value, str] = {}

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Run the pass; new initializers get the names of those that they replace."""
        result = super().call(model)
        for value, name in self._former_names.items():
            if name not in model.graph.initializers and value.is_initializer():
                value.name = name
        return result

    def rewrite(self, node: ir.Node, editor: GraphEditor) -> bool:
        weight, transposed = node.inputs[1], bool(node.attributes.get_int("transB", 0))
        if weight is None:
            return False
        moved = producer(weight, "Transpose")
        if moved is not None and list(moved.attributes.get_ints("perm", [1, 0])) == [1, 0]:
            weight, transposed = moved.inputs[0], not transposed
        dequantize = producer(weight, "DequantizeLinear")
        if dequantize is None or (integers := constant_of(dequantize, 0)) is None or integers.dim() != 2:
            return False
        if node.op_type == "Gemm":
            if producer(node.inputs[0], "DequantizeLinear") is not None or not _is_plain(node):
                return False
        elif not transposed:
            kept = _keep_from_gemm(node, editor)
            return self._split_blocks(node, dequantize, editor) or kept
        arranged = self._arranged(dequantize, transposed, editor)
        if arranged is None:
            return False
        if node.op_type == "MatMul":
            node.replace_input_with(1, arranged)
            _keep_from_gemm(node, editor)
        else:
            _replace_gemm(node, arranged, editor)
        return True

    def _split_blocks(self, node: ir.Node, dequantize: ir.Node, editor: GraphEditor) -> bool:
        """Give a weight that is arranged already blocks of a size that has a kernel."""
        block = dequantize.attributes.get_int("block_size", 0)
        if not block or block in BLOCKS or dequantize.attributes.get_int("axis", 1) % 2 != 0:
            return False
        arranged = self._arranged(dequantize, False, editor)
        if arranged is None or arranged.producer() is dequantize:
            return False
        node.replace_input_with(1, arranged)
        return True

    def _arranged(self, dequantize: ir.Node, transpose: bool, editor: GraphEditor) -> ir.Value | None:
        """Emit a DequantizeLinear of the weight with the inner axis first.

        Returns None if the weight or its parameters are not constant.
        """
        given = [constant_of(dequantize, index) for index in range(3)]
        integers, scale, zero = given
        value = dequantize.inputs[0]
        if integers is None or scale is None or zero is None or value is None:
            return None
        axis, block = dequantize.attributes.get_int("axis", 1) % 2, dequantize.attributes.get_int("block_size", 0)
        if transpose:
            axis, integers = 1 - axis, integers.t()
            scale, zero = (each.t() if each.dim() == 2 else each for each in (scale, zero))
        fitting = next((size for size in BLOCKS if block % size == 0), block)
        if axis == 0 and 0 < fitting < block:
            scale, zero = (each.repeat_interleave(block // fitting, dim=0) for each in (scale, zero))
            block = fitting
        attributes = {} if scale.dim() == 0 else {"axis": axis}
        parameters = [("", integers), ("_scale", scale), ("_zero_point", zero)]
        inputs = [editor.constant(each, each.dtype, f"{value.name}{suffix}") for suffix, each in parameters]
        for new, old in zip(inputs, dequantize.inputs, strict=True):
            self._former_names[new] = old.name if old is not None and old.name else ""
        like, made = dequantize.outputs[0], attributes | ({"block_size": block} if block else {})
        assert like.dtype is not None
        result = editor.insert(dequantize, "DequantizeLinear", list(inputs), made, like=like, dtype=like.dtype)
        result.shape = ir.Shape(integers.shape)
        return result


def _is_plain(gemm: ir.Node) -> bool:
    """Return whether a Gemm is a product and a sum."""
    factors = [gemm.attributes.get_float(name, 1.0) for name in ("alpha", "beta")]
    return factors == [1.0, 1.0] and not gemm.attributes.get_int("transA", 0)


def _replace_gemm(gemm: ir.Node, weight: ir.Value, editor: GraphEditor) -> None:
    result = gemm.outputs[0]
    assert result.dtype is not None
    made = editor.insert(gemm, "MatMul", [gemm.inputs[0], weight], like=result, dtype=result.dtype)
    if len(gemm.inputs) > 2 and gemm.inputs[2] is not None:
        made = editor.insert(gemm, _addition(result), [made, gemm.inputs[2]], like=result, dtype=result.dtype)
    editor.replace(result, made)


def _addition(result: ir.Value) -> str:
    """Return the operator that adds a bias.

    ONNX Runtime makes a Gemm of MatMul and Add, and joins it with a Relu or Clip before it looks at the weight. Of a Sum it does
    not: 768 -> 3072 takes 0.3 of the float layer's time then, not 15 times as long.
    """
    return "Sum" if any(user.op_type in ("Relu", "Clip") and not user.domain for user, _ in result.uses()) else "Add"


def _keep_from_gemm(product: ir.Node, editor: GraphEditor) -> bool:
    """Replace the Add after a product where ONNX Runtime would make a Gemm of both."""
    total = sole_user(product.outputs[0])
    if producer(product.inputs[0], "DequantizeLinear") is not None or total is None or total.op_type != "Add" or total.domain:
        return False
    result = total.outputs[0]
    if result.shape is None or len(result.shape) != 2 or _addition(result) == "Add" or result.dtype is None:
        return False
    editor.replace(result, editor.insert(total, "Sum", list(total.inputs), like=result, dtype=result.dtype))
    return True
