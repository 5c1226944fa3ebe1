"""The plugin that makes transformers' caches inputs and outputs of an export.

It also selects the code of transformers that is meant for exports.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from onnxexp import hookimpl
from onnxexp.frontends import replace_attributes
from onnxexp_transformers.cache_nodes import register_caches
from onnxexp_transformers.tracing_switch import tracing_switch

__all__ = ["plugin"]


class _Plugin:
    @hookimpl
    def capture_context(self) -> AbstractContextManager[Any]:
        """Register the caches before the core flattens the example.

        The returned context sets the switch by which modules of transformers run their code for exports.
        """
        register_caches()
        return replace_attributes(tracing_switch())


plugin = _Plugin()
"""The entry point: it registers the caches of transformers with torch's pytree at each export, if transformers is imported."""
