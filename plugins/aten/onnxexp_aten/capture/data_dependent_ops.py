"""Capture data-dependent operators as one node each.

These operators read values, which fake tensors lack, or torch derives their shapes for the example's sizes only. During a capture
their Python functions call the operators of `stand_in_ops`.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses import fake_impls
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true
from torch.nn import functional
from torch.utils import _pytree as pytree

from onnxexp.frontends import redirected
from onnxexp_aten.capture.unbacked_sizes import replaced_kernel
from onnxexp_aten.creation.windows import WINDOWS


def _call_own(name: str, original: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Call our operator `name`, unless torch derives the right shapes by itself."""
    if name in _STATIC and _STATIC[name](*args, **options):
        return original(*args, **options)
    options = {"self" if key == "input" else key: value for key, value in options.items()}
    result = getattr(torch.ops.onnxexp_shapes, name)(*args, **options)  # by the operator's name
    if name in _NAMED:
        return getattr(torch.return_types, name)(result)  # defined in C++
    return tuple(result) if isinstance(result, list) else result


def _depends_on_values(x: Any) -> bool:
    """Return whether a size depends on values, or False where Dynamo cannot test it."""
    return isinstance(x, torch.Tensor) and not torch.compiler.is_dynamo_compiling() and bool(free_unbacked_symbols(x.shape))


def _has_known_sizes(*args: Any, **options: Any) -> bool:
    """Return whether no size depends on values.

    torch compares sizes with 0 and 1, which fails for a size that depends on values.
    """
    return not any(map(_depends_on_values, (*args, *options.values())))


_NAMED = frozenset({"cummax", "cummin", "linalg_lstsq"})
"""Functions whose result is a named tuple."""
_TRANSFORMS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
_WITH_AUTOCAST = ("cdist", "scaled_dot_product_attention", *(f"fft_{name}" for name in _TRANSFORMS))
"""Functions whose dtypes autocast decides."""
_STATIC: dict[str, Callable[..., bool]] = {
    "narrow": lambda input, dim, start, length: not isinstance(start, torch.Tensor),
    "one_hot": lambda input, num_classes=-1: isinstance(num_classes, int) and num_classes != -1,
    **dict.fromkeys(("cummax", "cummin", "diff", "take", "trapezoid", "trapz"), _has_known_sizes),
    **dict.fromkeys(
        _WITH_AUTOCAST,
        lambda input, *args, **options: torch.is_autocast_enabled(input.device.type) or _has_known_sizes(input, *args, **options),
    ),
    **dict.fromkeys(WINDOWS, lambda window_length, *parameters, **options: not isinstance(window_length, torch.SymInt)),
}
"""Conditions under which torch.export derives the right output shapes, on the arguments of the Python function."""


def _split_at(axis: int, least_rank: int, original: Callable[..., Any], input: torch.Tensor, *args: Any, **options: Any) -> Any:
    """Call tensor_split for hsplit, vsplit or dsplit of a dynamic axis at indices."""
    places, axis = (*args, *options.values()), min(axis, input.dim() - 1)
    at_indices = len(places) == 1 and isinstance(places[0], (list, tuple)) and input.dim() >= least_rank
    if not at_indices or isinstance(input.shape[axis], int):
        return original(input, *args, **options)
    return torch.tensor_split(input, places[0], axis)


def _tensor_split(
    original: Callable[..., Any], input: torch.Tensor, indices_or_sections: Any = None, dim: int = 0, **options: Any
) -> Any:
    """Call our operator for a dynamic axis, also with split points in a tensor."""
    by = indices_or_sections if indices_or_sections is not None else next(iter(options.values()))
    if isinstance(input.shape[dim], int):
        return original(input, by, dim)
    return tuple(torch.ops.onnxexp_shapes.tensor_split(input, by.tolist() if isinstance(by, torch.Tensor) else by, dim))


def _unique(original: Callable[..., Any], mode: Any, func: Any, x: Any, dim: int | None, *args: Any, **options: Any) -> Any:
    """Infer the shapes of unique by torch's function, and correct its results.

    torch takes a negative dim wrongly, and in torch 2.11 the indices have the dtype of x.
    """
    values, *indices = original(mode, func, x, dim + x.dim() if dim is not None and dim < 0 else dim, *args, **options)
    return values, *(_with_dtype(each, torch.int64) for each in indices)


def _bincount(original: Callable[..., Any], mode: Any, func: Any, x: Any, weights: Any = None, minlength: Any = 0) -> Any:
    """Infer the shape of bincount by torch, and correct the dtype of torch 2.11."""
    counted = torch.int64 if weights is None else torch.float32 if weights.dtype == torch.float32 else torch.float64
    return _with_dtype(original(mode, func, x, weights, minlength), counted)


def _with_dtype(fake: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return fake if fake.dtype == dtype else fake.new_empty(fake.shape, dtype=dtype)


def _cdist(original: Callable[..., Any], x1: torch.Tensor, x2: torch.Tensor, p: float = 2.0, compute_mode: Any = None) -> Any:
    """Call our operator, whose mode is a number, unless torch has the right shapes."""
    given = {} if compute_mode is None else {"compute_mode": compute_mode}
    if _STATIC["cdist"](x1, x2):
        return original(x1, x2, p, **given)
    return torch.ops.onnxexp_shapes.cdist(x1, x2, p, _DISTANCES.get(compute_mode, compute_mode))


_DISTANCES = {
    "use_mm_for_euclid_dist_if_necessary": None,
    "use_mm_for_euclid_dist": 1,
    "donot_use_mm_for_euclid_dist": 2,
}
"""The mode of torch's operator by that of its Python function."""


def _linear_cross_entropy(original: Callable[..., torch.Tensor], *args: Any, **options: Any) -> torch.Tensor:
    """Call linear_cross_entropy without the options that only save memory."""
    return original(*args, **{**options, "options": None})


def _gaussian_nll_loss(
    original: Callable[..., torch.Tensor],
    input: torch.Tensor,
    target: torch.Tensor,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> torch.Tensor:
    """Compute gaussian_nll_loss without its check for negative variances."""
    if not isinstance(var, torch.Tensor):
        return original(input, target, var, full, eps, reduction)
    var = (var.unsqueeze(-1) if var.dim() < input.dim() else var).clamp(min=eps)
    loss: torch.Tensor = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()


def _set_item(original: Callable[..., None], self: torch.Tensor, index: Any, value: Any) -> None:
    """Write at an index that is an integer tensor, through a view of the element."""
    items = index if isinstance(index, tuple) else (index,)
    views = all(_is_integer(item) or item is None or item is ... or isinstance(item, slice) for item in items)
    if not views or not any(isinstance(item, torch.Tensor) for item in items):
        original(self, index, value)
        return
    place = self[index]
    if isinstance(value, torch.Tensor):
        place.copy_(value.reshape(value.shape[max(value.dim() - place.dim(), 0) :]))  # sizes of 1 in front may be too many
    else:
        place.fill_(value)


def _is_integer(index: Any) -> bool:
    """Return whether an index selects one element: an int, or a tensor that is one."""
    if isinstance(index, torch.Tensor):
        return index.dim() == 0 and index.dtype not in (torch.bool, torch.uint8)
    return isinstance(index, (int, torch.SymInt)) and not isinstance(index, bool)


def _shape_as_tensor(original: Callable[..., Any], input: torch.Tensor) -> torch.Tensor:
    """Return the shape as a tensor; under torch.export torch returns a tuple."""
    return torch.stack([torch.scalar_tensor(size, dtype=torch.int64) for size in input.shape])


def _dim_arange(original: Callable[..., Any], like: torch.Tensor, dim: int) -> torch.Tensor:
    """Count along a dimension, whose size torch's own kernel fixes."""
    return torch.arange(like.shape[dim], device=like.device)


def _reshape_from_tensor(original: Callable[..., Any], input: torch.Tensor, shape: torch.Tensor) -> torch.Tensor:
    """Reshape to sizes that a tensor contains."""
    sizes = shape.tolist()
    known = all(isinstance(size, int) for size in sizes)
    return input.reshape(sizes) if known else torch.ops.onnxexp_shapes._reshape_from_tensor(input, shape)


def _as_tensor(original: Callable[..., Any], data: Any, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
    """Call torch.tensor for symbolic numbers, which as_tensor would fix."""
    symbolic = any(isinstance(number, (torch.SymInt, torch.SymFloat)) for number in pytree.tree_leaves(data))
    return (torch.tensor if symbolic else original)(data, dtype=dtype, device=device)


def _roll(original: Callable[..., Any], input: torch.Tensor, shifts: Any, dims: Any = ()) -> torch.Tensor:
    """Call our operator for sizes that depend on values; torch compares them with 0."""
    if not _depends_on_values(input):
        return original(input, shifts, dims)
    lists = ([*each] if isinstance(each, (list, tuple)) else [each] for each in (shifts, () if dims is None else dims))
    rolled: torch.Tensor = torch.ops.onnxexp_shapes.roll(input, *lists)
    return rolled


def _take_along_dim(original: Callable[..., torch.Tensor], input: torch.Tensor, indices: torch.Tensor, dim: Any = None) -> Any:
    """Expand both tensors to the same sizes on the other axes, and gather."""
    if not any(isinstance(size, torch.SymInt) for size in (*input.shape, *indices.shape)):
        return original(input, indices, dim)
    if dim is None:
        return input.flatten().gather(0, indices.flatten())
    axis = dim % input.dim()
    indices = indices % input.shape[axis]
    x_sizes, sizes = list[Any](input.shape), list[Any](indices.shape)
    for each, (one, other) in enumerate(zip(x_sizes, sizes, strict=True)):
        if each != axis:
            x_sizes[each] = sizes[each] = other if isinstance(one, int) and one == 1 else one
    return _expanded(input, x_sizes).gather(axis, _expanded(indices, sizes))


def _expanded(x: torch.Tensor, sizes: list[Any]) -> torch.Tensor:
    same = all(statically_known_true(one == other) for one, other in zip(x.shape, sizes, strict=True))
    return x if same else x.expand(sizes)


_METHODS: dict[str, Callable[..., Any]] = {
    **{
        name: functools.partial(_call_own, name)
        for name in ("cov", "corrcoef", "cummax", "cummin", "diff", "istft", "kron", "narrow", "take")
    },
    "hsplit": functools.partial(_split_at, 1, 1),
    "vsplit": functools.partial(_split_at, 0, 2),
    "dsplit": functools.partial(_split_at, 2, 3),
    "roll": _roll,
    "take_along_dim": _take_along_dim,
    "tensor_split": _tensor_split,
}
"""The replacements of functions that are also methods of a tensor."""
DATA_DEPENDENT: list[tuple[Any, str, Callable[..., Any]]] = [
    *((owner, name, instead) for owner in (torch, torch.Tensor) for name, instead in _METHODS.items()),
    (torch.Tensor, "__setitem__", _set_item),
    *((torch, name, functools.partial(_call_own, name)) for name in WINDOWS),
    (torch, "as_tensor", _as_tensor),
    (torch, "_shape_as_tensor", _shape_as_tensor),
    (torch, "_dim_arange", _dim_arange),
    (torch, "_reshape_from_tensor", _reshape_from_tensor),
    (torch, "ctc_loss", functools.partial(_call_own, "ctc_loss")),
    (torch, "cdist", _cdist),
    *((torch, name, functools.partial(_call_own, name)) for name in ("trapezoid", "trapz")),
    *((torch.fft, name, functools.partial(_call_own, f"fft_{name}")) for name in _TRANSFORMS),
    (torch._C._nn, "scaled_dot_product_attention", functools.partial(_call_own, "scaled_dot_product_attention")),
    (torch.linalg, "lstsq", functools.partial(_call_own, "linalg_lstsq")),
    (functional, "one_hot", functools.partial(_call_own, "one_hot")),
    (functional, "gaussian_nll_loss", _gaussian_nll_loss),
    (functional, "linear_cross_entropy", _linear_cross_entropy),  # not in torch 2.11
]
"""The replacement of each Python function, as (owner, attribute, replacement); torch 2.11 to 2.15 lack some."""


@contextlib.contextmanager
def keep_data_dependent_sizes() -> Iterator[None]:
    """Correct torch's shapes of unique and bincount, without effect on other threads."""
    with (
        redirected([(fake_impls, "_unique", _unique)], attributes=True),
        replaced_kernel(fake_impls.op_implementations_dict, torch.ops.aten.bincount.default, _bincount),
    ):
        yield
