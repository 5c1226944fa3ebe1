"""The scratch graph of a symbolic written for torch.onnx.

It is a real `torch._C.Graph`, so that the symbolic and torch.onnx's own helpers may use every method of its values and nodes.
The builder emits its nodes as ONNX.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxexp import Builder, Tensor
from onnxexp.graph import Node, ScalarType
from onnxexp.torch_ops import TYPE_CODES
from onnxexp_torch_onnx.emit_nodes import Emitter
from onnxexp_torch_onnx.jit_types import NUMBERS, jit_type, list_type, tensor_type, type_of_tensor

FOREIGN = ("owningGraph", "invalidated")
"""Parts of torch's messages about a value of another graph, and about one whose graph is deleted."""


QUANTIZED = "torch_onnx.quantized"
"""Key in `ExportContext.plugin_data`: the parts of quantized tensors that symbolics made, by the Tensor of the integers."""


class ScratchGraph:
    """The graph of one call of a symbolic.

    Attributes:
        graph: The graph in which the symbolic builds.
        emitter: Emits its nodes through the builder.
    """

    def __init__(self, op: Builder) -> None:
        self.op = op
        self.graph: Any = torch._C.Graph()
        self.emitter = Emitter(op)
        self._values: dict[Tensor, Any] = {}

    def tensor(self, tensor: Tensor) -> Any:
        """Add a Tensor as an input, or as a constant if its contents are known.

        A parameter keeps its name. A quantized tensor that another symbolic made is a tuple, as there.
        """
        if tensor not in self._values:
            parts = self.op.context.plugin_data.get(QUANTIZED, {}).get(tensor)
            self._values[tensor] = self._add(tensor) if parts is None else self._tuple(parts)
        return self._values[tensor]

    def _tuple(self, parts: Sequence[Any]) -> Any:
        values = [self._add(each) if isinstance(each, Tensor) else self.value(each) for each in parts]
        node = self._node("prim::TupleConstruct", values)
        node.output().setType(torch._C.TupleType([value.type() for value in values]))
        return node.output()

    def env(self, source: Any, inputs: Sequence[Any]) -> dict[Any, Any]:
        """Map the inputs of the node from `jit_node` to the values of this graph."""
        pairs = zip(source.inputs(), inputs, strict=True)
        return {value: self._values[tensor] for value, tensor in pairs if isinstance(tensor, Tensor) and tensor in self._values}

    def _add(self, tensor: Tensor) -> Any:
        if tensor.const is not None and not tensor.scalar:
            value = self._constant(tensor.const, tensor)
            if tensor.name in self.op.params and not tensor.name.isdigit():
                value.setDebugName(tensor.name)
            return value
        value = self.graph.addInput()
        value.setType(type_of_tensor(tensor))
        self.emitter.known[value.unique()] = tensor
        return value

    def value(self, arg: Any) -> Any:
        """Convert an argument of a torch operator as torch.onnx does for a symbolic.

        Numbers are 0-d constants, lists of numbers 1-D constants, other lists ``prim::ListConstruct``, and None is
        ``prim::Constant``. Dtypes, layouts and memory formats are torch's integers for them.
        """
        if isinstance(arg, torch._C.Value):
            return arg
        if isinstance(arg, Tensor):
            return self.tensor(arg)
        if isinstance(arg, torch.Tensor):
            return self._constant(arg.detach(), self.op.wrap_constant(arg.detach()))
        if arg is None:
            return self.graph.insertConstant(None)
        if isinstance(arg, (list, tuple)):
            return self._list(list(arg))
        if isinstance(arg, str):
            return self._string(arg)
        number = TYPE_CODES.code(arg)
        if type(number) in NUMBERS:
            return self._constant(torch.tensor(number, dtype=NUMBERS[type(number)]), number)
        try:
            return self.graph.insertConstant(arg)
        except TypeError:
            raise ValueError(f"{arg!r} cannot be an input of an operator") from None

    def nested_value(self, arg: Any) -> Any:
        """Convert the tensors in an argument of a Function to values."""
        return pytree.tree_map_only((Tensor, torch.Tensor), self.value, arg)

    def results(self, returned: Sequence[Any]) -> list[Any]:
        """Convert the symbolic's results to the builder's results.

        torch's dtype of an output has priority over `setType`.
        """
        self.emitter.run(self.graph.nodes())
        typed = [isinstance(each.type, ScalarType) or each.type.dtype is not None for each in self.op.node.outputs]
        return [self._result(*each) for each in zip(returned, typed, strict=True)]

    def _result(self, returned: Any, typed: bool) -> Any:
        if not isinstance(returned, torch._C.Value):
            return self.op.wrap_constant(returned) if isinstance(returned, torch.Tensor) else returned
        return self.emitter.result(returned) if typed else self.emitter.look_up(returned)

    def owns(self, value: Any) -> bool:
        """Return whether this is a value of this graph."""
        try:
            self.graph.create("prim::ListConstruct", [value], 0)  # torch checks a node's inputs; the node is not inserted
        except RuntimeError as error:
            if any(sign in str(error) for sign in FOREIGN):
                return False
            raise
        return True

    def _constant(self, contents: torch.Tensor, known: Any) -> Any:
        node = self._node("onnx::Constant", [])
        node.t_("value", contents.detach())
        node.output().setType(tensor_type(contents.dtype, contents.shape))
        self.emitter.known[node.output().unique()] = known
        return node.output()

    def _string(self, text: str) -> Any:
        node = self._node("onnx::Constant", [])
        node.s_("value", text)
        node.output().setType(torch._C.StringType.get())
        self.emitter.known[node.output().unique()] = text
        return node.output()

    def _list(self, elements: list[Any]) -> Any:
        """Convert a list of known numbers to one constant.

        Any other list becomes ``prim::ListConstruct``.
        """
        if all(type(each) in NUMBERS for each in elements):
            floating = any(type(each) is float for each in elements)
            return self._constant(torch.tensor(elements, dtype=torch.float64 if floating else torch.int64), elements)
        known = [self.emitter.look_up(each) if isinstance(each, torch._C.Value) else each for each in elements]
        node = self._node("prim::ListConstruct", [self.value(each) for each in elements])
        node.output().setType(list_type(known))
        self.emitter.known[node.output().unique()] = known
        return node.output()

    def _node(self, kind: str, inputs: list[Any]) -> Any:
        return self.graph.insertNode(self.graph.create(kind, inputs, 1))


def jit_node(node: Node) -> tuple[Any, Any]:
    """Convert the captured node to a JIT node in a graph of its own.

    Returns (graph, node). The node's inputs and outputs are typed.
    """
    graph: Any = torch._C.Graph()
    inputs = []
    for value in node.inputs():
        inputs.append(graph.addInput())
        inputs[-1].setType(jit_type(value.type))
    made = graph.insertNode(graph.create(node.op.partition(".")[0], inputs, max(1, len(node.outputs))))
    for output, value in zip(made.outputs(), node.outputs, strict=False):
        output.setType(jit_type(value.type))
    return graph, made
