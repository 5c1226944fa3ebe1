"""Convert a TorchScript program: inputs, nodes (by the interpreter), outputs."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from onnxexp import CaptureError, warn
from onnxexp.frontends import DynamicSpec, TensorList
from onnxexp.graph import Graph, TensorType, Value
from onnxexp_torchscript.checks.other_sizes import axis_lengths
from onnxexp_torchscript.checks.size_check import check_sizes
from onnxexp_torchscript.conversion import constants
from onnxexp_torchscript.conversion.container_inputs import FIRST_WITH_OPTIONALS, ContainerInputs
from onnxexp_torchscript.conversion.export_time_values import Items, Maybe, Module
from onnxexp_torchscript.conversion.interpreter import Interpreter, Tables
from onnxexp_torchscript.conversion.python_numbers import Number, as_tensor, is_number, unwrap, wrap
from onnxexp_torchscript.conversion.restrictions import Restrictions, branched, restrictions, tied
from onnxexp_torchscript.lists.unknown_length_lists import as_sequence, promote
from onnxexp_torchscript.operators.branches import with_optionals
from onnxexp_torchscript.operators.canonical_calls import REWRITTEN
from onnxexp_torchscript.operators.prim_ops import HANDLERS, OF_TEXT, PYTHON
from onnxexp_torchscript.operators.split_ops import kept_pieces
from onnxexp_torchscript.trace.trace import Recording
from onnxexp_torchscript.types.abstract_tensor import NUMBERS, UNKNOWN
from onnxexp_torchscript.types.type_inference import TypeInference

_ONE_LEAF = object()
"""Stands for a list of unknown length in the example's result."""

TABLES = Tables(HANDLERS, PYTHON, OF_TEXT, REWRITTEN, kept_pieces, constants.as_ivalue, with_optionals)
"""The interpreter's handlers."""


_TAKEN = ("Converting a tensor to", "Iterating over a tensor", "Using len to get tensor shape")
"""How the tracer's warnings of numbers begin."""
_SHOWN = 3


class Converted(NamedTuple):
    """A graph, the types of its values, and other fields of a `CapturedProgram`.

    Attributes:
        changed: The attributes that the program sets.
        allowed: The conditions under which the graph is right.
        containers: The types of the inputs that are sequences and optionals.
    """

    graph: Graph
    sizes: TypeInference
    changed: list[str]
    allowed: Restrictions
    containers: dict[Value, Any]


def convert(recording: Recording, spec: DynamicSpec, opset: int, compare: bool) -> Converted:
    """Convert a recording, and `compare` it with a trace at other sizes.

    Optional inputs become required ones where the program cannot be converted with them.
    """
    parameters = recording.signature.parameters.values() if recording.signature is not None else ()
    optional = opset >= FIRST_WITH_OPTIONALS and any("Optional[" in str(one.annotation) for one in parameters)
    try:
        return _converted(recording, spec, optional, compare)
    except CaptureError as error:
        if not optional:
            raise
        converted = _converted(recording, spec, False, compare)
        warn(
            "an argument that the program takes as a tensor or None is an input that must be given, since the program cannot be "
            f"read with both: {error}"
        )
        return converted


def _converted(recording: Recording, spec: DynamicSpec, optional: bool, compare: bool) -> Converted:
    """Convert a recording to a neutral graph.

    The graph's inputs are the leaves of the example, its outputs the leaves of the result.

    Raises CaptureError for unsupported constructs, and if a requested dynamic axis came out static.
    """
    sizes = TypeInference(traced=recording.traced)
    interpreter = Interpreter(sizes, recording.places, TABLES, traced=recording.traced)
    graph = interpreter.root
    containers = ContainerInputs(sizes, optional)
    for index, leaf in enumerate(recording.example):
        listed = isinstance(leaf, TensorList)
        graph.inputs.append(containers.list_input(leaf, index, spec) if listed else sizes.input(index, leaf, spec))
    ivalues = _arguments(interpreter, recording, spec, containers)
    block = recording.graph.block()
    for value, ivalue in zip(block.inputs(), ivalues, strict=True):
        interpreter.env[value.unique()] = ivalue
    results = interpreter.block(block)
    count = len(recording.branches)
    conditions, results = results[:count], results[count:]
    if interpreter.unraised:
        lines = "".join(f"\n  {line}" for line in interpreter.unraised)
        warn(f"ONNX has no exceptions: what the program raises for some inputs, the exported model does not:{lines}")
    recording.warnings += interpreter.kept
    graph.outputs = _outputs(interpreter, results, recording)
    _make_optionals_in_branches(interpreter)
    try:
        sizes.check(spec)
    except CaptureError as error:
        raise CaptureError(f"{error}{_taken_from_the_example(recording)}") from None
    ties = check_sizes(recording, spec, axis_lengths(sizes)) if compare else {}
    allowed = {
        **tied(sizes, ties),
        **restrictions(sizes, interpreter.not_one, interpreter.only_one),
        **branched(sizes, recording.branches, conditions, fixed=not compare),
    }
    sizes.prefer_names(spec)
    sizes.finish()
    return Converted(graph, sizes, list(interpreter.changed), allowed, containers.types())


def _taken_from_the_example(recording: Recording) -> str:
    """List the lines where the trace made a number of the example a constant."""
    lines = [f"\n    {text}" for text in recording.warnings if text.startswith(_TAKEN)][:_SHOWN]
    return f"\n  a line above it made a size of the example a constant:{''.join(lines)}" if lines else ""


def _arguments(interpreter: Interpreter, recording: Recording, spec: DynamicSpec, containers: ContainerInputs) -> list[Any]:
    """Bind the inputs of the TorchScript graph."""
    inputs = interpreter.root.inputs
    own = [interpreter.module(Module(recording.module._c))] if recording.module is not None else []
    if recording.signature is None:
        stored = [interpreter.constant(tensor, name) for name, tensor in recording.state.items()]
        given = [wrap(inputs[index]) if index in spec.scalars else inputs[index] for index in recording.leaves]
        return [*own, *given, *stored]
    leaves = [inputs[index] if index in recording.leaves else leaf for index, leaf in enumerate(recording.example)]
    args, kwargs = pytree.tree_unflatten(leaves, recording.in_spec)
    bound = recording.signature.bind(*args, **kwargs)
    bound.apply_defaults()
    parameters = recording.signature.parameters.values()
    ordered = [parameter for parameter in parameters if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
    given = [_argument(interpreter, bound.arguments[one.name], one, containers) for one in ordered]
    return [*own, *given]


def _argument(interpreter: Interpreter, value: Any, parameter: inspect.Parameter, containers: ContainerInputs) -> Any:
    """Bind one parameter; a tensor that is its default is a constant."""
    if isinstance(value, torch.Tensor):
        return interpreter.constant(value, parameter.name)
    return containers.read(interpreter, value, parameter.annotation)


def _outputs(interpreter: Interpreter, results: list[Any], recording: Recording) -> list[Any]:
    pairs = list(zip(list(recording.graph.block().outputs())[len(recording.branches) :], results, strict=True))
    for items in [items for value, result in pairs for items in _empty_lists(result, value.type())]:
        items.element = interpreter.sizes.unbacked.tensor(torch.get_default_dtype(), [])
        promote(interpreter, items)
    found = [leaf for value, result in pairs for leaf in _leaves(interpreter.at(value.node()), result)]
    if recording.signature is None:
        outputs = map(unwrap, found)
        return [
            next(outputs) if returned else constant
            for returned, constant in zip(recording.returned, recording.constants, strict=True)
        ]
    example = pytree.tree_unflatten(recording.constants, recording.out_spec)
    (result,) = results
    wanted, recording.out_spec = pytree.tree_flatten(_with_single_leaves(result, example))
    if len(found) != len(wanted):
        raise CaptureError(f"the program returns {len(wanted)} values for the example, and {len(found)} as it was read")
    return [_like(interpreter, leaf, example) for leaf, example in zip(found, wanted, strict=True)]


def _empty_lists(result: Any, type_: Any) -> list[Items]:
    """Return the lists of a result that consists of empty lists of tensors, else none."""
    if isinstance(result, Items):
        of_tensors = type_.kind() == "ListType" and type_.getElementType().kind() == "TensorType"
        return [result] if of_tensors and not result and result.sequence is None else []
    parts = list(result) if isinstance(result, tuple) and type_.kind() == "TupleType" else []  # not of a type `Any`
    found = [_empty_lists(*pair) for pair in zip(parts, type_.elements(), strict=True)] if parts else []
    return [items for each in found for items in each] if all(found) else []


def _with_single_leaves(result: Any, example: Any) -> Any:
    """Replace each list that is one output of the graph by a leaf."""
    if isinstance(result, Items) and result.sequence is not None:
        return _ONE_LEAF
    parts = list(result.values()) if isinstance(result, dict) else result
    if not isinstance(parts, (list, tuple)):
        return example
    children, spec = pytree.tree_flatten(example, is_leaf=lambda each: each is not example)
    if len(children) != len(parts):
        return example
    return pytree.tree_unflatten([_with_single_leaves(*pair) for pair in zip(parts, children, strict=True)], spec)


def _like(interpreter: Interpreter, leaf: Any, example: Any) -> Any:
    """Convert an output to a number or tensor, as the program returned it.

    Raises CaptureError for a tensor of another dtype than the model's.
    """
    own = leaf.type.dtype if isinstance(leaf, Value) and isinstance(leaf.type, TensorType) else None
    if own is not None and isinstance(example, torch.Tensor) and own != example.dtype:
        what = f"TorchScript returns a tensor of {own}, and the model one of {example.dtype}"
        raise interpreter.refuse(what, "write torch.tensor(True) where a mask meets True, which TorchScript passes as 1")
    if is_number(leaf) and not isinstance(example, (bool, int, float)):
        return as_tensor(interpreter, leaf if isinstance(leaf, Number) else wrap(leaf))
    return unwrap(leaf)


def _leaves(interpreter: Interpreter, result: Any) -> list[Any]:
    if isinstance(result, Items) and result.sequence is not None:
        if isinstance(result.element, NUMBERS):
            raise interpreter.refuse("the model returns a list of numbers of unknown length", "return torch.tensor of it")
        return [as_sequence(interpreter, result)]
    if isinstance(result, Maybe):
        return [_optional(interpreter, result)]
    if isinstance(result, (list, tuple)):
        return [leaf for element in result for leaf in _leaves(interpreter, element)]
    if isinstance(result, dict):
        return [leaf for element in result.values() for leaf in _leaves(interpreter, element)]
    return [result]


def _make_optionals_in_branches(interpreter: Interpreter) -> None:
    """Make an optional, the only output, in the branches that decide it."""
    graph = interpreter.root
    if [node.op for node in graph.nodes[-2:]] != ["prim::If", "prim::Optional"]:
        return
    branch, optional = graph.nodes[-2:]
    absent, value, dtype = optional.args
    if graph.outputs != optional.outputs or len(branch.outputs) != 2 or {*branch.outputs} != {absent, value}:
        return
    places = [branch.outputs.index(each) for each in (absent, value)]
    for block in branch.blocks:
        made = interpreter.value("prim::Optional", UNKNOWN)
        is_none, like = (block.outputs[place] for place in places)
        with interpreter.writing_to(block):
            if is_none is True:  # both branches have the sizes of the tensor
                like = interpreter.value("prim::Zeros", interpreter.sizes.of(value))
                interpreter.append("prim::Zeros", [dtype], [like])
            interpreter.append("prim::Optional", [is_none, like, dtype], [made])
        block.outputs = [made]
    branch.outputs = optional.outputs
    del graph.nodes[-1]


def _optional(interpreter: Interpreter, result: Maybe) -> Value:
    """Emit an optional tensor."""
    value = result.value
    if not isinstance(value, Value) or not isinstance(value.type, TensorType) or value.type.dtype is None:
        what = "None or something else than a tensor of known dtype"
        raise interpreter.refuse(f"the model returns {what}, depending on its inputs", "return a tensor in both cases")
    output = interpreter.value("prim::Optional", UNKNOWN)
    interpreter.append("prim::Optional", [unwrap(result.absent), value, value.type.dtype], [output])
    return output
