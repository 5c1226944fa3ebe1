"""Quantized inputs and outputs as torch.onnx has them.

The integers, the scale and the zero point are an input or an output each.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from onnxexp.torch_compat import ScriptModule

__all__ = ["quantized_as_parts", "split_arguments"]


class Parts(NamedTuple):
    """A quantized tensor as three tensors; scale and zero point are 0-d."""

    integers: torch.Tensor
    scale: torch.Tensor
    zero_point: torch.Tensor


def split_arguments(model: Any, capture: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Split quantized arguments if `quantized_as_parts` joins them again.

    A scale is float64 and a zero point int64.
    """
    if not _takes_parts(model, capture):
        return args, kwargs
    return _split(args, torch.float64, torch.int64), _split(kwargs, torch.float64, torch.int64)


@contextlib.contextmanager
def quantized_as_parts(model: Any, capture: str) -> Iterator[None]:
    """Let a module take and return the parts of quantized tensors.

    Functions, modules of a graph and those of TorchScript keep their form, which is the integers alone.
    """
    handles: list[Any] = []
    if _takes_parts(model, capture):
        handles.append(model.register_forward_pre_hook(_join, with_kwargs=True))
        handles.append(model.register_forward_hook(lambda _module, _args, result: _split(result, torch.float32, None)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _takes_parts(model: Any, capture: str) -> bool:
    """Whether a model may get hooks; torch.jit.script would compile them."""
    return (
        capture != "script" and isinstance(model, torch.nn.Module) and not isinstance(model, (ScriptModule, torch.fx.GraphModule))
    )


def _join(_module: Any, args: Any, kwargs: Any) -> Any:
    leaves, structure = pytree.tree_flatten((args, kwargs), is_leaf=lambda each: isinstance(each, Parts))
    if not any(isinstance(each, Parts) for each in leaves):
        return args, kwargs
    return pytree.tree_unflatten(map(_joined, leaves), structure)


def _joined(value: Any) -> Any:
    if not isinstance(value, Parts):
        return value
    return torch._make_per_tensor_quantized_tensor(value.integers, value.scale.float(), value.zero_point)  # type: ignore[arg-type]


def _split(values: Any, scale: torch.dtype, zero_point: torch.dtype | None) -> Any:
    """Replace each tensor that is quantized with one scale by its parts.

    Without `zero_point`, that has the dtype of the integers.
    """
    leaves, structure = pytree.tree_flatten(values)
    if not any(map(_is_quantized, leaves)):
        return values
    return pytree.tree_unflatten([_parts(each, scale, zero_point) if _is_quantized(each) else each for each in leaves], structure)


def _is_quantized(value: Any) -> bool:
    is_quantized = getattr(value, "is_quantized", False)  # the stand-in of a capture is no tensor
    return is_quantized is True and value.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric)


def _parts(tensor: Any, scale: torch.dtype, zero_point: torch.dtype | None) -> Parts:
    integers = tensor.int_repr()
    zero = torch.as_tensor(tensor.q_zero_point()).to(zero_point or integers.dtype)
    return Parts(integers, torch.as_tensor(tensor.q_scale()).to(scale), zero)
