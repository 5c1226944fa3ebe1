"""Operators that look at values while they run, which fake tensors do not have, or whose shapes torch tells for the example's
sizes only: kept whole, with their output shapes told.

While a model is captured each is an operator of our own, with the schema of torch's, under whose name the neutral graph has it.
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

from onnxexp.capture.torch_state import is_exporting, replaced

__all__ = ["NAMES", "kept_opaque", "library", "lstsq"]


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
    """The residuals are those of matrices of full rank: of others torch gives none, which only their values tell."""
    *batch, rows, columns = self.shape
    right = b.shape[self.dim() - 1 :]  # of a vector for each matrix there is nothing more
    driver = driver or "gelsy"
    summed = bool(rows > columns) and driver != "gelsy"
    return (
        self.new_empty((*batch, columns, *right)),
        self.new_empty((*batch, *(right or (1,))) if summed else (0,)),
        self.new_empty(batch if driver != "gels" else (0,), dtype=torch.int64),
        self.new_empty((*batch, min(rows, columns)) if driver in ("gelsd", "gelss") else (0,)),
    )


def _tensor_split_sections(self: torch.Tensor, sections: int, dim: int = 0) -> list[torch.Tensor]:
    """Sizes that are right whatever the remainder is; torch decides by that of the example."""
    torch._check(sections > 0, lambda: f"number of sections must be larger than 0, got {sections}")  # type: ignore[no-untyped-call]
    size = self.shape[dim]
    return _pieces(self, dim, [(size + sections - 1 - index) // sections for index in range(sections)])


def _tensor_split_indices(self: torch.Tensor, indices: Sequence[Any], dim: int = 0) -> list[torch.Tensor]:
    """Each index as Python's slices take it: no further than the axis goes, and from its end where it is negative."""
    size = self.shape[dim]
    places = [0, *(_place(index, size) for index in indices), size]
    return _pieces(self, dim, [_between(start, end) for start, end in itertools.pairwise(places)])


def _place(index: Any, size: Any) -> Any:
    """Where an index of a slice is on an axis of that size, None where only the run time knows its sign."""
    if statically_known_true(index >= 0):
        return torch.sym_min(index, size)  # type: ignore[no-untyped-call]
    if statically_known_true(index < 0):
        return torch.sym_max(size + index, 0)  # type: ignore[no-untyped-call]
    return None


def _between(start: Any, end: Any) -> Any:
    if start is None or end is None:
        return torch.library.get_ctx().new_dynamic_size()
    return torch.sym_max(end - start, 0)  # type: ignore[no-untyped-call]


def _pieces(self: torch.Tensor, dim: int, lengths: Sequence[Any]) -> list[torch.Tensor]:
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
"""Our operators, and torch's that stand for them in the neutral graph."""

_CALLED = MappingProxyType(
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
"""The names under which models call them."""
_LEAST_RANKS = {"hsplit": 1, "vsplit": 2, "dsplit": 3}


@functools.cache
def library() -> Any:
    """The operators, defined once."""
    made: Any = torch.library.Library("onnxexp", "FRAGMENT")  # type: ignore[no-untyped-call]
    for name, shapes in _SHAPES.items():
        packet, _, overload = name.partition(".")
        schema = str(getattr(getattr(torch.ops.aten, packet), overload or "default")._schema)  # by the operator's name
        # while it is captured, nothing is written through it
        made.define(
            schema.removeprefix("aten::").replace("(a)", "").replace("(a -> *)", "").replace("int[] indices", "SymInt[] indices")
        )
        torch.library.register_fake(f"onnxexp::{name}", shapes, lib=made)
    return made


def _whole(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        if not is_exporting() or _seen(name, args, options):
            return original(*args, **options)
        options = {"self" if key == "input" else key: value for key, value in options.items()}
        result = getattr(torch.ops.onnxexp, name)(*args, **options)  # by the operator's name
        if name == "linalg_lstsq":
            return torch.return_types.linalg_lstsq(result)  # type: ignore[attr-defined] # made in C++
        return tuple(result) if isinstance(result, list) else result

    return call


def _seen(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Calls of which torch.export knows the shape itself."""
    if name == "one_hot":
        return bool((*args[1:], *options.values(), -1)[0] != -1)
    if name == "tensor_split":
        return _splits_alike(*args, **options)
    if name in _LEAST_RANKS:
        return _is_cut_alike(name, *args, **options)
    return name == "narrow" and not isinstance(options.get("start", args[2] if len(args) > 2 else None), torch.Tensor)


def _splits_alike(
    input: torch.Tensor, indices_or_sections: Any = None, dim: int = 0, *, sections: Any = None, indices: Any = None
) -> bool:
    """Whether the axis has one size only, or a tensor says where it is split."""
    return isinstance(indices_or_sections, torch.Tensor) or isinstance(input.shape[dim], int)


def _is_cut_alike(name: str, input: torch.Tensor, *args: Any, **options: Any) -> bool:
    """Whether the axis has one size only, or is cut into so many parts as divide it, or not at all."""
    places, rank = (*args, *options.values()), input.dim()
    if len(places) != 1 or not isinstance(places[0], (list, tuple)) or rank < _LEAST_RANKS[name]:
        return True
    axis = {"hsplit": min(1, rank - 1), "vsplit": 0, "dsplit": 2}[name]
    return isinstance(input.shape[axis], int)


class _References(TorchFunctionMode):
    """What a model holds of torch's functions since before the capture goes where their names go."""

    def __init__(self, calls: Mapping[Any, Callable[..., Any]]) -> None:
        super().__init__()
        self._calls = calls

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        return self._calls.get(func, func)(*args, **(kwargs or {}))


@contextlib.contextmanager
def kept_opaque(*, references: bool) -> Iterator[None]:
    """Inside, these operators are captured as one node each. Other threads are not affected.

    `references`: also where a model calls a function that it has not looked up by its name now.
    """
    library()
    calls: dict[Any, Callable[..., Any]] = {}
    table: list[tuple[Any, str, Callable[..., Any]]] = []
    for name, places in _CALLED.items():
        for owner, attribute in places:
            original = getattr(owner, attribute)  # by its name
            calls[original] = _whole(name, original)
            table.append((owner, attribute, calls[original]))
    table.append((fake_impls, "_unique", _unique(fake_impls._unique)))
    for original, instead in _rewritten().items():
        calls[original] = instead
        table.append((functional, original.__name__, instead))
    with replaced(table), _References(calls) if references else contextlib.nullcontext():
        yield


def _rewritten() -> dict[Any, Callable[..., torch.Tensor]]:
    """torch's functions in Python that are written with other operators while a model is captured."""
    return {
        functional.gaussian_nll_loss: _gaussian_nll_loss(functional.gaussian_nll_loss),
        functional.linear_cross_entropy: _linear_cross_entropy(functional.linear_cross_entropy),
    }


def _unique(original: Callable[..., Any]) -> Callable[..., Any]:
    """torch's shapes of distinct elements, which are wrong where unique_consecutive counts its dim from the end."""

    def shapes(mode: Any, func: Any, x: torch.Tensor, dim: int | None, *args: Any, **options: Any) -> Any:
        return original(mode, func, x, dim + x.dim() if dim is not None and dim < 0 else dim, *args, **options)

    return shapes


def _linear_cross_entropy(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """torch's without its options, which say how training saves memory: the loss is the same, and is made of known operators."""

    @functools.wraps(original)
    def call(*args: Any, **options: Any) -> torch.Tensor:
        return original(*args, **{**options, "options": None} if is_exporting() else options)

    return call


def _gaussian_nll_loss(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """torch's, but for the look at the variances: that none of them is negative is the caller's word."""

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
