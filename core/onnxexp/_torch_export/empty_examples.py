"""Check programs whose example has a dynamic size of 0.

torch.export takes such a size as larger, and leaves no guard of a comparison with 0.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from onnxexp._capture.preserved_model import call_preserved
from onnxexp._request.dynamic_shapes import DynamicSpec
from onnxexp._request.training_mode import TrainingMode
from onnxexp._torch_export.symbol_names import InputSize, input_symbols


def not_empty(
    program: ExportedProgram,
    model: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    spec: DynamicSpec,
    mode: TrainingMode,
) -> dict[str, Callable[[Sequence[Any]], bool]]:
    """Return conditions that exclude an example with dynamic sizes of 0.

    Each has a test of a call's leaves. There are none if the program has the model's result for the example, or if no dynamic
    size is 0.
    """
    empty = [size for size in input_symbols(program, spec).values() if size.axis is not None and size.given == 0]
    if not empty or _agree(program, model, args, kwargs, mode):
        return {}
    return {f"{size.name} != 0": functools.partial(_is_not_empty, size) for size in empty}


def _is_not_empty(size: InputSize, leaves: Sequence[Any]) -> bool:
    shape = np.shape(leaves[size.index])
    return len(shape) <= (size.axis or 0) or shape[size.axis or 0] != 0


def _agree(
    program: ExportedProgram, model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], mode: TrainingMode
) -> bool:
    """Return whether a program and its model have the same result."""
    seed = torch.initial_seed()
    expected = _result(model, args, kwargs, seed, mode)
    try:
        found = _result(program.module(check_guards=False), args, kwargs, seed, TrainingMode.PRESERVE)
    except Exception:  # noqa: BLE001 - an operator that refuses the shape which another branch has made
        return False
    return len(expected) == len(found) and all(map(_equal, expected, found))


def _result(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], seed: int, mode: TrainingMode) -> list[Any]:
    given, named = pytree.tree_map_only(torch.Tensor, torch.clone, (tuple(args), dict(kwargs)))
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(seed)
        return pytree.tree_leaves(call_preserved(model, given, named, mode))


def _equal(one: Any, other: Any) -> bool:
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return type(one) is type(other)
    return one.shape == other.shape and torch.allclose(one, other, equal_nan=True)
