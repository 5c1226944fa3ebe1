"""Shape functions of common calls: torch's fake kernels are slow on symbols.

A shape function applies only if it need not compare two sizes. Otherwise torch's kernel runs, and records a size that the model
fixes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch

from onnxexp_torchscript.types.abstract_tensor import AbstractTensor, expr_of, same

_KEEPING = frozenset(
    f"aten::{name}"
    for name in [
        *("dropout", "feature_dropout", "relu", "relu_", "gelu", "silu"),
        *("silu_", "hardtanh", "hardtanh_", "hardswish", "hardswish_", "leaky_relu", "leaky_relu_", "elu", "elu_", "sigmoid"),
        *("sigmoid_", "tanh", "tanh_", "detach", "alias", "exp", "sqrt", "rsqrt", "neg", "relu6", "cos", "sin", "log"),
    ]
)
"""Their result has the sizes and, of floating numbers, the dtype of the first argument."""
_ARITHMETIC = frozenset(f"aten::{name}.Tensor" for name in ("add", "add_", "sub", "mul", "mul_", "div"))
_COMPARISONS = frozenset(f"aten::{name}.{kind}" for name in ("eq", "ne", "lt", "le", "gt", "ge") for kind in ("Tensor", "Scalar"))
_LOGIC = frozenset(["aten::__and__.Tensor", "aten::__or__.Tensor", "aten::logical_and", "aten::bitwise_and.Tensor"])
_INTEGERS = frozenset((torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64))
_LAST = 2**62


_CELLS = frozenset({"aten::lstm_cell", "aten::gru_cell"})
"""Cells return states like those given."""


def infer_result(name: str, fakes: Sequence[Any]) -> Any:
    """Infer a call's result without torch; return None if no shape function applies."""
    if not fakes or not isinstance(fakes[0], AbstractTensor):
        return _cat(fakes) if name == "aten::cat" else None
    first = fakes[0]
    if name in _CELLS:
        states = fakes[1] if isinstance(fakes[1], list) else [fakes[1]]
        fits = first.dim() == 2 and same(first.shape[1], fakes[2].shape[1])
        return fakes[1] if fits and all(same(first.shape[0], state.shape[0]) for state in states) else None
    if name in _TYPED:
        return AbstractTensor(_TYPED[name](fakes) or first.dtype, first.shape)
    if name.partition(".")[0] in _KEEPING or (name in ("aten::softmax.int", "aten::log_softmax.int") and fakes[2] is None):
        return first if first.dtype.is_floating_point else None
    if name in _ARITHMETIC or name in _COMPARISONS or name in _LOGIC:
        return _elementwise(name, fakes)
    if name in _SEVERAL:
        return _SEVERAL[name](fakes) if all(map(_is_static, fakes)) else None
    special = _SPECIAL.get(name)
    sizes = special(fakes) if special is not None else None
    return None if sizes is None else AbstractTensor(first.dtype.to_real() if name == "aten::istft" else first.dtype, sizes)


def _elementwise(name: str, fakes: Sequence[Any]) -> AbstractTensor | None:
    first, other = fakes[:2]
    if isinstance(other, AbstractTensor):
        if other.dtype != first.dtype:
            return None
        sizes = broadcast(first.shape, other.shape)
    else:
        sizes = list(first.shape) if isinstance(other, (bool, int, float)) else None
    keeps = first.dtype.is_floating_point or (
        not name.startswith("aten::div") and not isinstance(other, float) and first.dtype in _INTEGERS
    )
    if sizes is None or (name in _ARITHMETIC and not keeps) or (name in _LOGIC and first.dtype != torch.bool):
        return None
    return AbstractTensor(first.dtype if name in _ARITHMETIC else torch.bool, sizes)


def broadcast(first: Sequence[Any], other: Sequence[Any]) -> list[Any] | None:
    """Broadcast two shapes; return None if that needs a comparison of symbols."""
    longer, shorter = (first, other) if len(first) >= len(other) else (other, first)
    sizes: list[Any] = list(longer)
    for index in range(1, len(shorter) + 1):
        one, two = longer[-index], shorter[-index]
        if _is_one(one):
            sizes[-index] = two
        elif not _is_one(two) and not same(one, two):
            return None
    return sizes


def _is_one(size: Any) -> bool:
    return bool(expr_of(size) == 1)


def _all_same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return len(one) == len(other) and all(map(same, one, other))


def _linear(fakes: Sequence[Any]) -> list[Any] | None:
    x, weight = fakes[:2]
    fits = x.dtype == weight.dtype and weight.dim() == 2 and x.dim() > 0 and same(x.shape[-1], weight.shape[1])
    return [*x.shape[:-1], weight.shape[0]] if fits else None


def _matmul(fakes: Sequence[Any]) -> list[Any] | None:
    x, y = fakes[:2]
    fits = (
        x.dtype == y.dtype and x.dim() == y.dim() > 1 and same(x.shape[-1], y.shape[-2]) and _all_same(x.shape[:-2], y.shape[:-2])
    )
    return [*x.shape[:-1], y.shape[-1]] if fits else None


def _attention(fakes: Sequence[Any]) -> list[Any] | None:
    query, key, value = fakes[:3]
    alike = _all_same(query.shape[:-2], key.shape[:-2]) and _all_same(key.shape[:-1], value.shape[:-1])
    scores = [*query.shape[:-1], key.shape[-2]]
    fits = fakes[3] is None or goes_into(fakes[3].shape, scores)
    return [*query.shape[:-1], value.shape[-1]] if alike and fits else None


def goes_into(shape: Sequence[Any], to: Sequence[Any]) -> bool:
    """Return whether a tensor of this shape broadcasts to those sizes."""
    pairs = zip(reversed(shape), reversed(to), strict=False)
    return len(shape) <= len(to) and all(_is_one(size) or same(size, other) for size, other in pairs)


def _addmm(fakes: Sequence[Any]) -> list[Any] | None:
    bias, x = fakes[:2]
    product = _matmul(fakes[1:3]) if x.dim() == 2 else None
    return product if product and bias.dtype == x.dtype and bias.dim() == 1 and same(bias.shape[0], product[1]) else None


def _transpose(fakes: Sequence[Any]) -> list[Any]:
    sizes, one, other = list(fakes[0].shape), *fakes[1:3]
    if sizes:
        sizes[one], sizes[other] = sizes[other], sizes[one]
    return sizes


def _permute(fakes: Sequence[Any]) -> list[Any]:
    return [fakes[0].shape[dim] for dim in fakes[1]]


def _unsqueeze(fakes: Sequence[Any]) -> list[Any]:
    sizes = list(fakes[0].shape)
    sizes.insert(fakes[1] % (len(sizes) + 1), 1)
    return sizes


def _select(fakes: Sequence[Any]) -> list[Any]:
    sizes = list(fakes[0].shape)
    del sizes[fakes[1]]
    return sizes


def _slice(fakes: Sequence[Any]) -> list[Any] | None:
    x, dim, start, end, step = fakes
    if not all(limit is None or isinstance(limit, int) for limit in (start, end, step)):
        return None
    sizes = list(x.shape)
    if isinstance(sizes[dim], int):
        sizes[dim] = len(range(*slice(start, end, step).indices(sizes[dim])))
        return sizes
    return sizes if not start and (end is None or end > _LAST) and step == 1 else None


def _narrow(fakes: Sequence[Any]) -> list[Any]:
    """Infer the sizes of ``narrow``.

    torch's kernel returns size 0 for a negative start of an unknown size.
    """
    x, dim, _, length = fakes
    sizes = list(x.shape)
    sizes[dim] = length
    return sizes


def _inverse_stft(fakes: Sequence[Any]) -> list[Any] | None:
    """Infer ``istft``; torch's kernel takes the length as an int."""
    x, n_fft, hop, _, _, center, _, onesided, length, return_complex = fakes
    if return_complex or onesided is False:
        return None
    frames = (hop or n_fft // 4) * (x.shape[-1] - 1)
    whole = frames + n_fft - (2 * (n_fft // 2) if center else 0)
    return [*x.shape[:-2], whole if length is None else length]


def _reshape(fakes: Sequence[Any]) -> list[Any] | None:
    sizes = list(fakes[1])
    open_ = [index for index, size in enumerate(sizes) if isinstance(size, int) and size == -1]
    total = math.prod((sympy.sympify(expr_of(size), strict=True) for size in fakes[0].shape), start=sympy.Integer(1))
    known = (size for index, size in enumerate(sizes) if index not in open_)
    rest = math.prod((sympy.sympify(expr_of(size), strict=True) for size in known), start=sympy.Integer(1))
    if not open_:
        return sizes if sympy.expand(total - rest) == 0 else None
    quotient = sympy.cancel(total / rest) if rest != 0 else None
    if quotient is None or not quotient.is_integer or len(open_) > 1:
        return None
    sizes[open_[0]] = int(quotient) if quotient.is_number else _found(fakes, quotient)
    return None if sizes[open_[0]] is None else sizes


def _found(fakes: Sequence[Any], expr: Any) -> Any:
    """Find a size that equals `expr`, or neighbours whose product does."""
    given = next((size for size in fakes[1] if isinstance(size, torch.SymInt) and size.node.expr == expr), None)
    if given is not None:
        return given
    sizes = fakes[0].shape
    runs = (sizes[start:end] for end in range(1, len(sizes) + 1) for start in range(end))
    run = next((run for run in runs if sympy.expand(math.prod(map(expr_of, run)) - expr) == 0), None)
    return None if run is None else math.prod(run)


def _flatten(fakes: Sequence[Any]) -> list[Any] | None:
    x, start, end = fakes
    if not x.dim():
        return [1]
    start, end = start % x.dim(), end % x.dim()
    return [*x.shape[:start], math.prod(x.shape[start : end + 1]), *x.shape[end + 1 :]] if start <= end else None


def _expand(fakes: Sequence[Any]) -> list[Any] | None:
    own: list[Any] = [1] * (len(fakes[1]) - fakes[0].dim()) + list(fakes[0].shape)
    sizes = []
    for have, want in zip(own, fakes[1], strict=True):
        if not (isinstance(want, int) and want == -1) and not _is_one(have) and not same(have, want):
            return None
        sizes.append(have if isinstance(want, int) and want == -1 else want)
    return sizes


def _embedding(fakes: Sequence[Any]) -> list[Any]:
    return [*fakes[1].shape, fakes[0].shape[1]]


def _layer_norm(fakes: Sequence[Any]) -> list[Any] | None:
    x, normalized = fakes[:2]
    fits = x.dtype.is_floating_point and _all_same(x.shape[x.dim() - len(normalized) :], normalized)
    return list(x.shape) if fits else None


def _of_channels(fakes: Sequence[Any]) -> list[Any] | None:
    """Infer a normalisation of channels, whose number the weights or the groups fix."""
    x = fakes[0]
    fits = x.dtype.is_floating_point and x.dim() > 1 and isinstance(x.shape[1], int)
    return list(x.shape) if fits else None


def _conv(fakes: Sequence[Any]) -> list[Any] | None:
    x, weight, _, stride, padding, dilation, _ = fakes
    spatial, rank = x.shape[2:], len(x.shape) - 2
    if x.dim() != weight.dim() or torch.SymInt in map(type, x.shape[1:]):
        return None
    each = zip(spatial, weight.shape[2:], _each(stride, rank), _each(padding, rank), _each(dilation, rank), strict=True)
    sizes = [(size + 2 * pad - dil * (kernel - 1) - 1) // step + 1 for size, kernel, step, pad, dil in each]
    return [x.shape[0], weight.shape[0], *sizes] if min(sizes) > 0 else None


def _pooled(rank: int, *, dilated: bool) -> Callable[[Sequence[Any]], list[Any] | None]:
    """Make the shape function of pooling; max_pool has a dilation, avg_pool has none."""

    def sizes(fakes: Sequence[Any]) -> list[Any] | None:
        x, kernel, stride, padding = fakes[:4]
        dilation, ceil = (fakes[4], fakes[5]) if dilated else (1, fakes[4])
        spatial = x.shape[-rank:]
        if x.dim() not in (rank + 1, rank + 2) or any(isinstance(size, torch.SymInt) for size in spatial):
            return None
        each = zip(spatial, *(_each(numbers, rank) for numbers in (kernel, stride or kernel, padding, dilation)), strict=True)
        after = [_window(ceil, *numbers) for numbers in each]
        return [*x.shape[:-rank], *after] if min(after) > 0 else None

    return sizes


def _window(ceil: bool, size: int, kernel: int, step: int, pad: int, dilation: int) -> int:
    """Count windows; `ceil` includes one that ends outside."""
    count = (size + 2 * pad - dilation * (kernel - 1) - 1 + (step - 1 if ceil else 0)) // step + 1
    return count - 1 if ceil and (count - 1) * step >= size + pad else count


def _shuffled(fakes: Sequence[Any]) -> list[Any] | None:
    x, factor = fakes
    if x.dim() < 3 or not isinstance(x.shape[-3], int) or x.shape[-3] % factor**2:
        return None
    return [*x.shape[:-3], x.shape[-3] // factor**2, x.shape[-2] * factor, x.shape[-1] * factor]


def _folded(fakes: Sequence[Any]) -> list[Any] | None:
    """Infer ``fold``; torch's kernel fixes the batch where the channels are symbolic."""
    x, output, kernel = fakes[:3]
    if not isinstance(x.shape[-1], int):
        return None
    return [*x.shape[:-2], x.shape[-2] // math.prod(_each(kernel, 2)), *output]


def _resized(fakes: Sequence[Any]) -> list[Any] | None:
    x, size = fakes[:2]
    return [*x.shape[:2], *size] if size is not None else None


def _reduced(fakes: Sequence[Any]) -> list[Any] | None:
    x, dims, keep, dtype = fakes
    if not dims or dtype is not None or not x.dtype.is_floating_point:
        return None
    gone = {dim % x.dim() for dim in dims}
    return [1 if axis in gone else size for axis, size in enumerate(x.shape) if keep or axis not in gone]


def _power(fakes: Sequence[Any]) -> list[Any] | None:
    x, exponent = fakes
    return list(x.shape) if x.dtype.is_floating_point and isinstance(exponent, (int, float)) else None


def _each(numbers: Any, count: int) -> list[int]:
    listed = list(numbers) if isinstance(numbers, (list, tuple)) else [numbers]
    return listed * count if len(listed) == 1 else listed


def _adaptive(fakes: Sequence[Any]) -> list[Any] | None:
    x, size = fakes[:2]
    return [*x.shape[: x.dim() - 2], *size] if len(size) == 2 and x.dim() > 2 else None


def _cat(fakes: Sequence[Any]) -> AbstractTensor | None:
    tensors, dim = fakes[:2]
    if not tensors or not all(isinstance(tensor, AbstractTensor) and tensor.dim() for tensor in tensors):
        return None
    first = tensors[0]
    dim = dim % first.dim()
    for tensor in tensors[1:]:
        if tensor.dtype != first.dtype or tensor.dim() != first.dim():
            return None
        if not all(same(a, b) for axis, (a, b) in enumerate(zip(first.shape, tensor.shape, strict=True)) if axis != dim):
            return None
    return AbstractTensor(
        first.dtype, [*first.shape[:dim], sum(tensor.shape[dim] for tensor in tensors), *first.shape[dim + 1 :]]
    )


def _is_static(fake: Any) -> bool:
    return not isinstance(fake, AbstractTensor) or all(isinstance(size, int) for size in fake.shape)


def _histogram(fakes: Sequence[Any]) -> list[Any] | None:
    x, bins = fakes[:2]
    given = [bins] * x.shape[-1] if isinstance(bins, int) else bins
    edges = [each if isinstance(each, AbstractTensor) else x.new_empty([each + 1]) for each in given]
    return [x.new_empty([size - 1 for each in edges for size in each.shape]), edges] if all(map(_is_static, edges)) else None


_SEVERAL: dict[str, Callable[[Sequence[Any]], Any]] = {
    **{f"aten::histogramdd{overload}": _histogram for overload in ("", ".int_bins", ".TensorList_bins")},
}
"""The results, nested as the operator gives them, of tensors whose sizes are known."""

_SPECIAL: dict[str, Callable[[Sequence[Any]], list[Any] | None]] = {
    "aten::linear": _linear,
    "aten::matmul": _matmul,
    "aten::bmm": _matmul,
    "aten::scaled_dot_product_attention": _attention,
    "aten::transpose.int": _transpose,
    "aten::permute": _permute,
    "aten::unsqueeze": _unsqueeze,
    "aten::select.int": _select,
    "aten::slice.Tensor": _slice,
    "aten::istft": _inverse_stft,
    "aten::narrow": _narrow,
    "aten::narrow.Tensor": _narrow,
    "aten::reshape": _reshape,
    "aten::view": _reshape,
    "aten::expand": _expand,
    "aten::embedding": _embedding,
    "aten::layer_norm": _layer_norm,
    "aten::batch_norm": _of_channels,
    "aten::group_norm": _of_channels,
    "aten::instance_norm": _of_channels,
    "aten::conv1d": _conv,
    "aten::conv2d": _conv,
    "aten::adaptive_avg_pool2d": _adaptive,
    "aten::contiguous": lambda fakes: list(fakes[0].shape),
    "aten::addmm": _addmm,
    "aten::flatten.using_ints": _flatten,
    **{f"aten::max_pool{rank}d": _pooled(rank, dilated=True) for rank in (1, 2, 3)},
    **{f"aten::avg_pool{rank}d": _pooled(rank, dilated=False) for rank in (1, 2, 3)},
    "aten::pixel_shuffle": _shuffled,
    "aten::col2im": _folded,
    **{f"aten::upsample_{kind}.vec": _resized for kind in ("bilinear2d", "bicubic2d", "nearest2d", "nearest1d", "nearest3d")},
    "aten::mean.dim": _reduced,
    "aten::sum.dim_IntList": _reduced,
    "aten::pow.Tensor_Scalar": _power,
}
"""The sizes of a result of the first argument's dtype."""

_TYPED: dict[str, Callable[[Sequence[Any]], torch.dtype | None]] = {
    **dict.fromkeys(("aten::to.dtype", "aten::to.dtype_layout", "aten::zeros_like", "aten::ones_like"), lambda fakes: fakes[1]),
    "aten::full_like": lambda fakes: fakes[2],
}
"""The dtype of a result of the first argument's sizes, None where it is that of the first argument."""
