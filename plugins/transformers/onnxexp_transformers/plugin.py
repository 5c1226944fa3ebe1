"""The plugin: caches of transformers are inputs and outputs of an export.

Its models take the paths that they have for exports.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from onnxexp import hookimpl
from onnxexp.frontends import NO_TORCHSCRIPT, replace_attributes
from onnxexp_transformers.cache_nodes import register_caches
from onnxexp_transformers.tracing_switch import tracing_switch

__all__ = ["plugin"]


class _Plugin:
    @hookimpl
    def capture_context(self) -> AbstractContextManager[Any]:
        """Register the caches before the core flattens the example.

        Modules of transformers see their switch for exports.
        """
        register_caches()
        return nullcontext() if NO_TORCHSCRIPT else replace_attributes([tracing_switch()])


plugin = _Plugin()
"""The entry point: it registers the caches of transformers with torch's pytree at each export, if transformers is imported."""
