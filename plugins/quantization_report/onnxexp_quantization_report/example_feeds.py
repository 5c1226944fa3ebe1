"""Inputs for a run: those of a .npz file, or random ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir

from onnxexp import OptionError
from onnxexp.commands import nearest

_FIRST, _OTHER = 1, 32
"""The default sizes of dynamic axes: of an input's first axis (the batch, in most models), and of the others."""


def read_sizes(texts: Sequence[str]) -> dict[str, int]:
    """Parse ``batch=5,seq=12``."""
    sizes = {}
    for pair in (pair for text in texts for pair in text.split(",")):
        name, _, size = pair.rpartition("=")
        if not name.strip() or not size.strip().isdigit():
            raise OptionError(f"--sizes {pair}: expected NAME=SIZE,... as in batch=5,seq=12")
        sizes[name.strip()] = int(size)
    return sizes


def random_feeds(model: ir.Model, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Make random inputs, always the same ones.

    Floats are normally distributed; integers are 0 or 1, which are valid for every index; 8-bit integers take all values.

    Raises:
        OptionError: An input is no tensor, or `sizes` has an unknown name.
    """
    chosen = {name: sizes.get(name, size) for name, size in _dynamic(model).items()}
    unknown = [name for name in sizes if name not in chosen]
    if unknown:
        raise OptionError(
            f"--sizes: no input has a dynamic axis {unknown[0]!r}{nearest(unknown[0], chosen)}; there are "
            f"{', '.join(chosen) or 'none'}"
        )
    generator = np.random.default_rng(0)
    feeds = {}
    for value in _inputs(model):
        if value.dtype is None or value.shape is None or not isinstance(value.type, ir.TensorType):
            raise OptionError(f"the input {value.name} is no tensor with a known number of axes: give the inputs with --input")
        shape = [size if isinstance(size, int) else chosen[_axis_name(value, axis)] for axis, size in enumerate(value.shape)]
        feeds[value.name or ""] = _random(generator, value.dtype, shape)
    return feeds


def from_file(model: ir.Model, path: Path) -> dict[str, np.ndarray]:
    """Read the inputs from a .npz file.

    Arrays without names of their own (arr_0, …) are taken in order.

    Raises:
        OptionError: The file is missing or unreadable, or does not fit the model.
    """
    if not path.is_file():
        raise OptionError(f"there is no file {path}")
    try:
        with np.load(path) as file:
            arrays = dict(file)
    except (OSError, ValueError, TypeError, EOFError) as error:
        raise OptionError(f"{path} is no .npz file of arrays: {error}") from error
    names = [value.name or "" for value in _inputs(model)]
    if list(arrays) == [f"arr_{number}" for number in range(len(names))]:
        arrays = dict(zip(names, arrays.values(), strict=True))
    if set(arrays) != set(names):
        raise OptionError(f"{path} has the arrays {', '.join(arrays)}; the model's inputs are {', '.join(names)}")
    return arrays


def _inputs(model: ir.Model) -> list[ir.Value]:
    return [value for value in model.graph.inputs if value.name not in model.graph.initializers]


def _dynamic(model: ir.Model) -> dict[str, int]:
    """Return the dynamic axes of all inputs, with their default sizes."""
    found: dict[str, int] = {}
    for value in _inputs(model):
        for axis, size in enumerate(value.shape or ()):
            if not isinstance(size, int):
                name = _axis_name(value, axis)
                found[name] = min(found.get(name, _OTHER), _FIRST if axis == 0 else _OTHER)
    return found


def _axis_name(value: ir.Value, axis: int) -> str:
    size = value.shape[axis] if value.shape is not None else None
    return (size.value if isinstance(size, ir.SymbolicDim) else None) or f"{value.name}.{axis}"


def _random(generator: np.random.Generator, dtype: ir.DataType, shape: Sequence[int]) -> np.ndarray:
    kind = dtype.numpy()
    if dtype in (ir.DataType.INT8, ir.DataType.UINT8):
        limits = np.iinfo(kind)
        return generator.integers(int(limits.min), int(limits.max) + 1, shape).astype(kind)
    if dtype.is_floating_point():
        return generator.normal(size=shape).astype(kind)
    return generator.integers(0, 2, shape).astype(kind)
