"""Record the operators of a decomposition as a graph.

A decomposition is a function of tensors. It runs on fake tensors, under a torch dispatch mode that appends a node for each
operator.
"""

from __future__ import annotations

import builtins
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from onnxexp._decompose.fake_values import DROPPED, scalar_op, type_of, typed_value
from onnxexp._errors import CaptureError
from onnxexp._neutral_graph import Dim, Graph, Node, ScalarType, TensorType, Value
from onnxexp._request.unique_names import UniqueNames
from onnxexp._symbolic_size import SymbolicSize
from onnxexp._torch_ops.schemas import bind, full_name

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_DETACH = torch.ops.aten.detach.default
_LIFT = torch.ops.aten.lift_fresh.default
_LIFT_COPY = torch.ops.aten.lift_fresh_copy.default
_METADATA_QUERIES = {
    torch.ops.prim.device.default,
    torch.ops.aten.size.default,
    torch.ops.aten.stride.default,
    torch.ops.aten.storage_offset.default,
}
"""Operators that read a tensor's metadata; they need no node."""


class OpRecorder(TorchDispatchMode):
    """A dispatch mode that records every operator in a graph.

    Fake tensors are found by identity, so the recorder keeps a reference to each. A tensor with data becomes a constant of the
    graph.

    Attributes:
        graph: The operators recorded so far.
    """

    def __init__(self, dim_of: Callable[[Any], Dim]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.graph = Graph()
        self._dim_of = dim_of
        self._values: dict[int, Value] = {}
        self._alive: list[torch.Tensor] = []
        self._names = UniqueNames()
        self._names.reserve(dir(builtins))  # torch.export does not call a value `sum`
        self._sizes = SizeExpressions(self.graph, self._new_name, dim_of)

    def bind_value(self, item: Any, value: Value) -> None:
        """Bind a tensor or a symbolic number to its value in the graph."""
        if isinstance(item, torch.Tensor):
            self._values[id(item)] = value
            self._alive.append(item)
            for axis, size in enumerate(item.shape):
                if isinstance(size, torch.SymInt):
                    self._sizes.bind_axis(size, value, axis)
        elif isinstance(item, _SYMBOLIC):
            self._sizes.bind_number(item, value)

    def value(self, arg: Any) -> Any:
        """Return the graph's value for an argument or result."""
        if isinstance(arg, torch.Tensor):
            known = self._values.get(id(arg))
            return self._constant(arg) if known is None else known
        if isinstance(arg, (list, tuple)):
            return [self.value(element) for element in arg]
        return self._sizes.value(arg) if isinstance(arg, _SYMBOLIC) else arg

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        keywords = kwargs or {}
        if func in _METADATA_QUERIES:
            return func(*args, **keywords)
        if func._can_decompose() and not func.has_kernel_for_dispatch_key(torch._C.DispatchKey.CPU):
            with self:
                return func.decompose(*args, **keywords)
        if func is _DETACH:  # the same value; torch detaches its own intermediate results, too
            result = func(*args)
            self.bind_value(result, self.value(args[0]))
            return result
        func = _LIFT_COPY if func is _LIFT else func  # later writes must not reach the constant
        bound = bind(func._schema, self.value(args), {name: self.value(arg) for name, arg in keywords.items()})
        result = func(*args, **keywords)
        if full_name(func._schema) not in DROPPED:
            self._append(full_name(func._schema), bound, result)
        return result

    def _append(self, op: str, args: list[Any], result: Any) -> None:
        """Append the node of a call, except for a constant number."""
        if isinstance(result, (bool, int, float)):
            return
        values = [] if result is None else pytree.tree_leaves(typed_value(self._new_name(op), result, self._dim_of))
        self.graph.nodes.append(Node(op, args, values))
        for item, value in zip(pytree.tree_leaves(result), values, strict=False):
            self.bind_value(item, value)

    def _new_name(self, op: str) -> str:
        return self._names.unique(op.partition(".")[0].rpartition("::")[2])

    def _constant(self, tensor: torch.Tensor) -> Value:
        if isinstance(tensor, FakeTensor):
            raise CaptureError("the decomposition uses a tensor without data that no operator produced")
        value: Value = typed_value(self._new_name("_tensor_constant"), tensor, self._dim_of)
        with unset_fake_temporarily():
            self.graph.params[value] = tensor.detach()
        self.bind_value(tensor, value)
        return value


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
