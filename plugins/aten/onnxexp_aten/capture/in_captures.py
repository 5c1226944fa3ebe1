"""Replace functions of torch while torch.export captures a model for onnxexp."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from onnxexp import is_in_onnx_export
from onnxexp.frontends import replace_attributes


def in_captures(original: Callable[..., Any], replacement: Callable[..., Any]) -> Callable[..., Any]:
    """Call `replacement` with `original` first, in captures of torch.export."""

    @functools.wraps(original)
    def call(*args: Any, **options: Any) -> Any:
        inside = torch.compiler.is_exporting() and is_in_onnx_export()
        return replacement(original, *args, **options) if inside else original(*args, **options)

    return call


def in_forward(model: torch.nn.Module, mode: TorchFunctionMode) -> contextlib.AbstractContextManager[None]:
    """Call a model and its hooks in a mode, without effect on other threads.

    Of the calls that a mode around all of torch.export would see, torch.export itself makes four of five.
    """
    entered: list[None] = []

    def within(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            if entered or not is_in_onnx_export():
                return function(*args, **options)
            entered.append(None)
            try:
                with mode:
                    return function(*args, **options)
            finally:
                entered.clear()

        return call

    # torch.nn.Module.__call__ calls `_call_impl`, which calls the hooks and `forward`
    return replace_attributes([(model, name, within(getattr(model, name))) for name in ("forward", "_call_impl")])
