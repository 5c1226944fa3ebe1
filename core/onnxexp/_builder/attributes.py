"""ONNX attributes from Python values."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import onnx_ir as ir
import torch

from onnxexp._builder.dtypes import onnx_dtype
from onnxexp._builder.onnx_schemas import Operator
from onnxexp._builder.tensor import Tensor
from onnxexp._builder.torch_tensor_data import TorchTensor


def _plain(value: Any) -> Any:
    """Turn constant Tensors into numbers and lists, dtypes into ONNX's enumeration."""
    if isinstance(value, Tensor):
        assert value.const is not None
        return value.const.tolist()
    if isinstance(value, torch.dtype):
        return int(onnx_dtype(value))
    if isinstance(value, (list, tuple)):
        return [_plain(element) for element in value]
    return value


def _integer(value: Any) -> int:
    return int(value) if isinstance(value, float) and value.is_integer() else operator.index(value)


def _float(value: Any) -> float:
    if isinstance(value, str):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def _single(value: Any) -> Any:
    """Return the only element of a list of one, any other value as it is.

    TopK's k is one number at opset 9, and a list of one from opset 10 on.
    """
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _tensor(value: Any) -> TorchTensor:
    if isinstance(value, Tensor):
        value = value.const
    return TorchTensor(value if isinstance(value, torch.Tensor) else torch.tensor(value))


_ENCODERS: dict[ir.AttributeType, Callable[[Any], Any]] = {
    ir.AttributeType.INT: lambda value: _integer(_single(_plain(value))),
    ir.AttributeType.FLOAT: lambda value: _float(_plain(value)),
    ir.AttributeType.STRING: str,
    ir.AttributeType.INTS: lambda value: [_integer(element) for element in _plain(value)],
    ir.AttributeType.FLOATS: lambda value: [_float(element) for element in _plain(value)],
    ir.AttributeType.STRINGS: lambda value: [str(element) for element in value],
    ir.AttributeType.TENSOR: _tensor,
}


_WRITTEN = {"Resize": ("coordinate_transformation_mode", "mode", "nearest_mode")}
"""Attributes that are written at their defaults.

MNN takes others for the defaults, so that its results differ, and OpenCV refuses a Resize without a mode.
"""


def encode(spec: Operator, given: dict[str, Any]) -> dict[str, ir.Attr]:
    """Encode attributes for onnx-ir, without those that equal the schema's default.

    Those in `_WRITTEN` are always written. Raises TypeError where a value does not fit the attribute's type.
    """
    encoded: dict[str, ir.Attr] = {}
    written = _WRITTEN.get(spec.name, ())
    defaults = {name: spec.attributes[name].default for name in written if name in spec.attributes}
    for name, value in sorted((defaults | given).items()):
        attribute = spec.attributes[name]
        try:
            converted = _ENCODERS.get(attribute.type, lambda value: value)(value)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{spec.name}: {value!r} does not fit the attribute {name} ({attribute.type.name})") from error
        if name in written or attribute.type is ir.AttributeType.TENSOR or not attribute.is_default(converted):
            encoded[name] = ir.Attr(name, attribute.type, converted)
    return encoded


def guess(name: str, value: Any) -> ir.Attr:
    """Encode an attribute without a schema, by the type of its Python value."""
    if isinstance(value, (torch.Tensor, Tensor)):
        return ir.Attr(name, ir.AttributeType.TENSOR, _tensor(value))
    if isinstance(value, ir.Attr):
        return value
    plain = _plain(value)
    return ir.convenience.convert_attribute(name, int(plain) if isinstance(plain, bool) else plain)


def key(attributes: dict[str, ir.Attr]) -> tuple[Any, ...] | None:
    """Return a key that is equal for equal attributes.

    Returns None for graphs, types and tensors of several elements.
    """
    parts = []
    for name in sorted(attributes):
        value, kind = attributes[name].value, attributes[name].type
        if kind is ir.AttributeType.TENSOR:
            if not isinstance(value, TorchTensor) or value.torch.numel() != 1:
                return None
            value = (value.torch.dtype, tuple(value.torch.shape), value.tobytes())
        elif kind in (ir.AttributeType.GRAPH, ir.AttributeType.TYPE_PROTO):
            return None
        elif kind in (ir.AttributeType.FLOAT, ir.AttributeType.FLOATS):
            value = repr(value)  # 0.0 equals -0.0
        parts.append((name, tuple(value) if isinstance(value, (list, tuple)) else value))
    return tuple(parts)
