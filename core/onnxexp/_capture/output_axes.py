"""Names of the outputs' dynamic axes, applied to a captured graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxexp._errors import OptionError
from onnxexp._neutral_graph import Dim, TensorType, Value
from onnxexp._request.dynamic_shapes import DynamicSpec
from onnxexp._suggest import nearest
from onnxexp._symbolic_size import SymbolicSize
from onnxexp._user_warnings import warn


def name_output_axes(outputs: Mapping[str, Any], spec: DynamicSpec, varying: dict[Any, tuple[Dim, ...]]) -> None:
    """Name the outputs' axes by `dynamic_axes`, and keep the expressions of others.

    The function changes the types of `outputs`, the graph's outputs by their final names, in place, and the shapes of those in
    `varying`. A warning names an axis that has one size for all inputs, which keeps its size. Raises OptionError for an unknown
    name or axis.
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
                sizes[axis] = SymbolicSize(name) if name else sizes[axis]
        if value in varying:
            varying[value] = tuple(sizes)
        elif isinstance(value, Value):
            value.type = TensorType(type_.dtype, tuple(sizes))
