"""Mutation and aliasing of torch's operators, from their schemas.

Source: the alias annotations of the schemas, ``Tensor(a!)`` (is written) and ``Tensor(a)`` (shares memory), and the list
below of operators that share memory without an annotation.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from onnxexp._neutral_graph import Node, TensorType, Value
from onnxexp._torch_ops.schemas import cache_by_operator, full_name, overload, schemas

_ALIASING_COMPOSITES = frozenset(
    f"aten::{name}"
    for name in [
        *("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "type_as", "sum_to_size"),
        *("conj_physical", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_tensors", "meshgrid", "einsum"),
        *("_unsafe_view", "unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk", "cartesian_prod"),
    ]
)
"""Composites that may return their first tensor, without an annotation in their schemas."""
SETTING = frozenset(f"aten::{name}" for name in ["zero_", "fill_", "_no_grad_zero_", "_no_grad_fill_"])
"""Operators that make a tensor one number everywhere."""

RESIZING = frozenset({"aten::resize_", "aten::resize_as_"})
"""Operators that change the size of a tensor in place."""
RESIZE_FIX = "take the elements with flatten()[:n].view(...), or pad() a new tensor"
"""The fix where one of them cannot be followed."""


@dataclasses.dataclass(frozen=True)
class MutationInfo:
    """The mutation and aliasing of one operator.

    Attributes:
        op: The operator's full name.
        schema: None where torch has no such operator (``prim::If``, arithmetic on sizes).
        written: Indices of the arguments whose memory is written.
        viewed: Index of the argument whose memory the results that are no written argument may share; None: they are new.
        returned: For each return, the index of the written argument that it is, else None.
        memory_format: Index of the argument of that name.
        pointwise: Whether torch tags the operator as pointwise: its result has the broadcast shape and layout.
        aliases_undeclared: Whether it is a composite that may return its first tensor, without an annotation in its schemas. It
            is the same for all overloads, and also known of a name without one.
    """

    op: str
    schema: Any = None
    written: tuple[int, ...] = ()
    viewed: int | None = None
    returned: tuple[int | None, ...] = ()
    memory_format: int | None = None
    pointwise: bool = False
    aliases_undeclared: bool = False

    @staticmethod
    @cache_by_operator
    def of(op: str) -> MutationInfo:
        """Look up the facts about an operator by its full name."""
        undeclared = packet(op) in _ALIASING_COMPOSITES
        if (found := overload(op)) is None:
            return MutationInfo(op, aliases_undeclared=undeclared)
        schema = found._schema
        arguments: Sequence[Any] = schema.arguments
        names = [argument.name for argument in arguments]
        written = tuple(index for index, argument in enumerate(arguments) if _is_written(argument, str(schema)))
        sets = {name: index for index in written for name in arguments[index].alias_info.before_set}
        viewed = int(op == "aten::einsum") if undeclared else None
        if not schema.is_mutable and any(result.alias_info and "Tensor" in str(result.type) for result in schema.returns):
            viewed = next((index for index, argument in enumerate(arguments) if argument.alias_info is not None), 0)
        return MutationInfo(
            op,
            schema,
            written,
            viewed,
            tuple(_written_argument(result, sets) for result in schema.returns),
            names.index("memory_format") if "memory_format" in names else None,
            torch.Tag.pointwise in found.tags,
            undeclared,
        )

    @property
    def opaque(self) -> bool:
        return self.schema is None

    @functools.cached_property
    def functional(self) -> str | None:
        """The operator that does not write: ``add.Tensor`` for ``add_.Tensor``.

        It takes the same arguments, apart from ``out=``, and returns the new results of this one, then the values to write. None
        where torch has no such operator.
        """
        return None if self.schema is None else _functional_overload(self)

    @property
    def changes_strides(self) -> bool:
        """Whether this in-place operator changes the view, not the memory (``t_``)."""
        if self.functional is None or packet(self.functional) == "aten::detach":
            return False
        same = MutationInfo.of(self.functional)
        return not same.aliases_undeclared and same.viewed is not None


def packet(op: str) -> str:
    """Strip the overload: ``aten::add`` of ``aten::add.Tensor``."""
    return op.partition(".")[0]


def _written_argument(result: Any, sets: dict[str, int]) -> int | None:
    """Return the index of the written argument that a result is, by alias set."""
    info = result.alias_info
    return next((sets[name] for name in info.before_set if name in sets), None) if info and info.is_write else None


def _is_written(argument: Any, schema: str) -> bool:
    info, kind = argument.alias_info, str(argument.type)
    if info is None or not info.is_write:
        return False
    if "List" in kind:  # Tensor(a!)[]: its tensors are written. Tensor[](a!) is the list itself
        return "Tensor" in kind and any(f"({name}!)[]" in schema for name in info.before_set)
    return kind in ("Tensor", "Optional[Tensor]")


def is_tensor(value: Any) -> bool:
    return isinstance(value, Value) and isinstance(value.type, TensorType)


def results(node: Node) -> Iterator[tuple[Value, int | None]]:
    """Yield each output, with the index of the written argument that it is, or None."""
    returned = MutationInfo.of(node.op).returned
    return zip(node.outputs, returned if len(returned) == len(node.outputs) else (None,) * len(node.outputs), strict=True)


def _functional_overload(known: MutationInfo) -> str | None:
    namespace, _, base = packet(known.op).partition("::")
    if base.startswith("__i") and base.endswith("__"):
        names = [f"__{base[3:]}"]
    elif base.endswith("_"):
        names = [base[:-1], f"{base}functional"]
    else:
        names = [base, f"{base}_functional"]
    inputs = [argument for index, argument in enumerate(known.schema.arguments) if not is_out(known, index)]
    returns = sum(index is None for index in known.returned) + len(known.written)
    candidates = [schema for name in names for schema in schemas(f"{namespace}::{name}")]
    candidates = [schema for schema in candidates if not schema.is_mutable and len(schema.returns) == returns]
    own = known.schema.overload_name
    candidates.sort(key=lambda schema: (schema.overload_name != own, len(schema.arguments)))
    for by_name in (True, False):
        for schema in candidates:
            if _takes(schema, inputs, by_name):
                return full_name(schema)
    return None


def is_out(known: MutationInfo, index: int) -> bool:
    """Return whether an argument is an ``out=`` argument."""
    return index in known.written and bool(known.schema.arguments[index].kwarg_only)


def _takes(schema: Any, inputs: list[Any], by_name: bool) -> bool:
    """Return whether a schema takes these arguments and has defaults for the others."""
    own = schema.arguments
    if len(own) < len(inputs) or not all(argument.has_default_value() for argument in own[len(inputs) :]):
        return False
    pairs = zip(own, inputs, strict=False)
    return all(str(a.type) == str(b.type) and (not by_name or a.name == b.name) for a, b in pairs)
