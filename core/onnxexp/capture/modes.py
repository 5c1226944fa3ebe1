"""The state of torch and of the model while it is captured, put back afterwards."""

from __future__ import annotations

import contextlib
import enum
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch._C import _functorch as functorch
from torch._logging import _internal as _logging
from torch.backends import mha
from torch.export import _trace
from torch.onnx._internal.exporter import _flags

__all__ = [
    "LOCK",
    "TrainingMode",
    "hush_torch",
    "is_exporting",
    "model_mode",
    "quiet_export",
    "replaced",
    "torch_mode",
    "transforms_left",
]

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


def hush_torch() -> None:
    """From here on torch's loggers say nothing of what `_quiet` holds back: nothing where nobody exports, so that it may stay."""
    for handler in _torch_handlers():
        handler.addFilter(_quiet)


@contextlib.contextmanager
def quiet_export() -> Iterator[None]:
    """Inside, torch.export neither logs why it fails nor prints its half-made graph: what failed is told by our own error."""
    hush_torch()
    vars(_trace)["print"] = lambda *_, **__: None
    try:
        yield
    finally:
        vars(_trace).pop("print", None)


def _is_frozen(module: torch.nn.Module) -> bool:
    """Whether torch.jit.freeze has taken the mode out of a module."""
    return isinstance(module, torch.jit.ScriptModule) and not module._c.hasattr("training")


class model_mode:
    """Inside, all these modules are in a mode; each gets its own mode back."""

    def __init__(self, modules: Iterable[torch.nn.Module], mode: TrainingMode) -> None:
        self._modules = modules
        self._mode = mode

    def __enter__(self) -> None:
        self._before = [(module, module.training) for module in self._modules if not _is_frozen(module)]
        if self._mode is not TrainingMode.PRESERVE:
            for module, _ in self._before:
                _set_mode(module, self._mode is TrainingMode.TRAINING)

    def __exit__(self, *_: object) -> None:
        for module, training in self._before:
            _set_mode(module, training)


def _set_mode(module: torch.nn.Module, training: bool) -> None:
    if module.training is training:
        return
    own = vars(module)
    if "training" in own:
        own["training"] = training  # a module asks first for all else that an attribute may be, which takes long
    else:
        module.training = training


class transforms_left:
    """Leave torch.func's transforms that a failed capture has entered: eager would go on inside of them, to wrong values."""

    def __enter__(self) -> None:
        self._level = functorch.maybe_current_level() or 0

    def __exit__(self, *_: object) -> None:
        while (functorch.maybe_current_level() or 0) > self._level:
            functorch.pop_dynamic_layer_stack()


class torch_mode(transforms_left):
    """One state of torch for every capture, whatever the caller's is, so that the same model gives the same file.

    Gradients are off, inference mode is left, and the fused kernels that modules take only then are off, because they
    hide the operators that they are made of.
    """

    def __enter__(self) -> None:
        LOCK.acquire()
        self._inference = torch.inference_mode(False) if torch.is_inference_mode_enabled() else None
        if self._inference is not None:
            self._inference.__enter__()
        super().__enter__()
        depth = vars(_exporting).get("depth", 0)
        self._before = torch.is_grad_enabled(), mha._is_fastpath_enabled, _flags._is_onnx_exporting, depth
        self._set(False, False, True, depth + 1)

    def __exit__(self, *error: Any) -> None:
        try:
            super().__exit__()
        finally:
            self._set(*self._before)
            if self._inference is not None:
                self._inference.__exit__(*error)
            LOCK.release()

    def _set(self, gradients: bool, fast: bool, exporting: bool, depth: int) -> None:
        torch._C._set_grad_enabled(gradients)
        mha._is_fastpath_enabled = fast
        _flags._is_onnx_exporting = exporting
        _exporting.depth = depth


class replaced(contextlib.AbstractContextManager[None]):
    """Inside, these attributes (owner, name) are something else."""

    def __init__(self, table: Iterable[tuple[Any, str, Callable[..., Any]]]) -> None:
        self._table = table
        self._before: list[tuple[Any, str, bool, Any]] = []

    def __enter__(self) -> None:
        try:
            for owner, name, replacement in self._table:
                own = vars(owner)
                before = owner, name, name in own, own.get(name)
                setattr(owner, name, replacement)
                self._before.append(before)
        except BaseException:
            self.__exit__()  # nobody leaves what was not entered
            raise

    def __exit__(self, *_: object) -> None:
        for owner, name, had, value in reversed(self._before):
            if had:
                setattr(owner, name, value)
            else:
                delattr(owner, name)
