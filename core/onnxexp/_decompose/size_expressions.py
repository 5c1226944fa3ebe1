"""Convert symbolic sizes to graph values: sizes of axes, and arithmetic on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import sympy  # type: ignore[import-untyped]

from onnxexp._decompose.fake_values import scalar_op, type_of
from onnxexp._errors import CaptureError
from onnxexp._neutral_graph import Dim, Graph, Node, ScalarType, TensorType, Value
from onnxexp._symbolic_size import SymbolicSize

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
"""The functions in torch's size expressions, under TorchScript's operator names."""
_FLOATING = {"aten::div", "aten::Float"}
_INTEGER = {"aten::Int", "aten::ceil", "aten::floor"}


@dataclasses.dataclass(eq=False)
class SizeExpressions:
    """The symbolic sizes of one graph.

    The nodes of each size are appended at its first use. `new_name` names the result of an operator.
    """

    graph: Graph
    new_name: Callable[[str], str]
    dim_of: Callable[[Any], Dim]
    _numbers: dict[sympy.Expr, Any] = dataclasses.field(default_factory=dict, init=False)
    _axes: dict[sympy.Expr, tuple[Value, int]] = dataclasses.field(default_factory=dict, init=False)
    _bound_axes: dict[sympy.Expr, sympy.Symbol] = dataclasses.field(default_factory=dict, init=False)

    def bind_axis(self, size: Any, value: Value, axis: int) -> None:
        """Bind a symbolic size to an axis of a tensor."""
        self._axes.setdefault(size.node.expr, (value, axis))

    def bind_number(self, number: Any, value: Value) -> None:
        """Bind a symbolic number to a value of the graph."""
        self._numbers.setdefault(number.node.expr, value)

    def value(self, number: Any) -> Any:
        """Return a symbolic number as a graph value, or as a number if constant.

        Raises:
            CaptureError: The number does not follow from the graph's inputs.
        """
        expr = self._in_bound_axes(number.node.expr)
        new = expr not in self._numbers
        value = self._evaluate(expr)
        if new and isinstance(value, Value):
            value.type = type_of(number, self.dim_of)
        return value

    def _in_bound_axes(self, expr: sympy.Expr) -> sympy.Expr:
        """Substitute whole axes (``batch*seq``) whose factors are unbound."""
        for size, axis in list(self._axes.items()):
            unbound = {symbol for symbol in expr.free_symbols if symbol not in self._axes and symbol not in self._numbers}
            if not unbound.isdisjoint(size.free_symbols):
                whole_axis = self._bound_axes.setdefault(size, sympy.Dummy(integer=True, positive=True))
                self._axes.setdefault(whole_axis, axis)
                expr = expr.subs(size, whole_axis)
        return expr

    def _evaluate(self, expr: sympy.Expr) -> Any:
        """Return an expression as a number or a value; append its nodes at first use."""
        if expr.is_Integer:
            return int(expr)
        if expr.is_Float:
            return float(expr)
        if expr not in self._numbers:
            self._numbers[expr] = self._axis(*self._axes[expr]) if expr in self._axes else self._evaluate_arithmetic(expr)
        return self._numbers[expr]

    def _axis(self, value: Value, axis: int) -> Value:
        assert isinstance(value.type, TensorType) and value.type.sizes is not None
        return self._append("aten::sym_size.int", [value, axis], ScalarType(int, SymbolicSize(str(value.type.sizes[axis]))))

    def _evaluate_arithmetic(self, expr: sympy.Expr) -> Value:
        name = _ARITHMETIC.get(type(expr).__name__)
        if name is None:
            raise CaptureError(f"{expr} does not follow from the sizes of the inputs")
        args = sorted(expr.args, key=lambda term: bool(term.is_number)) if expr.is_Add or expr.is_Mul else expr.args
        terms = [self._evaluate(term) for term in args]
        while len(terms) > 2:  # the operators are binary
            terms[:2] = [self._operation(name, terms[:2])]
        return self._operation(name, terms)

    def _operation(self, name: str, terms: list[Any]) -> Value:
        op = scalar_op(name, terms)
        is_integer = name in _INTEGER or (name not in _FLOATING and not op.endswith(".float"))
        return self._append(op, terms, ScalarType(int if is_integer else float))

    def _append(self, op: str, args: list[Any], type_: ScalarType) -> Value:
        value = Value(self.new_name(op), type_)
        self.graph.nodes.append(Node(op, args, [value]))
        return value
