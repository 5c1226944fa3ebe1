"""The layers of a model, and how each of them ran.

A layer is a node that computes something that can be quantized.

The reasons why a layer runs in float were found by experiment, with ONNX Runtime 1.31 and 1.32 on x86-64.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np
import onnx_ir as ir

from onnxexp_quantization_report.model_file import ModelFile, original_nodes
from onnxexp_quantization_report.operator_sets import HALF_BYTE, LAYERS, MOVING, WITH_INTEGER_KERNEL, family, is_integer_operator
from onnxexp_quantization_report.optimized_graph import OptimizedGraph, runs_as_integers
from onnxexp_quantization_report.quantize_pairs import (
    Dequantized,
    Following,
    constant,
    dequantized,
    following,
    quantized_type,
    zero_point,
)

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


FIXES = {
    "not-quantized": "quantize this layer before the export, or leave it in float on purpose",
    "no-kernel": "use another operator, or leave this one in float: ONNX Runtime's CPU provider has no integer kernel for it",
    "16-bit": "use 8-bit activations and weights: ONNX Runtime's CPU provider has no 16-bit kernels",
    "float8": "use int8 weights: ONNX Runtime's CPU provider has no kernels for 8-bit floats",
    "4-bit-weight": "use 8-bit weights with quantized inputs, or 4-bit weights with float inputs (weight-only)",
    "float-input": "quantize this input too",
    "weight-only": "quantize the input and the result of this layer too; only linear layers run with quantized weights alone",
    "no-zero-point": "write the weight's zero point, even if it is 0",
    "transposed-weight": "store the weight as [K, N], and multiply with MatMul or a Gemm without transB",
    "block-axis": "quantize the blocks along K: axis=0 of a weight that is stored as [K, N]",
    "cast-weight": "use DequantizeLinear for the weight: ONNX Runtime folds Cast to a float weight, with no gain",
    "no-quantize": "quantize the result of this layer (QuantizeLinear, DequantizeLinear)",
    "float-bias": "quantize the result, or write the bias as int32 with a DequantizeLinear, of scale input times weight",
    "relu-zero-point": "choose a zero point of 0 after Relu, or leave Relu out: the range of the integers limits the value too",
    "clip": "clip the integers after QuantizeLinear, or leave Clip out: the range of the integers limits the value too",
    "between": "quantize the result of the layer before this operator too",
    "float-use": "let all users take the value after DequantizeLinear",
    "parameters": "use the same scale and zero point before and after an operator that only moves elements",
    "embedding": "look the integers up with Gather, and dequantize the rows that it finds",
    "unknown": "compare the nodes around this one with those of a layer that runs as integers",
}  # fmt: skip
"""How to change what a reason describes, by its code."""


@dataclasses.dataclass(frozen=True)
class Reason:
    """Why a node runs in float.

    Attributes:
        code: A key of `FIXES`.
        text: The reason, for people.
        quantized: Whether the model means the node to run with integers.
    """

    code: str
    text: str
    quantized: bool = True

    @property
    def fix(self) -> str:
        return FIXES[self.code]


def reason(node: ir.Node) -> Reason:
    """Explain why a node of the original graph runs in float."""
    if node.op_type in ("Conv", "ConvTranspose", "Gemm", "MatMul"):
        return _reason_of_layer(node)
    if node.op_type in LAYERS:
        return _recurrent(node)
    if node.op_type == "Gather":
        return Reason("embedding", "the whole table is dequantized at each run")
    return _elementwise(node)


def _reason_of_layer(node: ir.Node) -> Reason:
    x, weight = (dequantized(each) for each in node.inputs[:2])
    if _is_cast(node.inputs[1]):
        return Reason("cast-weight", "its weight is cast from integers to float")
    if weight is None or (x is None and not weight.constant):
        missing = "weight" if constant(node.inputs[1]) else "second input"
        text = (
            "it is not quantized"
            if x is None and weight is None
            else f"its {missing if x is not None else 'first input'} is float"
        )
        return Reason("not-quantized", text, quantized=False)
    found = _of_types((weight.dtype, x.dtype if x is not None else None))
    if found is not None:
        return found
    if node.op_type == "ConvTranspose":
        return Reason("no-kernel", "there is no integer kernel for ConvTranspose")
    if x is None:
        return _weight_only(node, weight)
    return next(_static(node, x, weight), Reason("unknown", "no known reason"))


def _is_cast(value: ir.Value | None) -> bool:
    """Return whether a weight is the result of Cast, scaled or not."""
    node = value.producer() if value is not None else None
    while node is not None and node.op_type in ("Mul", "Sub", "Transpose", "Reshape") and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    if node is None or node.op_type != "Cast" or not constant(node.inputs[0]):
        return False
    source = node.inputs[0]
    dtype = (source.const_value.dtype if source.const_value is not None else source.dtype) if source is not None else None
    return dtype is not None and dtype.is_integer()


def _of_types(dtypes: Iterable[ir.DataType | None]) -> Reason | None:
    for dtype in dtypes:
        if dtype in (ir.DataType.INT16, ir.DataType.UINT16):
            return Reason("16-bit", f"it has {dtype.name.lower()} values")
        if dtype is not None and dtype.is_floating_point():
            return Reason("float8", f"it has {dtype.name.lower()} values")
    return None


def _weight_only(node: ir.Node, weight: Dequantized) -> Reason:
    if node.op_type == "Conv":
        return Reason("weight-only", "only its weight is quantized")
    if not weight.has_zero_point:
        return Reason("no-zero-point", "the weight's DequantizeLinear has no zero point")
    if any(move.op_type == "Transpose" for move in weight.moves) or node.attributes.get_int("transB") == 1:
        return Reason("transposed-weight", "its weight is stored as [N, K]")
    if weight.node.attributes.get_int("block_size", 0) and weight.node.attributes.get_int("axis", 1) != 0:
        return Reason("block-axis", "the blocks of its weight are not along K")
    return Reason("unknown", "no known reason")


def _static(node: ir.Node, x: Dequantized, weight: Dequantized) -> Iterator[Reason]:
    """Yield the reasons for a layer with quantized input and weight, in order."""
    if weight.dtype in HALF_BYTE or x.dtype in HALF_BYTE:
        yield Reason("4-bit-weight", "it has 4-bit weights and quantized inputs")
    if node.op_type != "Conv" and weight.constant and not weight.has_zero_point:
        yield Reason("no-zero-point", "the weight's DequantizeLinear has no zero point")
    after = following(node)
    yield from _after(after)
    if after.quantize is None:
        if node.op_type == "Conv":
            yield Reason("no-quantize", f"its result is not quantized: {_use(after)}")
        elif len(node.inputs) > 2 or any(each.op_type == "Add" for each in after.between):
            yield Reason("float-bias", "its bias is float, and its result is not quantized")


def _after(after: Following) -> Iterator[Reason]:
    """Yield the reasons that lie between a node and its QuantizeLinear."""
    if after.quantize is None:
        return
    found = _of_types([quantized_type(after.quantize)])
    if found is not None:
        yield found
    zero = zero_point(after.quantize)
    for each in after.between:
        if each.op_type == "Relu" and (zero is None or np.any(zero)):
            yield Reason("relu-zero-point", f"Relu follows, and its result has the zero point {zero}")
        elif each.op_type == "Clip":
            yield Reason("clip", "a Clip of floats follows")
        elif each.op_type not in MOVING and each.op_type not in ("Relu", "Add"):
            yield Reason("between", f"{each.op_type} stands between it and QuantizeLinear")
    if after.others or after.output:
        yield Reason("float-use", f"its float result is used, too: {_use(after)}")


def _use(after: Following) -> str:
    names = [each.op_type for each in after.others][:3]
    return ", ".join(([f"{' and '.join(names)} {'takes' if len(names) == 1 else 'take'} it"] if names else [])
                     + (["it is an output of the model"] if after.output else [])) or "nothing takes it"  # fmt: skip


def _elementwise(node: ir.Node) -> Reason:
    inputs = [each for each in node.inputs if each is not None]
    inputs = inputs[:1] if node.op_type in MOVING and node.op_type != "Concat" else inputs
    sources = [dequantized(each) for each in inputs]
    after = following(node)
    if not any(sources) or after.quantize is None:
        text = "its result is not quantized" if any(sources) else "it is not quantized"
        return Reason("not-quantized", text, quantized=False)
    if node.op_type not in WITH_INTEGER_KERNEL | MOVING:
        return Reason("no-kernel", f"there is no integer kernel for {node.op_type}")
    if not all(sources) and node.op_type in ("Add", "Mul", "Concat"):
        return Reason("float-input", f"its input {inputs[sources.index(None)].name} is float")
    found = _of_types(each.dtype for each in sources if each is not None)
    if found is not None:
        return found
    if node.op_type in MOVING - {"Concat"}:
        return Reason("parameters", "scale or zero point differ before and after it")
    return next(_after(after), Reason("unknown", "no known reason"))


def _recurrent(node: ir.Node) -> Reason:
    if any(dequantized(each) is not None for each in node.inputs):
        return Reason("no-kernel", f"there is no integer kernel for {node.op_type} with DequantizeLinear")
    return Reason("not-quantized", "it is not quantized", quantized=False)
