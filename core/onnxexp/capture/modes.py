"""The state of torch and of the model while it is captured, put back afterwards."""

from __future__ import annotations

import contextlib
import enum
import logging
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._C import _functorch as functorch
from torch._logging import _internal as _logging
from torch.export import _trace
from torch.onnx._internal.exporter import _flags

__all__ = ["LOCK", "TrainingMode", "is_exporting", "model_mode", "replace", "torch_mode", "transforms_left"]

LOCK = threading.RLock()
"""Held around torch's tracers: their mode stacks and patches belong to the process."""

_exporting = threading.local()


class TrainingMode(enum.Enum):
    """The mode in which the model is exported: as for inference, as it is, or as for training."""

    EVAL = "eval"
    PRESERVE = "preserve"
    TRAINING = "training"


def is_exporting() -> bool:
    """True while onnxexp captures a model in this thread. torch.onnx.is_in_onnx_export() says so too."""
    return bool(vars(_exporting).get("depth", 0))


def _torch_handlers() -> list[logging.Handler]:
    """Those that torch has given its loggers. The one of TORCH_TRACE shows nobody anything, and leaves its logger at its first
    record where there is nothing to trace: until then torch takes a traceback of each thing that it does."""
    return [handler for handler in _logging.handlers if handler is not _logging.LOG_TRACE_HANDLER]


def _quiet(record: logging.LogRecord) -> bool:
    """torch logs what its tracer stumbles over; our own error tells it. Whoever sets TORCH_LOGS wants to see it."""
    return "TORCH_LOGS" in os.environ or not is_exporting()


@contextlib.contextmanager
def _quiet_torch() -> Iterator[None]:
    """Inside, torch's loggers say nothing of what `_quiet` holds back."""
    handlers = _torch_handlers()
    for handler in handlers:
        handler.addFilter(_quiet)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(_quiet)


def _is_frozen(module: torch.nn.Module) -> bool:
    """Whether torch.jit.freeze has taken the mode out of a module."""
    return isinstance(module, torch.jit.ScriptModule) and not module._c.hasattr("training")


@contextlib.contextmanager
def model_mode(model: torch.nn.Module, mode: TrainingMode) -> Iterator[None]:
    """Put every submodule into a mode; each gets its own mode back."""
    before = {module: module.training for module in model.modules() if not _is_frozen(module)}
    if mode is not TrainingMode.PRESERVE:
        for module in before:
            module.training = mode is TrainingMode.TRAINING
    try:
        yield
    finally:
        for module, training in before.items():
            module.training = training


@contextlib.contextmanager
def transforms_left() -> Iterator[None]:
    """Leave torch.func's transforms that a failed capture has entered: eager would go on inside of them, to wrong values."""
    level = functorch.maybe_current_level() or 0
    try:
        yield
    finally:
        while (functorch.maybe_current_level() or 0) > level:
            functorch.pop_dynamic_layer_stack()


@contextlib.contextmanager
def torch_mode() -> Iterator[None]:
    """One state of torch for every capture, whatever the caller's is, so that the same model gives the same file.

    Gradients are off, inference mode is left, and the fused kernels that modules take only then are off, because they
    hide the operators that they are made of.
    """
    with LOCK, contextlib.ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.no_grad())
        stack.enter_context(transforms_left())
        stack.callback(torch.backends.mha.set_fastpath_enabled, torch.backends.mha.get_fastpath_enabled())
        torch.backends.mha.set_fastpath_enabled(False)
        stack.callback(setattr, _flags, "_is_onnx_exporting", _flags._is_onnx_exporting)
        _flags._is_onnx_exporting = True
        stack.enter_context(_quiet_torch())
        # torch prints the half-made graph of a failed export; what failed is told by our own error
        vars(_trace)["print"] = lambda *_, **__: None
        stack.callback(vars(_trace).pop, "print", None)
        depth = vars(_exporting).get("depth", 0)
        stack.callback(setattr, _exporting, "depth", depth)
        _exporting.depth = depth + 1
        yield


def replace(stack: contextlib.ExitStack, owner: Any, name: str, replacement: Callable[..., Any]) -> None:
    """Set an attribute until the stack is left."""
    if name in vars(owner):
        stack.callback(setattr, owner, name, vars(owner)[name])
    else:
        stack.callback(delattr, owner, name)
    setattr(owner, name, replacement)
