"""The arguments that a module has for its own export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class HasArguments(Protocol):
    """What `ExportableModule` of this package and of torch 2.11 and later has."""

    def example_arguments(self) -> tuple[Sequence[Any], Mapping[str, Any] | None]:
        """Return the positional and the keyword arguments of the example."""

    def dynamic_shapes(self) -> Any:
        """Return the dynamic axes, or None."""

    def input_names(self) -> Sequence[str] | None:
        """Return the names of the inputs, or None."""

    def output_names(self) -> Sequence[str] | None:
        """Return the names of the outputs, or None."""


def own_arguments(model: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return the arguments of a module for its export, by name.

    There are none for a module without those methods, or beside an example that is given.
    """
    without_example = isinstance(args, tuple) and not args and not kwargs
    if not without_example or not isinstance(model, HasArguments):
        return {}
    example, named = model.example_arguments()
    own = {"input_names": model.input_names(), "output_names": model.output_names(), "dynamic_shapes": model.dynamic_shapes()}
    return {"args": tuple(example), "kwargs": named, **own}
