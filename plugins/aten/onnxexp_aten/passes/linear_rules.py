"""Views around the products of linear layers."""

from __future__ import annotations

import math

import onnx_ir as ir

from onnxexp.graph import Dim
from onnxexp.rewriting import Rewriter, TorchTensor
from onnxexp_aten.passes.matching import only_used_by, producer, source_of
from onnxexp_aten.passes.view_rules import known_dims, perm_of, reshaped, transposed
from onnxexp_aten.support.axis_products import partition

_RESHAPE = frozenset({"Reshape"})


def product_before_transpose(rewriter: Rewriter, node: ir.Node) -> ir.Value | None:
    """Move a Transpose of rows behind a product, where the next view can absorb it."""
    moved = producer(node.inputs[0], "Transpose")
    sizes, columns = rewriter.dims(node.outputs[0]), rewriter.dims(node.inputs[1])
    if moved is None or sizes is None or len(sizes) < 3 or not all(map(_is_linear, moved.outputs[0].consumers())):
        return None
    perm = perm_of(moved)
    if perm[-1] != len(perm) - 1 or columns is None:
        return None
    before = [*known_dims(moved.inputs[0])[:-1], columns[-1]]
    return transposed(rewriter, rewriter.one("MatMul", [moved.inputs[0], node.inputs[1]], sizes=before), perm)


def _is_linear(node: ir.Node) -> bool:
    """Return whether a node multiplies rows by a constant matrix."""
    weight = node.inputs[1] if node.op_type == "MatMul" and not node.domain else None
    return weight is not None and weight.const_value is not None and weight.shape is not None and len(weight.shape) == 2


def bias_before_transpose(rewriter: Rewriter, node: ir.Node) -> ir.Value | None:
    """Move the Transpose of a product's rows behind the bias too."""
    for index in (0, 1):
        moved, bias = producer(node.inputs[index], "Transpose"), node.inputs[1 - index]
        product = None if moved is None else producer(moved.inputs[0], "MatMul")
        if moved is None or product is None or bias is None or bias.const_value is None or len(rewriter.dims(bias) or ()) != 1:
            continue
        perm = perm_of(moved)
        if perm[-1] == len(perm) - 1 and len(moved.outputs[0].consumers()) == 1 and not moved.outputs[0].is_graph_output():
            operands = [moved.inputs[0], bias] if index == 0 else [bias, moved.inputs[0]]
            return transposed(rewriter, rewriter.one("Add", operands, sizes=known_dims(moved.inputs[0])), perm)
    return None


def gemm_of_transposes(rewriter: Rewriter, node: ir.Node) -> ir.Value | None:
    """Turn the transposition of a Gemm's operand into an attribute."""
    inputs, attributes = list(node.inputs), {name: each.value for name, each in node.attributes.items()}
    for index, name in enumerate(("transA", "transB")):
        moved = producer(inputs[index], "Transpose")
        if moved is not None:
            inputs[index] = moved.inputs[0]
            attributes[name] = 1 - node.attributes.get_int(name, 0)
    if inputs == list(node.inputs):
        return None
    given = {name: value for name, value in attributes.items() if value}
    return rewriter.one("Gemm", inputs, given, rewriter.dims(node.outputs[0]))


def rows_of_linear(rewriter: Rewriter, node: ir.Node) -> ir.Value | None:
    """Drop the Reshape before and after a linear layer over several axes of rows.

    The Gemm becomes a product of any rank and a sum.
    """
    gemm = producer(node.inputs[0], "Gemm")
    rows = None if gemm is None else producer(gemm.inputs[0], "Reshape")
    if gemm is None or rows is None or not only_used_by(gemm.outputs[0], _RESHAPE) or not _plain(gemm):
        return None
    source, flat = rows.inputs[0], rewriter.dims(gemm.inputs[0])
    before = rewriter.dims(source)
    groups = None if before is None or flat is None else partition(before, flat)
    if source is None or before is None or flat is None or groups is None or len(groups[0]) < 2 or not isinstance(flat[1], int):
        return None
    columns = rewriter.dims(gemm.outputs[0])
    if columns is None:
        return None
    lead: list[Dim] = [before[axis] for axis in groups[0]]
    unflattened = reshaped(rewriter, source, [*lead, flat[1]])
    if unflattened is not source and known_dims(node.outputs[0]) != (*lead, columns[1]):
        return None  # neither Reshape would go away, and a Gemm would be two nodes
    weight = gemm.inputs[1] if not gemm.attributes.get_int("transB", 0) else _transposed_weight(rewriter, gemm)
    if weight is None:
        return None
    total = _with_bias(rewriter, unflattened, weight, gemm.inputs[2], columns[1])
    target = rewriter.constant_ints(node, 1, "shape")
    given = node.inputs[1] if target is not None and 0 not in target else None
    return reshaped(rewriter, total, known_dims(node.outputs[0]), given)


def _with_bias(rewriter: Rewriter, rows: ir.Value, weight: ir.Value, bias: ir.Value | None, columns: Dim) -> ir.Value:
    """Emit the product and the sum, before a Transpose of the rows."""
    moved = producer(rows, "Transpose")
    perm = None if moved is None else perm_of(moved)
    if moved is not None and perm is not None and perm[-1] == len(perm) - 1 and only_used_by(rows, _RESHAPE):
        return transposed(rewriter, _with_bias(rewriter, source_of(moved), weight, bias, columns), perm)
    sizes = [*known_dims(rows)[:-1], columns]
    return rewriter.one("Add", [rewriter.one("MatMul", [rows, weight], sizes=sizes), bias], sizes=sizes)


def _plain(gemm: ir.Node) -> bool:
    """Return whether a Gemm is the product of untransposed rows plus a bias vector."""
    factors = (gemm.attributes.get_float(name, 1.0) for name in ("alpha", "beta"))
    plain = all(math.isclose(factor, 1.0, rel_tol=0) for factor in factors) and not gemm.attributes.get_int("transA", 0)
    return plain and len(gemm.inputs) == 3 and len(Rewriter.dims(gemm.inputs[2]) or ()) == 1


def _transposed_weight(rewriter: Rewriter, gemm: ir.Node) -> ir.Value | None:
    """Return the weight as MatMul takes it, or None where another use needs a copy."""
    weight = gemm.inputs[1]
    contents = None if weight is None else weight.const_value
    if weight is None or not isinstance(contents, TorchTensor) or len(weight.uses()) != 1 or weight.is_graph_input():
        return None
    return rewriter.initializer(contents.torch.t(), weight)
