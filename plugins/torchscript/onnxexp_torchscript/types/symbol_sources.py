"""The sources of symbols, which torch's ShapeEnv names in its messages."""

from __future__ import annotations

from torch._guards import Source


def constant_source(name: str) -> Source:
    """Return the source of a symbol that stands for no input."""
    from torch._dynamo.source import ConstantSource  # torch's compiler takes seconds to import; most traces need no symbol

    return ConstantSource(name)
