"""Replace functions of torch while a quantized model is captured."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch

from onnxexp import is_in_onnx_export
from onnxexp.frontends import redirected, replace_attributes

Functions: TypeAlias = Sequence[tuple[Any, str, Callable[..., Any]]]
"""Replacements of torch's functions, as (owner, name, function)."""


class ReplacedInCapture(NamedTuple):
    """Functions to replace while torch.export or torch.jit.trace captures a model.

    Attributes:
        functions: The functions to which torch.export redirects the calls of this thread.
        attributes: Replaces attributes in a `with`, for torch.export's strict mode and for a trace.
    """

    functions: Functions
    attributes: Callable[[], contextlib.AbstractContextManager[None]]


def replace_functions(table: Iterable[tuple[Any, str, Callable[..., Any]]]) -> contextlib.AbstractContextManager[None]:
    """Replace functions in captures inside the `with`.

    Other threads call the originals.
    """
    originals = ((owner, name, getattr(owner, name), new) for owner, name, new in table)  # by its name
    return replace_attributes([(owner, name, _in_captures(original, new)) for owner, name, original, new in originals])


def replace_in_capture(replaced: Mapping[str, ReplacedInCapture]) -> contextlib.AbstractContextManager[None]:
    """Replace functions in each capture inside the `with`.

    `replaced` may be filled inside. Enter the `with` in `capture_context`: other plugins wrap the same functions of torch there,
    and end in the opposite order.
    """
    export, create, trace = torch.export.export, torch._C._create_graph_by_tracing, torch.jit.trace
    return replace_attributes(
        [
            (torch.export, "export", _exporting(export, replaced)),
            (torch._C, "_create_graph_by_tracing", _tracing(create, replaced)),
            (torch.jit, "trace", _tracing(trace, replaced)),
        ]
    )


def _exporting(export: Callable[..., Any], replaced: Mapping[str, ReplacedInCapture]) -> Callable[..., Any]:
    @functools.wraps(export)
    def call(*args: Any, **options: Any) -> Any:
        if not is_in_onnx_export():  # another thread's own
            return export(*args, **options)
        functions = [row for each in replaced.values() for row in each.functions]
        rows = [(owner, name, functools.partial(_without_original, function)) for owner, name, function in functions]
        with _attributes(replaced) if options.get("strict", False) else redirected(rows, args[0]):
            return export(*args, **options)

    return call


def _tracing(trace: Callable[..., Any], replaced: Mapping[str, ReplacedInCapture]) -> Callable[..., Any]:
    @functools.wraps(trace)
    def call(*args: Any, **options: Any) -> Any:
        with _attributes(replaced) if is_in_onnx_export() else contextlib.nullcontext():
            return trace(*args, **options)

    return call


@contextlib.contextmanager
def _attributes(replaced: Mapping[str, ReplacedInCapture]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for each in replaced.values():
            stack.enter_context(each.attributes())
        yield


def _without_original(function: Callable[..., Any], original: Callable[..., Any], *args: Any, **options: Any) -> Any:
    return function(*args, **options)


def _in_captures(original: Callable[..., Any], replacement: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(replacement)
    def call(*args: Any, **options: Any) -> Any:
        return replacement(*args, **options) if is_in_onnx_export() else original(*args, **options)

    return call
