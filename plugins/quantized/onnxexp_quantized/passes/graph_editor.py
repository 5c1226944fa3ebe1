"""Edit a finished model: insert nodes and constants, replace values."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from onnx_ir.passes.common import RemoveUnusedNodesPass

from onnxexp.rewriting import Rewriter, TorchTensor, UniqueNames

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_QUANTIZED = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"})


class GraphEditor:
    """New nodes and constants in the graphs of one model, with unused names.

    Attributes:
        opset: The opset of the model.
    """

    def __init__(self, model: ir.Model) -> None:
        self.opset = model.graph.opset_imports.get("", 1)
        self._graph = model.graph
        self._names: UniqueNames | None = None
        self._constants: dict[tuple[Any, ...], ir.Value] = {}

    def insert(
        self,
        place: ir.Node,
        operator: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] = _NOTHING,
        *,
        like: ir.Value,
        dtype: ir.DataType,
        after: bool = False,
        domain: str = "",
    ) -> ir.Value:
        """Insert a node with one output before (or after) a node, and return the output.

        The output has the shape of `like` and a name derived from it.
        """
        shape = None if like.shape is None else like.shape.copy()
        result = ir.Value(name=self.unique(f"{like.name}_{operator}"), shape=shape, type=ir.TensorType(dtype))
        attrs = [ir.convenience.convert_attribute(name, value) for name, value in attributes.items()]
        prefix = (place.name or "").rpartition("/")
        name = self.unique("".join(prefix[:2]) + operator)
        node = ir.Node(domain, operator, inputs, attrs, outputs=[result], name=name, metadata_props=dict(place.metadata_props))
        assert place.graph is not None
        (place.graph.insert_after if after else place.graph.insert_before)(place, node)
        return result

    def constant(self, contents: Any, dtype: torch.dtype, name: str) -> ir.Value:
        """Create a new initializer; equal scalars are one."""
        tensor = torch.as_tensor(contents, dtype=dtype)
        key = (dtype, tensor.item()) if tensor.dim() == 0 else None
        if key is not None and (earlier := self._constants.get(key)) is not None and earlier.is_initializer():
            return earlier
        data = TorchTensor(tensor, self.unique(name))
        value = ir.Value(name=data.name, shape=data.shape, type=ir.TensorType(data.dtype), const_value=data)
        self._graph.register_initializer(value)
        if key is not None:
            self._constants[key] = value
        return value

    def replace(self, old: ir.Value, new: ir.Value, but: ir.Node | None = None) -> None:
        """Use another value instead of `old` everywhere, except in the node `but`.

        The new value gets the name of a graph output that it replaces, or else an Identity returns it.
        """
        if old.is_graph_output():
            maker = new.producer()
            if maker is None or maker.graph is not old.graph or new.is_graph_output():
                made = old.producer()
                assert made is not None and new.dtype is not None
                new = self.insert(made, "Identity", [new], like=old, dtype=new.dtype, after=True)
            old.name, new.name = self.unique(f"{old.name}_before"), old.name
        kept = [index for node, index in old.uses() if node is but]
        old.replace_all_uses_with(new, replace_graph_outputs=True)
        for index in kept:
            assert but is not None
            but.replace_input_with(index, old)

    def unique(self, base: str) -> str:
        """Return an unused name."""
        if self._names is None:
            self._names = UniqueNames.of(self._graph)
        return self._names.unique(base)


class QuantizedPass(ir.passes.InPlacePass):
    """A pass over the nodes of models that quantize; it leaves other models alone.

    `rewrite` gets the nodes with one of `operators`.
    """

    operators: frozenset[str] = frozenset()

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        if not Rewriter.may_find(model.graph, _QUANTIZED):
            return ir.passes.PassResult(model, modified=False)
        nodes = list(ir.traversal.RecursiveGraphIterator(model.graph))
        if not any(node.op_type in _QUANTIZED for node in nodes):
            return ir.passes.PassResult(model, modified=False)
        editor, changed = GraphEditor(model), False
        for node in nodes:
            if node.graph is not None and not node.domain and node.op_type in self.operators:
                changed = self.rewrite(node, editor) or changed
        if changed:
            RemoveUnusedNodesPass()(model)
        return ir.passes.PassResult(model, changed)

    @abc.abstractmethod
    def rewrite(self, node: ir.Node, editor: GraphEditor) -> bool:
        """Rewrite a node; return whether anything changed."""


def producer(value: ir.Value | None, *operators: str) -> ir.Node | None:
    """Return the producer of a value, if it is one of these operators of ONNX."""
    node = None if value is None else value.producer()
    return node if node is not None and not node.domain and node.op_type in operators else None


def sole_user(value: ir.Value) -> ir.Node | None:
    """Return the only node that uses a value; None for a graph output."""
    users = [user for user, _ in value.uses()]
    return users[0] if len(users) == 1 and not value.is_graph_output() else None


def constant_of(node: ir.Node, index: int) -> torch.Tensor | None:
    """Return the contents of a constant input, else None."""
    value = node.inputs[index] if index < len(node.inputs) else None
    contents = None if value is None or value.is_graph_input() else value.const_value
    return contents.torch if isinstance(contents, TorchTensor) else None


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Constant parameters of one 8-bit tensor; equal ones make equal integers."""

    scale: float
    zero_point: int
    dtype: torch.dtype

    @property
    def lowest(self) -> int:
        return torch.iinfo(self.dtype).min

    @property
    def highest(self) -> int:
        return torch.iinfo(self.dtype).max

    def code(self, number: float) -> int:
        """Quantize a number as QuantizeLinear does: float32, half to even, saturated."""
        quotient = np.rint(np.float32(number) / np.float32(self.scale))
        return int(np.clip(quotient + self.zero_point, self.lowest, self.highest))


def parameters_of(node: ir.Node) -> Parameters | None:
    """Read the parameters of a QuantizeLinear or DequantizeLinear of an 8-bit tensor.

    Returns None if they are not constant, differ by channel, or belong to another width.
    """
    scale, zero_point = constant_of(node, 1), constant_of(node, 2)
    if scale is None or zero_point is None or scale.numel() != 1 or zero_point.dtype not in (torch.uint8, torch.int8):
        return None
    if scale.dtype is not torch.float32 or not scale.item() > 0:
        return None
    return Parameters(scale.item(), int(zero_point.item()), zero_point.dtype)
