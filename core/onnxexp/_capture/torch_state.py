"""Set the global state of torch and the model's mode during a capture."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import os
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch._C import _functorch as functorch
from torch._jit_internal import is_scripting
from torch._logging import _internal as _logging
from torch.backends import mha
from torch.onnx._internal.exporter import _flags
from torch.overrides import handle_torch_function, has_torch_function

from onnxexp._errors import CaptureError
from onnxexp._request.training_mode import TrainingMode
from onnxexp._source_location import SourceLocation

LOCK = threading.RLock()
"""Guards torch's tracers: their mode stacks and patches are global to the process."""

_EXPORTING = contextvars.ContextVar("onnxexp exporting", default=False)
_DATA_LINES: contextvars.ContextVar[set[SourceLocation]] = contextvars.ContextVar("onnxexp lines that assign to .data")


def is_exporting() -> bool:
    """Return whether onnxexp captures a model in this thread."""
    return _EXPORTING.get()


def assigned_data_lines() -> set[SourceLocation]:
    """Return the lines that assign to ``.data`` in the present capture."""
    return _DATA_LINES.get()


# Strict capture traces through the callers, and Dynamo cannot trace a context variable. This is the mark of
# torch.compiler.assume_constant_result, which imports torch's compiler: two seconds that a trace does not need.
vars(is_exporting)["_dynamo_marked_constant"] = True


def _quiet(record: logging.LogRecord) -> bool:
    """Drop torch's log records during an export, unless TORCH_LOGS is set."""
    return "TORCH_LOGS" in os.environ or not is_exporting()


def silence_torch_loggers() -> None:
    """Silence torch's loggers during exports.

    The filter has no effect outside of an export and is never removed. The handler for TORCH_TRACE gets no filter: it writes to a
    file only, and would no longer remove itself if there is no such file.
    """
    for handler in _logging.handlers:
        if handler is not _logging.LOG_TRACE_HANDLER:
            handler.addFilter(_quiet)


@contextlib.contextmanager
def silence_torch_export() -> Iterator[None]:
    """Stop torch.export from logging a failure and from printing its partial graph."""
    silence_torch_loggers()
    from torch.export import _trace  # it imports torch's compiler, two seconds that a trace does not need

    with replace_attributes([(_trace, "print", lambda *_, **__: None)]):
        yield


@contextlib.contextmanager
def silence_warnings() -> Iterator[None]:
    """Ignore the warnings of code inside the `with` that runs on fake tensors.

    The warnings concern the kernels of torch and of libraries, such as the deprecated calls in them, which the user cannot
    change.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def model_mode(modules: Iterable[torch.nn.Module], mode: TrainingMode) -> Iterator[None]:
    """Put modules into a mode inside the `with`."""
    # torch.jit.freeze removes the attribute
    before = [(module, module.training) for module in modules if hasattr(module, "training")]
    try:
        for module, training in before:
            module.training = training if mode is TrainingMode.PRESERVE else mode is TrainingMode.TRAINING
        yield
    finally:
        for module, training in before:
            module.training = training


@contextlib.contextmanager
def unwind_functorch() -> Iterator[None]:
    """Leave torch.func transforms that a failed capture inside the `with` entered.

    Eager would compute wrong values inside these transforms.
    """
    level = functorch.maybe_current_level() or 0
    try:
        yield
    finally:
        while (functorch.maybe_current_level() or 0) > level:
            functorch.pop_dynamic_layer_stack()


def set_data(self: torch.Tensor, value: torch.Tensor) -> None:
    """Assign to ``.data``, in captures through a mode for functions."""
    if is_exporting() and (torch.compiler.is_exporting() or torch._C._get_tracing_state() is not None):
        if has_torch_function((self, value)):
            handle_torch_function(set_data, (self, value), self, value)
            return
        raise CaptureError("an assignment to .data cannot be captured; to fix this, write with copy_(), or use a new tensor")
    _DATA.__set__(self, value)


_DATA: Any = torch._C.TensorBase.data
_TRACEABLE_DATA = property(lambda self: self.detach() if is_exporting() else _DATA.__get__(self), set_data)


class _OnnxFlags:
    """The flags of torch.onnx, for `torch.onnx.is_in_onnx_export`."""

    @property
    def _is_onnx_exporting(self) -> bool:
        return is_exporting() or _flags._is_onnx_exporting


_fastpath_of_torch = mha.get_fastpath_enabled


def _fastpath_enabled() -> bool:
    """Return whether torch.nn uses fused kernels, never in captures.

    torch.jit.script compiles this function.
    """
    if not is_scripting():
        return _fastpath_of_torch() and not is_exporting()
    return True


@contextlib.contextmanager
def torch_mode() -> Iterator[None]:
    """Put torch into the same state for every capture, for reproducible files.

    Gradients and inference mode are off inside the `with`. The fused kernels that torch.nn modules use without gradients are off
    too, since they would hide the modules' operators.
    """
    state: list[tuple[Any, str, Any]] = [
        (mha, "get_fastpath_enabled", _fastpath_enabled),
        (sys.modules[str(_flags.__package__)], "_flags", _OnnxFlags()),
    ]
    state.append((torch.Tensor, "data", _TRACEABLE_DATA))
    state.append((torch._C._autograd, "_get_data_attr", torch.detach))  # Dynamo's `.data`, which export makes a constant
    with LOCK, torch.inference_mode(False), torch.no_grad(), replace_attributes(state):
        outer, lines = _EXPORTING.set(True), _DATA_LINES.set(set())
        try:
            with unwind_functorch():
                yield
        finally:
            _EXPORTING.reset(outer)
            _DATA_LINES.reset(lines)


@contextlib.contextmanager
def replace_attributes(table: Iterable[tuple[Any, str, Any]]) -> Iterator[None]:
    """Replace attributes (owner, name, replacement) inside the `with`."""
    before: list[tuple[Any, str, Any]] = []  # a capture replaces hundreds, for which an ExitStack takes three times as long
    try:
        for owner, name, replacement in table:
            own = vars(owner).get(name, _ABSENT)
            setattr(owner, name, replacement)
            before.append((owner, name, own))
        yield
    finally:
        for owner, name, own in reversed(before):
            if own is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, own)


_ABSENT = object()
