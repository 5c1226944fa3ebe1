"""What is run: entry points that export, and models.

The modules `entry_points` and `models` have the functions; each is called in a process of its own, where its library may be
imported.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

Kind: TypeAlias = Literal["entry point", "model"]


@dataclasses.dataclass(frozen=True)
class Exported:
    """The file that a library has written, and how to check it.

    Attributes:
        file: The file.
        eager: The original, called with each of `calls`.
        calls: The positional arguments of calls, at other sizes than the export's where the library's file allows them.
        tolerance: The absolute and relative tolerance.
    """

    file: Path
    eager: Callable[..., Any]
    calls: Sequence[tuple[Any, ...]]
    tolerance: float = 1e-3


@dataclasses.dataclass(frozen=True)
class LibraryModel:
    """A model to export with dynamic axes.

    Attributes:
        module: The model, in inference mode.
        example: The positional arguments of the export.
        axes: The name of each dynamic axis, for each argument.
        calls: Further arguments, at other sizes.
        tolerance: The absolute and relative tolerance.
    """

    module: Any
    example: tuple[Any, ...]
    axes: tuple[dict[int, str], ...]
    calls: Sequence[tuple[Any, ...]]
    tolerance: float = 1e-3


@dataclasses.dataclass(frozen=True)
class Case:
    """One row of the matrix.

    Attributes:
        kind: What `make` returns: an `Exported` of a folder, or a `LibraryModel`.
        library: The distribution's name.
        name: What is exported.
        make: Runs the library.
        limit: Seconds for one exporter.
    """

    kind: Kind
    library: str
    name: str
    make: Callable[..., Any]
    limit: float = 200

    def __str__(self) -> str:
        return f"{self.library}: {self.name}"


class Cases:
    """A table of cases, filled by decorators."""

    def __init__(self, kind: Kind) -> None:
        self._kind: Kind = kind
        self.all: list[Case] = []

    def __call__(self, library: str, name: str, *given: Any, limit: float = 200) -> Callable[[Callable[..., Any]], Any]:
        """Return a decorator that adds a function, called with `given` after its own first arguments, as a case."""

        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            self.all.append(Case(self._kind, library, name, lambda *first: function(*first, *given), limit))
            return function

        return add
