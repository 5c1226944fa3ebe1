"""Quantized inputs and outputs as in torch.onnx's files.

The integers, the scale and the zero point are separate inputs or outputs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from onnxexp.frontends import call_preserved, is_scripted, signature_of


class Parts(NamedTuple):
    """The parts of a quantized tensor, where scale and zero point are 0-d tensors."""

    integers: torch.Tensor
    scale: torch.Tensor
    zero_point: torch.Tensor


def with_quantized_parts(model: Any, capture: str, args: Any, kwargs: Any) -> tuple[Any, Any, Any]:
    """Replace quantized tensors by their parts; return model, args and kwargs.

    The scale is float64, and the zero point is int64. Inside `quantized_as_parts`, hooks of the model join the parts again. A
    TorchScript module has no hooks: it is wrapped in a module that joins the parts. Functions and graph modules stay as they
    are; their quantized inputs become integers alone.
    """
    if capture != "script" and isinstance(model, torch.nn.Module) and is_scripted(model) and _has_quantized(model, args, kwargs):
        model = _ModuleOfParts(model)
    if not _takes_parts(model, capture):
        return model, args, kwargs
    return model, _split(args, torch.float64, torch.int64), _split(kwargs, torch.float64, torch.int64)


@contextlib.contextmanager
def quantized_as_parts(model: Any, capture: str) -> Iterator[None]:
    """Add hooks to a module inside the `with`: it then takes and returns the parts."""
    handles: list[Any] = []
    if _takes_parts(model, capture) and not isinstance(model, _ModuleOfParts):
        handles.append(model.register_forward_pre_hook(_pre_hook, with_kwargs=True))
        handles.append(model.register_forward_hook(lambda _module, _args, result: _split(result, torch.float32, None)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class _ModuleOfParts(torch.nn.Module):
    """A module of TorchScript that takes and returns the parts of quantized tensors."""

    def __init__(self, program: torch.nn.Module) -> None:
        super().__init__()
        self.program = program
        self.training = program.training

        def forward(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = _join(args, kwargs, torch._make_per_tensor_quantized_tensor)
            return _split(self.program(*args, **kwargs), torch.float32, None)

        vars(forward)["__signature__"] = signature_of(program)
        vars(self)["forward"] = forward


def _has_quantized(program: torch.nn.Module, args: Any, kwargs: Any) -> bool:
    """Return whether a program takes or returns tensors quantized with one scale."""
    if any(map(_is_quantized, pytree.tree_leaves((args, kwargs)))):
        return True
    if "quantize" not in str(getattr(program, "inlined_graph", "")):
        return False
    positional = args if type(args) is tuple else (args,)
    named = dict(kwargs or {})
    if positional and type(positional[-1]) is dict:
        positional, named = positional[:-1], {**positional[-1], **named}
    with torch.no_grad():
        return any(map(_is_quantized, pytree.tree_leaves(call_preserved(program, positional, named))))


def _takes_parts(model: Any, capture: str) -> bool:
    """Return whether a model may get hooks.

    torch.jit.script would compile the hooks.
    """
    if capture == "script" or not isinstance(model, torch.nn.Module):
        return False
    return not isinstance(model, torch.fx.GraphModule) and not is_scripted(model)


def without_parts(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Replace parts by the quantized tensors that they stand for."""
    return _join(args, kwargs, torch._make_per_tensor_quantized_tensor)


def _join(args: Any, kwargs: Any, make: Callable[..., torch.Tensor]) -> tuple[Any, Any]:
    """Replace parts by the quantized tensors that `make` creates from them."""

    def join(leaf: Any) -> Any:
        return make(leaf.integers, leaf.scale.float(), leaf.zero_point) if isinstance(leaf, Parts) else leaf

    leaves, structure = pytree.tree_flatten((args, kwargs), is_leaf=lambda value: isinstance(value, Parts))
    if not any(isinstance(leaf, Parts) for leaf in leaves):
        return args, kwargs
    return pytree.tree_unflatten(map(join, leaves), structure)  # type: ignore[no-any-return]


def _pre_hook(_module: Any, args: Any, kwargs: Any) -> Any:
    return without_parts(args, kwargs)


def _split(values: Any, scale: torch.dtype, zero_point: torch.dtype | None) -> Any:
    """Replace each tensor that is quantized with one scale by its parts.

    If `zero_point` is None, the zero point has the dtype of the integers.
    """
    leaves, structure = pytree.tree_flatten(values)
    if not any(map(_is_quantized, leaves)):
        return values
    return pytree.tree_unflatten(
        [_parts_of(leaf, scale, zero_point) if _is_quantized(leaf) else leaf for leaf in leaves], structure
    )


def _is_quantized(value: Any) -> bool:
    is_quantized = getattr(value, "is_quantized", False)  # the stand-in of a capture is no tensor
    return is_quantized is True and value.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric)


def _parts_of(tensor: Any, scale: torch.dtype, zero_point: torch.dtype | None) -> Parts:
    integers = tensor.int_repr()
    zero = torch.as_tensor(tensor.q_zero_point()).to(zero_point or integers.dtype)
    return Parts(integers, torch.as_tensor(tensor.q_scale()).to(scale), zero)
