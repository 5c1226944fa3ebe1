"""Replace functions of torch while a quantized model is captured."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import torch

from onnxexp import is_in_onnx_export
from onnxexp.frontends import redirected, replace_attributes

Functions: TypeAlias = Sequence[tuple[Any, str, Callable[..., Any]]]
"""Replacements of torch's functions, as (owner, name, function)."""
Replaced: TypeAlias = Callable[[], contextlib.AbstractContextManager[None]]
"""A function whose context replaces attributes."""


def replace_functions(table: Iterable[tuple[Any, str, Callable[..., Any]]]) -> contextlib.AbstractContextManager[None]:
    """Replace functions in captures inside the `with`.

    Other threads call the originals.
    """
    originals = ((owner, name, getattr(owner, name), new) for owner, name, new in table)  # by its name
    return replace_attributes([(owner, name, _in_captures(original, new)) for owner, name, original, new in originals])


def replace_while_captured(functions: Functions, replaced: Replaced) -> contextlib.AbstractContextManager[None]:
    """Replace functions while torch.export or torch.jit.trace captures a model.

    Under torch.export, the calls of this thread are redirected to `functions`. In its strict mode and in a trace, `replaced`
    replaces attributes.
    """
    rows = [(owner, name, functools.partial(_without_original, function)) for owner, name, function in functions]
    export, create, trace = torch.export.export, torch._C._create_graph_by_tracing, torch.jit.trace
    return replace_attributes(
        [
            (torch.export, "export", _exporting(export, rows, replaced)),
            (torch._C, "_create_graph_by_tracing", _tracing(create, replaced)),
            (torch.jit, "trace", _tracing(trace, replaced)),
        ]
    )


def _exporting(export: Callable[..., Any], rows: Functions, replaced: Replaced) -> Callable[..., Any]:
    @functools.wraps(export)
    def call(*args: Any, **options: Any) -> Any:
        if not is_in_onnx_export():  # another thread's own
            return export(*args, **options)
        with replaced() if options.get("strict", False) else redirected(rows, args[0]):
            return export(*args, **options)

    return call


def _without_original(function: Callable[..., Any], original: Callable[..., Any], *args: Any, **options: Any) -> Any:
    return function(*args, **options)


def _tracing(trace: Callable[..., Any], replaced: Replaced) -> Callable[..., Any]:
    @functools.wraps(trace)
    def call(*args: Any, **options: Any) -> Any:
        with replaced() if is_in_onnx_export() else contextlib.nullcontext():
            return trace(*args, **options)

    return call


def _in_captures(original: Callable[..., Any], replacement: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(replacement)
    def call(*args: Any, **options: Any) -> Any:
        return replacement(*args, **options) if is_in_onnx_export() else original(*args, **options)

    return call
