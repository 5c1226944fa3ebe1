"""Compute the nodes of a finished model whose results have become constant.

This differs from folding during an export in what it starts from: the model may be another exporter's, its constants are small
tensors of any class, and a shape may be known only at the axes that are read.
"""

from __future__ import annotations

import contextlib
from typing import TypeAlias

import onnx_ir as ir
import torch
from onnx_ir.passes.common import IdentityEliminationPass, NameFixPass

from onnxexp._builder.constant_folding import SMALL, fold
from onnxexp._builder.dtypes import torch_dtype
from onnxexp._builder.onnx_schemas import operator
from onnxexp._builder.torch_tensor_data import TorchTensor
from onnxexp._request.unique_names import UniqueNames

_Sizes: TypeAlias = "list[int | None]"
_BROKEN = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)
"""What a node without an attribute, or with wrong sizes, raises: it is left for the runtime to report."""


def fold_constant_nodes(model: ir.Model) -> bool:
    """Replace nodes with constant results by initializers.

    An If with a constant condition becomes its branch. Changes the model in place, and returns whether it has changed. Large
    tensors are not computed: a file does not grow.
    """
    folder = _Folder(model)
    folder.graph(model.graph)
    if folder.inlined:
        IdentityEliminationPass()(model)
        NameFixPass()(model)  # the branches of one If may use the same names
    return folder.changed


class _Folder:
    """One walk through a model.

    Attributes:
        changed: Whether a node was replaced.
        inlined: Whether one was an If.
    """

    def __init__(self, model: ir.Model) -> None:
        self.changed = self.inlined = False
        self._main = model.graph
        self._opset = model.opset_imports.get("", 1)
        self._names = UniqueNames.of(model.graph)

    def graph(self, graph: ir.Graph) -> None:
        for node in list(graph):
            for attribute in node.attributes.values():
                if attribute.type is ir.AttributeType.GRAPH:
                    self.graph(attribute.as_graph())
            with contextlib.suppress(*_BROKEN):
                self._node(graph, node)

    def _node(self, graph: ir.Graph, node: ir.Node) -> None:
        if node.domain == "" and node.op_type == "If":
            self._choose_branch(graph, node)
        elif node.domain == "" and node.op_type != "Constant" and len(node.outputs) == 1:
            self._fold(graph, node)

    def _fold(self, graph: ir.Graph, node: ir.Node) -> None:
        (output,) = node.outputs
        made = None if output.is_graph_output() else _known_sizes(node)
        if made is None and not output.is_graph_output():
            made = self._computed(node)
        if made is None:
            return
        name = str(output.name) if graph is self._main else self._names.unique(str(output.name))
        tensor = TorchTensor(made, name)
        value = ir.Value(name=name, shape=ir.Shape(made.shape), type=ir.TensorType(tensor.dtype), const_value=tensor)
        output.name = None  # the initializer has its name
        ir.convenience.replace_all_uses_with(output, value)
        graph.remove(node, safe=True)
        self._main.register_initializer(value)
        self.changed = True

    def _computed(self, node: ir.Node) -> torch.Tensor | None:
        spec = operator("", node.op_type, self._opset)
        inputs = [None if value is None else _constant(value) for value in node.inputs]
        if (
            spec is None
            or not inputs
            or any(one is None and value is not None for one, value in zip(inputs, node.inputs, strict=True))
        ):
            return None
        dtype = node.outputs[0].dtype
        found = fold(spec, self._opset, inputs, dict(node.attributes), [None if dtype is None else _dtype(dtype)])
        return None if found is None or found[0].numel() > SMALL else found[0].contiguous()

    def _choose_branch(self, graph: ir.Graph, node: ir.Node) -> None:
        """Put the nodes of the branch that always runs in place of an If."""
        condition = None if node.inputs[0] is None else _constant(node.inputs[0])
        if condition is None:
            return
        branch = node.attributes["then_branch" if bool(condition) else "else_branch"].as_graph()
        results = list(branch.outputs)
        if len(results) != len(node.outputs):
            return
        branch.outputs.clear()
        for value in list(branch.initializers.values()):
            branch.initializers.pop(str(value.name))
            value.name = self._names.unique(str(value.name))
            self._main.register_initializer(value)
        for inner in list(branch):
            branch.remove(inner)
            graph.insert_before(node, inner)
        for old, new in zip(node.outputs, results, strict=True):
            copy = ir.node("Identity", [new])  # the result may be a value from outside, and the If's an output of the graph
            name, old.name = old.name, None
            copy.outputs[0].name, copy.outputs[0].type, copy.outputs[0].shape = name, new.type or old.type, new.shape or old.shape
            graph.insert_before(node, copy)
            ir.convenience.replace_all_uses_with(old, copy.outputs[0], replace_graph_outputs=True)
        graph.remove(node, safe=True)
        self.changed = self.inlined = True


def _constant(value: ir.Value) -> torch.Tensor | None:
    """Return a small constant, or None.

    An initializer that is an input is no constant: a caller may replace it.
    """
    tensor = None if value.is_graph_input() else ir.convenience.get_const_tensor(value)
    if tensor is None or tensor.size > SMALL or _dtype(tensor.dtype) is None:
        return None
    return torch.from_numpy(tensor.numpy().copy()) if tensor.dtype is not ir.DataType.BFLOAT16 else None


def _dtype(dtype: ir.DataType) -> torch.dtype | None:
    try:
        return torch_dtype(dtype)
    except TypeError:  # strings and packed integers
        return None


def _known_sizes(node: ir.Node) -> torch.Tensor | None:
    """Compute the sizes that a node reads from a shape, if all of them are known."""
    found = _sizes_after(node)
    if found is None or any(size is None for size in found):
        return None
    scalar = node.op_type == "Gather" and node.inputs[1] is not None and (index := _constant(node.inputs[1])) is not None
    return torch.tensor(found[0] if scalar and index.dim() == 0 else found, dtype=torch.int64)  # type: ignore[union-attr]


def _sizes_after(node: ir.Node) -> _Sizes | None:
    """Return the sizes that a Shape, or a Gather or Slice of one, results in.

    A size that is not known is None.
    """
    source = node.inputs[0] if node.inputs else None
    if source is None:
        return None
    if node.op_type == "Shape":
        start, end = (node.attributes[name].as_int() if name in node.attributes else None for name in ("start", "end"))
        sizes = None if source.shape is None else [size if isinstance(size, int) else None for size in source.shape]
        return None if sizes is None else sizes[start:end]
    producer = source.producer()
    if node.op_type not in ("Gather", "Slice") or producer is None or producer.domain or producer.op_type != "Shape":
        return None
    # without an absent input, which would move the others
    sizes, numbers = _sizes_after(producer), [None if value is None else _constant(value) for value in node.inputs[1:]]
    if sizes is None or not numbers or any(number is None for number in numbers):
        return None
    first, *others = [number.flatten().tolist() for number in numbers if number is not None]
    if node.op_type == "Gather":
        return [sizes[index] for index in first] if all(-len(sizes) <= index < len(sizes) for index in first) else None
    ends, step = others[0], others[2][0] if len(others) > 2 else 1
    return sizes[first[0] : ends[0] : step] if step > 0 else None
