"""Name the symbolic sizes of a captured program.

A symbol takes the user's name for its first axis (a Dim's name, a string, or a name in `dynamic_axes`). An input axis without a
name is ``{input}_dim_{axis}``. An unbacked symbol is ``dim_0``, ``dim_1``, … in order of appearance. Any other size is an
expression of these: ``2*batch + 1``, ``(seq + 1)//2``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from onnxexp.capture.example_inputs import derivation
from onnxexp.errors import CaptureError
from onnxexp.request.axis_spec import Axis
from onnxexp.request.dynamic_shapes import DynamicSpec
from onnxexp.request.pytree_leaves import Leaf
from onnxexp.request.unique_names import unused_name

__all__ = ["check_dynamic", "input_sizes", "size_label", "symbol_names"]


def symbol_names(program: ExportedProgram, spec: DynamicSpec) -> dict[sympy.Expr, str]:
    """Return the name of each symbol and named composite size of the inputs.

    Two axes of the same name share it if their sizes in the example agree. If not, the second name gets a number: ONNX Runtime
    plans memory on the assumption that one name is one size.

    The table belongs to one export: `dim_text` adds new symbols to it.
    """
    names: dict[sympy.Expr, str] = {}
    found = [(leaf, axis, _expr(size), request) for leaf, axis, size, request in input_sizes(program, spec)]
    sizes: dict[str, int] = {}
    for leaf, axis, expr, request in found:
        if request is not None and request.name is not None:
            size = leaf.value.shape[axis] if axis is not None else leaf.value
            same = size in (0, 1) or sizes.setdefault(request.name, size) == size  # 0 and 1 are enlarged to the axis' group
            _name_symbol(
                names, expr, request if same else dataclasses.replace(request, name=unused_name(request.name, names.values()))
            )
    for leaf, axis, expr, _ in found:
        if isinstance(expr, sympy.Symbol) and expr not in names:
            names[expr] = unused_name(leaf.name if axis is None else f"{leaf.name}_dim_{axis}", names.values())
    for _, _, expr, request in found:
        name = request.name if request is not None and derivation(request.dim) is None else None
        if name is not None and name not in names.values():
            names.setdefault(expr, name)
    return names


def check_dynamic(program: ExportedProgram, spec: DynamicSpec) -> None:
    """Raise CaptureError if a requested dynamic axis or number is constant."""
    for leaf, axis, size, request in input_sizes(program, spec):
        if request is not None and request.required and (expr := _expr(size)).is_number:
            raise CaptureError(f"{size_label(leaf, axis, request)} was asked to be dynamic, but the model fixes it to {expr}.")


def size_label(leaf: Leaf, axis: int | None, request: Axis | None) -> str:
    """Return the text of a size in an error: ``axis 0 of input x (batch)``."""
    name = f" ({request.name})" if request is not None and request.name else ""
    return f"{f'axis {axis} of ' if axis is not None else ''}input {leaf.name}{name}"


def input_sizes(program: ExportedProgram, spec: DynamicSpec) -> Iterator[tuple[Leaf, int | None, Any, Axis | None]]:
    """Yield each input's leaf, axis (None for a number), size and request."""
    values = {node.name: node.meta.get("val") for node in program.graph.find_nodes(op="placeholder")}
    inputs = [s.arg.name for s in program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
    for index, (leaf, name) in enumerate(zip(spec.leaves, inputs, strict=True)):
        value: Any = values[name]
        if isinstance(value, torch.Tensor):
            for axis, size in enumerate(value.shape):
                request = spec.axes[index].get(axis)
                if request is not None or isinstance(size, torch.SymInt):
                    yield leaf, axis, size, request
        elif index in spec.scalars and value is not None:
            yield leaf, None, value, spec.scalars[index]


def _expr(size: Any) -> sympy.Expr:
    return size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)


def _name_symbol(names: dict[sympy.Expr, str], expr: sympy.Expr, request: Axis) -> None:
    derived = derivation(request.dim)
    if derived is None:
        if isinstance(expr, sympy.Symbol):
            names.setdefault(expr, request.name or "")
        return
    root, function = derived
    for symbol in expr.free_symbols:
        if function(symbol) == expr if "root" in vars(request.dim) else symbol == expr:
            names.setdefault(symbol, root)
