"""Compute the mask of attention that is causal at some sizes only.

``scaled_dot_product_attention(q, k, v, is_causal=q.shape[2] > 1)`` is the line of many decoders. torch takes a bool of Python,
and refuses the condition before a mode for functions sees the call.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Optional

import torch
from torch.nn import functional

from onnxexp import is_in_onnx_export

_ATTENTION = "scaled_dot_product_attention"
_SYMBOLIC: Any = torch
"""torch's functions for symbolic numbers, which have no types."""
_operators: Any = torch._C._nn
_PLACE = 5
"""The index of `is_causal` among the arguments."""
_OF_TORCH = _operators.scaled_dot_product_attention


def masks_of_conditions() -> tuple[Any, str, Callable[..., Any]]:
    """Return the replacement (owner, name, function) of attention."""
    return functional, _ATTENTION, _with_mask(getattr(functional, _ATTENTION))


def imported_attention(model: torch.nn.Module) -> list[tuple[Any, str, Callable[..., Any]]]:
    """List the replacements of attention in the files of a model's classes.

    Whisper's has it by its name, from ``from torch.nn.functional import scaled_dot_product_attention``.
    """
    files = map(sys.modules.get, dict.fromkeys(type(part).__module__ for part in model.modules()))
    found = [(file, vars(file).copy()) for file in files if isinstance(file, ModuleType)]
    return [(file, name, _with_mask(_OF_TORCH)) for file, names in found for name, value in names.items() if value is _OF_TORCH]


@functools.lru_cache(maxsize=128)
def _with_mask(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def attention(*args: Any, **options: Any) -> Any:
        # by its name: the strict capture of torch.export replaces it there
        function = _operators.scaled_dot_product_attention if original is _OF_TORCH else original
        is_causal = args[_PLACE] if len(args) > _PLACE else options.get("is_causal", False)
        if isinstance(is_causal, bool) or not is_in_onnx_export():
            return function(*args, **options)
        return _attention(function, *args, **options)

    vars(attention)["__prepare_scriptable__"] = lambda: _scripted  # what torch.jit.script compiles in its place
    return attention


def _scripted(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: Optional[torch.Tensor] = None,  # noqa: UP045 - TorchScript's word
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Optional[float] = None,  # noqa: UP045
    enable_gqa: bool = False,
) -> torch.Tensor:
    return torch._C._nn.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


def _attention(
    function: Callable[..., Any],
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: Any = False,
    **options: Any,
) -> Any:
    """Compute attention with a mask in place of a condition.

    torch itself refuses both.
    """
    if attn_mask is None:
        attn_mask, is_causal = _mask(query, key, is_causal), False
    return function(query, key, value, attn_mask, dropout_p, is_causal, **options)


def _mask(query: torch.Tensor, key: torch.Tensor, is_causal: Any) -> torch.Tensor:
    """Return the causal mask, or True everywhere if a condition is False."""
    is_on = is_causal if isinstance(is_causal, torch.Tensor) else torch.scalar_tensor(_SYMBOLIC.sym_ite(is_causal, 1, 0))
    return torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril() | (is_on == 0)
