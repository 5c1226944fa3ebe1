"""Sizes that depend on values, where torch makes assumptions about them.

torch assumes that such a size equals that of the axis which it broadcasts with, though it may be 1, and has no shape for
``squeeze_`` and for a mask of bytes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any

import torch
from torch import _decomp, _meta_registrations, _refs
from torch._subclasses import fake_impls
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true

from onnxexp import is_in_onnx_export
from onnxexp.frontends import redirected

_Shape = Sequence[Any]


def _is_unbacked(size: Any) -> bool:
    return isinstance(size, torch.SymInt) and bool(free_unbacked_symbols(size))


def _is_one(size: Any) -> bool:
    return statically_known_true(size == 1)


def _broadcast(*shapes: _Shape) -> list[_Shape]:
    """Return shapes with the sizes that broadcasting gives them.

    An axis of unknown size gets the size of another that is known not to be 1: it has that size, or is broadcast to it.
    """
    known: dict[int, Any] = {}
    for shape in shapes:
        for axis, size in enumerate(reversed(shape)):
            if not _is_unbacked(size) and not _is_one(size):
                known.setdefault(axis, size)
    return [
        [known.get(axis, size) if _is_unbacked(size) else size for axis, size in reversed([*enumerate(reversed(shape))])]
        for shape in shapes
    ]


def _broadcast_shapes(original: Callable[..., Any], *shapes: Any) -> Any:
    given = [shape for shape in shapes if isinstance(shape, Sequence)]
    return original(*_broadcast(*given)) if len(given) == len(shapes) else original(*shapes)


def _infer_size(original: Callable[..., Any], a: _Shape, b: _Shape) -> Any:
    return original(*_broadcast(a, b))


def _maybe_broadcast(original: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Expand tensors whose sizes torch would take for the sizes of other tensors."""
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    if any(map(_is_unbacked, (size for tensor in tensors for size in tensor.shape))):
        sizes = dict(zip(map(id, tensors), _broadcast(*(tensor.shape for tensor in tensors)), strict=True))
        args = tuple(_refs.expand(arg, sizes[id(arg)]) if _changes(arg, sizes) else arg for arg in args)
    return original(*args, **options)


def _changes(arg: Any, sizes: dict[int, _Shape]) -> bool:
    return id(arg) in sizes and any(one is not other for one, other in zip(arg.shape, sizes[id(arg)], strict=True))


def _expand(original: Callable[..., Any], a: torch.Tensor, *shape: Any, **options: Any) -> Any:
    """Expand axes of unknown size to known ones."""
    size = shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    added = len(size) - a.dim()
    wanted = [own if statically_known_true(new == -1) else new for own, new in zip(a.shape, size[max(added, 0) :], strict=False)]
    pairs = list(zip(a.shape, wanted, strict=False))
    if added < 0 or not any(_is_unbacked(own) and not _is_unbacked(new) for own, new in pairs):
        return original(a, *shape, **options)
    known = [statically_known_true(own == new) for own, new in pairs]
    strides = [stride if same else 0 for same, stride in zip(known, a.stride(), strict=True)]
    return a.as_strided([*size[:added], *wanted], [0] * added + strides)


def _broadcast_tensors(original: Callable[..., Any], *tensors: Any) -> Any:
    """Expand one tensor at a time, so that each result is a view of one argument."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    shape = _refs._broadcast_shapes(*(tensor.shape for tensor in given))  # type: ignore[no-untyped-call]
    return tuple(tensor.expand(shape) for tensor in given)


def _squeeze_(original: Callable[..., Any], mode: Any, func: Any, self: torch.Tensor, dims: Any = None) -> Any:
    """Keep the axes of unknown size, as torch's squeeze does."""
    if not any(map(_is_unbacked, self.shape)):
        return original(mode, func, self, *([] if dims is None else [dims]))
    chosen = range(self.dim()) if dims is None else [dims] if isinstance(dims, int) else dims
    axes = {axis % self.dim() for axis in chosen}
    kept = [axis for axis, size in enumerate(self.shape) if axis not in axes or _is_unbacked(size) or size != 1]
    sizes, strides = ([values[axis] for axis in kept] for values in (self.shape, self.stride()))
    with mode:
        return self.as_strided_(sizes, strides)


def _index(original: Callable[..., Any], mode: Any, func: Any, self: torch.Tensor, indices: Sequence[Any]) -> Any:
    """Index by masks of bytes, which torch's shapes take for a wrong dtype."""
    with mode:
        masks = [each.ne(0) if isinstance(each, torch.Tensor) and each.dtype == torch.uint8 else each for each in indices]
    return original(mode, func, self, masks)


_FUNCTIONS: list[tuple[Any, str, Callable[..., Any]]] = [
    *((owner, "_broadcast_shapes", _broadcast_shapes) for owner in (_refs, _meta_registrations)),
    *((owner, "_maybe_broadcast", _maybe_broadcast) for owner in (_refs, _meta_registrations)),
    (_refs, "expand", _expand),
    (torch, "broadcast_tensors", _broadcast_tensors),
    (fake_impls, "infer_size", _infer_size),
]
"""The replacements of torch's functions, as (owner, attribute, replacement)."""
_aten = torch.ops.aten


@contextlib.contextmanager
def keep_unbacked_sizes() -> Iterator[None]:
    """Capture such sizes without assumptions."""
    own = fake_impls.op_implementations_dict
    kernels: list[tuple[Any, Any, Callable[..., Any]]] = [
        (_decomp.decomposition_table, _aten.expand.default, _expand),
        (own, _aten.index.Tensor, _index),
        *((own, operator, _squeeze_) for operator in (_aten.squeeze_.default, _aten.squeeze_.dim, _aten.squeeze_.dims)),
    ]
    with redirected(_FUNCTIONS, attributes=True), contextlib.ExitStack() as stack:
        for kernel in kernels:
            stack.enter_context(replaced_kernel(*kernel))
        yield


def _no_kernel(*args: Any) -> Any:
    return NotImplemented


@contextlib.contextmanager
def replaced_kernel(kernels: MutableMapping[Any, Any], operator: Any, instead: Callable[..., Any]) -> Iterator[None]:
    """Replace torch's kernel of an operator on fake tensors."""
    original = kernels.get(operator)

    def kernel(*args: Any, **options: Any) -> Any:
        torchs = original or _no_kernel
        inside = torch.compiler.is_exporting() and is_in_onnx_export()
        return instead(torchs, *args, **options) if inside else torchs(*args, **options)

    kernels[operator] = kernel
    try:
        yield
    finally:
        if original is None:
            del kernels[operator]
        else:
            kernels[operator] = original
