"""A loaded plugin and its implementations of hooks."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

from onnxexp._plugins import hookspecs
from onnxexp._symbolics.table import SymbolicTable, location_of, name_of

_MARK = f"{hookspecs.PROJECT}_spec"
HOOKS = tuple(name for name, value in vars(hookspecs).items() if inspect.isfunction(value) and _MARK in vars(value))
"""The names of the hooks, in the order of an export."""


@dataclasses.dataclass(frozen=True)
class Plugin:
    """A loaded plugin.

    Attributes:
        name: The name of its entry point; ``inline ...`` for one that was passed to the call.
        distribution, version: Its distribution; "" for one that was passed to the call.
        object: The object of the entry point.
        tables: Its tables of symbolics.
        implementations: Its implementations of hooks.
        user: Whether it was passed to the call.
        own: Whether its distribution is one of this project.
    """

    name: str
    distribution: str
    version: str
    object: Any = dataclasses.field(repr=False, compare=False)  # it may be unhashable
    tables: tuple[SymbolicTable, ...] = dataclasses.field(default=(), compare=False)
    implementations: tuple[Implementation, ...] = dataclasses.field(default=(), repr=False, compare=False)
    user: bool = False
    own: bool = False

    @property
    def hooks(self) -> tuple[str, ...]:
        """The names of the hooks that it implements."""
        named = {each.hook for each in self.implementations}
        return tuple(hook for hook in HOOKS if hook in named)

    @property
    def origin(self) -> str:
        return f"{self.distribution} {self.version}" if self.distribution else ""

    def __str__(self) -> str:
        return f"the plugin {self.name!r}" + (f" ({self.origin})" if self.origin else "")


@dataclasses.dataclass(frozen=True)
class Implementation:
    """One plugin's implementation of a hook.

    Calls pass the parameters that it takes. `first` and `last` are pluggy's ``tryfirst`` and ``trylast``; `namespaces` are those
    of the nodes that it is called for, empty for all.
    """

    plugin: Plugin
    hook: str
    function: Callable[..., Any]
    parameters: tuple[str, ...]
    first: bool = False
    last: bool = False
    namespaces: frozenset[str] = frozenset()

    @functools.cached_property
    def name(self) -> str:
        """The function's full name."""
        return name_of(self.function)

    def __call__(self, **given: Any) -> Any:
        return self.function(*[given[name] for name in self.parameters])

    def __str__(self) -> str:
        return f"the hook {self.hook} of {self.plugin} at {location_of(self.function)}"
