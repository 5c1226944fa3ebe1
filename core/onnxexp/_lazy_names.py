"""Import public names at their first use, so that `import onnxexp` needs no torch."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(
    module: str, homes: Mapping[str, str], submodules: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make the ``__getattr__`` and ``__dir__`` of a module.

    Args:
        module: The name of the module.
        homes: The public names, separated by spaces, by the module of onnxexp that defines them (``_builder.tensor``).
            ``public=private`` gives a name another one in public.
        submodules: The names of submodules, separated by spaces.
    """
    places: dict[str, tuple[str, str]] = {name: (f"{module}.{name}", "") for name in submodules.split()}
    for home, names in homes.items():
        for name in names.split():
            public, _, private = name.partition("=")
            places[public] = f"onnxexp.{home}", private or public

    @functools.cache
    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home, private = places[name]
        found = importlib.import_module(home)
        return vars(found)[private] if private else found

    return get, lambda: sorted({*vars(importlib.import_module(module)), *places})
