"""Rewrite a model node by node: emit nodes, share equal ones, remove dead ones."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import onnx_ir as ir
import torch

from onnxexp._builder.torch_tensor_data import TorchTensor
from onnxexp._neutral_graph import Dim, ir_shape, to_dim
from onnxexp._request.unique_names import UniqueNames

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_WITH_BODIES = frozenset({"If", "Loop", "Scan", "SequenceMap"})
"""ONNX's operators that have graphs as attributes."""
_SHARED_SIZE = 16
"""Elements up to which equal int64 constants are one initializer."""


class Rewriter:
    """Emits nodes before the node that a rule rewrites.

    The new nodes get the metadata of that node. Equal nodes and constants of a graph are shared.

    Attributes:
        opset: The opset of the model.
        node: The node that a rule rewrites.
    """

    VIEWS = frozenset({"Reshape", "Squeeze", "Transpose", "Unsqueeze"})
    """Operators that change the shape or the order of the elements, not the elements."""

    class Unfit(Exception):
        """A rule does not fit after all; the rewriter drops the nodes that it emitted."""

    @staticmethod
    def may_find(graph: ir.Graph, operators: Container[str]) -> bool:
        """Return False if no node of a graph, or of a body in it, is of these operators.

        Bodies are not searched: True says that a search is worthwhile.
        """
        for node in graph:
            operator = node.op_type
            if operator in operators or operator in _WITH_BODIES or node.domain:
                return True
        return False

    @staticmethod
    def constant_ints(node: ir.Node, index: int, name: str) -> list[int] | None:
        """Return constant integers of an input or attribute of a node, else None."""
        if name in node.attributes:
            return list(node.attributes[name].as_ints())
        given = node.inputs[index] if index < len(node.inputs) else None
        contents = None if given is None or given.is_graph_input() else given.const_value
        return None if contents is None else [int(element) for element in contents.numpy().reshape(-1)]

    @staticmethod
    def dims(value: ir.Value | None) -> tuple[Dim, ...] | None:
        """Return the sizes of a value; an unknown size gets a name of its own."""
        if value is None or value.shape is None:
            return None
        sizes = (size if isinstance(size, int) else size.value for size in value.shape)
        return tuple(to_dim(f"?{id(value)}.{axis}" if size is None else size) for axis, size in enumerate(sizes))

    def __init__(self, model: ir.Model) -> None:
        self.opset = model.graph.opset_imports.get("", 1)
        self.node: ir.Node
        self._model = model
        self._names: UniqueNames | None = None
        self._constants: dict[tuple[int, ...], ir.Value] | None = None
        self._seen: dict[tuple[Any, ...], ir.Node] = {}
        self._emitted: list[ir.Node] = []
        self._unused: list[ir.Node] = []
        self._renamed: list[tuple[ir.Value, str]] = []

    @property
    def inputs(self) -> Sequence[ir.Value]:
        """The inputs of the model's graph."""
        return self._model.graph.inputs

    def apply(self, rule: Rule, node: ir.Node) -> bool:
        """Rewrite one node by a rule; return whether it changed."""
        self.node, self._emitted, self._renamed, self._unused = node, [], [], []
        try:
            found = rule(self, node)
        except self.Unfit:
            found = None
        changed = found is not None and found is not node.outputs[0]
        dead = [*self._emitted, *self._unused]
        if changed and found is not None:
            dead.append(self._replace(node, found))
        self._remove_dead(dead)
        for value, name in self._renamed:
            if value.uses() and name not in self._model.graph.initializers:
                value.name = name
        if not changed and node.op_type in self.VIEWS:
            self._seen.setdefault(self._key(node.op_type, node.inputs, node.attributes.values()), node)
        return changed

    def emit(
        self,
        operator: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] = _NOTHING,
        *,
        sizes: Sequence[Dim] | None = None,
        outputs: int = 1,
        type_: ir.TypeProtocol | None = None,
        domain: str = "",
    ) -> Sequence[ir.Value]:
        """Return the outputs of a node, new or shared.

        `type_` defaults to the type of the first input.
        """
        attrs = [_attribute(name, value) for name, value in attributes.items()]
        key = self._key(domain + operator, inputs, attrs)
        own = self._key(self.node.domain + self.node.op_type, self.node.inputs, self.node.attributes.values())
        if outputs == len(self.node.outputs) and key == own:
            return self.node.outputs
        earlier = self._seen.get(key)
        if earlier is not None and earlier.graph is not None:
            return earlier.outputs
        first = inputs[0]
        assert first is not None and self.node.graph is not None
        shape = None if sizes is None else ir_shape(sizes)
        prefix, made_for = (self.node.name or "").rpartition("/"), self.node.outputs[0].name
        made = [
            ir.Value(name=self._unique(f"{made_for}_{operator}"), shape=shape, type=type_ or first.type) for _ in range(outputs)
        ]
        name = self._unique("".join(prefix[:2]) + operator)
        node = ir.Node(domain, operator, inputs, attrs, outputs=made, name=name, metadata_props=dict(self.node.metadata_props))
        self._model.graph.opset_imports.setdefault(domain, 1)
        self.node.graph.insert_before(self.node, node)
        self._seen[key] = node
        self._emitted.append(node)
        return made

    def one(
        self,
        operator: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] = _NOTHING,
        sizes: Sequence[Dim] | None = None,
    ) -> ir.Value:
        """Return the output of a node with one output, emitted by `emit`."""
        return self.emit(operator, inputs, attributes, sizes=sizes)[0]

    def with_ints(
        self, operator: str, x: ir.Value, name: str, ints: Sequence[int], since: int, sizes: Sequence[Dim] | None
    ) -> ir.Value:
        """Emit a node with integers, as an input from opset `since` on or an attribute."""
        if self.opset >= since:
            return self.one(operator, [x, self.constant(ints)], sizes=sizes)
        return self.one(operator, [x], {name: list(ints)}, sizes)

    def constant(self, ints: Sequence[int]) -> ir.Value:
        """Return a 1-D int64 initializer, which equal lists share."""
        if self._constants is None:
            self._constants = _small_vectors(self._model.graph)
        key = tuple(ints)
        value = self._constants.get(key)
        if value is None or value.name not in self._model.graph.initializers:
            value = self.initializer(torch.tensor(key, dtype=torch.int64))
            self._constants[key] = value
        return value

    def initializer(self, tensor: torch.Tensor, of: ir.Value | None = None) -> ir.Value:
        """Create an initializer, with the name of the one that it replaces."""
        base = "constant" if of is None or of.name is None else of.name
        contents = TorchTensor(tensor, self._unique(base))
        value = ir.Value(name=contents.name, shape=contents.shape, type=ir.TensorType(contents.dtype), const_value=contents)
        self._model.graph.register_initializer(value)
        if of is not None:
            self._renamed.append((value, base))
        return value

    def split(self, x: ir.Value, count: int, axis: int, sizes: Sequence[Dim]) -> Sequence[ir.Value]:
        """Split an axis into equal parts; `sizes` are those of each part."""
        length = sizes[axis]
        assert isinstance(length, int)
        lengths, named = [length] * count, {"axis": axis} if axis else {}
        if self.opset >= 13:  # the lengths are an attribute before opset 13
            return self.emit("Split", [x, self.constant(lengths)], named, sizes=sizes, outputs=count)
        return self.emit("Split", [x], {**named, "split": lengths}, sizes=sizes, outputs=count)

    def take_place(self, old: ir.Value, new: ir.Value) -> None:
        """Give a value's name, type and uses to the output of an emitted node."""
        new.shape, new.type = old.shape, old.type
        new.name, old.name = old.name, new.name or self._unique("unused")
        old.replace_all_uses_with(new, replace_graph_outputs=True)
        maker = old.producer()
        self._unused += [] if maker is None else [maker]

    def _replace(self, node: ir.Node, found: ir.Value) -> ir.Node:
        """Replace a node's output by another value; return the node that may be dead."""
        old, maker = node.outputs[0], found.producer()
        if old.is_graph_output():
            if maker is None or maker.graph is not node.graph or found.is_graph_output():
                identity = ir.Node(
                    "", "Identity", [found], name=self._unique("Identity"), metadata_props=dict(node.metadata_props)
                )
                assert node.graph is not None
                node.graph.insert_before(node, identity)
                found = identity.outputs[0]
            self.take_place(old, found)
        elif maker in self._emitted:
            found.name, old.name = old.name, found.name or self._unique("unused")
        old.replace_all_uses_with(found, replace_graph_outputs=True)
        return node

    def _remove_dead(self, nodes: list[ir.Node]) -> None:
        """Remove unused nodes among these, and nodes that only they used."""
        while nodes:
            node = nodes.pop()
            if node.graph is None or any(value.uses() or value.is_graph_output() for value in node.outputs):
                continue
            if any(attribute.type is ir.AttributeType.GRAPH for attribute in node.attributes.values()):
                continue  # its body may use more; the pass manager's clean-up is the one that follows bodies
            before = [value for value in node.inputs if value is not None]
            node.graph.remove(node, safe=True)
            for value in before:
                maker = value.producer()
                if maker is not None:
                    nodes.append(maker)
                elif value.is_initializer() and not (value.uses() or value.is_graph_output() or value.is_graph_input()):
                    self._model.graph.initializers.pop(value.name or "", None)

    def _key(self, operator: str, inputs: Sequence[ir.Value | None], attributes: Any) -> tuple[Any, ...]:
        described = tuple(sorted((each.name, str(each.value)) for each in attributes))
        return id(self.node.graph), operator, tuple(map(id, inputs)), described

    def _unique(self, base: str) -> str:
        if self._names is None:
            self._names = UniqueNames.of(self._model.graph)
        return self._names.unique(base)


Rule: TypeAlias = Callable[[Rewriter, ir.Node], "ir.Value | None"]
"""Finds the value that replaces the first output of a node; None or the output itself where nothing changes."""


class RewritePass(ir.passes.InPlacePass):
    """Apply rules to nodes, bodies included, in one walk from inputs to outputs.

    A rule is a function of the rewriter and the node. It returns the value that replaces the first output of the node, or None or
    that output where nothing changes. It may raise `Rewriter.Unfit`.
    """

    rules: Mapping[str, Rule] = MappingProxyType({})
    """The rule of each operator."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        if not Rewriter.may_find(model.graph, self.rules):
            return ir.passes.PassResult(model, modified=False)
        rewriter, changed = Rewriter(model), False
        for node in list(ir.traversal.RecursiveGraphIterator(model.graph)):
            rule = None if node.domain else self.rules.get(node.op_type)
            if rule is not None and node.graph is not None:
                changed = rewriter.apply(rule, node) or changed
        return ir.passes.PassResult(model, changed)


def _attribute(name: str, value: Any) -> ir.Attr:
    """Make an attribute, faster than `ir.convenience.convert_attribute` does.

    With that function alone, compose-views takes 13.5 ms instead of 8.8 on bert-base.
    """
    if isinstance(value, (list, tuple)) and all(isinstance(each, int) for each in value):
        return ir.AttrInt64s(name, value)
    return ir.AttrInt64(name, value) if isinstance(value, int) else ir.convenience.convert_attribute(name, value)


def _small_vectors(graph: ir.Graph) -> dict[tuple[int, ...], ir.Value]:
    found: dict[tuple[int, ...], ir.Value] = {}
    for value in graph.initializers.values():
        contents = value.const_value
        small = contents is not None and len(contents.shape) == 1 and contents.size <= _SHARED_SIZE
        if small and contents is not None and contents.dtype == ir.DataType.INT64 and not value.is_graph_input():
            found[tuple(int(element) for element in contents.numpy())] = value
    return found
