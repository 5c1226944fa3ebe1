"""The arithmetic of a quantized weight, as one DequantizeLinear.

A Cast of integers, a subtraction of zero points and a product with scales are what torchao's int8 and float8 weights consist of,
and what all quantization decomposes to. ONNX Runtime folds these nodes to a float weight when it loads the model. It multiplies
by integers where the same weight comes from a DequantizeLinear: 768 -> 3072 takes 0.3 of the time. It rounds the activations
there, so that only the weights of a quantization library are folded, unless the caller wants all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import onnx_ir as ir
import torch
from onnx_ir.passes.common import RemoveUnusedNodesPass
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from onnxexp_quantized.passes.graph_editor import GraphEditor, constant_of, sole_user

LIBRARY_WEIGHTS = "quantized.library_weights"
"""Key in `ExportContext.plugin_data`: the addresses of the weights that a library quantized."""

_INTEGERS = (torch.int8, torch.uint8)
"""The dtypes that ONNX Runtime multiplies. It has no kernel for float8, and keeps the nodes' float result in memory."""
_AXIS, _BLOCKS = 13, 21
"""The first opsets of scales for each index of an axis, and for blocks."""


@dataclasses.dataclass
class _Weight:
    """A weight and its parameters, as DequantizeLinear takes them."""

    integers: torch.Tensor
    scale: torch.Tensor
    zero_point: torch.Tensor | None
    attributes: dict[str, int]


class FoldScales(ir.passes.InPlacePass):
    """Join a Cast of a constant weight with the scales after it.

    The scales follow the Cast, or the product with the weight.

    Args:
        plugin_data: `ExportContext.plugin_data`, with the addresses of the weights to fold.
        every: Whether the other weights are folded too.
    """

    def __init__(self, plugin_data: Mapping[Any, Any], *, every: bool) -> None:
        self._plugin_data, self._every = plugin_data, every

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        editor = GraphEditor(model)
        if editor.opset < _AXIS:
            return ir.passes.PassResult(model, modified=False)
        casts = [node for node in ir.traversal.RecursiveGraphIterator(model.graph) if self._takes(node)]
        changed = [_fold(node, editor) for node in casts]
        if any(changed):
            RemoveUnusedNodesPass()(model)
        return ir.passes.PassResult(model, any(changed))

    def _takes(self, node: ir.Node) -> bool:
        weight = constant_of(node, 0) if node.op_type == "Cast" and not node.domain else None
        if weight is None or self._every:
            return weight is not None
        return weight.untyped_storage().data_ptr() in self._plugin_data.get(LIBRARY_WEIGHTS, ())


def library_weights(model: Any) -> frozenset[int]:
    """Return the addresses of the integers in a model's weights that are torchao's."""
    if not isinstance(model, (torch.nn.Module, torch.export.ExportedProgram)):
        return frozenset()
    plain = (inner for each in model.parameters() for inner in _inner(each) if inner is not each)
    return frozenset(each.untyped_storage().data_ptr() for each in plain if each.dtype in _INTEGERS)


def _inner(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the plain tensors that a wrapper consists of."""
    if is_traceable_wrapper_subclass(tensor):
        for name in tensor.__tensor_flatten__()[0]:
            yield from _inner(getattr(tensor, name))  # the protocol's own way: attributes by their names
    else:
        yield tensor


def _fold(cast: ir.Node, editor: GraphEditor) -> bool:
    integers, value, zero = constant_of(cast, 0), cast.outputs[0], None
    if integers is None or integers.dim() < 2 or integers.dtype not in _INTEGERS or value.dtype != ir.DataType.FLOAT:
        return False
    user = sole_user(value)
    if user is not None and user.op_type == "Sub" and user.inputs[0] is value and (zero := constant_of(user, 1)) is not None:
        value = user.outputs[0]
        user = sole_user(value)
    if user is not None and user.op_type == "MatMul" and user.inputs[1] is value and zero is None:
        return _fold_product(cast, user, integers, editor)
    if user is None or user.op_type != "Mul":
        return False
    scale = constant_of(user, 1 - list(user.inputs).index(value))
    return scale is not None and _fold_weight(cast, user.outputs[0], _Weight(integers, scale, zero, {}), editor)


def _fold_weight(cast: ir.Node, result: ir.Value, given: _Weight, editor: GraphEditor) -> bool:
    """Join scales of the weight itself, and a Reshape that joins blocks."""
    after, weight = sole_user(result), None
    if after is not None and after.op_type == "Reshape" and after.outputs[0].shape is not None and editor.opset >= _BLOCKS:
        weight = _in_blocks(given, [size for size in after.outputs[0].shape if isinstance(size, int)])
        result = result if weight is None else after.outputs[0]
    if weight is None and list(result.shape or ()) == list(given.integers.shape):
        weight = _by_axis(given)
    if weight is not None:
        editor.replace(result, _dequantized(cast, weight, result, editor))
    return weight is not None


def _fold_product(cast: ir.Node, product: ir.Node, integers: torch.Tensor, editor: GraphEditor) -> bool:
    """Join scales of the columns that follow the product."""
    scaled = sole_user(product.outputs[0])
    if scaled is None or scaled.op_type != "Mul":
        return False
    scale = constant_of(scaled, 1 - list(scaled.inputs).index(product.outputs[0]))
    columns, sizes = integers.shape[-1], scaled.outputs[0].shape
    if sizes is None or product.outputs[0].shape is None or len(sizes) != len(product.outputs[0].shape):
        return False  # the scale adds axes
    if scale is None or scale.numel() not in (1, columns) or scale.numel() != (scale.shape[-1] if scale.dim() else 1):
        return False
    shape = [*[1] * (integers.dim() - 1), scale.numel()]
    weight = _by_axis(_Weight(integers, scale.reshape(shape), None, {}))
    if weight is None:
        return False
    product.replace_input_with(1, _dequantized(cast, weight, cast.outputs[0], editor))
    editor.replace(scaled.outputs[0], product.outputs[0])
    return True


def _by_axis(given: _Weight) -> _Weight | None:
    """Return a weight with one scale, or one for each index of an axis."""
    integers, scale = given.integers, given.scale
    if scale.dim() > integers.dim():
        return None
    shape = [1] * (integers.dim() - scale.dim()) + list(scale.shape)
    axes = [axis for axis, size in enumerate(shape) if size != 1]
    zeros = _zero_points(given)
    if zeros is None or len(axes) > 1 or any(shape[axis] != integers.shape[axis] for axis in axes):
        return None
    flat = scale.reshape(-1 if axes else ())
    return _Weight(integers, flat, zeros.reshape(flat.shape), {"axis": axes[0]} if axes else {})


def _in_blocks(given: _Weight, sizes: list[int]) -> _Weight | None:
    """Emit a weight with an axis split into blocks, which a Reshape to `sizes` joins."""
    integers, scale = given.integers, given.scale
    if scale.dim() != integers.dim() or integers.dim() != len(sizes) + 1:
        return None
    others = [axis for axis, size in enumerate(scale.shape) if size != integers.shape[axis]]
    if len(others) != 1 or others[0] == 0 or scale.shape[others[0]] != 1:
        return None
    inside, zeros = others[0], _zero_points(given)
    block = integers.shape[inside]
    if zeros is None or sizes[inside - 1] != block * integers.shape[inside - 1]:
        return None
    attributes = {"axis": inside - 1, "block_size": block}
    return _Weight(integers.reshape(sizes), scale.squeeze(inside), zeros.squeeze(inside), attributes)


def _zero_points(given: _Weight) -> torch.Tensor | None:
    """Return zero points in the scales' shape.

    Returns None if the integers' dtype lacks one, or if their number does not fit."""
    zero, scale, dtype = given.zero_point, given.scale, given.integers.dtype
    if zero is None:
        return torch.zeros(scale.shape, dtype=dtype)
    if bool((zero.to(dtype).to(zero.dtype) != zero).any()) or zero.numel() not in (1, scale.numel()):
        return None
    return zero.to(dtype).expand(scale.shape) if zero.numel() == 1 else zero.to(dtype).reshape(scale.shape)


def _dequantized(cast: ir.Node, weight: _Weight, like: ir.Value, editor: GraphEditor) -> ir.Value:
    """Insert a DequantizeLinear before a Cast."""
    stored, zero, contents = cast.inputs[0], weight.zero_point, constant_of(cast, 0)
    assert stored is not None and stored.name is not None and zero is not None and contents is not None
    if weight.integers.shape != contents.shape:
        stored = editor.constant(weight.integers, weight.integers.dtype, stored.name)
    name = str(stored.name).removesuffix(".qdata")
    scale = editor.constant(weight.scale, torch.float32, f"{name}.scale")
    inputs = [stored, scale, editor.constant(zero, zero.dtype, f"{name}.zero_point")]
    return editor.insert(cast, "DequantizeLinear", inputs, weight.attributes, like=like, dtype=ir.DataType.FLOAT)
