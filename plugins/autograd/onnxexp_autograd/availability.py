"""Whether this torch has what the plugin needs to keep Functions whole."""

from __future__ import annotations

import functools

import torch

__all__ = ["unavailable"]


@functools.cache
def unavailable() -> str:
    """Why Functions cannot be kept whole with this torch; empty where they can."""
    try:
        from onnxexp_autograd import interception, keeping  # noqa: F401 - imports all that the plugin takes from torch
    except (ImportError, AttributeError) as error:
        return f"torch {torch.__version__} has moved what onnxexp-plugin-autograd needs ({error})"
    try:
        works = interception.works()
    except (
        AttributeError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:  # of torch's own code
        return f"torch {torch.__version__} calls autograd Functions in a new way ({error})"
    return "" if works else f"torch {torch.__version__} calls autograd Functions in a new way"
