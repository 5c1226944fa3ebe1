"""Runs of a model that find the inputs it reads and the sizes it accepts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import torch
from torch.utils import _pytree as pytree

from onnxexp import OnnxExporterError, OptionError
from onnxexp_transformers.tasks.example_inputs import Example

Run: TypeAlias = Callable[..., Any]
"""A model, or a part of its forward, that takes the example's inputs by name."""

_FREE = {"height": 64, "width": 96, "frames": 40}
"""Axes that some architectures fix, and what a try adds to them: multiples of every usual patch."""


@contextlib.contextmanager
def refusing_misfits(model: Any, parts: str) -> Iterator[None]:
    """Raise OptionError if a model does not run as those parts inside the `with`.

    Any exception except those of onnxexp counts, since each architecture has errors of its own.
    """
    try:
        yield
    except OnnxExporterError:
        raise
    except Exception as error:
        raise OptionError(
            f"{type(model).__name__} does not run as {parts} ({type(error).__name__}: {error}); to fix this, export it with "
            "onnxexp.export and your own inputs"
        ) from error


def unread(run: Run, example: Example, names: Sequence[str]) -> list[str]:
    """Return those of the example's masks that have no effect on the results."""
    if not names:
        return []
    with torch.no_grad():
        expected = run(**example.inputs)
        return [name for name in names if same(expected, run(**{**example.inputs, name: torch.ones_like(example.inputs[name])}))]


def keep_free_axes(run: Run, example: Example) -> None:
    """Drop the dynamic axes of the example whose size the model fixes.

    `run` is called with another height, another width and another number of frames. An axis is fixed if `run` raises an error.
    """
    for label, more in _FREE.items():
        places = [(name, axis) for name, axes in example.axes.items() for axis, each in axes.items() if each == label]
        if places and not _accepts(run, example, places, more):
            for name, axis in places:
                del example.axes[name][axis]


def _accepts(run: Run, example: Example, places: Sequence[tuple[str, int]], more: int) -> bool:
    inputs = dict(example.inputs)
    for name, axis in places:
        tensor = inputs[name]
        inputs[name] = torch.cat([tensor, tensor.narrow(axis, 0, 1).expand(*_with(tensor.shape, axis, more))], dim=axis)
    try:
        with torch.no_grad():
            run(**inputs)
    except Exception:  # noqa: BLE001 - each architecture has its own error for a size that it refuses
        return False
    return True


def _with(shape: Sequence[int], axis: int, size: int) -> list[int]:
    return [size if index == axis else each for index, each in enumerate(shape)]


def same(first: Any, second: Any) -> bool:
    """Return whether two results have the same tensors, bit by bit."""
    pairs = zip(_tensors(first), _tensors(second), strict=True)
    return all(torch.equal(one, other) for one, other in pairs)


def _tensors(result: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
