"""Replace functions of torch while a quantized model is captured."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable
from typing import Any

from onnxexp import is_in_onnx_export
from onnxexp.frontends import replace_attributes


def replace_functions(table: Iterable[tuple[Any, str, Callable[..., Any]]]) -> contextlib.AbstractContextManager[None]:
    """Replace functions in captures inside the `with`.

    Other threads call the originals.
    """
    originals = ((owner, name, getattr(owner, name), new) for owner, name, new in table)  # by its name
    return replace_attributes([(owner, name, _in_captures(original, new)) for owner, name, original, new in originals])


def _in_captures(original: Callable[..., Any], replacement: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(replacement)
    def call(*args: Any, **options: Any) -> Any:
        return replacement(*args, **options) if is_in_onnx_export() else original(*args, **options)

    return call
