"""Unbacked symbols for sizes that depend on data (`nonzero`, masks, `unique`)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv, free_unbacked_symbols

from onnxexp.frontends import ShapeEnvSnapshot
from onnxexp.graph import TensorType, Value
from onnxexp_torchscript.types.abstract_tensor import AbstractTensor, expr_of, harmless, same
from onnxexp_torchscript.types.shape_functions import broadcast, goes_into

_LAST = 2**62
"""Limits above this one stand for the end of an axis."""


class UnbackedSizes:
    """Unbacked sizes and numbers, one for each fact on the contents of a tensor."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, Value], Any] = {}
        self._observed: dict[Any, int] = {}

    @functools.cached_property
    def env(self) -> ShapeEnv:
        """The ShapeEnv of the symbols.

        A graph of static sizes needs none, and the first one of a process imports torch's compiler.
        """
        return ShapeEnv(specialize_zero_one=False, duck_shape=False)

    def result(self, name: str, fakes: Sequence[Any], args: Sequence[Any]) -> Any:
        """Infer the result of a data-dependent call; return None for any other call."""
        special = _COUNTED.get(name)
        if special is None or not isinstance(fakes[0], AbstractTensor):
            return None
        return special(self, fakes, args)

    def forget(self) -> None:
        """Drop facts on contents, after a write into a tensor."""
        self._known.clear()

    def number(self, value: Value) -> Any:
        """Return the symbol for the integer in a tensor."""
        return self._once("number", value, self.env.create_unbacked_symint)

    def found(self, value: Value, mask: AbstractTensor) -> Any:
        """Return the symbol for the number of nonzero elements."""
        return self._once("found", value, lambda: self.size(mask.shape))

    def distinct(self, kind: str, value: Value, of: AbstractTensor) -> Any:
        """Return the symbol for the number of distinct elements."""
        return self._once(kind, value, lambda: self.size(of.shape))

    def size(self, of: Sequence[Any]) -> Any:
        """Create a size that is at most the product of `limits`."""
        if not all(isinstance(size, int) for size in of):
            return self.any_size()
        return self.any_size(math.prod(of)) if 0 not in of else 0

    def computed(self, function: Callable[..., Any], numbers: Sequence[Any], kind: type) -> Any:
        """Compute a symbolic number, or create one of `kind` where that needs its value."""
        before, guards = ShapeEnvSnapshot(self.env), len(self.env.guards)
        try:
            result = function(*numbers)
        except Exception:  # noqa: BLE001 - torch has no common error for a symbolic number whose value would be needed
            result = None
        added = self.env.guards[guards:]
        if result is not None and all(harmless(guard.expr) for guard in added):
            return result
        if added:  # also by a function that fails afterwards
            before.restore()
        return self.any_number(kind)

    def any_size(self, limit: int | None = None) -> Any:
        """Create an unbacked size with at most an upper limit."""
        size = self.env.create_unbacked_symint()
        self.env._constrain_range_for_size(size.node.expr, max=limit)
        return size

    def any_number(self, kind: type) -> Any:
        """Create an unbacked number of a kind."""
        if kind is bool:
            return self.env.create_unbacked_symbool()
        return self.env.create_unbacked_symfloat() if kind is float else self.env.create_unbacked_symint()

    def tensor(self, dtype: torch.dtype, sizes: Sequence[Any]) -> AbstractTensor:
        """Create an abstract tensor; None stands for an unbacked size."""
        return AbstractTensor(dtype, [self.any_size() if size is None else size for size in sizes])

    def observe(self, fake: Any, recorded: TensorType) -> None:
        """Note the sizes that a trace has recorded for a tensor."""
        shape = fake.shape if isinstance(fake, AbstractTensor) else ()
        for size, seen in zip(shape, recorded.sizes or (), strict=False):
            expr = expr_of(size)
            if isinstance(seen, int) and isinstance(expr, sympy.Symbol) and self.env.is_unbacked_symint(expr):
                self._observed.setdefault(expr, seen)

    def differ_in_the_trace(self, before: ShapeEnvSnapshot) -> bool:
        """Return whether torch took sizes for equal that differ in the trace."""
        known = {**self.env.backed_var_to_val, **self._observed}
        tied = self.env.replacements.keys() - before.replacements.keys()
        pairs = ((known.get(symbol), self.env.replace(symbol).xreplace(known)) for symbol in tied)
        return any(one is not None and other.is_number and one != other for one, other in pairs)

    def untied(self, result: Any, before: ShapeEnvSnapshot) -> Any:
        """Undo torch's assumption that an unbacked size equals another one.

        The size may be 1, and broadcast. `before` is a snapshot of the ShapeEnv. The result gets new symbols for these sizes.
        """
        tied = [
            symbol for symbol in self.env.replacements.keys() - before.replacements.keys() if self.env.is_unbacked_symint(symbol)
        ]
        if not tied:
            return result
        equal = {*tied, *map(self.env.replace, tied)}
        renewed = self._renewed(result, equal)
        before.restore()
        return renewed

    def _renewed(self, result: Any, old: set[Any]) -> Any:
        if isinstance(result, (list, tuple)):
            return [self._renewed(part, old) for part in result]
        if not isinstance(result, AbstractTensor):
            return result
        return self.tensor(result.dtype, [None if expr_of(size) in old else size for size in result.shape])

    def may_be_negative(self, number: Any) -> bool:
        """Return whether a number may be negative."""
        if not isinstance(number, torch.SymInt):
            return False
        expr = number.node.expr
        known = self.env.var_to_range.get(expr) if free_unbacked_symbols(expr) else None
        return known is not None and bool(known.lower < 0)

    def _once(self, kind: str, value: Value, made: Callable[[], Any]) -> Any:
        if (kind, value) not in self._known:
            self._known[kind, value] = made()
        return self._known[kind, value]


def _item(unbacked: UnbackedSizes, fakes: Sequence[Any], args: Sequence[Any]) -> Any:
    dtype = fakes[0].dtype
    return None if dtype.is_floating_point or dtype.is_complex or dtype == torch.bool else unbacked.number(args[0])


def _nonzero(unbacked: UnbackedSizes, fakes: Sequence[Any], args: Sequence[Any]) -> Any:
    return AbstractTensor(torch.int64, [unbacked.found(args[0], fakes[0]), fakes[0].dim()])


def _places(unbacked: UnbackedSizes, fakes: Sequence[Any], args: Sequence[Any]) -> Any:
    """Return the columns of `nonzero`'s result; a number has one."""
    found = AbstractTensor(torch.int64, [unbacked.found(args[0], fakes[0])])
    return [found] * max(fakes[0].dim(), 1)


def _masked_select(unbacked: UnbackedSizes, fakes: Sequence[Any], args: Sequence[Any]) -> Any:
    x, mask = fakes
    if goes_into(x.shape, mask.shape):
        return AbstractTensor(x.dtype, [unbacked.found(args[1], mask)])
    sizes = broadcast(x.shape, mask.shape)
    return None if sizes is None else AbstractTensor(x.dtype, [unbacked.size(sizes)])


def _index(unbacked: UnbackedSizes, fakes: Sequence[Any], args: Sequence[Any]) -> Any:
    """Infer the shape of indexing by tensors and masks."""
    x, indices = fakes
    axis, at, picked = 0, list[int](), list[Sequence[Any]]()
    for index, value in zip(indices, args[1], strict=True):
        rank = 1
        if index is not None:
            mask = index.dtype == torch.bool
            rank = index.dim() if mask else 1
            if index.dtype == torch.uint8 or not rank or (mask and not all(map(same, index.shape, x.shape[axis : axis + rank]))):
                return None
            picked.append((unbacked.found(value, index),) if mask else index.shape)
            at += range(axis, axis + rank)
        axis += rank
    sizes: Any = ()
    for shape in picked:
        sizes = broadcast(sizes, shape)
        if sizes is None:
            return None
    rest = [size for axis, size in enumerate(x.shape) if axis not in at]
    first = at[0] if at and at[-1] - at[0] == len(at) - 1 else 0
    return AbstractTensor(x.dtype, [*rest[:first], *sizes, *rest[first:]])


def _slice(unbacked: UnbackedSizes, fakes: Sequence[Any], args: Sequence[Any]) -> Any:
    """Infer the shape of a slice whose limits have an unknown sign.

    Limits that meet at some sizes, as in ``x[-1:1]``, are included.
    """
    x, dim, start, end, _ = fakes
    from_end = isinstance(start, torch.SymInt) or (isinstance(start, int) and start < 0)
    meeting = from_end and isinstance(end, int) and 0 < end < _LAST and isinstance(x.shape[dim], torch.SymInt)
    if not meeting and not unbacked.may_be_negative(start) and not unbacked.may_be_negative(end):
        return None
    sizes = list(x.shape)
    sizes[dim] = unbacked.size([sizes[dim]])
    return AbstractTensor(x.dtype, sizes)


def _unique(unbacked: UnbackedSizes, fakes: Sequence[Any], args: Sequence[Any]) -> Any:
    x, _, inverse, many = fakes
    return _uniques(x, unbacked.distinct("unique", args[0], x), inverse, many)


def _unique_consecutive(unbacked: UnbackedSizes, fakes: Sequence[Any], args: Sequence[Any]) -> Any:
    x, inverse, many, dim = fakes
    if dim is not None:
        return _uniques_along(unbacked, x, dim)
    return _uniques(x, unbacked.distinct("consecutive", args[0], x), inverse, many)


def _unique_dim(unbacked: UnbackedSizes, fakes: Sequence[Any], args: Sequence[Any]) -> Any:
    return _uniques_along(unbacked, fakes[0], fakes[1])


def _uniques(x: AbstractTensor, count: Any, inverse: bool, many: bool) -> list[AbstractTensor]:
    return [
        AbstractTensor(x.dtype, [count]),
        AbstractTensor(torch.int64, x.shape if inverse else [0]),
        AbstractTensor(torch.int64, [count if many else 0]),
    ]


def _uniques_along(unbacked: UnbackedSizes, x: AbstractTensor, dim: int) -> list[AbstractTensor] | None:
    if not x.dim():
        return None
    sizes = list(x.shape)
    size, sizes[dim] = sizes[dim], unbacked.size([sizes[dim]])
    return [AbstractTensor(x.dtype, sizes), AbstractTensor(torch.int64, [size]), AbstractTensor(torch.int64, [sizes[dim]])]


_COUNTED: dict[str, Callable[[UnbackedSizes, Sequence[Any], Sequence[Any]], Any]] = {
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
