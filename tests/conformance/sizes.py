"""Inputs of other sizes for a model with dynamic axes: what the model names alike grows alike, what it leaves static stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import onnx
import torch

__all__ = ["misdeclared", "other_sizes"]

Sizes = dict[str, int]


def other_sizes(model: onnx.ModelProto, tensors: Sequence[torch.Tensor]) -> Iterator[tuple[list[torch.Tensor], Sizes]]:
    """The tensors at other sizes, with the value of each symbol; none where no axis is dynamic.

    First every symbol has one more, then twice as much (what must divide still does), then they grow one after the other:
    whoever computes the expected result takes the first that the model accepts.
    """
    given = [tensors[int(slot.name.removeprefix("input_"))] for slot in model.graph.input]
    symbols = _measured(model.graph.input, [tensor.shape for tensor in given])
    every: list[Callable[[int], int]] = [lambda size: size + 1, lambda size: 2 * size]
    attempts = [{name: grow(size) for name, size in symbols.items()} for grow in every] if symbols else []
    alone = [{**symbols, name: grow(symbols[name])} for name in symbols for grow in every] if len(symbols) > 1 else []
    for sizes in (*attempts, *alone):
        grown = list(tensors)
        for slot, tensor in zip(model.graph.input, given, strict=True):
            grown[int(slot.name.removeprefix("input_"))] = _resized(tensor, _shape(slot, tensor.shape, sizes))
        yield grown, sizes


def misdeclared(model: onnx.ModelProto, sizes: Mapping[str, int], results: Sequence[torch.Tensor]) -> str:
    """Which output has another shape than the model declares for these sizes, "" where none has."""
    if len(results) != len(model.graph.output):
        return ""  # a sequence is among them
    for slot, result in zip(model.graph.output, results, strict=True):
        if not slot.type.tensor_type.HasField("shape"):
            continue
        declared = _shape(slot, result.shape, sizes)
        if len(slot.type.tensor_type.shape.dim) != result.dim() or declared != list(result.shape):
            return f"{slot.name} is declared {declared} and has {list(result.shape)}"
    return ""


def _measured(slots: Sequence[onnx.ValueInfoProto], shapes: Sequence[Sequence[int]]) -> Sizes:
    """The value of each symbol that is alone the size of an axis."""
    found: Sizes = {}
    for slot, shape in zip(slots, shapes, strict=True):
        for dim, size in zip(slot.type.tensor_type.shape.dim, shape, strict=False):
            if dim.dim_param.isidentifier():
                found.setdefault(dim.dim_param, size)
    return found


def _shape(slot: onnx.ValueInfoProto, shape: Sequence[int], sizes: Mapping[str, int]) -> list[int]:
    """What `shape` becomes where the symbols have these values."""
    dims = list(slot.type.tensor_type.shape.dim)[: len(shape)]  # a complex tensor's pairs are one axis more
    return [_value(dim, sizes, size) for dim, size in zip(dims, shape, strict=True)]


def _value(dim: onnx.TensorShapeProto.Dimension, sizes: Mapping[str, int], otherwise: int) -> int:
    """A dimension's number, or what its expression (``2*batch + 1``) comes to; `otherwise` where its symbols have no value."""
    if not dim.dim_param:
        return int(dim.dim_value) if dim.HasField("dim_value") else otherwise
    try:
        return int(eval(dim.dim_param, {"__builtins__": {}, "max": max, "min": min}, dict(sizes)))
    except NameError:
        return otherwise


def _resized(tensor: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """The same contents, some of them several times, in order: what is sorted stays so, and indices stay within what grew."""
    for axis, size in enumerate(shape):
        if size != tensor.shape[axis]:
            tensor = tensor.index_select(axis, torch.arange(size) * tensor.shape[axis] // size)
    return tensor
