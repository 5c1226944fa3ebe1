"""Causal language models with their caches, as rows of the matrix."""

from __future__ import annotations

import functools
from typing import Any

import transformers

from .architecture import Architecture
from .causal_models import CAUSAL

SIZES = ({"batch": 3, "past": 7, "sequence": 5}, {"batch": 1, "past": 2, "sequence": 9})


def config(name: str) -> Any:
    """Make the configuration of an architecture."""
    return getattr(transformers, f"{name}Config")(**CAUSAL[name])


ARCHITECTURES = [Architecture(name, "text-generation", functools.partial(config, name), SIZES) for name in CAUSAL]
