"""Names of the outputs' dynamic axes, applied to a captured graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxexp.errors import OptionError
from onnxexp.neutral_graph import Dim, Graph, TensorType, Value
from onnxexp.request.dynamic_shapes import DynamicSpec
from onnxexp.suggest import nearest
from onnxexp.user_warnings import warn

__all__ = ["name_output_axes", "squeezed_shapes"]


def squeezed_shapes(graph: Graph) -> dict[Any, tuple[Dim, ...]]:
    """Return the shapes of outputs whose rank depends on a call, at sizes other than 1.

    Such an output is the result of a `squeeze` of dynamic axes, by the output.
    """
    found: dict[Any, tuple[Dim, ...]] = {}
    unknown = {output for output in graph.outputs if isinstance(output, Value) and _has_no_rank(output)}
    for node in graph.nodes:
        result = node.outputs[0] if node.op.startswith("aten::squeeze") else None
        if result not in unknown or _has_no_rank(node.args[0]):
            continue
        sizes = node.args[0].type.sizes
        given = node.args[1] if len(node.args) > 1 else range(len(sizes))
        axes = {axis % len(sizes) for axis in ([given] if isinstance(given, int) else given)}
        found[result] = tuple(size for axis, size in enumerate(sizes) if axis not in axes or size != 1)
    return found


def _has_no_rank(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.sizes is None


def name_output_axes(outputs: Mapping[str, Any], spec: DynamicSpec, varying: dict[Any, tuple[Dim, ...]]) -> None:
    """Name the outputs' axes by `dynamic_axes`; others keep their expressions.

    Changes the types of `outputs`, the graph's outputs by their final names, in place, and the shapes of those in `varying`.

    Warns of an axis that has one size for all inputs, which keeps its size. Raises OptionError for an unknown name or axis.
    """
    for key, axes in spec.outputs.items():
        where = f"dynamic_axes[{key!r}]"
        if key not in outputs:
            known = [*spec.input_names, *outputs]
            raise OptionError(
                f"{where}: the model has no input or output of that name{nearest(key, known)}. "
                f"Inputs: {', '.join(spec.input_names)}; outputs: {', '.join(outputs)}."
            )
        value = outputs[key]
        type_ = value.type if isinstance(value, Value) else TensorType(None, ())
        if not isinstance(type_, TensorType):
            continue
        shape = varying.get(value, type_.sizes)
        if shape is None:
            warn(
                f"{where}: the axes of output {key} have no names, since its rank depends on the sizes of a call. Name the axes "
                "that the model squeezes, or limit their sizes in dynamic_shapes (Dim.DYNAMIC(min=2))."
            )
            continue
        sizes = list(shape)
        for axis, name in axes.items():
            if not -len(sizes) <= axis < len(sizes):
                raise OptionError(f"{where}: there is no axis {axis}; the output's shape is ({', '.join(map(str, sizes))}).")
            if isinstance(sizes[axis], int):
                warn(
                    f"{where}: axis {axis} of output {key} was asked to be dynamic, but it is always {sizes[axis]}: no dynamic "
                    "axis of an input reaches it. Make the input's axis dynamic too, or leave this one out."
                )
            else:
                sizes[axis] = name or sizes[axis]
        if value in varying:
            varying[value] = tuple(sizes)
        elif isinstance(value, Value):
            value.type = TensorType(type_.dtype, tuple(sizes))
