"""A plugin of a few dozen operators, to test the core without other plugins."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor

TINY = SymbolicTable("aten")
TINY.direct(
    {
        "relu": "Relu", "neg": "Neg", "sin": "Sin", "cos": "Cos", "tanh": "Tanh", "sigmoid": "Sigmoid", "exp": "Exp",
        "abs": "Abs", "matmul": "MatMul", "mm": "MatMul", "logical_and": "And", "logical_not": "Not", "bitwise_and.Tensor": "And",
    }
)  # fmt: skip

_ARITHMETIC = {"mul": "Mul", "div": "Div", "gt": "Greater", "lt": "Less", "ge": "GreaterOrEqual", "eq": "Equal", "pow": "Pow"}


def _together(op: Builder, self: Any, other: Any) -> tuple[Any, Any]:
    """Cast both operands to the dtype to which torch promotes them."""
    known = [arg.dtype for arg in (self, other) if isinstance(arg, Tensor) and not arg.scalar]
    if not known:
        return self, other
    dtype = torch.promote_types(known[0], known[-1])
    if isinstance(other, float) and not dtype.is_floating_point:
        dtype = torch.float32
    return op.cast(self, dtype), op.cast(other, dtype)


def _arithmetic(onnx_name: str) -> Any:
    def symbolic(op: Builder, self: Any, other: Any) -> Any:
        return op.call("", onnx_name, *_together(op, self, other))

    return symbolic


for _name, _onnx_name in _ARITHMETIC.items():
    TINY(f"{_name}.Tensor", f"{_name}.Scalar", f"{_name}.Tensor_Scalar", f"{_name}.int", f"{_name}.float")(
        _arithmetic(_onnx_name)
    )


@TINY("add", "add_")
def add(op: Builder, self: Any, other: Any, alpha: Any = 1) -> Tensor:
    """add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    self, other = _together(op, self, other)
    return op.Add(self, other if alpha == 1 else op.Mul(other, alpha))


@TINY("sub")
def sub(op: Builder, self: Any, other: Any, alpha: Any = 1) -> Tensor:
    """sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    return op.Sub(*_together(op, self, other))


@TINY("linear")
def linear(op: Builder, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"""
    product = op.MatMul(input, op.Transpose(weight, perm=[1, 0]))
    return product if bias is None else op.Add(product, bias)


@TINY("t")
def t(op: Builder, self: Tensor) -> Tensor:
    """t(Tensor(a) self) -> Tensor(a)"""
    return op.Transpose(self)


@TINY("cat")
def cat(op: Builder, tensors: list[Tensor], dim: int) -> Tensor:
    """cat(Tensor[] tensors, int dim=0) -> Tensor"""
    return op.Concat(*tensors, axis=dim)


@TINY("split")
def split(op: Builder, self: Tensor, split_size: Any, dim: int) -> tuple[Tensor, ...]:
    """split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]"""
    return op.Split(self, axis=dim, outputs=len(op.node.outputs))  # type: ignore[no-any-return]


@TINY("view", "reshape")
def view(op: Builder, self: Tensor, size: Any) -> Tensor:
    """view(Tensor(a) self, SymInt[] size) -> Tensor(a)"""
    return op.Reshape(self, size)


@TINY("sum", "sum.dim_IntList")
def sum_(op: Builder, self: Tensor, *rest: Any) -> Tensor:
    """sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    dim, keepdim = (rest[0], rest[1]) if len(rest) == 3 else (None, False)
    return op.ReduceSum(self, axes=dim or None, keepdims=int(keepdim))


@TINY("mean")
def mean(op: Builder, self: Tensor, dtype: Any) -> Tensor:
    """mean(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    return op.ReduceMean(self, keepdims=0)


@TINY("to", "_to_copy")
def to(op: Builder, self: Tensor, dtype: Any, *rest: Any) -> Tensor:
    """to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, ...) -> Tensor(a)"""
    return op.cast(self, dtype)


@TINY("sym_size.int")
def size(op: Builder, self: Tensor, dim: int) -> Any:
    """sym_size.int(Tensor self, int dim) -> SymInt"""
    found = op.Squeeze(op.Slice(op.Shape(self), [dim], [dim + 1]), [0])
    found.scalar = int
    return found


@TINY("item", "_local_scalar_dense")
def item(op: Builder, self: Tensor) -> Tensor:
    """item(Tensor self) -> Scalar"""
    return op.Reshape(self, [])


@TINY("scalar_tensor", "full")
def scalar_tensor(op: Builder, *args: Any) -> Tensor:
    """scalar_tensor(Scalar s, ...) -> Tensor, full(SymInt[] size, Scalar fill_value, ...) -> Tensor"""
    dtype = op.node.outputs[0].type.dtype  # type: ignore[union-attr]
    assert dtype is not None
    if op.node.op.startswith("aten::full"):
        return op.Expand(op.constant(args[1], dtype), args[0])
    return op.cast(args[0], dtype)


@TINY("clone", "detach", "alias", "contiguous", "lift_fresh_copy")
def clone(op: Builder, self: Tensor, *rest: Any) -> Tensor:
    """clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"""
    return self


@TINY("dropout")
def dropout(op: Builder, input: Tensor, p: float, train: bool) -> Tensor:
    """dropout(Tensor input, float p, bool train) -> Tensor"""
    return op.Dropout(input, p, True) if train else input


@TINY("slice.Tensor")
def slice_(op: Builder, self: Tensor, dim: int, start: Any, end: Any, step: int) -> Tensor:
    """slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)"""
    return op.Slice(self, [0 if start is None else start], [2**62 if end is None else end], [dim], [step])


@TINY("select.int")
def select(op: Builder, self: Tensor, dim: int, index: Any) -> Tensor:
    """select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)"""
    return op.Gather(self, index, axis=dim)


@TINY("where.self")
def where(op: Builder, condition: Tensor, self: Tensor, other: Tensor) -> Tensor:
    """where.self(Tensor condition, Tensor self, Tensor other) -> Tensor"""
    return op.Where(condition, self, other)


def export(model: Any, args: Any = (), f: Any = None, **options: Any) -> Any:
    """Export with this plugin alone, or with `plugins` beside it."""
    import onnxexp

    return onnxexp.export(model, args, f, plugins=[TINY, *options.pop("plugins", ())], **options)
