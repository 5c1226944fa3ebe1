"""A table of torch functions and their implementations on stand-ins for tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import torch

Function = TypeVar("Function", bound=Callable[..., Any])
GenericImplementation: TypeAlias = "Callable[[Callable[..., Any], Sequence[Any], Mapping[str, Any]], Any]"


class FunctionTable:
    """Implementations of torch's functions, by the names that `name_of` returns.

    Args:
        tables: Tables whose entries are copied.

    Raises ValueError where two of the tables have an implementation of one name.
    """

    def __init__(self, *tables: FunctionTable) -> None:
        self._functions: dict[str, Callable[..., Any]] = {}
        for table in tables:
            for name, implementation in table._functions.items():
                self._add([name], implementation)

    def __call__(self, *names: str) -> Callable[[Function], Function]:
        """Register an implementation that takes the arguments of the torch function.

        Raises ValueError where a name has one already.
        """

        def register(function: Function) -> Function:
            self._add(names, lambda func, args, kwargs: function(*args, **kwargs))
            return function

        return register

    def generic(self, names: str, implementation: GenericImplementation) -> None:
        """Register one implementation for many names, separated by blanks.

        It is called as ``implementation(func, args, kwargs)``, where `func` is the torch function.
        """
        self._add(names.split(), implementation)

    def find(self, name: str) -> GenericImplementation | None:
        """Return the implementation for a name, or None."""
        return self._functions.get(name)

    def names(self) -> list[str]:
        """List the names with an implementation, sorted."""
        return sorted(self._functions)

    def _add(self, names: Sequence[str], implementation: GenericImplementation) -> None:
        for name in names:
            if name in self._functions:
                raise ValueError(f"{name} has an implementation already")
            self._functions[name] = implementation


def name_of(func: Any) -> str:
    """Return a torch function's name: ``quantized::add``, or torch's own ``add``.

    An overload has the name of its operator; other functions have their own ``__name__``.
    """
    if isinstance(func, torch._ops.OpOverload):
        func = func.overloadpacket
    if isinstance(func, torch._ops.OpOverloadPacket):
        return str(func).replace(".", "::", 1).removeprefix("aten::")
    return str(func.__name__)
