"""Symbolic sizes as values of a neutral graph: an axis of a tensor that is in it, or what is computed from such."""

from __future__ import annotations

import builtins
import collections
from collections.abc import Callable
from typing import Any

import sympy  # type: ignore[import-untyped]

from onnxexp.capture.torch_export.fake_values import scalar_op, type_of
from onnxexp.errors import CaptureError
from onnxexp.graph import Dim, Graph, Node, ScalarType, TensorType, Value

__all__ = ["SizeValues", "OpNames"]

_ARITHMETIC = {
    "Add": "aten::add",
    "Mul": "aten::mul",
    "Pow": "aten::pow",
    "PowByNatural": "aten::pow",
    "FloorDiv": "aten::floordiv",
    "CleanDiv": "aten::floordiv",
    "IntTrueDiv": "aten::div",
    "FloatTrueDiv": "aten::div",
    "Mod": "aten::remainder",
    "PythonMod": "aten::remainder",
    "Max": "prim::max",
    "Min": "prim::min",
    "ToFloat": "aten::Float",
    "TruncToInt": "aten::Int",
    "CeilToInt": "aten::ceil",
    "FloorToInt": "aten::floor",
}
"""The functions that torch's symbolic sizes are made of, under the names that TorchScript gives the same operations."""
_PYTHONS = frozenset(dir(builtins))
_FLOATING = {"aten::div", "aten::Float"}
_WHOLE = {"aten::Int", "aten::ceil", "aten::floor"}


class OpNames:
    """OpNames for what operators give, as torch.export has them: the operator's, with a number once it is taken.

    What Python itself calls so (``sum``) is taken.
    """

    def __init__(self) -> None:
        self._used: collections.Counter[str] = collections.Counter()

    def new(self, op: str) -> str:
        """A name that is not taken."""
        base = op.partition(".")[0].rpartition("::")[2]
        taken = self._used[base] + (base in _PYTHONS)
        self._used[base] += 1
        return f"{base}_{taken}" if taken else base


class SizeValues:
    """The numbers of one graph; each is computed once, where it is first asked for."""

    def __init__(self, graph: Graph, names: OpNames, dim_text: Callable[[Any], Dim]) -> None:
        self._graph = graph
        self._names = names
        self._dim_text = dim_text
        self._numbers: dict[sympy.Expr, Any] = {}
        self._axes: dict[sympy.Expr, tuple[Value, int]] = {}
        self._wholes: dict[sympy.Expr, sympy.Symbol] = {}

    def know_axis(self, size: Any, value: Value, axis: int) -> None:
        """Note that an axis of a tensor has a symbolic size."""
        self._axes.setdefault(size.node.expr, (value, axis))

    def know_number(self, number: Any, value: Value) -> None:
        """Note the value that a symbolic number stands for."""
        self._numbers.setdefault(number.node.expr, value)

    def value(self, number: Any) -> Any:
        """A symbolic number as a value, or as what it is where that is known. Raises CaptureError where it comes from nowhere."""
        expr = self._in_wholes(number.node.expr)
        new = expr not in self._numbers
        value = self._computed(expr)
        if new and isinstance(value, Value):
            value.type = type_of(number, self._dim_text)
        return value

    def _in_wholes(self, expr: sympy.Expr) -> sympy.Expr:
        """A number in terms of axes that are known as a whole (``batch*seq``) where what these are made of is known of none."""
        for size, axis in list(self._axes.items()):
            lost = {symbol for symbol in expr.free_symbols if symbol not in self._axes and symbol not in self._numbers}
            if not lost.isdisjoint(size.free_symbols):
                whole = self._wholes.setdefault(size, sympy.Dummy(integer=True, positive=True))
                self._axes.setdefault(whole, axis)
                expr = expr.subs(size, whole)
        return expr

    def _computed(self, expr: sympy.Expr) -> Any:
        if expr.is_Integer or expr.is_Float:
            return int(expr) if expr.is_Integer else float(expr)
        if expr not in self._numbers:
            self._numbers[expr] = self._axis(*self._axes[expr]) if expr in self._axes else self._combined(expr)
        return self._numbers[expr]

    def _axis(self, value: Value, axis: int) -> Value:
        assert isinstance(value.type, TensorType) and value.type.sizes is not None
        return self._append("aten::sym_size.int", [value, axis], ScalarType(int, str(value.type.sizes[axis])))

    def _combined(self, expr: sympy.Expr) -> Value:
        name = _ARITHMETIC.get(type(expr).__name__)
        if name is None:
            raise CaptureError(f"{expr} does not follow from the sizes of the inputs")
        args = sorted(expr.args, key=lambda term: bool(term.is_number)) if expr.is_Add or expr.is_Mul else expr.args
        terms = [self._computed(term) for term in args]
        while len(terms) > 2:  # a sum of many is one of two at a time
            terms[:2] = [self._operation(name, terms[:2])]
        return self._operation(name, terms)

    def _operation(self, name: str, terms: list[Any]) -> Value:
        op = scalar_op(name, terms)
        whole = name in _WHOLE or (name not in _FLOATING and not op.endswith(".float"))
        return self._append(op, terms, ScalarType(int if whole else float))

    def _append(self, op: str, args: list[Any], type_: ScalarType) -> Value:
        value = Value(self._names.new(op), type_)
        self._graph.nodes.append(Node(op, args, [value]))
        return value
