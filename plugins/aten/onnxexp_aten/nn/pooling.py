"""Max and average pooling in one to three dimensions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp.graph import Dim, SymbolicSize
from onnxexp_aten.indexing.scatter import scatter_elements
from onnxexp_aten.shape.padding import padded as with_padding
from onnxexp_aten.support.axis_products import axis_sizes, batched, spatial_dims
from onnxexp_aten.support.constant_of_shape import filled
from onnxexp_aten.support.kernel_dtypes import compute, has_operator, running_dtype, warn_of_rounding
from onnxexp_aten.support.read_arguments import expand_scalar, none_if_default, rank_of
from onnxexp_aten.support.tensor_sizes import size_at, sizes_of
from onnxexp_aten.support.view_nodes import reshaped, unsqueezed

table = SymbolicTable("aten")


@dataclasses.dataclass(frozen=True)
class Windows:
    """Windows axis by axis.

    `begins` and `ends` are the padding; `ceil` sets ONNX's own ceil_mode.
    """

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    begins: list[int]
    ends: list[int]
    ceil: bool = False

    @classmethod
    def of(
        cls, op: Builder, x: Tensor, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, dilation: Any = 1
    ) -> Windows:
        """Build windows from torch's arguments."""
        dims = len(kernel_size) if len(kernel_size) > 1 else spatial_dims(op)
        kernel, begins, dilations = (
            expand_scalar(op.static(value, "a window"), dims) for value in (kernel_size, padding, dilation)
        )
        strides = expand_scalar(op.static(stride, "the stride"), dims) if stride else kernel
        ends = begins
        if ceil_mode:
            rows = zip(axis_sizes(op, x, dims), kernel, strides, dilations, begins, strict=True)
            ends = [_end(size, dilation * (kernel - 1) + 1, stride, begin) for size, kernel, stride, dilation, begin in rows]
        if any(
            end >= size for end, size in zip(ends, kernel, strict=True)
        ):  # ONNX Runtime limits padding to the kernel size, dilated or not
            return cls(kernel, strides, dilations, begins, begins, ceil=True)
        return cls(kernel, strides, dilations, begins, ends)

    @property
    def dims(self) -> int:
        return len(self.kernel)

    def attributes(self) -> dict[str, Any]:
        """Return the ONNX attributes.

        Strides and pads are written at their defaults, too: MNN ends its process at an AveragePool without strides.
        """
        return {
            "kernel_shape": self.kernel,
            "strides": self.strides,
            "dilations": none_if_default(self.dilations, 1),
            "pads": [*self.begins, *self.ends],
            "ceil_mode": 1 if self.ceil else None,
        }


def _end(size: Dim, reach: int, stride: int, begin: int) -> int:
    """Compute the end padding for which ONNX's floor mode matches torch's ceil mode.

    torch adds a last window that reaches up to stride - 1 beyond the padding, unless it starts behind the axis. Both rules
    bound the end of a window from above. ONNX's own ceil_mode lacks the second rule, and does not exist before opset 10.
    """
    end = min(reach - 1, begin + stride - 1)
    if isinstance(size, SymbolicSize):
        return end
    steps = (size + begin + end - reach) // stride
    if steps == (size + 2 * begin - reach) // stride:
        return begin
    return max(steps * stride + reach - size - begin, 0)


def whole_axes(op: Builder, x: Tensor, kernel_size: Any, padding: Any) -> list[int]:
    """Find axes whose window is the axis itself, of a size known only at run time.

    Raises LoweringError for another window of such a size.
    """
    dims = spatial_dims(op)
    sizes, pads = axis_sizes(op, x, dims), expand_scalar(padding, dims)
    axes: list[int] = []
    for place, kernel in enumerate(expand_scalar(kernel_size, dims)):
        if isinstance(kernel, Tensor) and not op.is_static(kernel):
            if kernel.expr != sizes[place] or pads[place] != 0:
                what = f"a window of {kernel.expr or 'a size known at run time'} on an axis of size {sizes[place]}"
                raise op.error(f"{what}; to fix this, leave the axis static, or use adaptive pooling")
            axes.append(rank_of(op, x) - dims + place)
    return axes


def _without(op: Builder, x: Tensor, axes: list[int], windows: Any, dims: int) -> list[int]:
    """Return the windows along the other axes, and 1 along these."""
    lead = rank_of(op, x) - dims
    return [1 if lead + place in axes else size for place, size in enumerate(expand_scalar(windows, dims))] if windows else []


# Maximum


def largest(op: Builder, x: Tensor, windows: Windows) -> Tensor:
    """Compute the maxima of the windows of ``[N, C, *spatial]``."""
    return compute(op, "MaxPool", x, **windows.attributes())


def largest_with_indices(op: Builder, x: Tensor, windows: Windows) -> tuple[Tensor, Tensor]:
    """Return maxima of the windows and their positions, counted as torch does."""
    inner = op.cast(x, running_dtype(op, "MaxPool", x.dtype))
    values, places = op.MaxPool(inner, **windows.attributes(), outputs=2)
    return op.cast(values, x.dtype), _in_plane(op, places, plane_size(op, x, windows.dims))


def plane_size(op: Builder, x: Tensor, dims: int) -> int | Tensor:
    """Count the elements in the last `dims` axes."""
    rank = rank_of(op, x)
    sizes = [size_at(op, x, axis) for axis in range(rank - dims, rank)]
    known = math.prod(size for size in sizes if isinstance(size, int))
    result: int | Tensor = known
    for size in sizes:
        if isinstance(size, Tensor):
            result = op.Mul(size, result) if isinstance(result, Tensor) or result != 1 else size
    return result


def _in_plane(op: Builder, places: Tensor, plane: int | Tensor) -> Tensor:
    """Convert positions in the whole tensor (ONNX) to positions in a plane."""
    if has_operator(op, "Mod"):
        return op.Mod(places, plane)
    return op.Sub(places, op.Mul(op.Div(places, plane), plane))


@table("max_pool1d", "max_pool2d", "max_pool3d")
def max_pool(op: Builder, self: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Tensor:
    """max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1,
    bool ceil_mode=False) -> Tensor"""
    if axes := whole_axes(op, self, kernel_size, padding):
        self = compute(op, "ReduceMax", self, axes=axes, keepdims=1)
        if len(axes) == spatial_dims(op):
            return self
        kernel_size, stride = (_without(op, self, axes, each, spatial_dims(op)) for each in (kernel_size, stride))
    windows = Windows.of(op, self, kernel_size, stride, padding, ceil_mode, dilation)
    return batched(op, self, windows.dims, lambda x: largest(op, x, windows))


@table("max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices")
def max_pool_with_indices(
    op: Builder, self: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> tuple[Tensor, Tensor]:
    """max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1,
    bool ceil_mode=False) -> (Tensor, Tensor)"""
    windows = Windows.of(op, self, kernel_size, stride, padding, ceil_mode, dilation)
    return batched(op, self, windows.dims, lambda x: largest_with_indices(op, x, windows))


# Average


@table("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(
    op: Builder,
    self: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None = None,
) -> Tensor:
    """avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False,
    bool count_include_pad=True, int? divisor_override=None) -> Tensor"""
    if axes := whole_axes(op, self, kernel_size, padding):
        if divisor_override or not self.dtype.is_floating_point:
            raise op.error("a window of a size known at run time; to fix this, use sum() over the axis")
        self = compute(op, "ReduceMean", self, axes=axes, keepdims=1)
        if len(axes) == spatial_dims(op):
            return self
        kernel_size, stride = (_without(op, self, axes, each, spatial_dims(op)) for each in (kernel_size, stride))
    windows = Windows.of(op, self, kernel_size, stride, padding, ceil_mode)

    def averaged(x: Tensor) -> Tensor:
        if not x.dtype.is_floating_point:
            return _whole_average(op, x, windows, count_include_pad, divisor_override)
        if divisor_override:
            elements = math.prod(windows.kernel)
            result = _average(op, x, windows, padded=True)
            return result if divisor_override == elements else op.Mul(result, elements / divisor_override)
        return _counting(op, x, windows) if count_include_pad else _average(op, x, windows, padded=False)

    return batched(op, self, windows.dims, averaged)


def _whole_average(op: Builder, x: Tensor, windows: Windows, padded: bool, divisor: int | None) -> Tensor:
    """Average integers: the sum of each window over its count, truncated."""
    if windows.ceil:
        raise op.error("integer average pooling cannot pad by the kernel size or more; ONNX Runtime rejects it")
    warn_of_rounding(op, x)
    wide, elements = op.cast(x, torch.float32), math.prod(windows.kernel)

    def summed(values: Tensor, where: Windows) -> Tensor:
        total = op.Mul(_average(op, values, where, padded=True), float(elements))
        return op.cast(op.Floor(op.Add(total, 0.5)), x.dtype)

    sums = summed(wide, windows)
    if divisor is not None:
        return compute(op, "Div", sums, divisor)
    ones = op.Add(op.Mul(wide, 0.0), 1.0)
    if padded:
        beyond = [max(end - begin, 0) for begin, end in zip(windows.begins, windows.ends, strict=True)]
        within = [end - extra for end, extra in zip(windows.ends, beyond, strict=True)]
        around = [amount for pair in zip(reversed(windows.begins), reversed(within), strict=True) for amount in pair]
        ones = with_padding(op, ones, around, "constant", 1.0)
        windows = dataclasses.replace(windows, begins=[0] * windows.dims, ends=beyond)
    return compute(op, "Div", sums, summed(ones, windows))


def _counting(op: Builder, x: Tensor, windows: Windows) -> Tensor:
    """Average with the padding counted, but not the elements that ceil mode adds."""
    if all(end <= begin for begin, end in zip(windows.begins, windows.ends, strict=True)):
        return _average(op, x, windows, padded=any(windows.begins))
    beyond = [max(end - begin, 0) for begin, end in zip(windows.begins, windows.ends, strict=True)]
    within = [end - extra for end, extra in zip(windows.ends, beyond, strict=True)]
    if any([*windows.begins, *within]):
        x = op.Pad(x, pads=[0, 0, *windows.begins, 0, 0, *within])
    rest = dataclasses.replace(windows, begins=[0] * windows.dims, ends=beyond)
    return _average(op, x, rest, padded=False)


def _average(op: Builder, x: Tensor, windows: Windows, *, padded: bool) -> Tensor:
    include = 1 if padded and any([*windows.begins, *windows.ends]) else None
    return compute(op, "AveragePool", x, count_include_pad=include, **windows.attributes())


@table("max_unpool2d", "max_unpool3d")
def max_unpool(op: Builder, self: Tensor, indices: Tensor, output_size: list[Any], *windows: Any) -> Tensor:
    """max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor"""
    sizes = sizes_of(op)
    assert sizes is not None
    lead = len(sizes) - len(output_size)
    plane = math.prod(op.static(output_size, "output_size"))
    values, places = (reshaped(op, x, [*sizes[:lead], math.prod(_static(op, x)[lead:])]) for x in (self, indices))
    zeros = filled(op, [*(size_at(op, self, axis) for axis in range(lead)), plane], 0, self.dtype)
    return reshaped(op, scatter_elements(op, zeros, lead, places, values), sizes)


def _static(op: Builder, x: Tensor) -> tuple[Any, ...]:
    """Return the sizes of a tensor; decline the call where a spatial one is dynamic."""
    assert x.shape is not None
    if any(isinstance(size, SymbolicSize) for size in x.shape[2:]):
        op.decline("the spatial sizes must be known at export")
    return x.shape


def _starts(op: Builder, samples: Tensor, sizes: Sequence[int], kernel: Sequence[int], output: Sequence[int]) -> Tensor:
    """Compute the begins of the windows, int64[batch, channels, sum(output)].

    The begins count elements of the plane, one axis after the other. `samples` has one number per channel and axis; in two
    dimensions torch takes them from the last axis on.
    """
    dims, dtype = len(sizes), samples.dtype
    axis = torch.repeat_interleave(torch.arange(dims), torch.tensor(output))
    number = torch.cat([torch.arange(count) for count in output])
    last, after = ((torch.tensor(each)[axis]) for each in ([n - k for n, k in zip(sizes, kernel, strict=True)], output))
    alpha = op.constant(last.to(dtype) / (after - 1).clamp(min=1).to(dtype))
    sample = op.Gather(samples, op.constant(axis if dims == 3 else 1 - axis), axis=2)
    ends = op.cast(compute(op, "Mul", op.Add(sample, op.constant(number.to(dtype))), alpha), torch.int64)
    begins = op.cast(compute(op, "Mul", sample, alpha), torch.int64)
    places = op.Where(op.constant(number == after - 1), op.constant(last), op.Sub(ends, begins))
    strides = torch.tensor([math.prod(sizes[place + 1 :]) for place in range(dims)])
    return op.Mul(places, op.constant(strides[axis]))


def _pooled(op: Builder, x: Tensor, kernel: Sequence[int], output: Sequence[int], samples: Tensor) -> tuple[Tensor, Tensor]:
    """Return the maximum of each window of ``[N, C, *spatial]``, and its position."""
    shape = [size for size in (size_at(op, x, axis) for axis in range(rank_of(op, x))) if isinstance(size, int)]
    if len(shape) < rank_of(op, x):
        raise op.error("the sizes must be known at export; to fix this, use no dynamic axis there")
    lead, sizes = shape[:2], shape[2:]
    starts = _starts(op, samples, sizes, kernel, output)
    windows = torch.cartesian_prod(*(torch.arange(count) + sum(output[:axis]) for axis, count in enumerate(output)))
    first, *others = (op.Gather(starts, op.constant(column[:, None]), axis=2) for column in windows.unbind(1))
    for other in others:
        first = op.Add(first, other)  # [N, C, windows, 1]
    inside = torch.arange(math.prod(sizes)).reshape(sizes)[tuple(slice(size) for size in kernel)].reshape(-1)
    flat = op.Reshape(x, [*lead, math.prod(sizes)])
    places = op.Reshape(op.Add(first, op.constant(inside)), [*lead, len(windows) * len(inside)])
    values = op.Reshape(op.GatherElements(flat, places, axis=2), [*lead, len(windows), len(inside)])
    best = op.ArgMax(values, axis=3, keepdims=1)
    found = op.Add(first, op.Gather(op.constant(inside), best, axis=0))
    largest = op.GatherElements(values, best, axis=3)
    return op.Reshape(largest, [*lead, *output]), op.Reshape(found, [*lead, *output])


@table("fractional_max_pool2d", "fractional_max_pool3d")
def fractional_max_pool(
    op: Builder, self: Tensor, kernel_size: list[int], output_size: list[int], random_samples: Tensor
) -> tuple[Tensor, Tensor]:
    """fractional_max_pool2d(Tensor self, int[2] kernel_size, int[2] output_size, Tensor random_samples) -> (Tensor, Tensor)"""
    dims = 3 if "3d" in op.node.op else 2
    samples = random_samples if rank_of(op, random_samples) == 3 else unsqueezed(op, random_samples, [0])
    kernel, output = expand_scalar(kernel_size, dims), expand_scalar(output_size, dims)
    return batched(op, self, dims, lambda x: _pooled(op, x, kernel, output, samples))
