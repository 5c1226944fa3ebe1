"""What a symbolic handles: tensors of the ONNX graph that is being built."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir
import torch

from onnxexp.graph import Dim, ScalarType, TensorType, Type

if TYPE_CHECKING:
    from onnxexp.builder.builder import Builder

__all__ = ["UNTOLD", "ComplexTensor", "Tensor", "real_dtype"]

UNTOLD = "the result of an operator that onnx does not know is told with x.stamp(onnxexp.TensorType(dtype, sizes))"
"""The cure where a dtype is not known."""


class Tensor:
    """A tensor in the ONNX graph under construction; made by the builder only.

    Its dtype and shape are known from the captured program or inferred when they are first asked for.

    Attributes:
        const: The contents, where they are known at export (constants, parameters, what folds from them), else None.
        scalar: bool, int or float where this 0-d tensor stands for a Python number of the user's program, else None.
        expr: The readable text of such a number where it has one (``"2*batch"``), else None.
    """

    __slots__ = ("_builder", "_dtype", "_shape", "_value", "const", "expr", "name", "scalar")

    def __init__(
        self,
        builder: Builder,
        value: ir.Value | None = None,
        dtype: torch.dtype | None = None,
        shape: tuple[Dim, ...] | None = None,
        const: torch.Tensor | None = None,
        name: str | None = None,
    ) -> None:
        self._builder = builder
        self._value = value
        self._dtype = dtype
        self._shape = shape
        self.const = const
        self.name = name
        self.scalar: type[bool] | type[int] | type[float] | None = None
        self.expr: str | None = None

    @property
    def dtype(self) -> torch.dtype:
        """The torch dtype. Raises LoweringError for what has none (a sequence) or where nothing tells it."""
        if self._dtype is None:
            self._builder.infer(self)
        if self._dtype is None:
            raise self._builder.error(f"the dtype of {self!r} is not known; {UNTOLD}")
        return self._dtype

    @property
    def known_dtype(self) -> torch.dtype | None:
        """The dtype where it is known without inference, else None."""
        return self._dtype

    @property
    def shape(self) -> tuple[Dim, ...] | None:
        """The sizes: ints, and strings for symbolic ones; None where the rank is unknown."""
        if self._shape is None:
            self._builder.infer(self)
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
        """The onnx-ir value; a constant becomes an initializer of the model when this is first asked for."""
        if self._value is None:
            self._value = self._builder.materialize(self)
        return self._value

    @property
    def type(self) -> Type:
        """The type in the terms of the captured graph."""
        if self.scalar:
            return ScalarType(self.scalar, self.expr)
        shape = self.shape  # first: inference may set the dtype too
        return TensorType(self._dtype, shape)

    def stamp(self, type_: Type) -> None:
        """Take over what the captured program knows of this value; its dtype is not changed where it is known."""
        if isinstance(type_, TensorType):
            self._dtype = self._dtype or type_.dtype
            self._shape = type_.sizes if type_.sizes is not None else self._shape
        else:
            self.scalar, self.expr = type_.kind, type_.expr
            self._shape = ()

    def __repr__(self) -> str:
        name = self._value.name if self._value is not None and self._value.name else (self.name or "constant")
        return f"%{name}: {TensorType(self._dtype, self._shape)}"


class ComplexTensor(Tensor):
    """A complex tensor as two real ones: ONNX's operators take no complex numbers.

    It has no ONNX value of its own. At the borders of the graph it is one real tensor with a last axis of size 2, as
    `torch.view_as_real` has it.

    Attributes:
        real, imag: The parts, of equal shapes and dtypes.
    """

    __slots__ = ("imag", "real")

    def __init__(self, real: Tensor, imag: Tensor) -> None:
        super().__init__(real._builder, None, _COMPLEX[real.dtype], real.shape)
        self.real, self.imag = real, imag

    @property
    def value(self) -> ir.Value:
        """Raises LoweringError: there is none."""
        cure = "keep the parts (torch.view_as_real) in what branches, loops and lists hold"
        raise self._builder.error(f"ONNX's operators take no complex numbers: {self!r}; cure: {cure}")

    def joined(self) -> Tensor:
        """Both parts in one tensor."""
        op, sizes = self._builder, self.shape
        if sizes is None:
            raise op.error(f"the rank of {self!r} must be known at export")
        parts = (op.Unsqueeze(part, axes=[len(sizes)]) for part in (self.real, self.imag))
        result: Tensor = op.Concat(*parts, axis=len(sizes))
        result.stamp(TensorType(None, (*sizes, 2)))
        return result

    @classmethod
    def parted(cls, joined: Tensor) -> ComplexTensor:
        """From one tensor whose last axis has size 2."""
        op = joined._builder
        return cls(op.Gather(joined, 0, axis=-1), op.Gather(joined, 1, axis=-1))


_REAL = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}
_COMPLEX = {real: whole for whole, real in _REAL.items()}


def real_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of a complex dtype's parts."""
    return _REAL[dtype]
