"""Readable names for the symbols of a captured program.

API:
    names = symbol_names(program, spec) -> dict[sympy.Expr, str]
    check_dynamic(program, spec)                 CaptureError where an axis that was asked to be dynamic is not

A symbol is called as the user called the first axis that it is (a Dim's name, a string, a name in `dynamic_axes`). One that
no name was given for is ``{input}_dim_{axis}``; a symbol that no input has (a size that depends on data) is ``dim_0``,
``dim_1``, … in order of appearance. Everything else is an expression of these: ``2*batch + 1``, ``(seq + 1)//2``.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from onnxexp.capture.example_inputs import derivation
from onnxexp.errors import CaptureError
from onnxexp.request.axis_spec import Axis
from onnxexp.request.call_tree import Leaf
from onnxexp.request.dynamic_shapes import DynamicSpec

__all__ = ["check_dynamic", "input_sizes", "symbol_names"]


def symbol_names(program: ExportedProgram, spec: DynamicSpec) -> dict[sympy.Expr, str]:
    """What to call each symbol (and each composite size that the user named) of the program's inputs.

    Two axes that the user calls alike keep one name where their sizes in the example agree. Where they do not, the second gets a
    number: one name is one size to whoever reads the file, and ONNX Runtime plans its memory by that.

    The result is a table for one export: `onnxexp.capture.size_text.dim_text` adds to it.
    """
    names: dict[sympy.Expr, str] = {}
    found = [(leaf, axis, _expr(size), wanted) for leaf, axis, size, wanted in input_sizes(program, spec)]
    sizes: dict[str, int] = {}
    for leaf, axis, expr, wanted in found:
        if wanted is not None and wanted.name is not None:
            size = leaf.value.shape[axis] if axis is not None else leaf.value
            same = size in (0, 1) or sizes.setdefault(wanted.name, size) == size  # 0 and 1 are enlarged to what they go with
            _name_symbol(names, expr, wanted if same else dataclasses.replace(wanted, name=_unused(wanted.name, names)))
    for leaf, axis, expr, _ in found:
        if isinstance(expr, sympy.Symbol) and expr not in names:
            names[expr] = _unused(leaf.name if axis is None else f"{leaf.name}_dim_{axis}", names)
    for _, _, expr, wanted in found:
        if (
            wanted is not None
            and wanted.name is not None
            and derivation(wanted.dim) is None
            and wanted.name not in names.values()
        ):
            names.setdefault(expr, wanted.name)
    return names


def check_dynamic(program: ExportedProgram, spec: DynamicSpec) -> None:
    """Raise CaptureError where what was asked to be dynamic came out as a constant."""
    for leaf, axis, size, wanted in input_sizes(program, spec):
        if wanted is None or not wanted.asked:
            continue
        expr = _expr(size)
        what = f"axis {axis} of input {leaf.name}" if axis is not None else f"input {leaf.name}"
        name = f" ({wanted.name})" if wanted.name else ""
        if expr.is_number:
            raise CaptureError(f"{what}{name} was asked to be dynamic, but the model fixes it to {expr}.")


def input_sizes(program: ExportedProgram, spec: DynamicSpec) -> Iterator[tuple[Leaf, int | None, Any, Axis | None]]:
    """Each axis (None: a number) of each input with its size, as torch has it, and what was wanted of it."""
    values = {node.name: node.meta.get("val") for node in program.graph.find_nodes(op="placeholder")}
    inputs = [s.arg.name for s in program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
    for index, (leaf, name) in enumerate(zip(spec.leaves, inputs, strict=True)):
        value: Any = values[name]
        if isinstance(value, torch.Tensor):
            for axis, size in enumerate(value.shape):
                wanted = spec.axes[index].get(axis)
                if wanted is not None or isinstance(size, torch.SymInt):
                    yield leaf, axis, size, wanted
        elif index in spec.scalars and value is not None:
            yield leaf, None, value, spec.scalars[index]


def _expr(size: Any) -> sympy.Expr:
    return size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)


def _name_symbol(names: dict[sympy.Expr, str], expr: sympy.Expr, wanted: Axis) -> None:
    derived = derivation(wanted.dim)
    if derived is None:
        if isinstance(expr, sympy.Symbol):
            names.setdefault(expr, wanted.name or "")
        return
    root, function = derived
    for symbol in expr.free_symbols:
        if function(symbol) == expr if "root" in vars(wanted.dim) else symbol == expr:
            names.setdefault(symbol, root)


def _unused(name: str, names: Mapping[sympy.Expr, str]) -> str:
    used = set(names.values())
    candidates: Sequence[str] = [name]
    return next(n for n in itertools.chain(candidates, (f"{name}_{i}" for i in itertools.count(1))) if n not in used)
