"""The context that the hooks and symbolics of one export share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from onnxexp.request.options import Options

__all__ = ["ExportContext"]


@dataclasses.dataclass(frozen=True)
class ExportContext:
    """One export, as hooks and symbolics see it.

    Every export has a context of its own, so that plugins need no module-level or thread-local state.

    Attributes:
        options: The options of the export.
        plugin_data: Data that a plugin passes from one hook or symbolic to another, from `capture_context` to the last post
            pass. A key begins with the plugin's name (``"my-pack.scopes"``, or a tuple that begins with it), so that two
            plugins do not collide. It is emptied at the end of the export: `serialize` finds nothing in it.
        restrictions: The frontend's conditions on sizes, as in `CapturedProgram`; a pre pass may add its own.
    """

    options: Options
    plugin_data: dict[Any, Any] = dataclasses.field(default_factory=dict)
    restrictions: dict[str, Callable[[Sequence[Any]], bool]] = dataclasses.field(default_factory=dict)
