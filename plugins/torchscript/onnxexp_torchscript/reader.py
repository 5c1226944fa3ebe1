"""From a TorchScript graph to the neutral graph."""

from __future__ import annotations

import inspect
from typing import Any

from torch.utils import _pytree as pytree

from onnxexp import CaptureError, Graph, warn
from onnxexp.request.dynamic_shapes import DynamicSpec
from onnxexp_torchscript import constants
from onnxexp_torchscript.canonical_calls import REWRITTEN
from onnxexp_torchscript.interpreter import Interpreter, Tables
from onnxexp_torchscript.prim_ops import HANDLERS, OF_TEXT, PYTHON
from onnxexp_torchscript.python_values import Items, Maybe, Module
from onnxexp_torchscript.scalar_tensors import Number, as_tensor, is_number, unwrap, wrap
from onnxexp_torchscript.split_ops import kept_pieces
from onnxexp_torchscript.trace import Recording
from onnxexp_torchscript.type_inference import TypeInference

__all__ = ["TABLES", "read"]


TABLES = Tables(HANDLERS, PYTHON, OF_TEXT, REWRITTEN, kept_pieces, constants.thing)
"""The interpreter's handlers."""


def read(recording: Recording, spec: DynamicSpec) -> tuple[Graph, TypeInference, list[str]]:
    """Convert a recording to a neutral graph.

    The graph's inputs are the leaves of the example, its outputs the leaves of the result. Returns the graph, the types of its
    values, and the attributes that the program sets.

    Raises CaptureError for unsupported constructs, and if a requested dynamic axis came out static.
    """
    sizes = TypeInference()
    reader = Interpreter(sizes, recording.places, TABLES, traced=recording.traced)
    graph = reader.root
    for index, leaf in enumerate(recording.example):
        graph.inputs.append(sizes.input(index, leaf, spec))
    things = _arguments(reader, recording, spec)
    block = recording.graph.block()
    for value, thing in zip(block.inputs(), things, strict=True):
        reader.env[value.unique()] = thing
    results = reader.block(block)
    if reader.unraised:
        lines = "".join(f"\n  {line}" for line in reader.unraised)
        warn(f"ONNX has no exceptions: what the program raises for some inputs, the exported model does not:{lines}")
    recording.warnings += reader.kept
    graph.outputs = _outputs(reader, results, recording)
    sizes.check(spec)
    sizes.finish()
    return graph, sizes, list(reader.changed)


def _arguments(reader: Interpreter, recording: Recording, spec: DynamicSpec) -> list[Any]:
    """Bind the inputs of the TorchScript graph."""
    inputs = reader.root.inputs
    own = [reader.module(Module(recording.module._c))] if recording.module is not None else []
    if recording.signature is None:
        stored = [reader.constant(tensor, name) for name, tensor in recording.state.items()]
        given = [wrap(inputs[index]) if index in spec.scalars else inputs[index] for index in recording.leaves]
        return [*own, *given, *stored]
    leaves = [inputs[index] if index in recording.leaves else leaf for index, leaf in enumerate(recording.example)]
    args, kwargs = pytree.tree_unflatten(leaves, recording.in_spec)
    bound = recording.signature.bind(*args, **kwargs)
    bound.apply_defaults()
    parameters = recording.signature.parameters.values()
    ordered = [parameter for parameter in parameters if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
    return [*own, *(_thing(reader, bound.arguments[parameter.name]) for parameter in ordered)]


def _thing(reader: Interpreter, argument: Any) -> Any:
    """Convert an argument to the interpreter's representation."""
    if isinstance(argument, list):
        return reader.items(_thing(reader, element) for element in argument)
    if isinstance(argument, tuple):
        return tuple(_thing(reader, element) for element in argument)
    if isinstance(argument, dict):
        return {key: _thing(reader, element) for key, element in argument.items()}
    return argument


def _outputs(reader: Interpreter, results: list[Any], recording: Recording) -> list[Any]:
    pairs = zip(recording.graph.block().outputs(), results, strict=True)
    found = [leaf for value, result in pairs for leaf in _leaves(reader.at(value.node()), result)]
    if recording.signature is None:
        outputs = map(unwrap, found)
        return [
            next(outputs) if returned else constant
            for returned, constant in zip(recording.returned, recording.constants, strict=True)
        ]
    wanted = recording.constants
    if len(found) != len(wanted):
        raise CaptureError(f"the program returns {len(wanted)} values for the example, and {len(found)} as it was read")
    return [_like(reader, leaf, example) for leaf, example in zip(found, wanted, strict=True)]


def _like(reader: Interpreter, leaf: Any, example: Any) -> Any:
    """Convert an output to a number or tensor, as the program returned it."""
    if is_number(leaf) and not isinstance(example, (bool, int, float)):
        return as_tensor(reader, leaf if isinstance(leaf, Number) else wrap(leaf))
    return unwrap(leaf)


def _leaves(reader: Interpreter, result: Any) -> list[Any]:
    if isinstance(result, Items) and result.sequence is not None:
        raise reader.refuse("the model returns a list of unknown length", "return torch.stack of it")
    if isinstance(result, Maybe):
        raise reader.refuse("the model returns None or a tensor, depending on its inputs", "return a tensor in both cases")
    if isinstance(result, (list, tuple)):
        return [leaf for element in result for leaf in _leaves(reader, element)]
    if isinstance(result, dict):
        return [leaf for element in result.values() for leaf in _leaves(reader, element)]
    return [result]
