"""The names of ``torch.onnx.symbolic_registry``, a module of torch up to 1.12.

A name is that of an operator without its namespace. The domain is the namespace; "" is ``aten``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnxexp import DEFAULT_OPSET
from onnxexp_torch_onnx import registry
from onnxexp_torch_onnx.errors import UnsupportedOperatorError
from onnxexp_torch_onnx.symbolic_lookup import symbolic

__all__ = ["get_registered_op", "is_registered_op", "register_op", "unregister_op"]


def register_op(opname: str, op: Callable[..., Any], domain: str, version: int) -> None:
    """Lower an operator with ``op(g, *args)`` from an opset on.

    The symbolic is registered as `register_custom_op_symbolic` does.
    """
    registry.register_custom_op_symbolic(f"{domain}::{opname}", op, version)


def unregister_op(opname: str, domain: str, version: int) -> None:
    """Remove the symbolic of an operator from an opset on, or warn if it is missing."""
    registry.unregister_custom_op_symbolic(f"{domain}::{opname}", version)


def is_registered_op(opname: str, domain: str, version: int = DEFAULT_OPSET) -> bool:
    """Return whether an operator has a registered symbolic, or is one of torch's."""
    return _found(opname, domain, version) is not None


def get_registered_op(opname: str, domain: str, version: int = DEFAULT_OPSET) -> Callable[..., Any]:
    """Return the symbolic of an operator.

    For an operator of torch's, it is the function that lowers it as the plugins do. Raises UnsupportedOperatorError if there is
    none.
    """
    found = _found(opname, domain, version)
    if found is None:
        name = f"{domain or 'aten'}::{opname}"
        raise UnsupportedOperatorError(
            f"no symbolic is registered for {name} at opset {version}; to fix this, register one with register_op", {name: 1}
        )
    return found


def _found(opname: str, domain: str, version: int) -> Callable[..., Any] | None:
    own = registry.symbolic_of(f"{domain}::{opname}", version)
    if own is not None or domain not in ("", "aten"):
        return own
    try:
        return symbolic(opname)
    except AttributeError:
        return None
