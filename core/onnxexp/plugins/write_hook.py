"""Writing by a plugin: the hook `serialize`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxexp.errors import SerializeError
from onnxexp.plugins.loading import Plugins
from onnxexp.request.export_context import ExportContext
from onnxexp.serialize import SavedFile, WriteOptions

if TYPE_CHECKING:
    from onnxexp.program.program import ONNXProgram

__all__ = ["save_plugged"]


def save_plugged(
    program: ONNXProgram, plugins: Plugins, context: ExportContext, target: Any, options: WriteOptions
) -> SavedFile | None:
    """What a plugin wrote, None where no plugin did. Raises SerializeError naming the plugin where its hook fails."""
    implementations = plugins.implementations("serialize")
    if not implementations or not isinstance(target, (str, os.PathLike)):
        return None
    path = Path(target)
    for implementation in implementations:
        try:
            written = implementation(program=program, path=path, options=options, context=context)
        except Exception as error:  # anyone's code: told with whose it is
            raise SerializeError(f"{implementation} failed on {path}: {type(error).__name__}: {error}") from error
        if written:
            if not path.exists():
                raise SerializeError(f"{implementation} says that it wrote {path}, and there is no such file")
            plugins.used.add(implementation.plugin.name)
            return SavedFile((path,), path.stat().st_size)
    return None
