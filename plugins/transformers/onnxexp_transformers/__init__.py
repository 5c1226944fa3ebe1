"""Export models of Hugging Face transformers, and generate text with the result.

exported = onnxexp_transformers.export("path/to/checkpoint", task="text-generation", output="folder")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from onnxexp_transformers.cache_nodes import cache_parameter
from onnxexp_transformers.plugin import plugin

if TYPE_CHECKING:
    from onnxexp_transformers.export_model import ExportedModel, export
    from onnxexp_transformers.generation import TextGenerator, generate
    from onnxexp_transformers.loading import Loaded

__all__ = ["ExportedModel", "Loaded", "TextGenerator", "cache_parameter", "export", "generate", "plugin"]

_HOMES = {
    "export": "export_model",
    "ExportedModel": "export_model",
    "Loaded": "loading",
    "generate": "generation",
    "TextGenerator": "generation",
}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use.

    The plugin itself loads without transformers.
    """
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return vars(importlib.import_module(f"{__name__}.{_HOMES[name]}"))[name]
