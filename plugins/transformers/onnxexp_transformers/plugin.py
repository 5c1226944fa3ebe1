"""The plugin: caches of transformers are inputs and outputs of an export."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from typing import Any

from onnxexp import hookimpl
from onnxexp_transformers.cache_nodes import register_caches

__all__ = ["plugin"]


class _Plugin:
    @hookimpl
    def capture_context(self) -> AbstractContextManager[Any]:
        """Register the caches before the core flattens the example."""
        register_caches()
        return contextlib.nullcontext()


plugin = _Plugin()
"""The entry point: it registers the caches of transformers with torch's pytree at each export, if transformers is imported."""
