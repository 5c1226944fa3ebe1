"""Assemble the finished model from the builder's nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
import torch
from onnx_ir.passes.common import RemoveUnusedNodesPass

from onnxexp._builder import operands
from onnxexp._builder.builder import Builder, state_of
from onnxexp._builder.graph_state import GraphState, write_type
from onnxexp._builder.onnx_schemas import ir_version
from onnxexp._builder.tensor import Tensor
from onnxexp._builder.torch_tensor_data import TorchTensor
from onnxexp._version import __version__


def assemble(builder: Builder, outputs: Sequence[tuple[str, Any]]) -> ir.Model:
    """Make the model from the builder's inputs and nodes.

    Args:
        builder: The builder after the lowering.
        outputs: The graph's outputs in order, by names that are reserved in the builder. An output that is also an input keeps
            the input's value where the names agree. One that repeats another gets an Identity, since a value has one name only.
    """
    state = state_of(builder)
    finished: list[ir.Value] = []
    for output_name, output in outputs:
        finished.append(_output(state, output_name, operands.tensor(builder, output), finished))
    _untie(state)
    graph = ir.Graph(
        state.scope.inputs,
        finished,
        nodes=state.scope.nodes,
        initializers=[value for value in (*state.scope.inputs, *state.initializers.values()) if value.const_value is not None],
        opset_imports=state.opset_imports,
        name="main",
    )
    model = ir.Model(
        graph,
        ir_version=ir_version(builder.opset),
        producer_name="onnxexp",
        producer_version=__version__,
        functions=list(state.functions.values()),
    )
    _remove_unused(model)
    for tensor in [state.tensors[output] for node in graph for output in node.outputs if output in state.tensors]:
        _ = tensor.inferred_dtype, tensor.shape  # infer what is unset
        write_type(tensor)
    return model


def _output(state: GraphState, name: str, tensor: Tensor, earlier: Sequence[ir.Value]) -> ir.Value:
    value = tensor.value
    made_by_node = value.producer() is not None
    if (not made_by_node and value.name != name) or value in earlier:
        value = state.copy(tensor).value
    value.name = name
    _ = tensor.shape
    return value


def _untie(state: GraphState) -> None:
    """Store a weight once that is used both as it is and transposed.

    The transposed use becomes a Transpose node.
    """
    by_memory: dict[tuple[Any, ...], list[ir.Value]] = {}
    for value in state.initializers.values():
        held = value.const_value
        if isinstance(held, TorchTensor) and held.torch.dim() >= 2 and held.torch.numel() > 1024 and value.uses():
            tensor = held.torch
            axes = tuple(sorted(zip(tensor.stride(), tensor.shape, strict=True)))
            place = tensor.untyped_storage().data_ptr(), tensor.storage_offset()
            by_memory.setdefault((*place, tensor.dtype, axes), []).append(value)
    for tied in by_memory.values():
        tied.sort(key=lambda value: not _tensor(value).is_contiguous())
        for value in tied[1:]:
            _replace_by_transpose(state, tied[0], value)


def _replace_by_transpose(state: GraphState, stored: ir.Value, value: ir.Value) -> None:
    base, wanted = _tensor(stored), _tensor(value)
    axes = list(zip(base.stride(), base.shape, strict=True))
    perm = []
    for axis in zip(wanted.stride(), wanted.shape, strict=True):
        perm.append(next(index for index, candidate in enumerate(axes) if candidate == axis and index not in perm))
    node = ir.Node("", "Transpose", [stored], [ir.AttrInt64s("perm", perm)], name=state.node_names.unique("Transpose"))
    copy = node.outputs[0]
    copy.name, copy.type, copy.shape = f"{value.name}_transposed", value.type, value.shape
    state.scope.nodes.insert(0, node)
    value.replace_all_uses_with(copy)
    key = next(key for key, candidate in state.initializers.items() if candidate is value)
    del state.initializers[key]


def _tensor(value: ir.Value) -> torch.Tensor:
    assert isinstance(value.const_value, TorchTensor)
    return value.const_value.torch


def _remove_unused(model: ir.Model) -> None:
    """Remove dead nodes, unused optional outputs and unused initializers, in place.

    onnx-ir's pass does not detach the body of a dead If, Loop or Scan, so that the values which the body reads stay in use. This
    function detaches the bodies, and runs the pass again.
    """
    graphs = [model.graph, *(function.graph for function in model.functions.values())]
    nested = [node for graph in graphs for node in graph.all_nodes() if _bodies(node)]
    RemoveUnusedNodesPass()(model)
    while dead := [node for node in nested if node.graph is None]:
        for inner in [inner for node in dead for body in _bodies(node) for inner in body.all_nodes()]:
            inner.resize_inputs(0)
        RemoveUnusedNodesPass()(model)
        nested = [node for node in nested if node.graph is not None]


def _bodies(node: ir.Node) -> list[ir.Graph]:
    return [attribute.as_graph() for attribute in node.attributes.values() if attribute.type is ir.AttributeType.GRAPH]
