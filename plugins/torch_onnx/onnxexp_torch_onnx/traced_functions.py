"""Plain functions that call onnxscript's ``opset18.Add(x, y)``, as symbolics."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from onnxexp import Builder, OptionError, Tensor
from onnxexp.rewriting import TorchTensor, onnx_dtype
from onnxexp.torch_ops import schemas

_OPERATORS = {
    "add": "Add", "and": "And", "eq": "Equal", "ge": "GreaterOrEqual", "gt": "Greater", "le": "LessOrEqual",
    "lt": "Less", "matmul": "MatMul", "mod": "Mod", "mul": "Mul", "or": "Or", "pow": "Pow", "sub": "Sub", "truediv": "Div",
}  # fmt: skip
"""Python's operators on values, with ONNX's."""


class TracedValue:
    """A value of the graph, as such a function reads it.

    Attributes:
        tensor: The value.
    """

    def __init__(self, op: Builder, tensor: Tensor) -> None:
        self._op = op
        self.tensor = tensor

    @property
    def name(self) -> str | None:
        """The name of the value in the graph."""
        return self.tensor.value.name

    @property
    def dtype(self) -> ir.DataType:
        """ONNX's element type."""
        return onnx_dtype(self.tensor.dtype)

    @property
    def type(self) -> ir.TensorType:
        """ONNX's type."""
        return ir.TensorType(self.dtype)

    @property
    def shape(self) -> ir.Shape | None:
        """The sizes, symbolic ones by their names; None where the rank is unknown."""
        sizes = self.tensor.shape
        return None if sizes is None else ir.Shape([size if isinstance(size, int) else str(size) for size in sizes])

    @property
    def rank(self) -> int | None:
        """The number of axes."""
        return self.tensor.rank

    @property
    def const_value(self) -> Any:
        """The contents of a constant, with ``numpy()``; None for any other value."""
        if not self._op.is_static(self.tensor):
            return None
        return TorchTensor(torch.as_tensor(self._op.static(self.tensor), dtype=self.tensor.dtype))

    def __neg__(self) -> Any:
        return _wrapped(self._op, self._op.call("", "Neg", self.tensor))


def _method(name: str, turned: bool) -> Callable[[TracedValue, Any], Any]:
    def call(self: TracedValue, other: Any) -> Any:
        operands = (other, self) if turned else (self, other)
        return _wrapped(self._op, self._op.call("", name, *map(_unwrapped, operands)))

    return call


for _name, _operator in _OPERATORS.items():
    setattr(TracedValue, f"__{_name}__", _method(_operator, False))
    if _name not in ("eq", "ge", "gt", "le", "lt"):
        setattr(TracedValue, f"__r{_name}__", _method(_operator, True))


class _Recorder:
    """onnxscript's evaluator that emits each call into a graph."""

    def __init__(self, op: Builder) -> None:
        self._op = op

    def eval(self, schema: Any, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        """Emit a call of an ONNX operator; return its value or values."""
        op, given = self._op, [_unwrapped(each) for each in inputs]
        named = {name: _unwrapped(value) for name, value in attributes.items() if value is not None}
        if schema.name == "Split" and "num_outputs" in named:
            named["outputs"] = named["num_outputs"]
            if op.opset < 18:  # which has the attribute
                del named["num_outputs"]
        return _wrapped(op, op.call(schema.domain, schema.name, *given, **named))

    def eval_function(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Emit a call of an onnxscript function, which becomes a function of the model."""
        return _wrapped(self._op, self._op.function(function, *map(_unwrapped, args), **kwargs))


def traced(function: Callable[..., Any], key: Any) -> Callable[..., Any]:
    """Make a symbolic of a function that calls the operators of onnxscript's opsets.

    It gets the arguments of torch's operator, tensors as `TracedValue`s. Raises OptionError where onnxscript is not installed.
    """
    try:
        from onnxscript import evaluator
    except ImportError as error:
        raise OptionError(
            f"custom_translation_table: the function for {key} needs onnxscript: `pip install onnxscript`"
        ) from error

    plain = getattr(function, "func", function)  # of onnxscript's class for such functions
    parameters = inspect.signature(plain).parameters.values()
    open_ended = any(each.kind is each.VAR_POSITIONAL for each in parameters)

    def symbolic(op: Builder, *args: Any) -> Any:
        count = len(args) if open_ended else min(len(args), len(parameters))
        if any(not _is_default(op.node.op, index, args[index]) for index in range(count, len(args))):
            raise op.error(f"{plain.__name__} takes {count} arguments of the operator, and the call has {len(args)}")
        with evaluator.default_as(_Recorder(op)):  # type: ignore[arg-type] # the form that onnxscript below 0.6 has, too
            return _unwrapped(plain(*(_wrapped(op, arg) for arg in args[:count])))

    symbolic.__name__ = getattr(function, "__name__", str(key))
    return symbolic


def _is_default(op: str, index: int, arg: Any) -> bool:
    """Return whether an argument of an operator is what its schema has for it."""
    if arg is None:
        return True
    arguments = next((schema.arguments for schema in schemas(op)), ())
    return not isinstance(arg, Tensor) and index < len(arguments) and arguments[index].default_value == arg


def _wrapped(op: Builder, value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_wrapped(op, each) for each in value)
    return TracedValue(op, value) if isinstance(value, Tensor) else value


def _unwrapped(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map(_unwrapped, value))
    if isinstance(value, ir.DataType):
        return int(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return torch.as_tensor(value)
    return value.tensor if isinstance(value, TracedValue) else value
