"""Python numbers among the arguments as inputs of the graph.

In torch.onnx, they are inputs since torch 1.9, because torch's tracer passes an int or a float as a tensor.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch
from torch.utils import _pytree as pytree

from onnxexp import CaptureError, LoweringError, ONNXProgram, warn
from onnxexp.frontends import TensorList, is_scripted, register_containers, signature_of

Export = Callable[..., ONNXProgram]
"""An export of the example with these `dynamic_shapes`, `input_names` and this `capture`."""


@dataclasses.dataclass(frozen=True)
class Example:
    """The leaves of an example call, by index, with the names that the user gives.

    Attributes:
        names: The given name of each input, by leaf; there may be fewer than inputs.
        parameter_names: The names behind those of the inputs.
        numbers: The leaves that are an int or a float, or a bool for a script, which branches by it at run time.
    """

    model: Any
    leaves: list[Any]
    spec: pytree.TreeSpec
    names: dict[int, str]
    parameter_names: list[str]
    numbers: list[int]

    def input_names(self, numbers: Collection[int]) -> list[str] | None:
        """List the names of the tensors and of these numbers."""
        return [name for leaf, name in self.names.items() if leaf in numbers or leaf not in self.numbers] or None

    def dynamic_shapes(self, numbers: Collection[int]) -> dict[str, Any] | None:
        """Build the `dynamic_shapes` that make these numbers inputs."""
        if not numbers:
            return None
        marked = [torch.export.Dim.DYNAMIC if leaf in numbers else None for leaf in range(len(self.leaves))]
        args, kwargs = pytree.tree_unflatten(marked, self.spec)
        bound = signature_of(self.model).bind(*args, **kwargs)
        shapes = dict(bound.arguments)
        for name, parameter in bound.signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                shapes |= shapes.pop(name, {})
        return shapes


def read_example(model: Any, args: Any, kwargs: Mapping[str, Any] | None, names: Sequence[str], *, numbers: bool) -> Example:
    """Read the arguments of `export`.

    Without `numbers`, every number is a constant.
    """
    positional = args if type(args) is tuple else (args,)
    named = dict(kwargs or {})
    if positional and type(positional[-1]) is dict:
        positional, named = positional[:-1], {**positional[-1], **named}
    register_containers((positional, named))
    scripted = is_scripted(model)
    if scripted:
        positional, named = TensorList.in_call(model, positional, named, "script")
    leaves, spec = pytree.tree_flatten((positional, named))
    found = [
        index
        for index, leaf in enumerate(leaves)
        if numbers and (type(leaf) in (int, float) or (scripted and type(leaf) is bool))
    ]
    inputs = [index for index, leaf in enumerate(leaves) if index in found or isinstance(leaf, (torch.Tensor, TensorList))]
    given = dict(zip(inputs, names, strict=False))
    return Example(model, leaves, spec, given, list(names)[len(inputs) :], found)


def export_with_number_inputs(example: Example, run: Export, capture: str) -> ONNXProgram:
    """Export with each number as an input, except for those that the model fixes.

    A number that the model fixes is a constant, with a warning. Raises what `run` raises without numbers.
    """
    if not example.numbers:
        return run(None, example.input_names(()), capture)
    first = "export" if capture == "auto" else capture
    reasons: dict[int, str] = {}
    program = _attempt(example, run, first, example.numbers, reasons)
    if program is None and len(example.numbers) > 1:
        reasons.clear()
        kept = [number for number in example.numbers if _attempt(example, run, first, [number], reasons) is not None]
        program = _attempt(example, run, first, kept, reasons) if kept else None
    if program is None:
        program = run(None, example.input_names(()), capture)
    for number, reason in reasons.items():
        warn(f"{_described(example, number)} is a constant of the file, not an input. {reason}")
    return program


def take_floats_as_doubles(program: ONNXProgram, example: Example) -> None:
    """Make the inputs of Python floats float64, as torch's tracer does.

    A Cast follows each of these inputs, since the graph computes with float32.
    """
    graph = program.model.graph
    floats = {index for index, leaf in enumerate(example.leaves) if type(leaf) is float}
    names = {slot.name for slot in program.signature.inputs if slot.leaf in floats}
    for value in graph.inputs:
        if value.name in names and value.dtype == ir.DataType.FLOAT and not value.is_graph_output():
            narrow = ir.Value(name=f"{value.name}_float", type=value.type, shape=value.shape)
            ir.convenience.replace_all_uses_with(value, narrow)
            value.type = ir.TensorType(ir.DataType.DOUBLE)
            cast = ir.node("Cast", [value], {"to": ir.DataType.FLOAT}, outputs=[narrow])
            graph.insert_before(graph[0], cast)


def _attempt(example: Example, run: Export, capture: str, numbers: Sequence[int], reasons: dict[int, str]) -> ONNXProgram | None:
    """Export with these numbers as inputs, or return None if that fails.

    `reasons` gets the reason for each number that cannot be an input.
    """
    try:
        program = run(example.dynamic_shapes(numbers), example.input_names(numbers), capture)
    except (CaptureError, LoweringError) as error:
        reasons |= dict.fromkeys(numbers, str(error))
        return None
    names = {slot.leaf: slot.name for slot in program.signature.inputs}
    inputs = {value.name: value for value in program.model.graph.inputs}
    unused = [each for each in numbers if not inputs[names[each]].uses() and not inputs[names[each]].is_graph_output()]
    if not unused or capture != "trace":
        return program
    reasons |= dict.fromkeys(unused, "The traced graph does not use it: the model ignores it, or Python decides by it.")
    rest = [number for number in numbers if number not in unused]
    return run(example.dynamic_shapes(rest), example.input_names(rest), capture) if rest else None


def _described(example: Example, number: int) -> str:
    name = example.names.get(number)
    return f"the number {example.leaves[number]!r}" + (f" ({name})" if name else " among the arguments")
