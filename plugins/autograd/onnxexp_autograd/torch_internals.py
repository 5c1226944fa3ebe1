"""torch's private names that the plugin uses.

The plugin imports them from here only. Where torch moves one, this import fails, and `availability` turns that into a warning.
"""

from __future__ import annotations

from typing import Any

from torch import _C
from torch._functorch.autograd_function import custom_function_call
from torch._guards import detect_fake_mode
from torch.autograd.function import FunctionCtx, FunctionMeta
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _python_dispatch

__all__ = [
    "FunctionCtx",
    "FunctionMeta",
    "custom_function_call",
    "detect_fake_mode",
    "disable_current_modes",
    "disable_proxy_modes_tracing",
    "dynamo_allowed_ids",
    "free_unbacked_symbols",
    "functorch_active",
    "is_alias_of",
    "pop_functorch_level",
    "push_functorch_level",
    "set_tracing_state",
    "tracing_state",
    "vmap_active",
]

functorch_active = _C._are_functorch_transforms_active
push_functorch_level = _C._functorch._grad_increment_nesting
pop_functorch_level = _C._functorch._grad_decrement_nesting
_innermost_transform = _C._functorch.peek_interpreter_stack
_VMAP = _C._functorch.TransformType.Vmap

tracing_state = _C._get_tracing_state
set_tracing_state = _C._set_tracing_state  # type: ignore[attr-defined]  # not in the stubs
is_alias_of = _C._is_alias_of  # type: ignore[attr-defined]  # not in the stubs
disable_current_modes = _python_dispatch._disable_current_modes


def dynamo_allowed_ids() -> Any:
    """Return the ids of the callables that torch's compiler may call as they are."""
    from torch._dynamo import trace_rules  # the compiler takes seconds to import, and a trace does not need it

    return trace_rules._allowed_callable_ids


def vmap_active() -> bool:
    """Return whether the innermost functorch transform is vmap."""
    return functorch_active() and bool(_innermost_transform().key() == _VMAP)
