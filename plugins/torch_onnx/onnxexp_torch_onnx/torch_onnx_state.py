"""Access to torch.onnx's own state, for third-party symbolics.

Such symbolics call torch.onnx's helpers, and may be registered with torch.onnx. No other module reads torch.onnx.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from onnxexp import DEFAULT_OPSET

_HOMES = ("torch.onnx._internal.torchscript_exporter", "torch.onnx._internal", "torch.onnx")
"""The packages of torch's TorchScript exporter, the newest first."""
_LOCK = threading.RLock()
"""Guards torch.onnx's state, which is the process's."""


def _loaded(name: str) -> Any:
    return next((sys.modules[f"{home}.{name}"] for home in _HOMES if f"{home}.{name}" in sys.modules), None)


@contextlib.contextmanager
def torch_opset(opset: int) -> Iterator[None]:
    """Set the opset of torch.onnx's helpers, if imported, inside the `with`."""
    module = _loaded("_globals")
    if module is None:
        yield
        return
    with _LOCK:
        state = module.GLOBALS
        before = state._export_onnx_opset_version
        state._export_onnx_opset_version = opset
        try:
            yield
        finally:
            state._export_onnx_opset_version = before


@contextlib.contextmanager
def torch_export(opset: int | None) -> Iterator[None]:
    """Set what torch.onnx's exporter sets during an export, for code that reads it.

    None is the default opset of onnxexp.
    """
    module = _loaded("_globals")
    if module is None:
        yield
        return
    with torch_opset(opset or DEFAULT_OPSET):  # it locks
        state = module.GLOBALS
        before = state._in_onnx_export
        state._in_onnx_export = True
        try:
            yield
        finally:
            state._in_onnx_export = before


def from_torch() -> list[tuple[str, Callable[..., Any], int]]:
    """List torch.onnx's own registrations as (name, symbolic, first opset)."""
    registration = _loaded("registration")
    if registration is None:
        for home in _HOMES:
            with contextlib.suppress(ImportError):
                registration = importlib.import_module(f"{home}.registration")
                break
    if registration is None:
        return []
    found = []
    for name in sorted(registration.registry.all_functions()):
        group = registration.registry.get_function_group(name)
        custom = group._functions._overrides
        found += [(name, function, opset) for opset, function in sorted(custom.items())]
    return found


def is_registered_with_torch(operator: str, opset: int) -> bool:
    """Return whether torch.onnx has a symbolic registered for an operator and opset."""
    registration = _loaded("registration")
    group = None if registration is None else registration.registry.get_function_group(operator)
    return group is not None and any(since <= opset for since in group._functions._overrides)
