"""Capture data-dependent operators as one node each.

These operators read values, which fake tensors lack, or torch derives their shapes for the example's sizes only. During a capture
each is an operator of ours, with torch's schema and a shape function. `NAMES` maps them back to torch's names.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch._subclasses import fake_impls
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from onnxexp.capture.torch_state import is_exporting, replace_attributes

__all__ = ["NAMES", "keep_data_dependent_ops", "library", "lstsq"]


def _cov(self: torch.Tensor, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> torch.Tensor:
    dtype = self.dtype if aweights is None else torch.promote_types(self.dtype, aweights.dtype)
    if not (dtype.is_floating_point or dtype.is_complex):
        dtype = torch.get_default_dtype()
    one = self.dim() < 2 or self.shape[0] == 1
    return self.new_empty(() if one else (self.shape[0], self.shape[0]), dtype=dtype)


def _corrcoef(self: torch.Tensor) -> torch.Tensor:
    return _cov(self)


def _one_hot(self: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
    classes = torch.library.get_ctx().new_dynamic_size(min=1) if num_classes == -1 else num_classes
    return self.new_empty((*self.shape, classes), dtype=torch.int64)


def _narrow(self: torch.Tensor, dim: int, start: torch.Tensor, length: Any) -> torch.Tensor:
    sizes = list(self.shape)
    sizes[dim] = length
    return self.new_empty(sizes)


def _ctc_loss(
    log_probs: torch.Tensor, targets: torch.Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: int = 1, zero_infinity: bool = False,
) -> torch.Tensor:  # fmt: skip
    return log_probs.new_empty(log_probs.shape[1:2] if log_probs.dim() == 3 and reduction == 0 else ())


def lstsq(self: Any, b: Any, rcond: float | None = None, *, driver: str | None = None) -> tuple[Any, ...]:
    """Output shapes of linalg.lstsq, with residuals for matrices of full rank.

    Without full rank torch returns no residuals; the rank depends on values.
    """
    *batch, rows, columns = self.shape
    right = b.shape[self.dim() - 1 :]  # empty if each right-hand side is a vector
    driver = driver or "gelsy"
    summed = bool(rows > columns) and driver != "gelsy"
    return (
        self.new_empty((*batch, columns, *right)),
        self.new_empty((*batch, *(right or (1,))) if summed else (0,)),
        self.new_empty(batch if driver != "gels" else (0,), dtype=torch.int64),
        self.new_empty((*batch, min(rows, columns)) if driver in ("gelsd", "gelss") else (0,)),
    )


def _tensor_split_sections(self: torch.Tensor, sections: int, dim: int = 0) -> list[torch.Tensor]:
    """Output shapes of tensor_split for any remainder.

    torch specialises to the example's.
    """
    torch._check(sections > 0, lambda: f"number of sections must be larger than 0, got {sections}")  # type: ignore[no-untyped-call]
    size = self.shape[dim]
    return _parts(self, dim, [(size + sections - 1 - index) // sections for index in range(sections)])


def _tensor_split_indices(self: torch.Tensor, indices: Sequence[Any], dim: int = 0) -> list[torch.Tensor]:
    """Output shapes of tensor_split at indices, with Python's slice semantics."""
    size = self.shape[dim]
    places = [0, *(_slice_bound(index, size) for index in indices), size]
    return _parts(self, dim, [_slice_length(start, end) for start, end in itertools.pairwise(places)])


def _slice_bound(index: Any, size: Any) -> Any:
    """Return a slice bound as a position on an axis of `size`.

    Returns None if its sign is unknown.
    """
    if statically_known_true(index >= 0):
        return torch.sym_min(index, size)  # type: ignore[no-untyped-call]
    if statically_known_true(index < 0):
        return torch.sym_max(size + index, 0)  # type: ignore[no-untyped-call]
    return None


def _slice_length(start: Any, end: Any) -> Any:
    if start is None or end is None:
        return torch.library.get_ctx().new_dynamic_size()
    return torch.sym_max(end - start, 0)  # type: ignore[no-untyped-call]


def _parts(self: torch.Tensor, dim: int, lengths: Sequence[Any]) -> list[torch.Tensor]:
    before, after = self.shape[:dim], self.shape[dim % self.dim() + 1 :]
    return [self.new_empty((*before, length, *after)) for length in lengths]


_SHAPES: dict[str, Callable[..., Any]] = {
    "cov": _cov,
    "corrcoef": _corrcoef,
    "ctc_loss.IntList": _ctc_loss,
    "ctc_loss.Tensor": _ctc_loss,
    "dsplit.array": lambda self, indices: _tensor_split_indices(self, indices, 2),
    "hsplit.array": lambda self, indices: _tensor_split_indices(self, indices, min(1, self.dim() - 1)),
    "linalg_lstsq": lstsq,
    "narrow.Tensor": _narrow,
    "one_hot": _one_hot,
    "tensor_split.indices": _tensor_split_indices,
    "tensor_split.sections": _tensor_split_sections,
    "vsplit.array": lambda self, indices: _tensor_split_indices(self, indices),
}
NAMES = {f"onnxexp::{name}": f"aten::{name}" for name in _SHAPES}
"""torch's name of each of our operators, for the neutral graph."""

_PYTHON_NAMES = MappingProxyType(
    {
        "cov": ((torch, "cov"), (torch.Tensor, "cov")),
        "corrcoef": ((torch, "corrcoef"), (torch.Tensor, "corrcoef")),
        "ctc_loss": ((torch, "ctc_loss"),),
        "dsplit": ((torch, "dsplit"), (torch.Tensor, "dsplit")),
        "hsplit": ((torch, "hsplit"), (torch.Tensor, "hsplit")),
        "linalg_lstsq": ((torch.linalg, "lstsq"),),
        "narrow": ((torch, "narrow"), (torch.Tensor, "narrow")),
        "one_hot": ((functional, "one_hot"),),
        "tensor_split": ((torch, "tensor_split"), (torch.Tensor, "tensor_split")),
        "vsplit": ((torch, "vsplit"), (torch.Tensor, "vsplit")),
    }
)
"""The Python names of each operator, as (owner, attribute)."""
_LEAST_RANKS = {"hsplit": 1, "vsplit": 2, "dsplit": 3}


@functools.cache
def library() -> Any:
    """Define the operators, once per process."""
    library: Any = torch.library.Library("onnxexp", "FRAGMENT")  # type: ignore[no-untyped-call]
    for name, shapes in _SHAPES.items():
        packet, _, overload = name.partition(".")
        schema = str(getattr(getattr(torch.ops.aten, packet), overload or "default")._schema)  # by the operator's name
        # aliasing is dropped: a capture writes nothing through these views
        library.define(
            schema.removeprefix("aten::").replace("(a)", "").replace("(a -> *)", "").replace("int[] indices", "SymInt[] indices")
        )
        torch.library.register_fake(f"onnxexp::{name}", shapes, lib=library)
    return library


def _captured(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        if not is_exporting() or _is_static_call(name, args, options):
            return original(*args, **options)
        options = {"self" if key == "input" else key: value for key, value in options.items()}
        result = getattr(torch.ops.onnxexp, name)(*args, **options)  # by the operator's name
        if name == "linalg_lstsq":
            return torch.return_types.linalg_lstsq(result)  # type: ignore[attr-defined] # defined in C++
        return tuple(result) if isinstance(result, list) else result

    return call


def _is_static_call(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Whether torch.export derives the right output shapes of a call by itself."""
    if name == "one_hot":
        return bool((*args[1:], *options.values(), -1)[0] != -1)
    if name == "tensor_split":
        return _has_static_split(*args, **options)
    if name in _LEAST_RANKS:
        return _has_static_parts(name, *args, **options)
    return name == "narrow" and not isinstance(options.get("start", args[2] if len(args) > 2 else None), torch.Tensor)


def _has_static_split(
    input: torch.Tensor, indices_or_sections: Any = None, dim: int = 0, *, sections: Any = None, indices: Any = None
) -> bool:
    """Whether the split axis is static, or the split points are a tensor."""
    return isinstance(indices_or_sections, torch.Tensor) or isinstance(input.shape[dim], int)


def _has_static_parts(name: str, input: torch.Tensor, *args: Any, **options: Any) -> bool:
    """Whether the split axis is static, or the call needs no shape function."""
    places, rank = (*args, *options.values()), input.dim()
    if len(places) != 1 or not isinstance(places[0], (list, tuple)) or rank < _LEAST_RANKS[name]:
        return True
    axis = {"hsplit": min(1, rank - 1), "vsplit": 0, "dsplit": 2}[name]
    return isinstance(input.shape[axis], int)


class _RedirectCalls(TorchFunctionMode):
    """Redirect calls through stored references to torch's functions."""

    def __init__(self, calls: Mapping[Any, Callable[..., Any]]) -> None:
        super().__init__()
        self._calls = calls

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        return self._calls.get(func, func)(*args, **(kwargs or {}))


@contextlib.contextmanager
def keep_data_dependent_ops(*, references: bool) -> Iterator[None]:
    """Capture these operators as one node each. Other threads are not affected.

    With `references`, also redirect references to the functions that the model stored earlier.
    """
    library()
    calls: dict[Any, Callable[..., Any]] = {}
    table: list[tuple[Any, str, Callable[..., Any]]] = []
    for name, places in _PYTHON_NAMES.items():
        for owner, attribute in places:
            original = getattr(owner, attribute)  # by its name
            calls[original] = _captured(name, original)
            table.append((owner, attribute, calls[original]))
    table.append((fake_impls, "_unique", _unique(fake_impls._unique)))
    for original, instead in _replacements().items():
        calls[original] = instead
        table.append((functional, original.__name__, instead))
    with replace_attributes(table), _RedirectCalls(calls) if references else contextlib.nullcontext():
        yield


def _replacements() -> dict[Any, Callable[..., torch.Tensor]]:
    """Return replacements for functions of torch.nn.functional."""
    return {
        functional.gaussian_nll_loss: _gaussian_nll_loss(functional.gaussian_nll_loss),
        functional.linear_cross_entropy: _linear_cross_entropy(functional.linear_cross_entropy),
    }


def _unique(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap torch's shapes of unique_consecutive, wrong for a negative dim."""

    def shapes(mode: Any, func: Any, x: torch.Tensor, dim: int | None, *args: Any, **options: Any) -> Any:
        return original(mode, func, x, dim + x.dim() if dim is not None and dim < 0 else dim, *args, **options)

    return shapes


def _linear_cross_entropy(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Wrap linear_cross_entropy without its memory-saving options.

    The loss is the same.
    """

    @functools.wraps(original)
    def call(*args: Any, **options: Any) -> torch.Tensor:
        return original(*args, **{**options, "options": None} if is_exporting() else options)

    return call


def _gaussian_nll_loss(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Wrap gaussian_nll_loss without its check for negative variances."""

    def call(
        input: torch.Tensor, target: torch.Tensor, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
    ) -> torch.Tensor:
        if not is_exporting() or not isinstance(var, torch.Tensor):
            return original(input, target, var, full, eps, reduction)
        if var.dim() < input.dim():
            var = var.unsqueeze(-1)
        var = var.clamp(min=eps)
        loss: torch.Tensor = 0.5 * (var.log() + (input - target) ** 2 / var)
        if full:
            loss = loss + 0.5 * math.log(2 * math.pi)
        if reduction == "none":
            return loss
        return torch.mean(loss) if reduction == "mean" else torch.sum(loss)

    return call
