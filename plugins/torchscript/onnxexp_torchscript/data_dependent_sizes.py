"""Calls whose result has a size that depends on data (`nonzero`, masks, `unique`): an unbacked symbol, without a kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv, free_unbacked_symbols

from onnxexp import Value
from onnxexp_torchscript.abstract_tensor import Outline, same
from onnxexp_torchscript.shape_functions import broadcast, goes_into

__all__ = ["Counts"]


class Counts:
    """Unbacked sizes and numbers; the same one for the same question about the contents of a tensor.

    Attributes:
        env: torch's record of the symbols.
    """

    def __init__(self, env: ShapeEnv) -> None:
        self.env = env
        self._known: dict[tuple[str, Value], Any] = {}

    def result(self, name: str, fakes: Sequence[Any], args: Sequence[Any]) -> Any:
        """Outlines or the number that a call gives, None where torch has to be asked."""
        special = _COUNTED.get(name)
        if special is None or not isinstance(fakes[0], Outline):
            return None
        return special(self, fakes, args)

    def forget(self) -> None:
        """Tensors have been written: what was known of their contents may no longer be so."""
        self._known.clear()

    def number(self, value: Value) -> Any:
        """The integer in a tensor."""
        return self._once("number", value, self.env.create_unbacked_symint)

    def found(self, value: Value, mask: Outline) -> Any:
        """How many elements of a tensor are not zero."""
        return self._once("found", value, lambda: self.size(mask.shape))

    def distinct(self, kind: str, value: Value, of: Outline) -> Any:
        """How many elements of a tensor differ, by the way they are counted."""
        return self._once(kind, value, lambda: self.size(of.shape))

    def size(self, of: Sequence[Any]) -> Any:
        """A size that is no larger than the product of those."""
        if not all(isinstance(size, int) for size in of):
            return self.any_size()
        return self.any_size(math.prod(of)) if 0 not in of else 0

    def any_size(self, limit: int | None = None) -> Any:
        """A size of which nothing is known but the limit."""
        size = self.env.create_unbacked_symint()
        self.env._constrain_range_for_size(size.node.expr, max=limit)
        return size

    def any_number(self, kind: type) -> Any:
        """A number of which nothing but the kind is known."""
        if kind is bool:
            return self.env.create_unbacked_symbool()
        return self.env.create_unbacked_symfloat() if kind is float else self.env.create_unbacked_symint()

    def tensor(self, dtype: torch.dtype, sizes: Sequence[Any]) -> Outline:
        """An outline; a size of None is one of which nothing is known."""
        return Outline(dtype, [self.any_size() if size is None else size for size in sizes])

    def may_be_negative(self, number: Any) -> bool:
        """Whether a number is one of which not even the sign is known."""
        if not isinstance(number, torch.SymInt):
            return False
        expr = number.node.expr
        known = self.env.var_to_range.get(expr) if free_unbacked_symbols(expr) else None
        return known is not None and bool(known.lower < 0)

    def _once(self, kind: str, value: Value, made: Callable[[], Any]) -> Any:
        if (kind, value) not in self._known:
            self._known[kind, value] = made()
        return self._known[kind, value]


def _item(counts: Counts, fakes: Sequence[Any], args: Sequence[Any]) -> Any:
    dtype = fakes[0].dtype
    return None if dtype.is_floating_point or dtype.is_complex or dtype == torch.bool else counts.number(args[0])


def _nonzero(counts: Counts, fakes: Sequence[Any], args: Sequence[Any]) -> Any:
    return Outline(torch.int64, [counts.found(args[0], fakes[0]), fakes[0].dim()])


def _places(counts: Counts, fakes: Sequence[Any], args: Sequence[Any]) -> Any:
    """What `nonzero` gives, column by column; a number has one column."""
    found = Outline(torch.int64, [counts.found(args[0], fakes[0])])
    return [found] * max(fakes[0].dim(), 1)


def _masked_select(counts: Counts, fakes: Sequence[Any], args: Sequence[Any]) -> Any:
    x, mask = fakes
    if goes_into(x.shape, mask.shape):
        return Outline(x.dtype, [counts.found(args[1], mask)])
    sizes = broadcast(x.shape, mask.shape)
    return None if sizes is None else Outline(x.dtype, [counts.size(sizes)])


def _index(counts: Counts, fakes: Sequence[Any], args: Sequence[Any]) -> Any:
    """Sizes by tensors and masks: those of the tensors, broadcast, where the first of them stands, or before all others."""
    x, indices = fakes
    axis, at, picked = 0, list[int](), list[Sequence[Any]]()
    for index, value in zip(indices, args[1], strict=True):
        rank = 1
        if index is not None:
            mask = index.dtype == torch.bool
            rank = index.dim() if mask else 1
            if index.dtype == torch.uint8 or not rank or (mask and not all(map(same, index.shape, x.shape[axis : axis + rank]))):
                return None
            picked.append((counts.found(value, index),) if mask else index.shape)
            at += range(axis, axis + rank)
        axis += rank
    sizes: Any = ()
    for shape in picked:
        sizes = broadcast(sizes, shape)
        if sizes is None:
            return None
    rest = [size for axis, size in enumerate(x.shape) if axis not in at]
    first = at[0] if at and at[-1] - at[0] == len(at) - 1 else 0
    return Outline(x.dtype, [*rest[:first], *sizes, *rest[first:]])


def _slice(counts: Counts, fakes: Sequence[Any], args: Sequence[Any]) -> Any:
    """Between numbers of which not even the sign is known."""
    x, dim, start, end, _ = fakes
    if not counts.may_be_negative(start) and not counts.may_be_negative(end):
        return None
    sizes = list(x.shape)
    sizes[dim] = counts.size([sizes[dim]])
    return Outline(x.dtype, sizes)


def _unique(counts: Counts, fakes: Sequence[Any], args: Sequence[Any]) -> Any:
    x, _, inverse, many = fakes
    return _uniques(x, counts.distinct("unique", args[0], x), inverse, many)


def _unique_consecutive(counts: Counts, fakes: Sequence[Any], args: Sequence[Any]) -> Any:
    x, inverse, many, dim = fakes
    if dim is not None:
        return _uniques_along(counts, x, dim)
    return _uniques(x, counts.distinct("consecutive", args[0], x), inverse, many)


def _unique_dim(counts: Counts, fakes: Sequence[Any], args: Sequence[Any]) -> Any:
    return _uniques_along(counts, fakes[0], fakes[1])


def _uniques(x: Outline, count: Any, inverse: bool, many: bool) -> list[Outline]:
    return [
        Outline(x.dtype, [count]),
        Outline(torch.int64, x.shape if inverse else [0]),
        Outline(torch.int64, [count if many else 0]),
    ]


def _uniques_along(counts: Counts, x: Outline, dim: int) -> list[Outline] | None:
    if not x.dim():
        return None
    sizes = list(x.shape)
    size, sizes[dim] = sizes[dim], counts.size([sizes[dim]])
    return [Outline(x.dtype, sizes), Outline(torch.int64, [size]), Outline(torch.int64, [sizes[dim]])]


_COUNTED: dict[str, Callable[[Counts, Sequence[Any], Sequence[Any]], Any]] = {
    "aten::item": _item,
    "aten::nonzero": _nonzero,
    "aten::argwhere": _nonzero,
    "aten::nonzero_numpy": _places,
    "aten::where": _places,
    "aten::masked_select": _masked_select,
    "aten::index.Tensor": _index,
    "aten::slice.Tensor": _slice,
    "aten::_unique2": _unique,
    "aten::unique_consecutive": _unique_consecutive,
    "aten::unique_dim": _unique_dim,
}
