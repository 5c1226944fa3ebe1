"""Convolutions and transposed convolutions in one to three dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.shape.padding import padded
from onnxexp_aten.support.axis_products import batched
from onnxexp_aten.support.kernel_dtypes import compute, warn_of_rounding
from onnxexp_aten.support.read_arguments import expand_scalar, none_if_default, rank_of
from onnxexp_aten.support.tensor_sizes import fixed
from onnxexp_aten.support.view_nodes import permuted, unsqueezed

table = SymbolicTable("aten")


def convolve(
    op: Builder,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *,
    stride: Any,
    dilation: Any,
    groups: int,
    pads: Sequence[int] | None = None,
    output_padding: Any = None,
) -> Tensor:
    """Emit Conv, or ConvTranspose where `output_padding` is given.

    `pads` are in ONNX's order: all begins, then all ends. An input without a batch axis gets one for the operator.
    """
    warn_of_rounding(op, input)
    dims = rank_of(op, weight) - 2
    attributes: dict[str, Any] = {
        "strides": none_if_default(expand_scalar(stride, dims), 1),
        "dilations": none_if_default(expand_scalar(dilation, dims), 1),
        "pads": none_if_default(list(pads or [0]), 0),
        "group": None if groups == 1 else groups,
    }
    name = "Conv"
    if output_padding is not None:
        name, attributes["output_padding"] = "ConvTranspose", none_if_default(expand_scalar(output_padding, dims), 0)
    return batched(op, input, dims, lambda x: compute(op, name, x, weight, bias, **attributes))


def _symmetric(padding: Any, weight: Tensor, op: Builder) -> list[int]:
    return expand_scalar(padding, rank_of(op, weight) - 2) * 2


def _same(weight: Tensor, dilation: Any) -> list[int]:
    """Return the padding of torch's mode "same"; an odd amount goes to the end."""
    assert weight.shape is not None
    kernel = fixed(weight.shape[2:])
    totals = [step * (size - 1) for step, size in zip(expand_scalar(dilation, len(kernel)), kernel, strict=True)]
    return [total // 2 for total in totals] + [total - total // 2 for total in totals]


@table("conv1d", "conv2d", "conv3d")
def conv(
    op: Builder, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    """conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0,
    SymInt[2] dilation=1, SymInt groups=1) -> Tensor"""
    pads = _symmetric(padding, weight, op)
    return convolve(op, input, weight, bias, stride=stride, dilation=dilation, groups=groups, pads=pads)


@table("conv1d.padding", "conv2d.padding", "conv3d.padding")
def conv_padding(
    op: Builder, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: str, dilation: Any, groups: int
) -> Tensor:
    """conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, str padding="valid",
    SymInt[2] dilation=1, SymInt groups=1) -> Tensor"""
    pads = _same(weight, dilation) if padding == "same" else None
    return convolve(op, input, weight, bias, stride=stride, dilation=dilation, groups=groups, pads=pads)


@table("conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input")
def conv_transpose(
    op: Builder,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Tensor:
    """conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0,
    SymInt[2] output_padding=0, SymInt groups=1, SymInt[2] dilation=1) -> Tensor"""
    options: dict[str, Any] = {"stride": stride, "dilation": dilation, "groups": groups}
    pads, dims = _symmetric(padding, weight, op), rank_of(op, weight) - 2
    more = expand_scalar(output_padding, dims)
    if all(extra < step for extra, step in zip(more, expand_scalar(stride, dims), strict=True)):
        return convolve(op, input, weight, bias, **options, pads=pads, output_padding=more)
    # ONNX Runtime limits output_padding to the stride: crop less at the end, then pad with zeros
    pads = [*pads[:dims], *(max(pad - extra, 0) for pad, extra in zip(pads[dims:], more, strict=True))]
    beyond = [max(extra - pad, 0) for pad, extra in zip(expand_scalar(padding, dims), more, strict=True)]
    result = convolve(op, input, weight, None, **options, pads=pads, output_padding=0)
    result = padded(op, result, [amount for end in reversed(beyond) for amount in (0, end)])
    return result if bias is None else compute(op, "Add", result, unsqueezed(op, bias, range(1, dims + 1)))


@table("convolution")
def convolution(
    op: Builder,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Tensor:
    """convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation,
    bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor"""
    if transposed:
        return conv_transpose(op, input, weight, bias, stride, padding, output_padding, groups, dilation)
    return conv(op, input, weight, bias, stride, padding, dilation, groups)


@table("_convolution", "_convolution.deprecated")
def _convolution(op: Builder, *args: Any) -> Tensor:
    """_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation,
    bool transposed, SymInt[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool cudnn_enabled,
    bool allow_tf32) -> Tensor"""
    return convolution(op, *args[:9])


@table("conv_tbc")
def conv_tbc(op: Builder, self: Tensor, weight: Tensor, bias: Tensor, pad: int) -> Tensor:
    """conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor"""
    rows, kernel = permuted(op, self, [1, 2, 0]), permuted(op, weight, [2, 1, 0])
    result = convolve(op, rows, kernel, bias, stride=1, dilation=1, groups=1, pads=[pad, pad])
    return permuted(op, result, [2, 0, 1])
