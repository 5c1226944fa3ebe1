"""The one place that looks into torch.onnx: third-party symbolics call its helpers, and may be registered with it already."""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["from_torch", "torch_opset"]

_HOMES = ("torch.onnx._internal.torchscript_exporter", "torch.onnx._internal", "torch.onnx")
"""Where torch has had the modules of its TorchScript exporter."""
_LOCK = threading.RLock()
"""torch.onnx's state belongs to the process."""


def _loaded(name: str) -> Any:
    return next((sys.modules[f"{home}.{name}"] for home in _HOMES if f"{home}.{name}" in sys.modules), None)


@contextlib.contextmanager
def torch_opset(opset: int) -> Iterator[None]:
    """Inside, torch.onnx's helpers see this target opset, where the symbolic's author has imported them."""
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


def from_torch() -> list[tuple[str, Callable[..., Any], int]]:
    """What was registered through `torch.onnx.register_custom_op_symbolic`: (name, symbolic, first opset)."""
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
