"""Turn regions of a finished graph into model-local functions.

Equal regions share a function, which takes their weights as inputs. Attributes in which they differ are attributes of the
function.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import onnx_ir as ir

from onnxexp.rewriting import UniqueNames

_SMALL = 64
"""Elements up to which an integer or boolean initializer (axes, shapes, indices) becomes part of the function."""
SCOPE = "onnxexp.scope"
INFERRED = "inferred::"
"""The prefix of a function's attributes that its nodes use."""
_KINDS = ("INT", "FLOAT", "STRING", "INTS", "FLOATS", "STRINGS", "TENSOR")


@dataclasses.dataclass(frozen=True)
class Region:
    """The nodes that become one call, in order, with the call's inputs and outputs.

    Attributes:
        nodes: The nodes.
        inputs: The inputs of the call. A weight is an input once for each use: regions stay equal if one of them uses one weight
            twice where another has two.
        slots: The index of the input for each use inside: (node, index of its input).
        constants: Small constants that become part of the function.
        outputs: The outputs of the call.
        before: The first node after the call, None if the call goes to the end of the graph.
    """

    nodes: list[ir.Node]
    inputs: list[ir.Value]
    slots: dict[tuple[ir.Node, int], int]
    constants: list[ir.Value]
    outputs: list[ir.Value]
    before: ir.Node | None


@dataclasses.dataclass(eq=False)
class _Shared:
    """A function with its calls, and the places where another region may differ.

    Attributes:
        places: The node and the attribute of each place.
        values: The first region's attributes at these places.
        names: The function's attribute for each place where regions differ, by the place's index.
    """

    function: ir.Function
    places: list[tuple[ir.Node, str]]
    values: list[ir.Attr]
    names: dict[int, str] = dataclasses.field(default_factory=dict)
    calls: list[ir.Node] = dataclasses.field(default_factory=list)

    def attributes(self, values: Sequence[ir.Attr]) -> list[ir.Attr]:
        """List the inferred attributes of a call for a region with these values."""
        for index, (first, value) in enumerate(zip(self.values, values, strict=True)):
            if index not in self.names and _contents(first) != _contents(value):
                self._infer(index, first)
        return [ir.Attr(name, values[index].type, values[index].value) for index, name in self.names.items()]

    def _infer(self, index: int, value: ir.Attr) -> None:
        node, name = self.places[index]
        base = f"{INFERRED}{name.removeprefix(INFERRED)}"
        free = UniqueNames(self.function.attributes).unique(base)
        self.names[index] = free
        self.function.attributes[free] = ir.Attr(free, ir.AttributeType.UNDEFINED, None)
        node.attributes[name] = ir.RefAttr(name, free, value.type)
        for call in self.calls:
            call.attributes[free] = ir.Attr(free, value.type, value.value)


class FunctionExtractor:
    """Turn regions of a model into functions.

    Call `extract` for each region, inner regions first.
    """

    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._known: dict[Hashable, _Shared] = {}
        self._names: dict[tuple[str, str], int] = {}
        self._calls: dict[str, int] = {}

    def extract(self, nodes: Sequence[ir.Node], domain: str, name: str, scope: str, attributes: Sequence[ir.Attr] = ()) -> bool:
        """Replace these nodes of one graph by a call of a function, with these attributes.

        Returns False if the nodes cannot be one call.
        """
        graph = nodes[0].graph
        assert isinstance(graph, ir.Graph)
        region = _region(graph, list(nodes))
        if region is None:
            return False
        key = domain, name, _key(region)
        places = [(node, name) for node in region.nodes for name, attribute in node.attributes.items() if _may_differ(attribute)]
        values = [_constant_value(value) for value in region.constants]
        values += [node.attributes[name] for node, name in places]
        shared = self._known.get(key)
        call_inputs, call_outputs = list(region.inputs), list(region.outputs)
        graph.remove(region.nodes)
        made = [ir.Value(name=value.name, type=value.type, shape=value.shape) for value in call_outputs]
        for old, new in zip(call_outputs, made, strict=True):
            self._replace(old, new, region, graph)
        if shared is None:
            function = self._function(region, domain, self._unused(domain, name), attributes)
            constants: list[tuple[ir.Node, str]] = [(node, "value") for node in list(function)[: len(region.constants)]]
            shared = self._known[key] = _Shared(function, [*constants, *places], values)
        else:
            for node in _walk(region.nodes):  # these nodes are dropped and must not count as users
                for index in range(len(node.inputs)):
                    node.replace_input_with(index, None)
        call = ir.Node(
            domain, shared.function.name, call_inputs, [*attributes, *shared.attributes(values)], outputs=made,
            name=self._unique(f"{scope}/{name}"), metadata_props={SCOPE: scope},
        )  # fmt: skip
        shared.calls.append(call)
        if region.before is None:
            graph.append(call)
        else:
            graph.insert_before(region.before, call)
        return True

    def _replace(self, old: ir.Value, new: ir.Value, region: Region, graph: ir.Graph) -> None:
        inside = set(_walk(region.nodes))
        for use in list(old.uses()):
            if use.node not in inside:
                use.node.replace_input_with(use.idx, new)
        outputs = graph.outputs
        for index, output in enumerate(outputs):
            if output is old:
                outputs[index] = new

    def _unique(self, name: str) -> str:
        """Make a node name unique, also for a module that is called twice."""
        count = self._calls.get(name, 0)
        self._calls[name] = count + 1
        return f"{name}_{count}" if count else name

    def _unused(self, domain: str, name: str) -> str:
        count = self._names.get((domain, name), 0)
        self._names[domain, name] = count + 1
        return f"{name}_{count}" if count else name

    def _function(self, region: Region, domain: str, name: str, attributes: Sequence[ir.Attr]) -> ir.Function:
        """Build a function from the region's nodes, which were removed from their graph."""
        inner = [ir.Value(name=f"in_{number}") for number in range(len(region.inputs))]
        constants = [
            ir.Node("", "Constant", [], [_constant_value(constant)], outputs=[ir.Value(name=f"constant_{number}")])
            for number, constant in enumerate(region.constants)
        ]
        made = dict(zip(region.constants, (node.outputs[0] for node in constants), strict=True))
        for node in _walk(region.nodes):
            for index, value in enumerate(node.inputs):
                if (node, index) in region.slots:
                    node.replace_input_with(index, inner[region.slots[node, index]])
                elif value in made:
                    node.replace_input_with(index, made[value])
        numbers = itertools.count()
        for node in region.nodes:
            for output in node.outputs:
                output.name = f"v_{next(numbers)}"
                output.shape = None  # the shape in one call; others may differ
            node.metadata_props.clear()
        graph = ir.Graph(inner, region.outputs, nodes=[*constants, *region.nodes], opset_imports=dict(self._model.opset_imports))
        declared = [ir.Attr(each.name, ir.AttributeType.UNDEFINED, None) for each in attributes]
        function = ir.Function(domain, name, graph=graph, attributes=declared)
        self._model.functions[function.identifier()] = function
        self._model.opset_imports.setdefault(domain, 1)
        return function


def _walk(nodes: Sequence[ir.Node]) -> Iterator[ir.Node]:
    """Yield nodes, and the nodes of their graphs."""
    for node in nodes:
        yield node
        for block in _blocks(node):
            yield from _walk(list(block))


def _blocks(node: ir.Node) -> list[ir.Graph]:
    return [attribute.as_graph() for attribute in node.attributes.values() if attribute.type is ir.AttributeType.GRAPH]


def _region(graph: ir.Graph, nodes: list[ir.Node]) -> Region | None:
    """Find the region of these nodes.

    Returns None if nothing uses the nodes' results, or if a node outside uses one of the nodes and is used by another.
    """
    members, inside = set(nodes), set(_walk(nodes))
    own = {output for node in inside for output in node.outputs}
    own |= {value for node in inside for block in _blocks(node) for value in (*block.inputs, *block.initializers.values())}
    inputs: list[ir.Value] = []
    constants: list[ir.Value] = []
    slots: dict[tuple[ir.Node, int], int] = {}
    for node in _walk(nodes):
        for index, value in enumerate(node.inputs):
            if value is None or value in own:
                continue
            if _is_constant(value):
                constants += [value] if value not in constants else []
                continue
            if value.is_initializer() or value not in inputs:
                inputs.append(value)
            slots[node, index] = len(inputs) - 1 if value.is_initializer() else inputs.index(value)
    results = set(graph.outputs)
    outputs = [
        output for node in nodes for output in node.outputs
        if output in results or any(use.node not in inside for use in output.uses())
    ]  # fmt: skip
    if not outputs or any(value.is_graph_input() and value in results for value in outputs):
        return None
    producers = {value.producer() for value in inputs}
    wanted = {use.node for output in outputs for use in output.uses()} - inside
    before: ir.Node | None = None
    for node in graph:
        if node in members:
            continue
        if before is None and any(each in wanted for each in _walk([node])):
            before = node
        if before is not None and node in producers:
            return None
    return Region(nodes, inputs, slots, constants, outputs, before)


def _is_constant(value: ir.Value) -> bool:
    tensor = value.const_value
    if not value.is_initializer() or tensor is None or value.is_graph_input():
        return False
    return tensor.size == 1 or (tensor.size <= _SMALL and not tensor.dtype.is_floating_point())


def _constant_value(value: ir.Value) -> ir.Attr:
    """Convert a small initializer to the attribute of a Constant."""
    assert value.const_value is not None
    return ir.Attr("value", ir.AttributeType.TENSOR, ir.tensor(value.const_value.numpy()))


def _may_differ(attribute: ir.Attr) -> bool:
    """Return whether regions that differ in this attribute share a function.

    Element types must agree, since the types inside the function depend on them.
    """
    return not attribute.is_ref() and attribute.type.name in _KINDS and attribute.name not in ("to", "dtype", "output_dtype")


def _key(region: Region) -> Hashable:
    """Build a key that is equal for regions with equal nodes.

    Most attributes and the contents of constants may differ.
    """
    numbers: dict[ir.Value, Any] = {}
    for value in region.constants:
        assert value.const_value is not None
        numbers[value] = ("constant", len(numbers), value.const_value.dtype, tuple(value.const_value.shape.numpy()))
    parts = _parts(region.nodes, numbers, region.slots, exact=False)
    return tuple(parts), tuple(numbers[value] for value in region.outputs)


def _parts(
    nodes: Sequence[ir.Node], numbers: dict[ir.Value, Any], slots: dict[tuple[ir.Node, int], int], *, exact: bool
) -> list[Hashable]:
    """Build a key of the nodes, with the values of all attributes if `exact` is set."""
    parts: list[Hashable] = []
    for node in nodes:
        for output in node.outputs:
            numbers[output] = len(numbers)
        attributes = tuple(
            (name, attribute.type if not exact and _may_differ(attribute) else _attribute(attribute, numbers, slots))
            for name, attribute in sorted(node.attributes.items())
        )
        inputs = tuple(
            None if value is None else ("in", slots[node, index]) if (node, index) in slots else numbers[value]
            for index, value in enumerate(node.inputs)
        )
        parts.append((node.op_identifier(), inputs, attributes, len(node.outputs)))
    return parts


def _attribute(attribute: ir.Attr, numbers: dict[ir.Value, Any], slots: dict[tuple[ir.Node, int], int]) -> Hashable:
    if attribute.type is not ir.AttributeType.GRAPH:
        return _contents(attribute)
    graph = attribute.as_graph()
    for value in (*graph.inputs, *graph.initializers.values()):
        numbers[value] = len(numbers)
    return tuple(_parts(list(graph), numbers, slots, exact=True)), tuple(numbers[value] for value in graph.outputs)


def _contents(attribute: ir.Attr) -> Hashable:
    """Convert the value of an attribute that is no graph to a hashable object."""
    if attribute.type is ir.AttributeType.TENSOR:
        tensor = attribute.as_tensor()
        return tensor.dtype, tuple(tensor.shape.numpy()), tensor.tobytes()
    value = attribute.value
    return tuple(value) if isinstance(value, (list, tuple)) else value if isinstance(value, Hashable) else id(attribute)
