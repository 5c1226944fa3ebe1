"""Resize the inputs of a model with dynamic axes.

Axes of one name keep equal sizes, static axes stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import onnx
import torch

__all__ = ["misdeclared", "other_sizes"]

Sizes = dict[str, int]


def other_sizes(model: onnx.ModelProto, tensors: Sequence[torch.Tensor]) -> Iterator[tuple[list[torch.Tensor], Sizes]]:
    """Yield the tensors at other sizes, with the value of each symbol.

    Nothing if no axis is dynamic.

    First all symbols grow by one, then all double, which keeps divisibility, then each grows alone. The caller takes the first
    sizes that the model accepts.
    """
    inputs = [tensors[int(slot.name.removeprefix("input_"))] for slot in model.graph.input]
    symbols = _symbol_values(model.graph.input, [tensor.shape for tensor in inputs])
    every: list[Callable[[int], int]] = [lambda size: size + 1, lambda size: 2 * size]
    attempts = [{name: grow(size) for name, size in symbols.items()} for grow in every] if symbols else []
    alone = [{**symbols, name: grow(symbols[name])} for name in symbols for grow in every] if len(symbols) > 1 else []
    for sizes in (*attempts, *alone):
        grown = list(tensors)
        for slot, tensor in zip(model.graph.input, inputs, strict=True):
            grown[int(slot.name.removeprefix("input_"))] = _resized(tensor, _shape(slot, tensor.shape, sizes))
        yield grown, sizes


def misdeclared(model: onnx.ModelProto, sizes: Mapping[str, int], results: Sequence[torch.Tensor]) -> str:
    """Return the first output whose shape is not the declared one, else ""."""
    if len(results) != len(model.graph.output):
        return ""  # one output is a sequence
    for slot, result in zip(model.graph.output, results, strict=True):
        if not slot.type.tensor_type.HasField("shape"):
            continue
        declared = _shape(slot, result.shape, sizes)
        if len(slot.type.tensor_type.shape.dim) != result.dim() or declared != list(result.shape):
            return f"{slot.name} is declared {declared} and has {list(result.shape)}"
    return ""


def _symbol_values(slots: Sequence[onnx.ValueInfoProto], shapes: Sequence[Sequence[int]]) -> Sizes:
    """Return the value of each symbol that is by itself the size of an axis."""
    found: Sizes = {}
    for slot, shape in zip(slots, shapes, strict=True):
        for dim, size in zip(slot.type.tensor_type.shape.dim, shape, strict=False):
            if dim.dim_param.isidentifier():
                found.setdefault(dim.dim_param, size)
    return found


def _shape(slot: onnx.ValueInfoProto, shape: Sequence[int], sizes: Mapping[str, int]) -> list[int]:
    """Return a declared shape for these values of the symbols.

    `shape` fills in unknown sizes.
    """
    dims = list(slot.type.tensor_type.shape.dim)[: len(shape)]  # without the extra axis of complex values
    return [_value(dim, sizes, size) for dim, size in zip(dims, shape, strict=True)]


def _value(dim: onnx.TensorShapeProto.Dimension, sizes: Mapping[str, int], otherwise: int) -> int:
    """Return a dimension's number or the value of its expression (``2*batch + 1``).

    `otherwise` if a symbol is unknown.
    """
    if not dim.dim_param:
        return int(dim.dim_value) if dim.HasField("dim_value") else otherwise
    try:
        return int(eval(dim.dim_param, {"__builtins__": {}, "max": max, "min": min}, dict(sizes)))
    except NameError:
        return otherwise


def _resized(tensor: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Resize a tensor by repeating elements in order.

    Sorted data stays sorted, and indices stay valid.
    """
    for axis, size in enumerate(shape):
        if size != tensor.shape[axis]:
            tensor = tensor.index_select(axis, torch.arange(size) * tensor.shape[axis] // size)
    return tensor
