"""Redirect torch's functions to compositions that take computed numbers.

Where torch's operators take a float, both tracers record the example's. A composition of operators that take a 0-d tensor
records the number itself.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from onnxexp import is_in_onnx_export
from onnxexp.frontends import replace_attributes
from onnxexp_aten.capture.computed_numbers import elementwise, losses, norms, resizing
from onnxexp_aten.capture.indexed_pieces import trace_pieces

_COMPILER = (
    (torch.jit._builtins, "_find_builtin"),
    (torch.jit._recursive, "_find_builtin"),
    (torch.jit._recursive, "try_compile_fn"),
    (torch.jit._script, "_get_overloads"),
)
"""torch's functions, as (owner, name), in which the compiler looks up a function that a script calls."""
COMPOSITIONS = {**norms.table, **losses.table, **elementwise.table, **resizing.table}
_PLACES = tuple(
    (owner, name, composition)
    for composition in dict.fromkeys(COMPOSITIONS.values())
    for owner, name in composition.places
    if hasattr(owner, name)
)
"""torch's functions, as (owner, name), with the compositions that a trace calls instead."""


def keep_traced_numbers() -> contextlib.AbstractContextManager[None]:
    """Keep computed numbers in traces, without effect on other threads.

    A mode would give the tracer's warnings its own line in place of the user's.
    """
    places = ((torch._C, "_create_graph_by_tracing"), (torch.jit, "trace"))
    return replace_attributes([(owner, name, _with_compositions(getattr(owner, name))) for owner, name in places])


@functools.lru_cache(maxsize=128)
def _with_compositions(trace: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(trace)
    def call(*args: Any, **options: Any) -> Any:
        if not is_in_onnx_export():  # another thread's own
            return trace(*args, **options)
        table = [(owner, name, _in_traces(getattr(owner, name), composition)) for owner, name, composition in _PLACES]
        originals = {id(function): getattr(owner, name) for owner, name, function in table}
        with trace_pieces(), replace_attributes(table), replace_attributes(_compiler(originals)):
            return trace(*args, **options)

    return call


@functools.lru_cache(maxsize=128)
def _in_traces(original: Callable[..., Any], composition: Any) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **options: Any) -> Any:
        return composition(original, args, options) if torch._C._is_tracing() else original(*args, **options)

    return call


def _compiler(originals: dict[int, Any]) -> Iterator[tuple[Any, str, Any]]:
    """Yield replacements that let TorchScript compile torch's own functions.

    `originals` maps the id of each replacement to torch's function.
    """

    def of_original(read: Callable[..., Any]) -> Callable[..., Any]:
        return lambda function, *args: read(originals.get(id(function), function), *args)

    for owner, name in _COMPILER:
        yield owner, name, of_original(getattr(owner, name))
