"""Operators that are kept as torch has them: all of them, or those that nothing lowers (`operator_export_type`)."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from onnxexp.builder import operands
from onnxexp.builder.dtypes import of_python
from onnxexp.builder.tensor import Tensor
from onnxexp.errors import OptionError
from onnxexp.graph import Node, TensorType
from onnxexp.torch_ops.schemas import overload
from onnxexp.torch_ops.type_codes import type_code

if TYPE_CHECKING:
    from onnxexp.builder.builder import Builder

__all__ = ["OperatorExportTypes", "keep", "read_export_type"]

_ATEN = "org.pytorch.aten"
_UNSAID = ("pin_memory", "device", "layout", "memory_format", "non_blocking", "generator")
"""Arguments that say how torch computes, not what."""


class OperatorExportTypes(enum.Enum):
    """What becomes of torch's operators.

    ONNX: all are ONNX's; what cannot be is an error. ONNX_FALLTHROUGH: what cannot be stays an operator of its own domain.
    ONNX_ATEN_FALLBACK: what cannot be is an ``ATen`` node of the domain org.pytorch.aten. ONNX_ATEN: all are such nodes.
    RAW: all stay what they are, in their own domains, and the captured graph is printed.
    """

    ONNX = "ONNX"
    ONNX_ATEN = "ONNX_ATEN"
    ONNX_ATEN_FALLBACK = "ONNX_ATEN_FALLBACK"
    ONNX_FALLTHROUGH = "ONNX_FALLTHROUGH"
    RAW = "RAW"

    @property
    def keeps_all(self) -> bool:
        """Are all operators kept?"""
        return self in (OperatorExportTypes.ONNX_ATEN, OperatorExportTypes.RAW)

    @property
    def verbose(self) -> bool:
        """Is the captured graph printed?"""
        return self is OperatorExportTypes.RAW

    @property
    def keeps_unknown(self) -> bool:
        """Are operators kept that nothing lowers?"""
        return self is not OperatorExportTypes.ONNX


def read_export_type(said: Any) -> OperatorExportTypes:
    """Ours, its name, or torch.onnx's member of the same name. Raises OptionError for anything else."""
    name = said if isinstance(said, str) else str(getattr(said, "name", said))
    known = OperatorExportTypes.__members__
    if name.upper() not in known:
        raise OptionError(f"operator_export_type is {said!r}; it may be {', '.join(known)}")
    return known[name.upper()]


def keep(op: Builder, node: Node, args: Sequence[Any], how: OperatorExportTypes) -> list[Tensor]:
    """The call as one node: tensors and what is known at run time are inputs, all else are attributes by their torch names."""
    inputs: list[Tensor | None] = []
    attributes: dict[str, Any] = {}
    for name, arg in zip(_names(node, len(args)), args, strict=True):
        if name in _UNSAID:
            continue
        if _is_input(arg):
            inputs += _inputs(op, arg)
        elif arg is not None:
            attributes[name] = _attribute(arg)
    namespace, _, full = node.op.partition("::")
    base, _, suffix = full.partition(".")
    if how in (OperatorExportTypes.ONNX_ATEN, OperatorExportTypes.ONNX_ATEN_FALLBACK) and namespace == "aten":
        domain, kind, attributes = _ATEN, "ATen", {"operator": base, "overload_name": suffix, **attributes}
    else:
        domain, kind = namespace, base
        attributes |= {"overload_name": suffix} if suffix else {}
    results = list(op.emit(domain, kind, inputs, attributes, len(node.outputs)))
    for result, value in zip(results, node.outputs, strict=True):
        dtype = value.type.dtype if isinstance(value.type, TensorType) else of_python(value.type.kind())
        result.fill(TensorType(dtype, None))
    return results


def _names(node: Node, count: int) -> Iterator[str]:
    known = overload(node.op)
    arguments = [argument.name for argument in known._schema.arguments] if known is not None else []
    yield from (arguments[index] if index < len(arguments) else f"arg{index}" for index in range(count))


def _is_input(arg: Any) -> bool:
    return isinstance(arg, Tensor) or (isinstance(arg, (list, tuple)) and any(map(_is_input, arg)))


def _inputs(op: Builder, arg: Any) -> list[Tensor | None]:
    if isinstance(arg, Tensor):
        return [arg]
    if any(isinstance(element, Tensor) and element.scalar is not None for element in arg):
        return [op.constant(list(arg), torch.int64)]
    return [None if element is None else operands.tensor(op, element) for element in arg]


def _attribute(arg: Any) -> Any:
    if isinstance(arg, torch.dtype):
        return type_code(arg)
    if isinstance(arg, bool):
        return int(arg)
    if isinstance(arg, (list, tuple)):
        return [_attribute(element) for element in arg]
    return arg if isinstance(arg, (int, float, str)) else str(arg)
