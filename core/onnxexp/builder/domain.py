"""`op.domain(...)`: operators of another domain than ONNX's own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["Domain"]


class NodeEmitter(Protocol):
    """The builder as a domain sees it."""

    def has_operator(self, domain: str, name: str, /) -> bool: ...

    def call(self, domain: str, name: str, /, *args: Any, **kwargs: Any) -> Any: ...

    def emit(self, domain: str, name: str, inputs: Any, attributes: Any, outputs: int = 1, /) -> Any: ...


class Domain:
    """The operators of one domain, by name; `call` takes any.

    Where onnx has no schema: positional inputs, keyword attributes, and results of unknown type. A symbolic's results get the
    types that torch computed. Set the type of a result that the symbolic computes on with `Tensor.stamp`.
    """

    def __init__(self, builder: NodeEmitter, domain: str) -> None:
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
