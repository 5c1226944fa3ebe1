"""The inputs and outputs of the ONNX graph, and which leaf of the original's call each one is."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch

from onnxexp.builder.builder import Builder, state_of
from onnxexp.builder.tensor import ComplexTensor, Tensor, real_dtype
from onnxexp.capture.frontend import CapturedProgram
from onnxexp.capture.output_axes import name_output_axes
from onnxexp.graph import TensorType, Type, Value
from onnxexp.lowering.lowering import Lowering
from onnxexp.program.signature import InputSlot, OutputSlot, Signature
from onnxexp.request.call_tree import flatten_output_spec
from onnxexp.request.dynamic_shapes import DynamicSpec
from onnxexp.request.io_names import assign_output_names

__all__ = ["Interface"]


class Interface:
    """Names and slots of a captured graph's inputs and outputs.

    Tensors and dynamic numbers are inputs, unused ones too; everything else that the example gave is a constant. What the
    model returns becomes an output if it is a tensor or a number that depends on the inputs; None, strings and fixed numbers
    are constants of the signature. `weights` are the parameters that were left out of the model (``export_params=False``), by
    the name of the input that takes each. Raises OptionError for output names that do not fit.
    """

    def __init__(self, captured: CapturedProgram, spec: DynamicSpec, output_names: Sequence[str] | None) -> None:
        self.weights: dict[str, torch.Tensor] = {}
        self._captured = captured
        self._spec = spec
        graph = captured.graph
        self._inputs = [(spec.leaves[index].name, index, graph.inputs[index]) for index in spec.inputs]
        names = {value: name for name, _, value in self._inputs}
        leaves = flatten_output_spec(captured.out_spec)
        positions = [index for index, output in enumerate(graph.outputs) if isinstance(output, (Value, torch.Tensor))]
        returned = [graph.outputs[index] for index in positions]
        passed = {place: names[output] for place, output in enumerate(returned) if output in names}
        assigned = assign_output_names([leaves[index] for index in positions], output_names, names.values(), passed)
        self._outputs = dict(zip(positions, assigned, strict=True))
        if spec.outputs:
            name_output_axes(dict(zip(assigned, returned, strict=True)), spec)

    def bind_inputs(self, lowering: Lowering, *, export_params: bool) -> None:
        """Make the graph's inputs, and bind every captured input."""
        taken = {name for name, _, _ in self._inputs}
        state_of(lowering.builder).names.reserve(name for name in self._outputs.values() if name not in taken)
        for name, _, value in self._inputs:
            lowering.bind(value, _input(lowering.builder, name, value.type))
        for index, value in enumerate(self._captured.graph.inputs):
            if index not in self._spec.inputs:
                lowering.bind(value, self._spec.leaves[index].value)
        if not export_params:
            graph = self._captured.graph
            for value, tensor in graph.params.items():
                parameter = lowering.builder.input(value.name, TensorType(tensor.dtype, tuple(tensor.shape)))
                lowering.bind(value, parameter)
                self.weights[str(parameter.value.name)] = tensor
            graph.params.clear()

    def outputs(self, results: Sequence[Any]) -> list[tuple[str, Any]]:
        """The graph's outputs in order, by name."""
        return [(name, _whole(results[index])) for index, name in self._outputs.items()]

    def signature(self, parameters: inspect.Signature) -> Signature:
        """How a call of the original maps to the graph."""
        graph, spec = self._captured.graph, self._spec
        constants = {index: leaf.value for index, leaf in enumerate(spec.leaves) if index not in spec.inputs}
        return Signature(
            inputs=[InputSlot(name, index) for name, index, _ in self._inputs],
            outputs=[self._slot(index, output) for index, output in enumerate(graph.outputs)],
            in_spec=self._captured.in_spec,
            out_spec=self._captured.out_spec,
            constants=constants,
            parameters=parameters,
        )

    def _slot(self, index: int, output: Any) -> OutputSlot:
        if index in self._outputs:
            scalar = None if isinstance(output.type, TensorType) else output.type.kind
            paired = isinstance(output.type, TensorType) and output.type.dtype is not None and output.type.dtype.is_complex
            return OutputSlot(output=list(self._outputs).index(index), scalar=scalar, paired=paired)
        if isinstance(output, Value):
            return OutputSlot(leaf=self._captured.graph.inputs.index(output))
        return OutputSlot(constant=output)


def _input(builder: Builder, name: str, type_: Type) -> Tensor:
    """An input of the graph; a complex one is fed as pairs of real numbers."""
    if not isinstance(type_, TensorType) or type_.dtype is None or not type_.dtype.is_complex or type_.sizes is None:
        return builder.input(name, type_)
    return ComplexTensor.view_as_complex(builder.input(name, TensorType(real_dtype(type_.dtype), (*type_.sizes, 2))))


def _whole(result: Any) -> Any:
    """What an output of the graph is; a complex one is pairs of real numbers."""
    if isinstance(result, ComplexTensor):
        return result.view_as_real()
    if isinstance(result, Tensor) and result.const is not None and result.const.is_complex():
        return torch.view_as_real(result.const.resolve_conj())
    return result
