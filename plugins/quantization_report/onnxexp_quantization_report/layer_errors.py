"""The error of each layer against the float model.

Both models run without optimization, so that every value can be had: the quantized one then computes in float between
DequantizeLinear and QuantizeLinear, which is what its integers mean. A layer's value is that after its QuantizeLinear.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

import onnxexp
from onnxexp import OnnxExporterError, OptionError
from onnxexp_quantization_report.layers import Layer
from onnxexp_quantization_report.model_file import ModelFile, load, session
from onnxexp_quantization_report.operator_sets import ACTIVATIONS, MOVING, family
from onnxexp_quantization_report.quantize_pairs import constant, following, users


@dataclasses.dataclass(frozen=True)
class Difference:
    """The difference between two tensors.

    Attributes:
        name: An output of the model.
        sqnr: Signal to quantization noise in dB; None if the noise or the signal is zero.
        max_error: The largest absolute difference.
    """

    name: str
    sqnr: float | None
    max_error: float


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The errors of a model's outputs, and how many layers were compared."""

    outputs: list[Difference]
    compared: int
    layers: int

    def lines(self) -> Iterator[str]:
        """Yield the comparison as text."""
        for each in self.outputs:
            ratio = "exact" if each.max_error == 0 else "no signal" if each.sqnr is None else f"{each.sqnr:.1f} dB"
            yield f"output {each.name}: {ratio}, largest error {each.max_error:.3g}"
        if self.compared < self.layers:
            yield f"{self.layers - self.compared} of {self.layers} layers have no counterpart in the float model"

    def document(self) -> list[dict[str, Any]]:
        """Return the comparison of the outputs for JSON."""
        return [dataclasses.asdict(each) for each in self.outputs]


def float_model(target: str, quantized: ModelFile) -> ModelFile:
    """Load the float model: an ONNX file, or a model as for `onnxexp export`.

    A model is exported with the dynamic axes of the quantized file, unless its factory says which it has.
    """
    if target.endswith(".onnx"):
        return load(Path(target))
    from onnxexp.commands import Target

    found = Target.load(target)
    if not {"dynamic_shapes", "dynamic_axes"} & found.options.keys():
        axes = {
            value.name: {axis: size.value for axis, size in enumerate(value.shape or ()) if isinstance(size, ir.SymbolicDim)}
            for value in quantized.model.graph.inputs
        }
        found.options["dynamic_axes"] = {name: each for name, each in axes.items() if each}
    program = onnxexp.export(found.model, found.args, kwargs=found.kwargs, **found.options)
    return load(program.model, target)


def compare(
    file: ModelFile, layers: list[Layer], other: ModelFile, feeds: Mapping[str, np.ndarray], threads: int = 0
) -> Comparison:
    """Run both models on the same inputs, and set the layers' errors.

    Raises:
        OptionError: The models have other inputs or outputs.
        OnnxExporterError: ONNX Runtime fails.
    """
    pairs = []
    for layer, node in _pairs(file, layers, other):
        ours = quantized_value(layer.node)
        theirs = float_value(node, ours) if ours is not None else None
        if ours is not None and theirs is not None:
            pairs.append((layer, ours, theirs))
    own = _run(file, feeds, [ours for _, ours, _ in pairs], threads)
    expected = _run(other, _renamed(file, other, feeds), [theirs for _, _, theirs in pairs], threads)
    compared = 0
    for layer, ours, theirs in pairs:
        found = _difference(layer.name, ours.read(own), theirs.read(expected))
        if found is not None:
            layer.sqnr, layer.max_error = found.sqnr, found.max_error
            compared += 1
    return Comparison(_outputs(file, other, own, expected), compared, len(layers))


def _outputs(file: ModelFile, other: ModelFile, own: Mapping[str, Any], expected: Mapping[str, Any]) -> list[Difference]:
    """Compare the outputs in order; those of other shapes or types are left out."""
    ours, theirs = ([value.name or "" for value in each.model.graph.outputs] for each in (file, other))
    if len(ours) != len(theirs):
        raise OptionError(
            f"{file.title} has the outputs {', '.join(ours)}; the float model {other.title} has {', '.join(theirs)}"
        )
    found = [_difference(name, own[name], expected[match]) for name, match in zip(ours, theirs, strict=True)]
    return [each for each in found if each is not None]


def _difference(name: str, ours: Any, theirs: Any) -> Difference | None:
    if not isinstance(ours, np.ndarray) or not isinstance(theirs, np.ndarray) or not ours.size:
        return None
    ours, theirs = np.squeeze(ours), np.squeeze(theirs)  # pooling may keep its axes or not
    if ours.shape != theirs.shape or not {ours.dtype.kind, theirs.dtype.kind} <= set("fiub"):
        return None
    signal, noise = theirs.astype(np.float64), ours.astype(np.float64) - theirs
    power, error = float(np.mean(signal**2)), float(np.mean(noise**2))
    sqnr = 10 * math.log10(power / error) if power > 0 and error > 0 else None
    return Difference(name, sqnr, float(np.abs(noise).max()))


def _renamed(file: ModelFile, other: ModelFile, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Name the inputs as the other model does: by the same names, else in order."""
    names = [value.name or "" for value in other.model.graph.inputs if value.name not in other.model.graph.initializers]
    if set(names) == set(feeds):
        return dict(feeds)
    if len(names) != len(feeds):
        raise OptionError(f"{file.title} has the inputs {', '.join(feeds)}; the float model {other.title} has {', '.join(names)}")
    return dict(zip(names, feeds.values(), strict=True))


def _run(file: ModelFile, feeds: Mapping[str, np.ndarray], values: list[LayerValue], threads: int) -> dict[str, Any]:
    """Run a model without optimization; return outputs and given values by name."""
    model = file.model.clone()
    known = {value.name: value for node in model.graph for value in node.outputs}
    wanted = {value.name for each in values for value in each.needed()} - {value.name for value in model.graph.outputs}
    model.graph.outputs.extend(known[name] for name in wanted if name in known)
    loaded = session(dataclasses.replace(file, model=model), threads)
    try:
        results = loaded.run(feeds)
    except OnnxExporterError as error:
        raise OnnxExporterError(f"{file.title}: {error}") from error
    return {value.name or "": _array(result) for value, result in zip(model.graph.outputs, results, strict=True)}


def _array(value: Any) -> Any:
    """Return a tensor as an array, and None for a sequence: numpy lacks bfloat16."""
    if not isinstance(value, torch.Tensor):
        return None
    return (value.float() if value.is_floating_point() and value.dtype != torch.float64 else value).numpy()


def _pairs(file: ModelFile, layers: list[Layer], other: ModelFile) -> Iterator[tuple[Layer, ir.Node]]:
    """Pair each layer with its node in the float model.

    Layers pair by module and operator, and the remaining ones by operator, in order.
    """
    ours = [layer for layer in layers if layer.node.graph is file.model.graph]
    theirs = list(other.model.graph)
    for key in (_module, _kind):
        found = list(_equally_many(ours, theirs, key))
        yield from found
        matched = {layer.index for layer, _ in found}
        nodes = {node for _, node in found}
        ours = [layer for layer in ours if layer.index not in matched]
        theirs = [node for node in theirs if node not in nodes]


def _equally_many(
    ours: list[Layer], theirs: list[ir.Node], key: Callable[[ir.Node], Hashable]
) -> Iterator[tuple[Layer, ir.Node]]:
    """Pair those with the same key in order, where both models have as many of them."""
    layers, nodes = defaultdict[Hashable, list[Layer]](list), defaultdict[Hashable, list[ir.Node]](list)
    for layer in ours:
        layers[key(layer.node)].append(layer)
    for node in theirs:
        nodes[key(node)].append(node)
    for name, found in layers.items():
        if len(found) == len(nodes[name]):
            yield from zip(found, nodes[name], strict=True)


def _module(node: ir.Node) -> Hashable:
    return node.metadata_props.get("onnxexp.scope", ""), family(node.op_type)


def _kind(node: ir.Node) -> Hashable:
    return family(node.op_type)


_SCALE_INPUTS = {
    "QLinearConv": 6, "QLinearMatMul": 6, "QLinearAdd": 6, "QLinearMul": 6, "QGemm": 7, "QLinearConcat": 0,
    "QLinearAveragePool": 3, "QLinearGlobalAveragePool": 3, "QLinearSigmoid": 3, "QLinearLeakyRelu": 3, "QLinearSoftmax": 3,
}  # fmt: skip
"""The input with the scale of the result; the zero point is the next one."""


@dataclasses.dataclass(frozen=True)
class LayerValue:
    """A value, and how to dequantize it.

    Attributes:
        value: The value.
        activations: The activations and scalings between the layer's node and the value.
        scale, zero_point: The parameters of integers; None for floats.
    """

    value: ir.Value
    activations: tuple[str, ...]
    scale: ir.Value | None = None
    zero_point: ir.Value | None = None

    @property
    def begins_at_zero(self) -> bool:
        """Whether the integers begin at 0.0, so that QuantizeLinear does what Relu does."""
        zero = self.zero_point.const_value if self.zero_point is not None else None
        return zero is not None and zero.dtype.is_integer() and bool(np.all(zero.numpy() == zero.dtype.min))

    def needed(self) -> list[ir.Value]:
        """Return the values to compute."""
        return [each for each in (self.value, self.scale, self.zero_point) if each is not None and each.const_value is None]

    def read(self, computed: Mapping[str, Any]) -> Any:
        """Return the value in float; None if it is none of the computed ones."""
        numbers = computed.get(self.value.name or "")
        if numbers is None:
            return None
        if self.scale is None:
            return numbers if numbers.dtype.kind == "f" else None  # integers without a scale mean nothing
        scale, zero = _contents(self.scale, computed), _contents(self.zero_point, computed)
        if scale is None or scale.size != 1:  # activations have one scale
            return None
        return (numbers.astype(np.float32) - (0 if zero is None else zero.astype(np.float32))) * scale


def _contents(value: ir.Value | None, computed: Mapping[str, Any]) -> Any:
    """Return a constant or a computed value as an array; None if there is none."""
    if value is None:
        return None
    return value.const_value.numpy() if value.const_value is not None else computed.get(value.name or "")


def quantized_value(node: ir.Node) -> LayerValue | None:
    """Return a layer's value in the quantized model, after a following QuantizeLinear."""
    if node.op_type in _SCALE_INPUTS:
        return LayerValue(node.outputs[0], (), *_parameters_after(node, node, _SCALE_INPUTS[node.op_type]))
    if node.op_type in MOVING and (found := _parameters_of(node.inputs[0])) is not None:
        return LayerValue(node.outputs[0], (), *found)
    start = _after_integers(node) if node.op_type in ("MatMulInteger", "ConvInteger") else node
    after = following(start)
    value, activations = start.outputs[0], list[str]()
    for each in after.between:
        if each.op_type in MOVING:
            return LayerValue(value, tuple(activations))
        if _is_activation_or_scaling(each):
            activations.append(each.op_type)
        value = each.outputs[0]
    if after.quantize is None:
        return LayerValue(value, tuple(activations))
    value = after.quantize.outputs[0]
    while [each.op_type for each in users(value)] == ["Clip"]:  # a narrower range of integers
        value = users(value)[0].outputs[0]
    return LayerValue(value, tuple(activations), *_parameters_after(node, after.quantize, 1))


def float_value(node: ir.Node, quantized: LayerValue) -> LayerValue | None:
    """Return a layer's value in the float model, after the same activations.

    Returns None if the float model has other activations there.
    """
    value, expected = node.outputs[0], list(quantized.activations)
    for each in following(node).between:
        if each.op_type in MOVING:
            break
        if expected[:1] == [each.op_type]:
            expected.pop(0)
        elif _is_activation_or_scaling(each) and not (quantized.begins_at_zero and each.op_type in ("Relu", "Clip")):
            break
        value = each.outputs[0]
    return None if expected else LayerValue(value, quantized.activations)


def _is_activation_or_scaling(node: ir.Node) -> bool:
    """Return whether a node is an activation or scaling, not a bias or normalization."""
    return node.op_type == "Mul" or (node.op_type in ACTIVATIONS and node.op_type != "BatchNormalization")


def _after_integers(node: ir.Node) -> ir.Node:
    """Return the product with the scale, which follows MatMulInteger and ConvInteger."""
    for _ in range(3):
        found = users(node.outputs[0])
        if len(found) != 1 or found[0].op_type not in ("Cast", "Mul") or constant(found[0].outputs[0]):
            return node
        node = found[0]
    return node


def _parameters_of(value: ir.Value | None) -> tuple[ir.Value | None, ir.Value | None] | None:
    """Find the scale and zero point of integers, through moves; None if unknown."""
    while value is not None and (node := value.producer()) is not None:
        if node.op_type == "QuantizeLinear" or node.op_type in _SCALE_INPUTS:
            return _parameters(node, _SCALE_INPUTS.get(node.op_type, 1))
        if node.op_type not in MOVING and node.op_type != "Clip":
            return None
        value = node.inputs[0]
    return None


def _parameters_after(layer: ir.Node, node: ir.Node, place: int) -> tuple[ir.Value | None, ir.Value | None]:
    """Find the scale and zero point of a layer's integers.

    An average is rounded with a scale of 1, and its integers have the parameters of its argument.
    """
    scale, zero = _parameters(node, place)
    if scale is None or scale.const_value is None or not np.all(scale.const_value.numpy() == 1):
        return scale, zero
    source = layer.inputs[0]
    maker = source.producer() if source is not None else None
    if maker is not None and maker.op_type == "DequantizeLinear":
        source = maker.inputs[0]
    return _parameters_of(source) or (scale, zero)


def _parameters(node: ir.Node, place: int) -> tuple[ir.Value | None, ir.Value | None]:
    """Return the inputs of a node that are a scale and the zero point after it."""
    scale, zero = (node.inputs[index] if index < len(node.inputs) else None for index in (place, place + 1))
    return scale, zero
