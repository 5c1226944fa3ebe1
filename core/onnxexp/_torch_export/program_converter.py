"""Convert an ExportedProgram to a neutral graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._functorch import predispatch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

from onnxexp._capture.torch_state import silence_torch_export, silence_warnings, torch_mode
from onnxexp._errors import CaptureError
from onnxexp._neutral_graph import Dim, Graph
from onnxexp._torch_export.fx_converter import Converter
from onnxexp._torch_export.higher_order_ops import CONVERSIONS


def to_graph(program: ExportedProgram, dim_of: Callable[[Any], Dim]) -> Graph:
    """Convert a program's graph, with each call bound to its torch schema.

    The graph's inputs are the user's inputs, one Value for each flattened argument, constants included.

    Args:
        program: The program.
        dim_of: Returns a size of torch's as an expression of names.

    Raises:
        CaptureError: The program contains something that a neutral graph cannot represent.
    """
    graph = Graph()
    converter = Converter(program.graph_module, graph, dim_of, CONVERSIONS)
    kinds = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    tensors: dict[str, Any] = {**program.constants, **program.state_dict}
    for node in program.graph.find_nodes(op="placeholder"):
        spec = kinds[node.name]
        value = converter.new(node.name, node.meta.get("val"))
        if spec.kind is InputKind.USER_INPUT:
            converter.env[node] = value
            graph.inputs.append(value)
            if isinstance(spec.arg, ConstantArgument):
                converter.env[node] = spec.arg.value
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            value.name = spec.target or node.name
            graph.params[value] = tensors[value.name].detach()
            converter.env[node] = value
        else:
            raise CaptureError(
                f"the captured program takes {spec.target or node.name}, a {spec.kind.name}, which ONNX cannot represent"
            )
    converter.run()
    returned = zip(graph.outputs, program.graph_signature.output_specs, strict=True)
    graph.outputs = [output for output, spec in returned if spec.kind is OutputKind.USER_OUTPUT]
    return graph


def mutated_names(program: ExportedProgram) -> list[str]:
    """Return the inputs and buffers that a decomposed program updates."""
    kinds = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION, OutputKind.USER_INPUT_MUTATION)
    return [spec.target or spec.arg.name for spec in program.graph_signature.output_specs if spec.kind in kinds]


def resolve_vmap(program: ExportedProgram) -> ExportedProgram:
    """Return the program without torch.vmap's marker nodes."""
    graphs = (module.graph for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule))
    targets = {node.target for graph in graphs for node in graph.nodes if node.op == "call_function"}
    if targets.isdisjoint((predispatch._add_batch_dim, predispatch._remove_batch_dim)):
        return program
    with torch_mode(), silence_torch_export(), silence_warnings():
        functional: ExportedProgram = program.run_decompositions({})
        return functional
