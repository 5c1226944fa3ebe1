"""Quantized inputs: the graph takes integers, the parameters are constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxexp.frontends import signature_of
from onnxexp_quantized.capture.forward_hooks import PreHook
from onnxexp_quantized.capture.integer_form import IntegerForm


def quantized_inputs(
    model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], forms: Mapping[int, IntegerForm]
) -> PreHook:
    """Return a hook that converts the integers in a call to quantized tensors.

    Args:
        model: The model.
        args, kwargs: The example, with integers.
        forms: The parameters of the quantized inputs, by the index of the leaf.
    """
    if not forms:
        return lambda _module, args, kwargs: (args, kwargs)
    signature = signature_of(model)  # a graph gets keyword arguments by position
    leaves = pytree.tree_leaves((tuple(args), dict(kwargs)))
    by_tensor = {id(leaves[index]): form.with_constants() for index, form in forms.items()}
    leaves_with_path, _ = pytree.tree_flatten_with_path(signature.bind(*args, **kwargs).arguments)
    by_path = {pytree.keystr(path): by_tensor[id(leaf)] for path, leaf in leaves_with_path if id(leaf) in by_tensor}

    def quantize(path: Any, leaf: Any) -> Any:
        stand_in = by_path.get(pytree.keystr(path))
        return leaf if stand_in is None or not isinstance(leaf, torch.Tensor) else stand_in(leaf)

    def pre_hook(_module: Any, args: Any, kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.arguments.update(pytree.tree_map_with_path(quantize, bound.arguments))
        return bound.args, bound.kwargs

    return pre_hook
