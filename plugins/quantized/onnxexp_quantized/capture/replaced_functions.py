"""Replace functions of torch while a quantized model is captured."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

from onnxexp import ExportContext, is_in_onnx_export
from onnxexp.frontends import replace_attributes

Functions: TypeAlias = Iterable[tuple[Any, str, Callable[..., Any]]]
"""Replacements of torch's functions, as (owner, name, function)."""


def replace_functions(table: Functions) -> AbstractContextManager[None]:
    """Replace functions in captures inside the `with`.

    Other threads call the originals.
    """
    originals = ((owner, name, getattr(owner, name), new) for owner, name, new in table)  # by its name
    return replace_attributes([(owner, name, _in_captures(original, new)) for owner, name, original, new in originals])


def redirect_functions(context: ExportContext, table: Functions) -> None:
    """Redirect functions while a frontend runs the model's forward."""
    for owner, name, function in table:
        context.redirect(owner, name, functools.partial(_without_original, function))


def _without_original(function: Callable[..., Any], original: Callable[..., Any], *args: Any, **options: Any) -> Any:
    return function(*args, **options)


def _in_captures(original: Callable[..., Any], replacement: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(replacement)
    def call(*args: Any, **options: Any) -> Any:
        return replacement(*args, **options) if is_in_onnx_export() else original(*args, **options)

    return call
