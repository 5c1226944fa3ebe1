"""The layers of a model, and how each of them ran.

A layer is a node that computes something that can be quantized.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import onnx_ir as ir

from onnxexp_quantization_report.float_reasons import reason
from onnxexp_quantization_report.model_file import ModelFile, original_nodes
from onnxexp_quantization_report.operator_sets import LAYERS, MOVING, family, is_integer_operator
from onnxexp_quantization_report.optimized_graph import OptimizedGraph, runs_as_integers
from onnxexp_quantization_report.quantize_pairs import constant, dequantized

INTEGER, FLOAT, NOT_QUANTIZED, UNKNOWN = "integer", "float", "not quantized", "unknown"
STATES = {
    INTEGER: "ran as integers",
    FLOAT: "fell back to float",
    NOT_QUANTIZED: "not quantized by the model",
    UNKNOWN: "unknown: ONNX Runtime's graph has no trace of it",
}
"""The states of a layer, and their meaning."""

_LISTED_MOVES = {"MaxPool", "Resize", "Concat", "Pad"}
"""Operators that move elements and are worth a line."""


@dataclasses.dataclass
class Layer:
    """A node of the original graph, and how it ran.

    Attributes:
        name: The node's name.
        operator: Its operator.
        scope: The path of its module, "" if the file does not have it.
        source: The line of the model's code, "" if the file does not have it.
        state: A key of `STATES`.
        ran_as: The operator that ran instead; "" if it is unknown.
        code, reason, fix: Why it ran in float, and what changes that; else "".
        seconds: The time of a run; None if it was not measured.
        sqnr: Signal to quantization noise against the float model in dB; None if it was not compared, or is infinite.
        max_error: The largest difference from the float model; None if it was not compared.
    """

    name: str
    operator: str
    scope: str
    source: str
    state: str
    ran_as: str = ""
    code: str = ""
    reason: str = ""
    fix: str = ""
    seconds: float | None = None
    sqnr: float | None = None
    max_error: float | None = None
    node: ir.Node = dataclasses.field(repr=False, kw_only=True)

    @property
    def index(self) -> int:
        """The node's index in the original graph."""
        return original_nodes(self.node.name or "")[0]


def layers(file: ModelFile, optimized: OptimizedGraph) -> list[Layer]:
    """List the layers of a model in order, with their states."""
    return [layer for node in file.nodes for layer in _layer(file, node, optimized)]


def _layer(file: ModelFile, node: ir.Node, optimized: OptimizedGraph) -> Iterator[Layer]:
    """Yield the layer of a node, if the node has one.

    Yields nothing for a node that is no layer, or that is a part of another layer.
    """
    weighty = family(node.op_type) in LAYERS or is_integer_operator(node.op_type)
    if not weighty and not _on_quantized_values(node):
        return
    found = optimized.counterpart(node)
    if found is None:
        if not weighty or all(constant(value) for value in node.inputs):
            return
        found = optimized.absorbed_by(node)
    props = node.metadata_props
    layer = Layer(
        file.name(node), node.op_type, props.get("onnxexp.scope", ""), props.get("onnxexp.source", ""), UNKNOWN, node=node
    )  # fmt: skip
    if found is not None:
        layer.ran_as = found.op_type
        if runs_as_integers(found):
            layer.state = INTEGER
        else:
            why = reason(node)
            layer.state = FLOAT if why.quantized else NOT_QUANTIZED
            layer.code, layer.reason, layer.fix = why.code, why.text, why.fix
    yield layer


def _on_quantized_values(node: ir.Node) -> bool:
    """Return whether a node without weights is listed for its quantized operands."""
    if node.op_type in ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "Clip") or not node.inputs:
        return False
    if node.op_type == "Gather":
        table = dequantized(node.inputs[0])
        return table is not None and table.constant
    if node.op_type in MOVING:
        if node.op_type not in _LISTED_MOVES:
            return False
        value = node.inputs[0]
        if value is not None and value.dtype in (ir.DataType.UINT8, ir.DataType.INT8):
            return True
    sources = [dequantized(value) for value in node.inputs]
    return any(source is not None and not source.constant for source in sources)
