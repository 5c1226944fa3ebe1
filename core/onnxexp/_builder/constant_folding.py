"""Compute nodes at export whose inputs are all constant.

Views of a weight need no memory and are folded at any size: the writer reads through them. Concatenations of weights are folded
at any size, too, and so are casts that do not make them larger: packed codes stay packed. onnx's reference implementation
computes the other operators, only for small tensors, and only where it agrees with ONNX Runtime (`tests/core/test_folding.py`
compares them): some of its results are wrong, for example MaxPool's indices.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes  # noqa: F401 - numpy learns bfloat16 and the float8 types from it
import numpy as np
import onnx
import onnx_ir as ir
import torch
from onnx.reference.ops import load_op

from onnxexp._builder.dtypes import torch_dtype
from onnxexp._builder.onnx_schemas import Operator
from onnxexp._builder.torch_tensor_data import has_data

_LOGGER = logging.getLogger(__name__)
_implementation = functools.lru_cache(maxsize=None)(load_op)
SMALL = 4096
"""The largest number of elements of the inputs, and of the outputs, of a folded node."""

_ELEMENTWISE = frozenset(
    """
    Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Clip Cos Cosh Div Equal
    Erf Exp Floor Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Log Max Mean Min Mod Mul Neg Not Or Pow Reciprocal Relu
    Round Sigmoid Sign Sin Sinh Sqrt Sub Sum Tan Tanh Where Xor
    """.split()  # noqa: SIM905
)
COMPUTED = _ELEMENTWISE | frozenset(
    """
    ArgMax ArgMin ConstantOfShape CumSum Expand EyeLike Gather GatherElements GatherND MatMul NonZero Pad Range ReduceL1 ReduceL2
    ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare ScatterElements ScatterND Slice Split Tile Trilu
    """.split()  # noqa: SIM905
)
"""The operators that onnx's reference implementation computes, for small tensors."""


def fold(
    spec: Operator,
    opset: int,
    inputs: Sequence[torch.Tensor | None],
    attributes: dict[str, ir.Attr],
    dtypes: Sequence[torch.dtype | None],
) -> list[torch.Tensor] | None:
    """Fold a node with constant inputs to results of these dtypes.

    Returns None where the node is left to the runtime.
    """
    if spec.domain or any(attribute.type == ir.AttributeType.GRAPH for attribute in attributes.values()):
        return None
    values = {name: attribute.value for name, attribute in attributes.items()}
    if spec.name in VIEWS and len(dtypes) == 1:
        made = VIEWS[spec.name](list(inputs), values)
        return None if made is None else [made]
    tensors = [tensor for tensor in inputs if tensor is not None]
    if values.get("noop_with_empty_axes"):  # what ReduceL1 computes then depends on the release of onnx and of the runtime
        return None
    if spec.name not in COMPUTED or not all(_in_numpy(tensor.dtype) and has_data(tensor) for tensor in tensors):
        return None
    if sum(tensor.numel() for tensor in tensors) > SMALL or _size_after(spec.name, tensors, values) > SMALL:
        return None
    results = _reference(spec, opset, inputs, attributes, len(dtypes))
    right = results is not None and all(dtype in (None, result.dtype) for dtype, result in zip(dtypes, results, strict=True))
    return results if right else None


def _in_numpy(dtype: torch.dtype) -> bool:
    return not dtype.is_floating_point or dtype in (torch.float16, torch.float32, torch.float64)


def _size_after(name: str, tensors: list[torch.Tensor], attributes: dict[str, Any]) -> float:
    """Count the output elements of operators whose outputs may exceed their inputs."""
    if name in _ELEMENTWISE:
        return _broadcast(*(tensor.shape for tensor in tensors))
    return _SIZES[name](tensors, attributes) if name in _SIZES else 0


def _broadcast(*shapes: Sequence[int]) -> int:
    return math.prod(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]


def _gathered(tensors: list[torch.Tensor], attributes: dict[str, Any]) -> float:
    data, indices = tensors
    return float(data.numel() / max(data.shape[attributes.get("axis", 0)], 1) * indices.numel())


def _padded(tensors: list[torch.Tensor], attributes: dict[str, Any]) -> float:
    more = sum(max(0, size) for size in attributes.get("pads") or _ints(tensors[1]))
    return math.prod(size + more for size in tensors[0].shape)


_SIZES: dict[str, Callable[[list[torch.Tensor], dict[str, Any]], float]] = {
    "ConstantOfShape": lambda tensors, _: math.prod(_ints(tensors[0])),
    "Expand": lambda tensors, _: _broadcast(tensors[0].shape, _ints(tensors[1])),
    "Gather": _gathered,
    "MatMul": lambda tensors, _: tensors[0].numel() * tensors[1].numel() / max(tensors[0].shape[-1], 1) ** 2,
    "Pad": _padded,
    "Range": lambda tensors, _: float((tensors[1] - tensors[0]) / (tensors[2] or 1)),
    "Tile": lambda tensors, _: tensors[0].numel() * math.prod(_ints(tensors[1])),
}


def _reference(
    spec: Operator, opset: int, inputs: Sequence[torch.Tensor | None], attributes: dict[str, ir.Attr], count: int
) -> list[torch.Tensor] | None:
    names = [f"i{index}" if tensor is not None else "" for index, tensor in enumerate(inputs)]
    node = onnx.helper.make_node(spec.name, names, [f"o{index}" for index in range(count)])
    node.attribute.extend(ir.serde.serialize_attribute(attribute) for attribute in attributes.values())
    run_params = {"log": lambda *_: None, "opsets": {"": opset}, "verbose": 0, "new_ops": None}
    arrays = [None if tensor is None else tensor.detach().cpu().numpy() for tensor in inputs]
    try:
        with np.errstate(all="ignore"):
            results = _implementation("", spec.name, opset)(node, run_params).run(*arrays)
        return [torch.from_numpy(np.array(result)) for result in results[:count]]
    except Exception as error:  # noqa: BLE001 - onnx's implementation may raise anything; the node itself is still right
        _LOGGER.debug("%s is not folded: %s: %s", spec.name, type(error).__name__, error)
        return None


def _ints(tensor: torch.Tensor | None) -> list[int]:
    assert tensor is not None
    return [int(element) for element in tensor.tolist()]


def _reshape(inputs: list[Any], attributes: dict[str, Any]) -> torch.Tensor:
    tensor, target = inputs
    sizes = _ints(target)
    if not attributes.get("allowzero"):
        sizes = [tensor.shape[axis] if size == 0 else size for axis, size in enumerate(sizes)]
    return tensor.reshape(sizes)  # type: ignore[no-any-return]


def _axes(inputs: list[Any], attributes: dict[str, Any]) -> list[int] | None:
    if "axes" in attributes:
        return list(attributes["axes"])
    return _ints(inputs[1]) if len(inputs) > 1 else None


def _unsqueeze(inputs: list[Any], attributes: dict[str, Any]) -> torch.Tensor:
    tensor, axes = inputs[0], _axes(inputs, attributes) or []
    rank = tensor.dim() + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        tensor = tensor.unsqueeze(axis)
    return tensor  # type: ignore[no-any-return]


def _flatten(tensor: torch.Tensor, axis: int) -> torch.Tensor:
    return tensor.reshape(math.prod(tensor.shape[:axis]), math.prod(tensor.shape[axis:]))


def _squeeze(tensor: torch.Tensor, axes: list[int] | None) -> torch.Tensor:
    return tensor.squeeze() if axes is None else tensor.squeeze(tuple(axes))


def _cast(inputs: list[Any], attributes: dict[str, Any]) -> torch.Tensor | None:
    """Cast, except where a weight would grow, or torch and ONNX differ.

    torch and ONNX differ in casts to float8, and in casts of out-of-range numbers to integers. Casts from float8 stay nodes,
    which keep stored weights small.
    """
    tensor, to = inputs[0], attributes["to"]
    if to == ir.DataType.STRING:
        return None
    dtype = torch_dtype(to)
    if dtype.itemsize > tensor.dtype.itemsize and tensor.numel() > SMALL:
        return None
    if any(each.is_floating_point and each.itemsize == 1 for each in (dtype, tensor.dtype)):
        return None
    if tensor.is_floating_point() and not dtype.is_floating_point and not dtype.is_complex and dtype != torch.bool:
        limits = torch.iinfo(dtype)
        if not bool(((tensor > limits.min) & (tensor < limits.max)).all()):
            return None
    return tensor.to(dtype)  # type: ignore[no-any-return]


def _constant(inputs: list[Any], attributes: dict[str, Any]) -> torch.Tensor | None:
    ((name, value),) = attributes.items()
    if name == "value":
        return value.torch  # type: ignore[no-any-return]
    dtype = {"value_int": torch.int64, "value_ints": torch.int64, "value_float": torch.float32, "value_floats": torch.float32}
    return torch.tensor(value, dtype=dtype[name]) if name in dtype else None


VIEWS: dict[str, Callable[[list[Any], dict[str, Any]], torch.Tensor | None]] = {
    "Cast": _cast,
    "Concat": lambda inputs, given: torch.cat(inputs, dim=given["axis"]),
    "Constant": _constant,
    "Flatten": lambda inputs, given: _flatten(inputs[0], given.get("axis", 1)),
    "Identity": lambda inputs, _: inputs[0],
    "Reshape": _reshape,
    "Shape": lambda inputs, given: torch.tensor(inputs[0].shape[given.get("start", 0) : given.get("end")], dtype=torch.int64),
    "Size": lambda inputs, _: torch.tensor(inputs[0].numel()),
    "Squeeze": lambda inputs, given: _squeeze(inputs[0], _axes(inputs, given)),
    "Transpose": lambda inputs, given: inputs[0].permute(given.get("perm") or [*reversed(range(inputs[0].dim()))]),
    "Unsqueeze": _unsqueeze,
}
"""The operators that torch computes at any size; None where torch's result differs from ONNX's."""
