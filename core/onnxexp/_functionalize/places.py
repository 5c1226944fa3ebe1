"""Places in memory, which are whole tensors or views of other places."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NoReturn

from onnxexp._errors import CaptureError
from onnxexp._neutral_graph import TensorType, Value
from onnxexp._source_location import SourceLocation


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """A view of a parent, as an operator and its arguments after the first."""

    op: str
    args: tuple[Any, ...]  # with tuples in place of lists


class Ref:
    """A place in memory.

    `first` is the value to make when the place is first read, so that captured names survive.
    """

    __slots__ = ("first", "name", "origin", "parent", "root", "type", "view", "where")

    def __init__(
        self, value: Value, parent: Ref | None = None, view: View | None = None, where: SourceLocation | None = None
    ) -> None:
        assert isinstance(value.type, TensorType)
        self.name = value.name
        self.origin = value
        self.type: TensorType = value.type
        self.first: Value | None = value if parent is not None else None
        self.parent = parent
        self.view = view
        self.root: Ref = parent.root if parent is not None else self
        self.where = where or SourceLocation()

    def chain(self) -> Iterator[Ref]:
        """Yield this place, its parent, and so on up to the root."""
        ref: Ref | None = self
        while ref is not None:
            yield ref
            ref = ref.parent


def refuse(what: str, where: SourceLocation, fix: str) -> NoReturn:
    """Raise the CaptureError for a node that cannot be rewritten."""
    raise CaptureError(f"{what}{f' at {where}' if str(where) else ''}; to fix this, {fix}")
