"""An ExportedProgram as a neutral graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch._functorch import predispatch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

from onnxexp.capture.torch_export.fx_converter import Converter
from onnxexp.capture.torch_export.higher_order_ops import CONVERSIONS
from onnxexp.capture.torch_state import quiet_export, torch_mode
from onnxexp.errors import CaptureError
from onnxexp.graph import Dim, Graph

__all__ = ["to_graph", "without_vmap", "written"]


def to_graph(program: ExportedProgram, dim_text: Callable[[Any], Dim]) -> Graph:
    """The program's graph, every call bound to its torch schema.

    `dim_text` gives the readable text of a symbolic size. The graph's inputs are the user's inputs, one Value for each
    flattened argument, constants included. Raises CaptureError for what has no place in a neutral graph.
    """
    graph = Graph()
    converter = Converter(program.graph_module, graph, dim_text, CONVERSIONS)
    kinds = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    for node in program.graph.find_nodes(op="placeholder"):
        spec = kinds[node.name]
        value = converter.new(node.name, node.meta.get("val"))
        if spec.kind is InputKind.USER_INPUT:
            converter.env[node] = value
            graph.inputs.append(value)
            if isinstance(spec.arg, ConstantArgument):
                converter.env[node] = spec.arg.value
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            tensor = _stored(program, spec)
            value.name = spec.target or node.name
            graph.params[value] = tensor
            converter.env[node] = value
        else:
            raise CaptureError(
                f"the captured program takes {spec.target or node.name}, a {spec.kind.name}, which ONNX cannot hold"
            )
    converter.run()
    returned = zip(graph.outputs, program.graph_signature.output_specs, strict=True)
    graph.outputs = [output for output, spec in returned if spec.kind is OutputKind.USER_OUTPUT]
    return graph


def written(program: ExportedProgram) -> list[str]:
    """The inputs and buffers that the forward writes into and that the program returns for it, as decomposed programs do."""
    kinds = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION, OutputKind.USER_INPUT_MUTATION)
    return [spec.target or spec.arg.name for spec in program.graph_signature.output_specs if spec.kind in kinds]


def without_vmap(program: ExportedProgram) -> ExportedProgram:
    """The program itself, or, where torch.vmap left marks around what it maps, what torch makes of it."""
    graphs = (module.graph for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule))
    targets = {node.target for graph in graphs for node in graph.nodes if node.op == "call_function"}
    if targets.isdisjoint((predispatch._add_batch_dim, predispatch._remove_batch_dim)):
        return program
    with torch_mode(), quiet_export(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's remarks about its own internals
        functional: ExportedProgram = program.run_decompositions({})
        return functional


def _stored(program: ExportedProgram, spec: Any) -> torch.Tensor:
    tensor = program.state_dict.get(spec.target)
    if tensor is None:
        tensor = program.constants[spec.target]
    return tensor.detach()  # type: ignore[no-any-return]
