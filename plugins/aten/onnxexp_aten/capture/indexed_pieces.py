"""Capture ``x.split(2)[-1]`` as a slice, at any size of the axis.

A tuple has a fixed length, so that both tracers fix the size of the axis. An index alone does not need the length.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxexp.frontends import restored_state

_VF: Any = torch._VF


class _TracedPieces(tuple[torch.Tensor, ...]):
    """The pieces of one call in a trace; an index makes a view of the tensor."""

    _piece: Callable[[int], torch.Tensor]
    _whole: Callable[[], tuple[torch.Tensor, ...]]
    _count: Any  # the number of pieces, where one that does not exist is an error at run time; else None

    def __new__(cls, piece: Callable[[int], torch.Tensor], whole: Callable[[], Any], count: Any = None) -> Any:
        made = super().__new__(cls, whole())
        made._piece, made._whole, made._count = functools.cache(piece), whole, count
        return made

    def __getitem__(self, index: Any) -> Any:
        if type(index) is int:
            return self._piece(index)
        places = _places(index) if isinstance(index, slice) and self._count is not None else None
        if not places or self._in_example() < max(places[-1] + 1, -places[0]):
            return self._all()[index]
        return tuple(map(self._piece, places))

    def _all(self) -> tuple[torch.Tensor, ...]:
        """Return the pieces as torch's own tuple, whose length the capture fixes."""
        return tuple(self)

    def _in_example(self) -> int:
        """Return the number of pieces in the example, or 0 if it depends on values."""
        return len(self)


class _ExportedPieces(_TracedPieces):
    """The pieces of one call under torch.export; reading the length fixes the size.

    Python code that reads more than an index gets torch's own tuple. Functions in C++ raise TypeError for the element None.
    """

    def __new__(cls, piece: Callable[[int], torch.Tensor], whole: Callable[[], Any], count: Any = None) -> Any:
        made = super().__new__(cls, piece, lambda: (None,), count)
        made._whole = functools.cache(whole)
        return made

    def _all(self) -> tuple[torch.Tensor, ...]:
        return self._whole()

    def _in_example(self) -> int:
        return self._count.node.hint or 0 if isinstance(self._count, torch.SymInt) else 0

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(self._whole())

    def __len__(self) -> int:
        return len(self._whole())

    def __contains__(self, item: object) -> bool:
        return item in self._whole()

    def __add__(self, other: Any) -> Any:
        return (*self._whole(), *other)

    def __radd__(self, other: Any) -> Any:
        return (*other, *self._whole())


def _places(index: slice) -> range | None:
    """Return the indices in a slice whose limits count from the same end, else None."""
    start, stop = 0 if index.start is None else index.start, index.stop
    if type(start) is not int or index.step not in (None, 1):
        return None
    if start < 0 and (stop is None or (type(stop) is int and stop < 0)):
        return range(start, stop or 0)
    return range(start, stop) if start >= 0 and type(stop) is int and stop >= 0 else None


class _FlattenedError(Exception):
    """An error where pytree flattens pieces, most often those that a model returns.

    The number of pieces would be a guard without a line of the user. The export runs again with torch's own tuples instead.
    """


@functools.cache
def _register_pieces() -> None:
    """Let pytree flatten pieces that a model returns, once per process."""

    def flattened(pieces: _TracedPieces) -> Any:
        if isinstance(pieces, _ExportedPieces):
            raise _FlattenedError
        return [*pieces], None

    for class_ in (_TracedPieces, _ExportedPieces):
        pytree.register_pytree_node(class_, flattened, lambda leaves, _: tuple(leaves))


def _split(make: Any, original: Callable[..., Any], self: torch.Tensor, split_size: Any, dim: int = 0) -> Any:
    axis, size = _axis(self, dim)
    if isinstance(size, int) or isinstance(split_size, (list, tuple)) or _is_zero(split_size):
        return original(self, split_size, dim)
    traced = isinstance(split_size, torch.Tensor) and torch._C._is_tracing()
    split = _VF.split if traced else original  # torch's method makes an int of a traced size
    return make(lambda index: _part(self, axis, split_size, index), lambda: split(self, split_size, dim))


def _chunk(make: Any, original: Callable[..., Any], input: torch.Tensor, chunks: Any, dim: int = 0) -> Any:
    axis, size = _axis(input, dim)
    if isinstance(size, int) or _is_zero(chunks):
        return original(input, chunks, dim)
    step = (size + chunks - 1) // chunks
    return make(lambda index: _part(input, axis, step, index), lambda: original(input, chunks, dim))


def _unbind(make: Any, original: Callable[..., Any], input: torch.Tensor, dim: int = 0) -> Any:
    axis, size = _axis(input, dim)
    if isinstance(size, int):
        return original(input, dim)
    return make(lambda index: input.select(axis, index), lambda: original(input, dim), size)


def _axis(x: torch.Tensor, dim: int) -> tuple[int, Any]:
    """Count an axis from the front, and return its size, which is 0 for a wrong axis."""
    return (dim % x.dim(), x.shape[dim]) if -x.dim() <= dim < x.dim() else (0, 0)


def _is_zero(number: Any) -> bool:
    return isinstance(number, int) and number < 1


def _part(x: torch.Tensor, axis: int, step: Any, index: int) -> torch.Tensor:
    """Return the piece at `index`; pieces have `step` elements, the last maybe fewer."""
    size: Any = x.shape[axis]
    if isinstance(step, int) and step == 1:
        count = size
    else:
        count = (size + step - 1) // (step + 1 // (size + 1))  # a chunk of an empty axis has a step of 0
    start = (index if index >= 0 else count + index) * step
    end = start + step
    if not isinstance(size, torch.Tensor):
        end = torch.sym_min(end, size)  # type: ignore[no-untyped-call]
    parts = [slice(None)] * axis + [slice(start, None if index == -1 else end)]
    return x[tuple(parts)]


_METHODS: dict[str, Callable[..., Any]] = {"split": _split, "chunk": _chunk, "unbind": _unbind}


def traced_pieces() -> list[tuple[Any, str, Callable[..., Any]]]:
    """List replacements (owner, name, function): indices of pieces are slices."""
    return _replacements(_TracedPieces)


def _replacements(make: Callable[..., Any]) -> list[tuple[Any, str, Callable[..., Any]]]:
    """List replacements of functions that return pieces, which `make` makes."""
    _register_pieces()
    owners: dict[str, list[Any]] = {"split": [torch.Tensor], "chunk": [torch, torch.Tensor], "unbind": [torch, torch.Tensor]}
    return [(owner, name, functools.partial(_METHODS[name], make)) for name in owners for owner in owners[name]]


def export_with_pieces(export: Callable[[Any], Any], model: torch.nn.Module) -> Any:
    """Run an export with indices of pieces as slices, or without if that fails.

    `export` gets the replacements of torch's functions, as (owner, name, function).
    """
    made: list[Any] = []

    def make(piece: Callable[[int], torch.Tensor], whole: Callable[[], Any], count: Any = None) -> Any:
        made.append(_ExportedPieces(piece, whole, count))
        return made[-1]

    try:
        with restored_state(model, buffers=False):
            return export(_replacements(make))
    except Exception:  # torch.export passes on any exception of the model
        if not made:
            raise
    return export([])
