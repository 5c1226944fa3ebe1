"""What a TorchScript node calls: the operator's full name and the kinds of its arguments, read once per schema."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import torch

from onnxexp.torch_ops.schemas import overload

__all__ = ["Call", "dtype_of", "named", "number_of"]

_DTYPES = (
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64,
    torch.complex32, torch.complex64, torch.complex128, torch.bool, torch.qint8, torch.quint8, torch.qint32, torch.bfloat16,
    torch.quint4x2, torch.quint2x4, None, None, None, None, None, torch.float8_e5m2, torch.float8_e4m3fn,
    torch.float8_e5m2fnuz, torch.float8_e4m3fnuz, torch.uint16, torch.uint32, torch.uint64,
)  # fmt: skip
"""torch's dtypes by the numbers that TorchScript has for them."""
_LAYOUTS = (torch.strided,)
_FORMATS = (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d)
_COUNTED: dict[str, tuple[Any, ...]] = {"ScalarType": _DTYPES, "Layout": _LAYOUTS, "MemoryFormat": _FORMATS}


_DEPENDING = frozenset({"aten::where", "aten::nonzero_numpy", "aten::argwhere", "aten::bincount", "aten::_pack_padded_sequence"})
"""Composites whose result's size depends on contents; torch's tags tell the others."""


_CONTENTS = frozenset({torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output})


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """An operator as TorchScript calls it.

    Attributes:
        name: The full name, ``aten::add.Tensor``.
        op: torch's operator, None where only TorchScript has it (``aten::append.t``).
        tensors: Indices of the arguments that are tensors (lists of them not counted).
        counted: For each index of an argument that is a dtype, a layout or a memory format: what its numbers stand for.
        lists: Whether the operator returns a list of tensors.
        depends: Whether the size of the result depends on the contents of the arguments.
        writes: Whether it writes into an argument.
        pointwise: Whether torch tags it so.
    """

    name: str
    op: torch._ops.OpOverload | None
    tensors: frozenset[int] = frozenset()
    counted: tuple[tuple[int, tuple[Any, ...]], ...] = ()
    lists: bool = False
    depends: bool = False
    writes: bool = False
    pointwise: bool = False

    def defaults(self, given: int) -> list[Any]:
        """The defaults of the arguments after the first `given`."""
        return [] if self.op is None else [argument.default_value for argument in self.op._schema.arguments[given:]]


@functools.lru_cache(maxsize=None)
def named(name: str) -> Call:
    """The call of an operator by its full name."""
    op = overload(name) if not name.startswith("prim::") else None
    if op is None:
        return Call(name, None)
    schema: Any = op._schema
    kinds = [str(argument.real_type).removeprefix("Optional[").removesuffix("]") for argument in schema.arguments]
    data_dependent = name.partition(".")[0] in _DEPENDING or not _CONTENTS.isdisjoint(op.tags)
    return Call(
        name,
        op,
        tensors=frozenset(index for index, kind in enumerate(kinds) if kind == "Tensor"),
        counted=tuple((index, _COUNTED[kind]) for index, kind in enumerate(kinds) if kind in _COUNTED),
        lists=any(str(result.type) == "List[Tensor]" for result in schema.returns),
        depends=data_dependent and name != "aten::where.self",
        writes=bool(schema.is_mutable),
        pointwise=torch.Tag.pointwise in op.tags,
    )


def dtype_of(number: Any) -> torch.dtype | None:
    """The dtype that a number of TorchScript's stands for."""
    return _DTYPES[number] if type(number) is int else number


def number_of(thing: Any) -> Any:
    """The number that TorchScript has for a dtype; anything else as it is."""
    return _DTYPES.index(thing) if isinstance(thing, torch.dtype) else thing
