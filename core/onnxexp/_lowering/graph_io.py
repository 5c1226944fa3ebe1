"""Names, values and signature of the ONNX graph's inputs and outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from onnxexp._builder.builder import Builder, state_of
from onnxexp._builder.tensor import ComplexTensor, Tensor, real_dtype
from onnxexp._builder.torch_tensor_data import TorchTensor, has_data
from onnxexp._capture.captured_program import CapturedProgram
from onnxexp._capture.size_names import name_output_axes
from onnxexp._errors import CaptureError
from onnxexp._functionalize.squeezed_outputs import squeezed_shapes
from onnxexp._lowering.lowering import Lowering
from onnxexp._model.signature import InputSlot, OutputSlot, Signature
from onnxexp._neutral_graph import Dim, ScalarType, TensorType, Type, Value
from onnxexp._request.dynamic_shapes import DynamicSpec
from onnxexp._request.example_call import ExampleCall
from onnxexp._request.export_context import ExportContext
from onnxexp._request.io_names import assign_output_names
from onnxexp._request.pytree_leaves import flatten_output_spec


@dataclasses.dataclass(frozen=True)
class GraphIO:
    """Names of the ONNX graph's inputs and outputs.

    Attributes:
        inputs: The name of each input, by the index of its leaf among the arguments.
        outputs: The name of each output, by the index of its leaf in the result.
        varying: The shapes of outputs whose rank depends on a call, at sizes other than 1, by the index of the leaf.
    """

    inputs: dict[int, str]
    outputs: dict[int, str]
    varying: dict[int, tuple[Dim, ...]]


def name_graph_io(captured: CapturedProgram, spec: DynamicSpec, output_names: Sequence[str] | None) -> GraphIO:
    """Name the graph's inputs, its outputs and the outputs' axes.

    Tensors and dynamic numbers are inputs, unused ones too; everything else in the example is a constant. Returned tensors and
    numbers are outputs; None and strings are constants of the signature.

    Raises OptionError for output names that do not fit, and CaptureError where the file would have no output.
    """
    graph = captured.graph
    inputs = {index: spec.leaves[index].name for index in spec.inputs}
    names = {graph.inputs[index]: name for index, name in inputs.items()}
    leaves = flatten_output_spec(captured.out_spec)
    positions = [index for index, output in enumerate(graph.outputs) if isinstance(output, (Value, torch.Tensor, int, float))]
    if not positions:
        what = ", ".join(sorted({type(output).__name__ for output in graph.outputs})) or "nothing"
        raise CaptureError(
            f"the model returns {what}, and an ONNX file needs an output; "
            "to fix this, return a tensor or a number from its forward"
        )
    returned = [graph.outputs[index] for index in positions]
    passed = {place: names[output] for place, output in enumerate(returned) if output in names}
    assigned = assign_output_names([leaves[index] for index in positions], output_names, names.values(), passed)
    varying = squeezed_shapes(graph)
    if spec.outputs:
        name_output_axes(dict(zip(assigned, returned, strict=True)), spec, varying)
    shapes = {index: varying[graph.outputs[index]] for index in positions if graph.outputs[index] in varying}
    return GraphIO(inputs, dict(zip(positions, assigned, strict=True)), shapes)


def bind_inputs(
    lowering: Lowering, captured: CapturedProgram, io: GraphIO, spec: DynamicSpec, export_params: bool, as_inputs: bool
) -> dict[str, torch.Tensor]:
    """Make the graph's inputs and bind every captured input.

    Returns the parameters that only the caller has (``export_params=False``), by the name of the input.
    """
    graph, builder = captured.graph, lowering.builder
    taken = set(io.inputs.values())
    state_of(builder).names.reserve(name for name in io.outputs.values() if name not in taken)
    for index, name in io.inputs.items():
        value = graph.inputs[index]
        made = _input(builder, name, value.type)
        if value in captured.containers:
            made.value.type, made.value.shape = captured.containers[value]
        lowering.bind(value, made)
    for index, value in enumerate(graph.inputs):
        if index not in io.inputs:
            lowering.bind(value, spec.leaves[index].value)
    empty = [value.name for value, tensor in graph.params.items() if export_params and not has_data(tensor)]
    if empty:
        more = f" and {len(empty) - 3} more" if len(empty) > 3 else ""
        raise CaptureError(
            f"on the meta device, without data: {', '.join(empty[:3])}{more}; "
            "to fix this, pass weights=CHECKPOINT, or export_params=False"
        )
    weights: dict[str, torch.Tensor] = {}
    for value, tensor in list(graph.params.items()):
        constant = value.name.startswith("lifted_tensor") or tensor.is_complex()  # written in the code, or not for ONNX
        if not export_params or (as_inputs and not constant):
            parameter = builder.input(value.name, TensorType(tensor.dtype, tuple(tensor.shape)))
            lowering.bind(value, parameter)
            del graph.params[value]
            if export_params:
                parameter.value.const_value = TorchTensor(tensor, parameter.value.name)
            else:
                weights[str(parameter.value.name)] = tensor
    return weights


def graph_outputs(io: GraphIO, results: Sequence[Any]) -> list[tuple[str, Any]]:
    """List the graph's outputs in order, by name.

    onnx's checker refuses an output of unknown rank, so an output whose rank depends on a call gets the rank at sizes other than
    1. ONNX Runtime returns the rank of the call, with a warning where it is another one.
    """
    listed = [(name, _real_output(results[index])) for index, name in io.outputs.items()]
    for (_, output), index in zip(listed, io.outputs, strict=True):
        if index in io.varying and isinstance(output, Tensor) and output.shape is None:
            output.fill(TensorType(None, io.varying[index]))
    return listed


def call_signature(captured: CapturedProgram, io: GraphIO, call: ExampleCall, context: ExportContext) -> Signature:
    """Describe how a call of the original maps to the graph."""
    leaves = call.spec.leaves
    return Signature(
        inputs=[InputSlot(name, index, context.input_forms.get(index)) for index, name in io.inputs.items()],
        outputs=[_slot(captured, io, index, output) for index, output in enumerate(captured.graph.outputs)],
        in_spec=captured.in_spec,
        out_spec=captured.out_spec,
        constants={index: leaf.value for index, leaf in enumerate(leaves) if index not in io.inputs},
        parameters=call.forward,
        restrictions=context.restrictions,
    )


def _slot(captured: CapturedProgram, io: GraphIO, index: int, output: Any) -> OutputSlot:
    if index in io.outputs:
        type_ = output.type if isinstance(output, Value) else None
        scalar = type_.kind if isinstance(type_, ScalarType) else type(output) if isinstance(output, (int, float)) else None
        paired = isinstance(type_, TensorType) and type_.dtype is not None and type_.dtype.is_complex
        return OutputSlot(output=list(io.outputs).index(index), scalar=scalar, paired=paired)
    if isinstance(output, Value):
        return OutputSlot(leaf=captured.graph.inputs.index(output))
    return OutputSlot(constant=output)


def _input(builder: Builder, name: str, type_: Type) -> Tensor:
    """Make an input of the graph, of pairs of real numbers for a complex one."""
    if not isinstance(type_, TensorType) or type_.dtype is None or not type_.dtype.is_complex or type_.sizes is None:
        return builder.input(name, type_)
    return ComplexTensor.view_as_complex(builder.input(name, TensorType(real_dtype(type_.dtype), (*type_.sizes, 2))))


def _real_output(result: Any) -> Any:
    """Convert a complex output to pairs of real numbers, and keep other outputs."""
    if isinstance(result, ComplexTensor):
        return result.view_as_real()
    if isinstance(result, Tensor) and result.const is not None and result.const.is_complex():
        return torch.view_as_real(result.const.resolve_conj())
    return result
