"""Computing at export what does not depend on the inputs.

Views of a weight cost nothing and are taken at any size: the writer reads through them. Everything else is computed
only while it is small, by onnx's reference implementation of the operator.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes  # noqa: F401 - numpy learns bfloat16 and the float8 types from it
import numpy as np
import onnx
import onnx_ir as ir
import torch
from onnx.reference.ops import load_op

from onnxexp.dtypes import from_onnx
from onnxexp.schemas import Operator

__all__ = ["fold"]

SMALL = 4096
"""Elements, of the inputs and of the outputs together, up to which anything is computed at export."""


def fold(
    spec: Operator, opset: int, inputs: Sequence[torch.Tensor | None], attributes: dict[str, ir.Attr], count: int
) -> list[torch.Tensor] | None:
    """The outputs of a node whose inputs are all known, or None where it is better left to the runtime."""
    if not spec.deterministic or any(attribute.type == ir.AttributeType.GRAPH for attribute in attributes.values()):
        return None
    view = _VIEWS.get(spec.name) if not spec.domain and count == 1 else None
    if view is not None:
        return [view(list(inputs), {name: attribute.value for name, attribute in attributes.items()})]
    if sum(tensor.numel() for tensor in inputs if tensor is not None) > SMALL:
        return None
    if _size_after(spec, inputs) > SMALL or any(tensor is not None and not _in_numpy(tensor.dtype) for tensor in inputs):
        return None
    return _reference(spec, opset, inputs, attributes, count)


def _in_numpy(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point is False or dtype in (torch.float16, torch.float32, torch.float64)


def _size_after(spec: Operator, inputs: Sequence[torch.Tensor | None]) -> int:
    """How many elements the operators that make much of little would make."""
    if spec.name in ("ConstantOfShape", "Expand", "Tile", "Resize", "Range", "OneHot", "Pad"):
        sizes = [tensor for tensor in inputs[1:] if tensor is not None] if spec.name != "ConstantOfShape" else [inputs[0]]
        if spec.name == "Range":
            start, limit, delta = (float(tensor.item()) for tensor in inputs if tensor is not None)
            return int(max(0.0, (limit - start) / (delta or 1.0)))
        first = inputs[0]
        size = sizes[0]
        assert size is not None and first is not None
        if spec.name in ("ConstantOfShape", "Expand"):
            return int(size.prod())
        if spec.name == "Tile":
            return int(size.prod()) * first.numel()
        return SMALL + 1 if first.numel() > 64 else 0
    return 0


def _reference(
    spec: Operator, opset: int, inputs: Sequence[torch.Tensor | None], attributes: dict[str, ir.Attr], count: int
) -> list[torch.Tensor] | None:
    names = [f"i{index}" if tensor is not None else "" for index, tensor in enumerate(inputs)]
    outputs = [f"o{index}" for index in range(count)]
    node = onnx.helper.make_node(spec.name, names, outputs, domain=spec.domain)
    node.attribute.extend(ir.to_proto(attribute) for attribute in attributes.values())
    implementation = _implementation(spec, opset)
    if implementation is None:
        return None
    run_params = {"log": lambda *_: None, "opsets": {spec.domain: opset}, "verbose": 0, "new_ops": None}
    arrays = [None if tensor is None else tensor.detach().cpu().numpy() for tensor in inputs]
    with np.errstate(all="ignore"):
        results = implementation(node, run_params).run(*arrays)
    if any(not isinstance(result, (np.ndarray, np.generic)) for result in results):
        return None
    return [torch.from_numpy(np.array(result)) for result in results[:count]]


@functools.lru_cache(maxsize=None)
def _implementation(spec: Operator, opset: int) -> Callable[..., Any] | None:
    try:
        implementation: Callable[..., Any] = load_op(spec.domain, spec.name, opset)
    except (onnx.reference.op_run.RuntimeImplementationError, NotImplementedError):
        return None
    return implementation


def _ints(tensor: torch.Tensor | None) -> list[int]:
    assert tensor is not None
    return [int(element) for element in tensor.tolist()]


def _transpose(inputs: list[Any], attributes: dict[str, Any]) -> torch.Tensor:
    (tensor,) = inputs
    return tensor.permute(attributes.get("perm", tuple(reversed(range(tensor.dim())))))  # type: ignore[no-any-return]


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


def _squeeze(inputs: list[Any], attributes: dict[str, Any]) -> torch.Tensor:
    axes = _axes(inputs, attributes)
    return inputs[0].squeeze() if axes is None else inputs[0].squeeze(tuple(axes))  # type: ignore[no-any-return]


def _cast(inputs: list[Any], attributes: dict[str, Any]) -> torch.Tensor:
    return inputs[0].to(from_onnx(attributes["to"]))  # type: ignore[no-any-return]


def _concat(inputs: list[Any], attributes: dict[str, Any]) -> torch.Tensor:
    return torch.cat(inputs, dim=attributes["axis"])


def _shape(inputs: list[Any], attributes: dict[str, Any]) -> torch.Tensor:
    return torch.tensor(list(inputs[0].shape[attributes.get("start", 0) : attributes.get("end")]), dtype=torch.int64)


_VIEWS: dict[str, Callable[[list[Any], dict[str, Any]], torch.Tensor]] = {
    "Cast": _cast,
    "Concat": _concat,
    "Identity": lambda inputs, _: inputs[0],
    "Reshape": _reshape,
    "Shape": _shape,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
