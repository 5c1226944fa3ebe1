"""The operators of domains other than ONNX's own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from onnxexp.builder.tensor import GraphBuilder

__all__ = ["Domain"]


class Domain:
    """The operators of one domain, by name; `call` takes any.

    Where onnx has no schema: positional inputs, keyword attributes, and results of unknown type. A symbolic's results get the
    types that torch computed. Set the type of a result that the symbolic computes on with `Tensor.stamp`.
    """

    def __init__(self, builder: GraphBuilder, domain: str) -> None:
        self._builder = builder
        self._domain = domain

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        return functools.partial(self.call, name)

    def call(self, name: str, /, *args: Any, outputs: int | None = None, **kwargs: Any) -> Any:
        if self._builder.has_operator(self._domain, name):
            return self._builder.call(self._domain, name, *args, outputs=outputs, **kwargs)
        results = self._builder.emit(self._domain, name, args, kwargs, outputs or 1)
        return results[0] if outputs is None else results
