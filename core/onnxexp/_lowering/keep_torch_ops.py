"""Emit torch operators as they are, all of them or those that no plugin lowers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from onnxexp._builder import operands
from onnxexp._builder.builder import Builder
from onnxexp._builder.dtypes import dtype_of_number
from onnxexp._builder.tensor import ComplexTensor, Tensor, real_dtype
from onnxexp._errors import OptionError
from onnxexp._neutral_graph import Node, TensorType
from onnxexp._request.training_mode import EnumOption
from onnxexp._torch_ops.schemas import overload
from onnxexp._torch_ops.type_codes import TYPE_CODES
from onnxexp._user_warnings import warn

TORCH_ARGUMENTS = "torch_arguments"
_ATEN = "org.pytorch.aten"
_EXECUTION_ARGUMENTS = ("pin_memory", "device", "layout", "memory_format", "non_blocking", "generator")
"""Arguments about how torch computes, not about the result."""


class OperatorExportTypes(EnumOption):
    """The treatment of torch operators.

    Attributes:
        ONNX: Lower every operator; one that cannot be lowered is an error.
        ONNX_FALLTHROUGH: Keep an operator that cannot be lowered, in its own domain.
        ONNX_ATEN_FALLBACK: Keep it as an ``ATen`` node of the domain org.pytorch.aten.
        ONNX_ATEN: Make every operator such a node.
        RAW: Keep every operator in its own domain, and print the captured graph.
    """

    ONNX = "ONNX"
    ONNX_ATEN = "ONNX_ATEN"
    ONNX_ATEN_FALLBACK = "ONNX_ATEN_FALLBACK"
    ONNX_FALLTHROUGH = "ONNX_FALLTHROUGH"
    RAW = "RAW"

    @property
    def keeps_all(self) -> bool:
        """Whether all operators are kept."""
        return self in (OperatorExportTypes.ONNX_ATEN, OperatorExportTypes.RAW)

    @property
    def verbose(self) -> bool:
        """Whether the captured graph is printed."""
        return self is OperatorExportTypes.RAW

    @property
    def keeps_unknown(self) -> bool:
        """Whether operators that no plugin lowers are kept."""
        return self is not OperatorExportTypes.ONNX


def export_type_of(given: Any, fallback: str | None) -> OperatorExportTypes:
    """Read the export type from the arguments of `export`.

    Raises OptionError for unknown and contradictory arguments.
    """
    kind = OperatorExportTypes.read(given, "operator_export_type")
    if fallback not in (None, "torch") or (fallback and kind is not OperatorExportTypes.ONNX):
        raise OptionError(
            f"fallback is {fallback!r} and operator_export_type {kind.name}: 'torch' or None, and only one of the two"
        )
    return OperatorExportTypes.ONNX_ATEN_FALLBACK if fallback else kind


def warn_of_torch(kept: Sequence[Node], kind: OperatorExportTypes) -> dict[str, str]:
    """Warn of operators that need torch in a run, and return them as metadata."""
    if not kept or kind is not OperatorExportTypes.ONNX_ATEN_FALLBACK:
        return {}
    lines = {f"{node.op} ({node.where})" if node.where.file else node.op: None for node in kept}
    warn(f"nodes that need torch when the model runs, through onnxexp-plugin-custom-cpp: {'; '.join(lines)}")
    return {"onnxexp.needs_torch": "; ".join(dict.fromkeys(node.op for node in kept))}


def emit_torch_node(op: Builder, node: Node, args: Sequence[Any], how: OperatorExportTypes) -> list[Tensor]:
    """Emit a call as one node, with tensors as inputs and constants as attributes.

    The attribute `torch_arguments` describes the call. It has a word for each argument of the schema: "input" for the next input,
    "complex" for one of real pairs, "inputs:3" for a list of the next three, "none", or "=name" for an attribute. A complex
    result is one of real pairs.
    """
    inputs: list[Tensor | None] = []
    attributes: dict[str, Any] = {}
    words = []
    for name, arg in zip(_names(node, len(args)), args, strict=True):
        if arg is None or name in _EXECUTION_ARGUMENTS:
            words.append("none")
        elif isinstance(arg, ComplexTensor):
            inputs.append(arg.view_as_real())
            words.append("complex")
        elif _is_input(arg):
            added = _inputs(op, arg)
            inputs += added
            words.append(f"inputs:{len(added)}" if isinstance(arg, (list, tuple)) and not _is_sizes(arg) else "input")
        else:
            words.append(f"={name}")
            attributes[name] = _attribute(arg)
    namespace, _, full = node.op.partition("::")
    base, _, suffix = full.partition(".")
    if how in (OperatorExportTypes.ONNX_ATEN, OperatorExportTypes.ONNX_ATEN_FALLBACK) and namespace == "aten":
        domain, kind, attributes = _ATEN, "ATen", {"operator": base, "overload_name": suffix, **attributes}
    else:
        domain, kind = namespace, base
        attributes |= {"overload_name": suffix} if suffix else {}
    if overload(node.op) is not None:
        attributes[TORCH_ARGUMENTS] = " ".join(words)
    results = list(op.emit(domain, kind, inputs, attributes, len(node.outputs)))
    for index, (result, value) in enumerate(zip(results, node.outputs, strict=True)):
        dtype = value.type.dtype if isinstance(value.type, TensorType) else dtype_of_number(value.type.kind())
        if dtype is None or not dtype.is_complex:
            result.fill(TensorType(dtype, None))
        else:
            result.fill(TensorType(real_dtype(dtype), None))
            results[index] = ComplexTensor.view_as_complex(result)
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
    if _is_sizes(arg):
        return [op.constant(list(arg), torch.int64)]
    return [None if element is None else operands.tensor(op, element) for element in arg]


def _is_sizes(arg: Sequence[Any]) -> bool:
    return any(isinstance(element, Tensor) and element.scalar is not None for element in arg)


def _attribute(arg: Any) -> Any:
    if isinstance(arg, torch.dtype):
        return TYPE_CODES.code(arg)
    if isinstance(arg, bool):
        return int(arg)
    if isinstance(arg, (list, tuple)):
        return [_attribute(element) for element in arg]
    return arg if isinstance(arg, (int, float, str)) else str(arg)
