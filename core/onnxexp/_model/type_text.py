"""Write types, sizes and places of an ONNX model as text."""

from __future__ import annotations

import math

import onnx_ir as ir

from onnxexp._builder.dtypes import torch_dtype
from onnxexp._model.printable_text import one_line


def type_text(of: ir.Value | ir.DataType | int) -> str:
    """Write the type of a value, ``float32[batch, 3]``, or an element type.

    Other types of values are ``sequence(int64[...])`` and ``?``. An element type has torch's name, or ONNX's in lower case.
    """
    return _type(of.type, of.shape) if isinstance(of, ir.Value) else _element_type(of)


def place_of(node: ir.Node) -> str:
    """Describe a node's origin by module, torch operator and the user's source line."""
    known = [node.metadata_props.get(f"onnxexp.{key}", "") for key in ("scope", "op", "source")]
    origin = ", ".join(part for part in known if part)
    return f"{node.name or 'a node'} ({node.op_type})" + (f", from {origin}" if origin else "")


def bytes_text(count: int) -> str:
    """Write a number of bytes as ``1.5 MB``, in powers of 1000."""
    if count < 1000:
        return f"{count} bytes"
    power = min(int(math.log10(count) / 3), 4)
    return f"{count / 1000**power:.1f} {('kB', 'MB', 'GB', 'TB')[power - 1]}"


def ascii_text(text: str) -> str:
    """Escape all characters that are not ASCII, and ends of lines."""
    return one_line(text).encode("ascii", "backslashreplace").decode("ascii")


def _type(type_: ir.TypeProtocol | None, shape: ir.Shape | None) -> str:
    if isinstance(type_, (ir.SequenceType, ir.OptionalType)):
        kind = "sequence" if isinstance(type_, ir.SequenceType) else "optional"
        return f"{kind}({_type(type_.elem_type, shape)})"
    if type_ is None:
        return "?"
    sizes = ", ".join(str(size if isinstance(size, int) else size.value or "?") for size in shape) if shape is not None else "..."
    return f"{_element_type(type_.dtype)}[{sizes}]"


def _element_type(data_type: ir.DataType | int) -> str:
    try:
        return str(torch_dtype(data_type)).removeprefix("torch.")
    except (TypeError, ValueError):
        return ir.DataType(data_type).name.lower() if data_type in ir.DataType.__members__.values() else str(data_type)
