"""Reshape to sizes that are 0 at run time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from types import MappingProxyType

import onnx_ir as ir

from onnxexp.graph import Dim, SymbolicSize
from onnxexp.rewriting import RewritePass, Rewriter
from onnxexp_aten.passes.matching import source_of

_INT64 = ir.TensorType(ir.DataType.INT64)


def _without_inference(rewriter: Rewriter, node: ir.Node) -> ir.Value | None:
    """Replace a Reshape that infers a size beside a copied one that may be 0."""
    target = rewriter.constant_ints(node, 1, "shape")
    before, sizes = rewriter.dims(node.inputs[0]), rewriter.dims(node.outputs[0])
    if target is None or before is None or -1 not in target or "allowzero" in node.attributes:
        return None
    copied = [axis for axis, size in enumerate(target) if size == 0]
    if not any(isinstance(before[axis], SymbolicSize) for axis in copied):
        return None
    rest = [axis for axis in range(len(before)) if axis not in copied]
    given = math.prod(size for size in target if size > 0)
    known = [size for axis, size in enumerate(before) if axis in rest and isinstance(size, int)]
    if len(known) == len(rest):
        constant = [math.prod(known) // given if size == -1 else size for size in target]
        return None if 0 in known else rewriter.one("Reshape", [node.inputs[0], rewriter.constant(constant)], sizes=sizes)
    if target == [0, -1]:
        return rewriter.one("Flatten", [node.inputs[0]], {"axis": 1}, sizes)
    if rewriter.opset < 14:
        return None
    inferred = sizes[target.index(-1)] if sizes is not None else None
    same = [axis for axis in rest if before[axis] == inferred]
    computed = _computed_target(rewriter, source_of(node), target, *((same[:1], 1) if same else (rest, given)))
    return rewriter.one("Reshape", [node.inputs[0], computed], {"allowzero": 1}, sizes)


class AllowZeroSizes(RewritePass):
    """Make each Reshape right where a dynamic axis is 0.

    Without ``allowzero`` a computed size that happens to be 0 means a copy of the argument's size. Opset 14 is the first with
    this attribute. A -1 beside a copied 0 has no value: the size is computed instead, or Flatten replaces the Reshape.
    """

    last = True
    rules = MappingProxyType({"Reshape": _without_inference})

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        changed = super().call(model).modified
        for node in model.graph.all_nodes() if model.opset_imports.get("", 0) >= 14 else ():
            if node.op_type == "Reshape" and not node.domain and "allowzero" not in node.attributes and _computes_sizes(node):
                node.attributes.add(ir.AttrInt64("allowzero", 1))
                changed = True
        return ir.passes.PassResult(model, changed)


def _computed_target(rewriter: Rewriter, x: ir.Value, target: Sequence[int], rest: list[int], given: int) -> ir.Value:
    """Compute the copied sizes of a Reshape's target, and the inferred one.

    The inferred size is the product of the axes `rest`, divided by `given`: of one axis where that has the same size, which other
    tools can follow.
    """

    def of_shape(operator: str, inputs: list[ir.Value], sizes: Sequence[Dim], axis: int | None = None) -> ir.Value:
        attributes = {} if axis is None else {"axis": axis}
        return rewriter.emit(operator, inputs, attributes, sizes=sizes, type_=_INT64)[0]

    shape = of_shape("Shape", [x], [len(rewriter.dims(x) or ())])
    inferred = of_shape("Gather", [shape, rewriter.constant(rest)], [len(rest)])
    if len(rest) > 1:
        inferred = of_shape("ReduceProd", [inferred], [1])
    if given != 1:
        inferred = of_shape("Div", [inferred, rewriter.constant([given])], [1])
    parts = []
    for kind, axes in itertools.groupby(range(len(target)), lambda axis: min(target[axis], 1)):
        run = list(axes)
        copied = of_shape("Gather", [shape, rewriter.constant(run)], [len(run)]) if kind == 0 else None
        parts.append(copied or (inferred if kind == -1 else rewriter.constant([target[axis] for axis in run])))
    return of_shape("Concat", parts, [len(target)], axis=0)


def _computes_sizes(node: ir.Node) -> bool:
    """Return whether the target is computed, and no constant 0 in it means a copy."""
    target = node.inputs[1]
    maker = None if target is None else target.producer()
    if maker is None or maker.op_type == "Constant":
        return False
    parts = maker.inputs if maker.op_type == "Concat" else [target]
    known = [part.const_value.numpy() for part in parts if part is not None and part.const_value is not None]
    return not any((numbers == 0).any() for numbers in known)
