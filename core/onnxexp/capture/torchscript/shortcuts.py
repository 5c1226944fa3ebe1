"""Calls whose result's type is plain to see, so that torch's fake kernels, which are slow on symbolic sizes, need not run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

__all__ = ["shortcut"]

_KEEPING = frozenset(
    f"aten::{name}"
    for name in [
        *(
            "batch_norm",
            "layer_norm",
            "group_norm",
            "instance_norm",
            "dropout",
            "feature_dropout",
            "relu",
            "relu_",
            "gelu",
            "silu",
        ),
        *("silu_", "hardtanh", "hardtanh_", "hardswish", "hardswish_", "leaky_relu", "leaky_relu_", "elu", "elu_", "sigmoid"),
        *("sigmoid_", "tanh", "tanh_", "contiguous", "detach", "alias", "exp", "sqrt", "rsqrt", "neg", "relu6", "cos", "sin"),
    ]
)
"""Their result has the sizes and, of floating numbers, the dtype of the first argument."""
_ARITHMETIC = frozenset(
    ["aten::add.Tensor", "aten::add_.Tensor", "aten::sub.Tensor", "aten::mul.Tensor", "aten::mul_.Tensor", "aten::div.Tensor"]
)


def shortcut(name: str, fakes: Sequence[Any], make: Callable[[torch.dtype, Sequence[Any]], Any]) -> Any:
    """The fake that a call gives, None where torch has to be asked. `make` makes a tensor of a dtype and sizes."""
    if not fakes or not isinstance(fakes[0], torch.Tensor) or not fakes[0].dtype.is_floating_point:
        return None
    first = fakes[0]
    if name.partition(".")[0] in _KEEPING:
        return first
    if name in _ARITHMETIC:
        return first if _is_like(fakes[1], first) else None
    softmax = name in ("aten::softmax.int", "aten::log_softmax.int")
    if softmax and fakes[2] is None:
        return first
    if name == "aten::linear" and fakes[1].dim() == 2 and first.dtype == fakes[1].dtype and first.dim() > 0:
        return make(first.dtype, [*first.shape[:-1], fakes[1].shape[0]])
    return None


def _is_like(other: Any, first: torch.Tensor) -> bool:
    if isinstance(other, (int, float)):
        return True
    if not isinstance(other, torch.Tensor) or other.dtype != first.dtype or other.dim() != first.dim():
        return False
    return [_plain(size) for size in other.shape] == [_plain(size) for size in first.shape]


def _plain(size: Any) -> Any:
    return size.node.expr if isinstance(size, torch.SymInt) else size
