"""Sizes of dynamic axes other than the example's, and inputs of these sizes.

A symbol is the name of an axis: axes of one name have one size, and an axis may be an expression of symbols (``2*batch + 1``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import onnx
import torch

from onnxexp._model import declared_sizes
from onnxexp._symbolic_size import SymbolicSize

Sizes = dict[str, int]


def larger_sizes(example: Mapping[str, int]) -> Iterator[Sizes]:
    """Yield larger sizes, the most telling first.

    In the first sizes, all symbols differ from each other. Then groups of symbols grow by one and double, while the other symbols
    stay: all symbols, those that are equal in the example, each pair of them, and each symbol. Doubling keeps divisibility.
    """
    if not example:
        return
    different: Sizes = {}
    for name in sorted(example, key=example.__getitem__):
        different[name] = max(example[name], *different.values(), 0) + 1
    yield different
    for names in dict.fromkeys([tuple(example), *_together(example)]):
        yield {**example, **{name: example[name] + 1 for name in names}}
        yield {**example, **{name: 2 * example[name] for name in names}}


def sizes_of_one(example: Mapping[str, int], accepts: Callable[[Sizes], bool]) -> Sizes | None:
    """Return the sizes with as many ones as `accepts` allows, or None without ones."""
    if not example or accepts(dict.fromkeys(example, 1)):
        return dict.fromkeys(example, 1) or None
    chosen = dict(example)
    for names in _together(example):
        tried = {**chosen, **dict.fromkeys(names, 1)}
        if tried != chosen and accepts(tried):
            chosen = tried
    return chosen if chosen != example else None


def _together(example: Mapping[str, int]) -> list[tuple[str, ...]]:
    """Return the symbols of each value, then pairs of equal ones, then each symbol."""
    equal = [tuple(name for name in example if example[name] == size) for size in dict.fromkeys(example.values())]
    pairs = itertools.chain.from_iterable(itertools.combinations(names, 2) for names in equal)
    return [*equal, *pairs, *((name,) for name in example)]


def inputs_at(
    model: onnx.ModelProto,
    example: Mapping[str, torch.Tensor],
    sizes: Mapping[str, int],
    resize: Callable[[torch.Tensor, Sequence[int]], torch.Tensor] | None = None,
) -> dict[str, torch.Tensor]:
    """Return the example's inputs by name, at these values of the symbols.

    `resize` makes a tensor of another shape; None repeats its elements (see `resized`).
    """
    shapes = {slot.name: declared_shape(slot, example[slot.name].shape, sizes) for slot in model.graph.input}
    return {name: (resize or resized)(example[name], shape) for name, shape in shapes.items()}


def symbol_values(model: onnx.ModelProto, example: Mapping[str, torch.Tensor]) -> Sizes:
    """Return the value of each symbol that is the size of an axis of an input."""
    declared = {slot.name: [dim.dim_param for dim in slot.type.tensor_type.shape.dim] for slot in model.graph.input}
    return declared_sizes.symbol_values(declared, {name: tensor.shape for name, tensor in example.items()})


def declared_shape(slot: onnx.ValueInfoProto, shape: Sequence[int], sizes: Mapping[str, int]) -> list[int]:
    """Return a declared shape at these values, with unknown sizes from `shape`."""
    dims = list(slot.type.tensor_type.shape.dim)[: len(shape)]  # without the extra axis of complex values
    found = (
        SymbolicSize(dim.dim_param).at(sizes) if dim.dim_param else dim.dim_value if dim.HasField("dim_value") else None
        for dim in dims
    )
    return [size if value is None else value for value, size in zip(found, shape, strict=True)]


def resized(tensor: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Resize a tensor by repeating elements in order.

    Sorted data stays sorted, and indices stay valid.
    """
    for axis, size in enumerate(shape):
        if size != tensor.shape[axis]:
            tensor = tensor.index_select(axis, torch.arange(size) * tensor.shape[axis] // size)
    return tensor
