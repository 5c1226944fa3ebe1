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
from onnxexp_quantization_report.layer_values import LayerValue, float_value, quantized_value
from onnxexp_quantization_report.layers import Layer
from onnxexp_quantization_report.model_file import ModelFile, load, session
from onnxexp_quantization_report.operator_sets import family


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
