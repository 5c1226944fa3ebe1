"""TorchScript as a frontend: tracing, scripting, and modules that are scripted already."""

from __future__ import annotations

from typing import Any


from onnxexp.capture.dynamic import DynamicSpec
from onnxexp.capture.torchscript.interpreter import Interpreter
from onnxexp.capture.torchscript.numbers import Number
from onnxexp.capture.torchscript.sizes import Sizes
from onnxexp.capture.torchscript.tracing import Recording, trace
from onnxexp.graph import Graph, Value

__all__ = ["Recording", "Sizes", "read", "trace"]


def read(recording: Recording, spec: DynamicSpec) -> tuple[Graph, Sizes]:
    """The neutral graph of a recording; its inputs are the leaves of the example, its outputs those of what was returned.

    Raises CaptureError for what has no place in it, and where an axis that was asked to be dynamic came out static.
    """
    sizes = Sizes()
    reader = Interpreter(sizes, recording.places, traced=recording.traced)
    graph = reader.root
    for index, leaf in enumerate(recording.example):
        name = spec.leaves[index].name
        value = Value(name, sizes.input(index, leaf, name, spec))
        sizes.bind(value, index, leaf, spec)
        graph.inputs.append(value)
    inputs = list(recording.graph.inputs())
    stored = [reader.constant(tensor, name) for name, tensor in recording.state.items()]
    given = [_given(graph.inputs[index], index, spec) for index in recording.leaves]
    for value, what in zip(inputs, [*given, *stored], strict=True):
        reader.env[value.unique()] = what
    outputs = iter(_flat(reader.block(recording.graph)))
    graph.outputs = [next(outputs) if returned else constant for returned, constant in zip(recording.returned, recording.constants, strict=True)]
    sizes.check(spec)
    sizes.finish()
    return graph, sizes


def _given(value: Value, index: int, spec: DynamicSpec) -> Any:
    """An input as the graph takes it: a dynamic number came in as a 0-d tensor."""
    from onnxexp.capture.torchscript.numbers import dress

    return dress(value) if index in spec.scalars else value


def _flat(results: Any) -> list[Any]:
    if isinstance(results, (list, tuple)):
        return [leaf for element in results for leaf in _flat(element)]
    if isinstance(results, dict):
        return [leaf for element in results.values() for leaf in _flat(element)]
    return [results.value if isinstance(results, Number) else results]


