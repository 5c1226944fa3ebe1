"""Operator schemas, as the interpreter uses them: one lookup per operator."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import torch

from onnxexp.torch_ops import TYPE_CODES, MutationInfo, overload

_DEPENDING = frozenset({"aten::where", "aten::nonzero_numpy", "aten::argwhere", "aten::bincount", "aten::_pack_padded_sequence"})
"""Composites whose result's size depends on contents; the others have torch's tags."""


_CONTENTS = frozenset({torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output})


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """Facts about an operator's schema.

    Attributes:
        name: The full name, ``aten::add.Tensor``.
        op: torch's operator, None where only TorchScript has it (``aten::append.t``).
        tensors: Indices of the arguments that are tensors.
        tensor_lists: Indices of the arguments that are lists of tensors.
        counted: The arguments that are codes of dtypes, layouts or memory formats: index and values by code.
        lists: Whether the operator returns a list of tensors.
        depends: Whether the size of the result depends on the contents of the arguments.
        writes: Whether it writes into an argument.
        pointwise: Whether torch tags it so.
    """

    name: str
    op: torch._ops.OpOverload | None
    tensors: frozenset[int] = frozenset()
    tensor_lists: frozenset[int] = frozenset()
    counted: tuple[tuple[int, tuple[Any, ...]], ...] = ()
    lists: bool = False
    depends: bool = False
    writes: bool = False
    pointwise: bool = False

    def defaults(self, given: int) -> list[Any]:
        """List the defaults of the arguments after the first `given`."""
        return [] if self.op is None else [argument.default_value for argument in self.op._schema.arguments[given:]]


def named(name: str) -> Call:
    """Look up an operator's call by its full name."""
    return _call(name, overload(name) if not name.startswith("prim::") else None)


@functools.lru_cache(maxsize=None)
def _call(name: str, found: torch._ops.OpOverload | None) -> Call:
    if found is None:
        return Call(name, None)
    schema: Any = found._schema
    kinds = [str(argument.real_type).removeprefix("Optional[").removesuffix("]") for argument in schema.arguments]
    data_dependent = name.partition(".")[0] in _DEPENDING or not _CONTENTS.isdisjoint(found.tags)
    return Call(
        name,
        found,
        tensors=frozenset(index for index, kind in enumerate(kinds) if kind == "Tensor"),
        tensor_lists=frozenset(index for index, kind in enumerate(kinds) if kind.startswith("List[") and "Tensor" in kind),
        counted=tuple((index, values) for index, each in enumerate(schema.arguments) if (values := TYPE_CODES.of_argument(each))),
        lists=any(str(result.type) == "List[Tensor]" for result in schema.returns),
        depends=data_dependent and name != "aten::where.self",
        writes=bool(schema.is_mutable),
        pointwise=torch.Tag.pointwise in found.tags,
    )


def changes_shape(name: str) -> bool:
    """Return whether an operator changes the shape of a tensor in place."""
    known = MutationInfo.of(name)
    return bool(known.written) and name.partition(".")[0].endswith("_") and known.changes_strides
