"""Tensors of the ONNX graph under construction, as symbolics handle them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import onnx_ir as ir
import torch

from onnxexp._errors import LoweringError
from onnxexp._neutral_graph import Dim, ScalarType, TensorType, Type
from onnxexp._symbolic_size import SymbolicSize

STAMP_HINT = "where onnx has no schema of an operator, set its result's type with x.stamp(onnxexp.graph.TensorType(dtype, sizes))"
"""The fix where a dtype is unknown."""


def merge_types(known: TensorType, found: TensorType, *, captured: bool) -> TensorType:
    """Merge the known type of a tensor with the one that another source found.

    Three sources describe a tensor: the captured program (`Tensor.stamp`), the schema and ONNX's inference (`Tensor.fill`), and
    the finished model (`write_type` in `onnxexp._builder.graph_state`).

    - dtype: the first source wins. The schema sets it when the node is emitted, and the node computes that dtype even if a
      later source names another. `onnxexp._lowering.lowering` refuses a dtype that differs from the captured one.
    - sizes: the captured program wins. It has the user's names (``batch``), where inference loses names in broadcasts.
      Inference only fills sizes that are unknown.
    - the finished model receives the merged type. A type that an onnx-ir value already has stays: sequences have no other.

    Args:
        known: The type so far.
        found: The type from the other source.
        captured: Whether the captured program is the other source.
    """
    first, second = (found.sizes, known.sizes) if captured else (known.sizes, found.sizes)
    return TensorType(found.dtype if known.dtype is None else known.dtype, second if first is None else first)


class GraphBuilder(Protocol):
    """The builder's interface for tensors, operands and subgraphs.

    Their modules cannot import the builder, since it imports them.
    """

    opset: int

    def __getattr__(self, name: str) -> Callable[..., Any]: ...

    def infer(self, tensor: Tensor, /) -> None: ...

    def materialize(self, tensor: Tensor, /) -> ir.Value: ...

    def call(self, domain: str, name: str, /, *args: Any, **kwargs: Any) -> Any: ...

    def cast(self, x: Any, dtype: torch.dtype) -> Tensor: ...

    def constant(self, value: Any, dtype: torch.dtype | None = None) -> Tensor: ...

    def wrap_constant(self, tensor: torch.Tensor, name: str | None = None) -> Tensor: ...

    def input(self, name: str, type_: Type, dtype: torch.dtype | None = None) -> Tensor: ...


class Tensor:
    """A tensor in the ONNX graph under construction, made by the builder only.

    Its dtype and shape come from the captured program, or from ONNX's inference on first use.

    Attributes:
        const: The contents where they are known at export (constants, parameters, folded results), else None.
        name: The name that a constant gets as an initializer; None where it has no name of its own.
        scalar: bool, int or float where this 0-d tensor stands for a Python number of the user's program, else None.
        expr: The readable text of such a number where it has one (``"2*batch"``), else None.
    """

    __slots__ = ("_dtype", "_owner", "_shape", "_value", "const", "expr", "name", "scalar")

    def __init__(
        self,
        owner: GraphBuilder,
        value: ir.Value | None = None,
        dtype: torch.dtype | None = None,
        shape: tuple[Dim, ...] | None = None,
        const: torch.Tensor | None = None,
        name: str | None = None,
    ) -> None:
        self._owner = owner
        self._value = value
        self._dtype = dtype
        self._shape = shape
        self.const = const
        self.name = name
        self.scalar: type[bool] | type[int] | type[float] | None = None
        self.expr: SymbolicSize | None = None

    @property
    def dtype(self) -> torch.dtype:
        """The torch dtype.

        Raises LoweringError for sequences and for unknown dtypes.
        """
        dtype = self.inferred_dtype
        if dtype is None:
            raise LoweringError(f"the dtype of {self!r} is not known; {STAMP_HINT}")
        return dtype

    @property
    def inferred_dtype(self) -> torch.dtype | None:
        """The dtype, inferred if needed, or None."""
        if self._dtype is None:
            self._owner.infer(self)
        return self._dtype

    @property
    def known_dtype(self) -> torch.dtype | None:
        """The dtype where it is known without inference, else None."""
        return self._dtype

    @property
    def shape(self) -> tuple[Dim, ...] | None:
        """The sizes as numbers and expressions, or None for an unknown rank."""
        if self._shape is None:
            self._owner.infer(self)
        return self._shape

    @property
    def known_shape(self) -> tuple[Dim, ...] | None:
        """The shape where it is known without inference, else None."""
        return self._shape

    @property
    def rank(self) -> int | None:
        """The number of dimensions, None where unknown."""
        shape = self.shape
        return None if shape is None else len(shape)

    @property
    def value(self) -> ir.Value:
        """The onnx-ir value, for which a constant becomes an initializer on first access."""
        if self._value is None:
            self._value = self._owner.materialize(self)
        return self._value

    @property
    def known_value(self) -> ir.Value | None:
        """The onnx-ir value, or None for a constant that is not in the model yet."""
        return self._value

    @property
    def type(self) -> Type:
        """The type in the terms of the captured graph."""
        if self.scalar:
            return ScalarType(self.scalar, self.expr)
        shape = self.shape  # first: inference may set the dtype too
        return TensorType(self._dtype, shape)

    def belongs_to(self, owner: GraphBuilder) -> bool:
        """Return whether this builder made the tensor."""
        return self._owner is owner

    def stamp(self, type_: Type) -> None:
        """Merge the type of the captured program into this tensor's, see `merge_types`."""
        if isinstance(type_, TensorType):
            self._set(merge_types(TensorType(self._dtype, self._shape), type_, captured=True))
        else:
            self.scalar, self.expr = type_.kind, type_.expr
            self._shape = ()

    def fill(self, type_: TensorType) -> None:
        """Fill in the parts of this tensor's type that are unknown, see `merge_types`."""
        self._set(merge_types(TensorType(self._dtype, self._shape), type_, captured=False))

    def _set(self, type_: TensorType) -> None:
        self._dtype, self._shape = type_.dtype, type_.sizes

    def __repr__(self) -> str:
        name = self._value.name if self._value is not None and self._value.name else (self.name or "constant")
        return f"%{name}: {TensorType(self._dtype, self._shape)}"


class ComplexTensor(Tensor):
    """A complex tensor as two real ones, since ONNX's operators take real ones only.

    A complex tensor has no ONNX value of its own. As an input or output of the model it is one real tensor with a last axis of
    size 2, as `torch.view_as_real` returns it.

    Attributes:
        real, imag: The parts, of equal shapes and dtypes.
    """

    __slots__ = ("imag", "real")

    def __init__(self, real: Tensor, imag: Tensor) -> None:
        super().__init__(real._owner, None, _COMPLEX[real.dtype], real.shape)
        self.real, self.imag = real, imag

    @property
    def value(self) -> ir.Value:
        """Raise LoweringError, since a complex tensor has no ONNX value."""
        fix = "pass the parts (torch.view_as_real) through branches, loops and lists"
        raise LoweringError(f"ONNX's operators take no complex numbers: {self!r}; to fix this, {fix}")

    def view_as_real(self) -> Tensor:
        """Stack both parts on a new last axis.

        Raises LoweringError for unknown ranks.
        """
        call, sizes = self._owner.call, self.shape
        if sizes is None:
            raise LoweringError(f"the rank of {self!r} must be known at export")
        parts = (call("", "Unsqueeze", part, axes=[len(sizes)]) for part in (self.real, self.imag))
        result: Tensor = call("", "Concat", *parts, axis=len(sizes))
        result.stamp(TensorType(None, (*sizes, 2)))
        return result

    @classmethod
    def view_as_complex(cls, pairs: Tensor) -> ComplexTensor:
        """Build the complex tensor of one real tensor whose last axis has size 2."""
        call = pairs._owner.call
        return cls(call("", "Gather", pairs, 0, axis=-1), call("", "Gather", pairs, 1, axis=-1))


_REAL = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}
_COMPLEX = {real: whole for whole, real in _REAL.items()}


def real_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of a complex dtype's parts."""
    return _REAL[dtype]
