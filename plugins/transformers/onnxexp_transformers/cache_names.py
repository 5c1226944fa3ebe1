"""Names of a cache: that of the forward's parameter, and that in a graph.

The parameter is ``cache`` since transformers 5.24, and ``past_key_values`` or, without attention, ``cache_params`` before. A
graph has ``past_key_values.0.key`` with every version, since the programs that load such files read that name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from onnxexp import OptionError

RENAMED = {"cache": "past_key_values", "cache_params": "past_key_values"}
"""The name of a cache in a graph, by that of the parameter or of the field of a result; others stay."""


def cache_parameter(forward: Callable[..., Any]) -> str | None:
    """Return the name of a forward's parameter for the cache, or None.

    The name is ``cache`` from transformers 5.24 on, ``past_key_values`` or ``cache_params`` before. A ``cache`` that is a dict,
    as in XLM and FlauBERT, does not count.

    Args:
        forward: The forward of a model of transformers.
    """
    accepted = inspect.signature(forward).parameters
    names = (name for name in ("past_key_values", *RENAMED) if name in accepted)
    return next((name for name in names if "dict" not in str(accepted[name].annotation)), None)


def cache_argument(forward: Callable[..., Any], cache: Any) -> dict[str, Any]:
    """Return a cache as a keyword argument of a forward.

    Raises OptionError for a forward without a parameter for the cache.
    """
    name = cache_parameter(forward)
    if name is None:
        raise OptionError(f"{forward.__qualname__} has no parameter for a cache; to fix this, choose another task")
    return {name: cache}
