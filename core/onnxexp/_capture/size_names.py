"""Readable names of symbolic sizes, such as ``batch`` or ``(seq + 1)//2``."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch

from onnxexp._errors import OptionError
from onnxexp._neutral_graph import Dim, TensorType, Value
from onnxexp._request.dynamic_shapes import DynamicSpec
from onnxexp._request.unique_names import UniqueNames
from onnxexp._suggest import nearest
from onnxexp._symbolic_size import SymbolicSize, symbol, text_of
from onnxexp._user_warnings import warn


class SizeNames(dict[sympy.Expr, str]):
    """The readable names of the symbolic sizes of one capture.

    Symbols without a name are called ``dim_0``, ``dim_1``, …. `size` and `condition` add the names that they make.
    """

    def size(self, size: Any) -> Dim:
        """Return a size of torch's as a number, or as an expression of names."""
        is_symbolic = isinstance(size, (torch.SymInt, torch.SymFloat, torch.SymBool))
        expr = size.node.expr if is_symbolic else sympy.sympify(size, strict=True)
        if expr.is_number:
            return int(expr)
        if expr not in self:
            self._name_new(expr)
            self.setdefault(expr, text_of(expr.xreplace({each: symbol(self[each]) for each in expr.free_symbols})))
        return SymbolicSize(self[expr])

    def condition(self, condition: sympy.Basic) -> str:
        """Return the readable text of a condition on sizes and numbers."""
        self._name_new(condition)
        return text_of(condition.xreplace({each: sympy.Symbol(self[each], integer=True) for each in condition.free_symbols}))

    def unused(self, name: str) -> str:
        """Return an unused name, with a warning where the user gave it to another size."""
        unused = UniqueNames(self.values()).unique(name)
        if unused != name:
            warn(f"two sizes that differ in the example are called {name}; one of them is {unused} in the file")
        return unused

    def _name_new(self, expr: sympy.Basic) -> None:
        """Name the symbols that have no name yet."""
        for each in sorted(expr.free_symbols, key=_order):
            if each not in self:
                used = set(self.values())
                self[each] = next(name for name in (f"dim_{n}" for n in itertools.count()) if name not in used)


def _order(symbol: sympy.Symbol) -> tuple[str, int]:
    """Return a symbol's sort key, its kind and its number, so that u2 precedes u10."""
    kind = symbol.name.rstrip("0123456789")
    return kind, int(symbol.name[len(kind) :] or 0)


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
