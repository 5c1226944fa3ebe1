"""The functions on stand-ins, against torch's functions on quantized tensors."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from torch.utils import _pytree as pytree

from onnxexp_quantized.capture import (
    activation,
    arithmetic,
    convolution_and_linear,
    functions,
    layout,
    normalization,
    parameters,
    pooling_and_resampling,
    prepacking,
    writing,
)
from onnxexp_quantized.capture.model_patches import stand_ins
from onnxexp_quantized.capture.packed_weights import as_stand_in
from onnxexp_quantized.capture.quantized_tensor import QuantizedTensor

Q = torch.ops.quantized
Row = Callable[[Any], Any]
NORM = (torch.tensor([1.0, 0.5, -2.0, 1.5]), torch.tensor([0.1, 0.0, -0.2, 0.3]))
STATISTICS = (torch.tensor([0.2, -0.1, 0.0, 0.4]), torch.tensor([1.0, 0.7, 2.0, 0.5]))
TO = (0.04, 50)


def tensors(dtype: torch.dtype = torch.quint8) -> SimpleNamespace:
    """Quantized tensors of two scales: `x` and `y` of four axes, `s` of three, `v` of five, `m` a matrix."""
    generator = torch.Generator().manual_seed(0)
    zero = 0 if dtype is torch.quint8 else -128

    def quantized(*size: int, scale: float = 0.05, zero_point: int = 60) -> torch.Tensor:
        return torch.quantize_per_tensor(torch.randn(size, generator=generator) * 2, scale, zero_point + zero, dtype)

    return SimpleNamespace(
        x=quantized(2, 4, 6, 6),
        y=quantized(2, 4, 6, 6, scale=0.03, zero_point=100),
        s=quantized(2, 4, 6),
        v=quantized(2, 4, 4, 4, 4),
        m=quantized(3, 5),
        slope=quantized(1, scale=0.01, zero_point=0),
        w={axes: weights(6, 4, *[3] * axes) for axes in range(4)},
        square=weights(4, 4, 3, 3),
        b=torch.randn(6, generator=generator),
        f=torch.randn(2, 4, 6, 6, generator=generator),
        index=torch.tensor([2, 0]),
    )


def weights(*size: int) -> torch.Tensor:
    """A weight with a scale for each output channel."""
    values = torch.randn(size, generator=torch.Generator().manual_seed(1))
    return torch.quantize_per_channel(
        values, torch.linspace(0.01, 0.03, size[0]), torch.zeros(size[0], dtype=torch.int64), 0, torch.qint8
    )


def resampled(name: str, axes: int) -> Row:
    """An operator that TorchScript has for `interpolate`."""
    operator = torch.ops.aten.__getattr__(name)
    return lambda t: operator({2: t.x, 3: t.v}[axes], [9, 8, 7][:axes])


def convolved(axes: int, kind: str = "", *older: Any, **settings: Any) -> Row:
    """A convolution whose weight the row packs itself."""
    used = {"stride": 2, "padding": 1, "dilation": 1} | settings
    groups = used.pop("groups", 1)
    lists = {name: [number] * axes for name, number in used.items()}

    def row(t: Any) -> Any:
        x = {1: t.s, 2: t.x, 3: t.v}[axes]
        packed = getattr(Q, f"conv{axes}d_prepack")(t.w[axes][:, : 4 // groups], t.b, *lists.values(), groups)
        unpacked = getattr(Q, f"conv{axes}d_unpack")(packed)[0].int_repr()
        return getattr(Q, f"conv{axes}d{kind}")(x, packed, *older, 0.1, 70), unpacked

    return row


def transposed(axes: int, **settings: int) -> Row:
    used = {"stride": 2, "padding": 1, "output_padding": 1, "dilation": 1} | settings
    lists = [[number] * axes for number in used.values()]

    def row(t: Any) -> Any:
        x = {1: t.s, 2: t.x, 3: t.v}[axes]
        weight = torch.quantize_per_tensor(
            torch.cat([t.f, -t.f]).flatten()[: 4 * 3 * 3**axes].view(4, 3, *[3] * axes), 0.02, 0, torch.qint8
        )
        packed = getattr(Q, f"conv_transpose{axes}d_prepack")(weight, t.b[:3], *lists, 1)
        unpacked = getattr(Q, f"conv_transpose{axes}d_unpack")(packed)[0].int_repr()
        return getattr(Q, f"conv_transpose{axes}d")(x, packed, 0.1, 70), unpacked

    return row


def settings_of(axes: int, name: str) -> Row:
    """A setting of a packed convolution, and of a transposed one."""
    lists = [[number] * axes for number in (2, 1, 1)]

    def row(t: Any) -> Any:
        if name.startswith("conv_transpose"):
            weight = torch.quantize_per_tensor(torch.ones(4, 3, *[3] * axes), 0.02, 0, torch.qint8)
            return getattr(Q, name)(getattr(Q, f"conv_transpose{axes}d_prepack")(weight, None, *lists[:2], *lists[1:], 1))
        return getattr(Q, name)(getattr(Q, f"conv{axes}d_prepack")(t.w[axes], None, *lists, 1))

    return row


def with_linear(of: Callable[[Any, Any], Any], engine: str = "fbgemm") -> Row:
    """A call with a packed linear layer, on one of torch's engines."""

    def row(t: Any) -> Any:
        before = torch.backends.quantized.engine
        torch.backends.quantized.engine = engine
        try:
            return of(t, Q.linear_prepack(t.w[0], t.b))
        finally:
            torch.backends.quantized.engine = before

    return row


def with_sum(kind: str) -> Row:
    def row(t: Any) -> Any:
        before = torch.backends.quantized.engine
        torch.backends.quantized.engine = "onednn"
        try:
            packed = Q.conv2d_prepack(t.square, t.b[:4], [1, 1], [1, 1], [1, 1], 1)
            return getattr(Q, kind)(t.x, t.y, packed, 0.1, 70)
        finally:
            torch.backends.quantized.engine = before

    return row


def written(of: Callable[[Any], Any]) -> Row:
    """The result of a function in place, and the tensor that it wrote to."""

    def row(t: Any) -> Any:
        target = t.x.clone()
        return of(SimpleNamespace(**{**vars(t), "x": target})), target

    return row


def assign(value: Callable[[Any], Any], index: Any = 1) -> Row:
    def row(t: Any) -> Any:
        target = t.x.clone()
        target[index] = value(t)
        return target

    return row


EXACT: dict[str, list[Row]] = {
    "relu": [lambda t: F.relu(t.x), lambda t: torch.relu(t.x), written(lambda t: F.relu(t.x, inplace=True))],
    "relu_": [written(lambda t: t.x.relu_()), written(lambda t: torch.relu_(t.x[:, 1]))],
    "relu6": [lambda t: F.relu6(t.x)],
    "hardtanh": [lambda t: F.hardtanh(t.x, -0.52, 1.23), written(lambda t: F.hardtanh(t.x, -1, 1, inplace=True))],
    "hardtanh_": [written(lambda t: F.hardtanh_(t.x, -1, 1))],
    "clamp": [lambda t: torch.clamp(t.x, -1, 1.3), lambda t: t.x.clamp(min=0.1), lambda t: t.x.clamp(max=0.1)],
    "clip": [lambda t: torch.clip(t.x, -1, 1)],
    "quantized::clamp": [lambda t: Q.clamp(t.x, -1, 1), lambda t: Q.clamp(t.x, None, 1)],
    "quantized::relu6": [lambda t: Q.relu6(t.x), written(lambda t: Q.relu6(t.x, True))],
    "max_pool1d": [lambda t: F.max_pool1d(t.s, 2)],
    "max_pool2d": [lambda t: F.max_pool2d(t.x, 3, 2, 1), lambda t: F.max_pool2d(t.x, 2, ceil_mode=True)],
    "max_pool3d": [lambda t: F.max_pool3d(t.v, 2)],
    "quantized::max_pool1d": [lambda t: Q.max_pool1d(t.s, [2], [2], [0], [1], False)],
    "quantized::max_pool2d": [lambda t: Q.max_pool2d(t.x, [3, 2], [2, 2], [1, 0], [1, 1], False)],
    "quantized_max_pool1d": [lambda t: torch.quantized_max_pool1d(t.s, [2])],
    "quantized_max_pool2d": [lambda t: torch.quantized_max_pool2d(t.x, [2, 2], [1, 1])],
    "quantized_max_pool3d": [lambda t: torch.quantized_max_pool3d(t.v, [2, 2, 2])],
    "max": [lambda t: t.x.max(), lambda t: torch.max(t.x.reshape(-1), 0).values, lambda t: t.m.max(1, keepdim=True).values],
    "min": [lambda t: t.x.min(), lambda t: torch.min(t.x, 1).values],
    "sort": [lambda t: torch.sort(t.x, 1).values, lambda t: t.x.sort(dim=1, descending=True, stable=True)],
    "msort": [lambda t: torch.msort(t.x)],
    "argsort": [lambda t: t.x.reshape(-1)[:3].argsort()],
    "topk": [lambda t: t.x.topk(2).values, lambda t: torch.topk(t.x, 3, 1, False).values],
    "interpolate": [
        lambda t: F.interpolate(t.x, scale_factor=2), lambda t: F.interpolate(t.x, (9, 8), mode="nearest"),
        lambda t: F.interpolate(t.x, (9, 8), None, "nearest-exact"), lambda t: F.interpolate(t.v, (5, 5, 6)),
        lambda t: F.upsample(t.x, scale_factor=2),
    ],
    **{
        f"{name}{axes}d": [resampled(f"{name}{axes}d", axes)]
        for name in ("upsample_nearest", "_upsample_nearest_exact") for axes in (2, 3)
    },
    "pad": [
        lambda t: F.pad(t.x, (1, 2)), lambda t: F.pad(t.x, (1, 2, 0, 1), value=0.7), lambda t: F.pad(t.x, (-1, 2)),
        lambda t: F.pad(t.x, (1, 2, 1, 0), "reflect"), lambda t: F.pad(t.s, (1, 2), mode="reflect"),
    ],
    "constant_pad_nd": [lambda t: torch.constant_pad_nd(t.x, (1, 2), 0.3)],
    "chunk": [lambda t: t.x.chunk(2, 1)],
    "split": [lambda t: t.x.split(3, 1), lambda t: torch.split(t.x, [1, 3], 1)],
    "split_with_sizes": [lambda t: torch.split_with_sizes(t.x, [1, 3], 1)],
    "tensor_split": [lambda t: t.x.tensor_split(3, 1)],
    "unbind": [lambda t: t.x.unbind(1), lambda t: list(t.x)],
    "stack": [lambda t: torch.stack([t.x, t.y], 1), lambda t: torch.stack([t.x, t.x])],
    "cat": [lambda t: torch.cat([t.x, t.x[:, 1:]], 1), lambda t: torch.cat([t.m, t.m])],
    "concat": [lambda t: torch.concat([t.x, t.x], dim=1)],
    "concatenate": [lambda t: torch.concatenate([t.x, t.x], axis=1)],
    "hstack": [lambda t: torch.hstack([t.x, t.y]), lambda t: torch.hstack([t.m[0], t.m[1]])],
    "vstack": [lambda t: torch.vstack([t.x, t.y]), lambda t: torch.vstack([t.m[0], t.m[1]])],
    "view": [lambda t: t.x.view(2, -1)],
    "reshape": [lambda t: t.x.reshape(2, -1)],
    "flatten": [lambda t: torch.flatten(t.x, 1)],
    "ravel": [lambda t: t.x.ravel()],
    "unflatten": [lambda t: t.x.unflatten(1, (2, 2))],
    "permute": [lambda t: t.x.permute(0, 2, 3, 1)],
    "transpose": [lambda t: t.x.transpose(1, 2)],
    "swapaxes": [lambda t: t.x.swapaxes(1, 2)],
    "swapdims": [lambda t: t.x.swapdims(1, 2)],
    "movedim": [lambda t: t.x.movedim(1, 3)],
    "moveaxis": [lambda t: t.x.moveaxis(1, 3)],
    "t": [lambda t: t.m.t()],
    "T": [lambda t: t.m.T],
    "numpy_T": [lambda t: torch.ops.aten.numpy_T(t.m)],
    "mT": [lambda t: t.s.mT],
    "unsqueeze": [lambda t: torch.unsqueeze(t.x[None], 0)],
    "squeeze": [lambda t: t.x[:1].squeeze(0), lambda t: t.x[:1].squeeze()],
    "expand": [lambda t: t.x[:, :1].expand(2, 4, 6, 6)],
    "expand_as": [lambda t: t.x[:, :1].expand_as(t.y)],
    "view_as": [lambda t: t.x.flatten().view_as(t.y)],
    "reshape_as": [lambda t: t.x.flatten().reshape_as(t.y)],
    "broadcast_to": [lambda t: torch.broadcast_to(t.m, (2, 3, 5))],
    "repeat": [lambda t: t.x.repeat(1, 2, 1, 1)],
    "tile": [lambda t: t.x.tile(1, 1, 1, 2)],
    "repeat_interleave": [lambda t: torch.repeat_interleave(t.x, 2, 1)],
    "flip": [lambda t: t.x.flip(1)],
    "rot90": [lambda t: torch.rot90(t.x, 1, [2, 3])],
    "contiguous": [lambda t: t.x.transpose(1, 2).contiguous()],
    "clone": [lambda t: t.x.clone()],
    "detach": [lambda t: t.x.detach()],
    "alias": [lambda t: torch.ops.aten.alias(t.x)],
    "data": [lambda t: t.x.data],
    "cpu": [lambda t: t.x.cpu()],
    "to": [lambda t: t.x.to("cpu")],
    "narrow": [lambda t: t.x.narrow(1, 1, 2)],
    "select": [lambda t: t.x.select(1, 1)],
    "slice": [lambda t: torch.ops.aten.slice(t.x, 1, 1, 3), lambda t: t.x[..., 1::2], lambda t: t.x[:, t.index]],
    "index": [lambda t: torch.ops.aten.index(t.x, [None, t.index])],
    "index_select": [lambda t: t.x.index_select(1, t.index)],
    "diagonal": [lambda t: t.x.diagonal(0, 2, 3)],
    "unfold": [lambda t: t.x.unfold(2, 2, 2)],
    "as_strided": [lambda t: t.x.as_strided((2, 2), (1, 2))],
    "atleast_1d": [lambda t: torch.atleast_1d(t.x)],
    "atleast_2d": [lambda t: torch.atleast_2d(t.m[0])],
    "atleast_3d": [lambda t: torch.atleast_3d(t.m)],
    "channel_shuffle": [lambda t: F.channel_shuffle(t.x, 2)],
    "native_channel_shuffle": [lambda t: torch.native_channel_shuffle(t.x, 2)],
    "pixel_shuffle": [lambda t: F.pixel_shuffle(t.x, 2)],
    "pixel_unshuffle": [lambda t: F.pixel_unshuffle(t.x, 2)],
    "eq": [lambda t: t.x == t.y, lambda t: t.x == 0.5],
    "ne": [lambda t: t.x != t.y],
    "lt": [lambda t: t.x < t.y, lambda t: torch.lt(t.x, 0.5)],
    "le": [lambda t: t.x <= t.y],
    "gt": [lambda t: t.x > t.y, lambda t: t.x[t.x > 0.5], lambda t: t.x > torch.tensor(0.5)],
    "ge": [lambda t: t.x >= t.y],
    "fill_": [written(lambda t: t.x.fill_(0.51)), written(lambda t: t.x[0].fill_(100.0))],
    "masked_fill": [lambda t: t.x.masked_fill(t.f > 0, 1.0), lambda t: t.x.masked_fill(t.f > 0, torch.tensor(-0.4))],
    "masked_fill_": [written(lambda t: t.x.masked_fill_(t.f > 0, 1.0))],
    "index_put_": [written(lambda t: t.x.index_put_((t.index[1:],), torch.tensor(1.0)))],
    "copy_": [written(lambda t: t.x.copy_(t.f)), written(lambda t: t.x.copy_(t.y)), written(lambda t: t.x[1].copy_(t.f[0]))],
    "__setitem__": [assign(lambda t: 1.0), assign(lambda t: t.f[0]), assign(lambda t: t.y[0])],
    "full_like": [lambda t: torch.full_like(t.x, 1.0)],
    "ones_like": [lambda t: torch.ones_like(t.x)],
    "dropout": [lambda t: F.dropout(t.x, training=False)],
    "dropout1d": [lambda t: F.dropout1d(t.s, training=False)],
    "dropout2d": [lambda t: F.dropout2d(t.x, training=False)],
    "dropout3d": [lambda t: F.dropout3d(t.v, training=False)],
    "alpha_dropout": [lambda t: F.alpha_dropout(t.x, training=False)],
    "feature_dropout": [lambda t: torch.feature_dropout(t.x, 0.5, False)],
    "feature_alpha_dropout": [lambda t: F.feature_alpha_dropout(t.x, training=False)],
    "quantized::dropout": [lambda t: Q.dropout(t.x, *TO), lambda t: Q.dropout(t.x, *TO, 0.5, False)],
    "dequantize": [
        lambda t: (torch.dequantize(t.x), t.x.dequantize()), lambda t: torch.dequantize([t.x, t.y]),
        lambda t: (torch.dequantize(t.f), t.f.double().dequantize()),
    ],
    "int_repr": [lambda t: t.x.int_repr()],
    "q_scale": [lambda t: t.x.q_scale()],
    "q_zero_point": [lambda t: torch.q_zero_point(t.x)],
    "q_per_channel_scales": [lambda t: t.w[0].q_per_channel_scales().float()],
    "q_per_channel_zero_points": [lambda t: t.w[0].q_per_channel_zero_points()],
    "q_per_channel_axis": [lambda t: t.w[0].q_per_channel_axis()],
    "qscheme": [lambda t: t.x.qscheme()],
    "dim": [lambda t: t.x.dim()],
    "ndimension": [lambda t: t.x.ndimension()],
    "size": [lambda t: t.x.size(), lambda t: t.x.size(1), lambda t: (t.x.shape, t.x.ndim, len(t.x), t.x.dtype, t.x.device)],
    "numel": [lambda t: t.x.numel(), lambda t: torch.numel(t.x)],
    "nelement": [lambda t: t.x.nelement()],
    "stride": [lambda t: t.x.stride(), lambda t: t.x.stride(1)],
    "element_size": [lambda t: t.x.element_size()],
    "is_contiguous": [lambda t: t.x.is_contiguous(), lambda t: t.x.transpose(1, 2).is_contiguous()],
    "is_floating_point": [lambda t: t.x.is_floating_point()],
    "is_complex": [lambda t: t.x.is_complex()],
}  # fmt: skip
"""Functions with torch's integers, bit by bit."""

FLOAT: dict[str, list[Row]] = {
    f"quantized::linear_with_input_q_dq_qweight_dq{relu}_output_fp32": [
        with_linear(
            lambda t, w, relu=relu: getattr(Q, f"linear_with_input_q_dq_qweight_dq{relu}_output_fp32")(
                t.f[0, 0, :, :4], 0.02, 120, w
            )
        )
    ]
    for relu in ("", "_relu")
}
"""Functions with results in float32."""

SETTINGS = {
    f"quantized::{kind}{axes}d_{name}": [settings_of(axes, f"{kind}{axes}d_{name}")]
    for kind in ("conv", "conv_transpose")
    for axes in (2, 3)
    for name in ("stride", "padding", "dilation", "groups", "transpose", "output_padding")
}
"""The settings of a packed convolution."""
UNPACKED = {
    "quantized::linear_prepack": "quantized::linear", "quantized::linear_unpack": "quantized::linear",
    **{f"quantized::{kind}{axes}d_{what}": f"quantized::{kind}{axes}d"
       for kind in ("conv", "conv_transpose") for axes in (1, 2, 3) for what in ("prepack", "unpack")},
    "quantized::conv_prepack": "quantized::conv2d",
}  # fmt: skip
"""Functions that other rows call, by those rows."""

ROUNDED: dict[str, list[Row]] = {
    "leaky_relu": [lambda t: F.leaky_relu(t.x, 0.2), written(lambda t: F.leaky_relu(t.x, 0.2, inplace=True))],
    "leaky_relu_": [written(lambda t: F.leaky_relu_(t.x, 0.2))],
    "prelu": [lambda t: torch.prelu(t.x, t.slope)],
    "_prelu_kernel": [lambda t: torch.ops.aten._prelu_kernel(t.x, t.slope.view(1, 1, 1, 1))],
    "gelu": [lambda t: F.gelu(t.x), lambda t: F.gelu(t.x, approximate="tanh")],
    "gelu_": [written(lambda t: torch.ops.aten.gelu_(t.x))],
    "threshold": [lambda t: torch.threshold(t.x, 0.52, 0.1)],
    "_threshold": [lambda t: F.threshold(t.x, 0.52, 0.1)],
    "sigmoid": [lambda t: torch.sigmoid(t.x), lambda t: t.x.sigmoid()],
    "hardsigmoid": [lambda t: F.hardsigmoid(t.x), written(lambda t: F.hardsigmoid(t.x, inplace=True))],
    "hardsigmoid_": [written(lambda t: torch.ops.aten.hardsigmoid_(t.x))],
    "tanh": [lambda t: torch.tanh(t.x)],
    "avg_pool1d": [lambda t: F.avg_pool1d(t.s, 2)],
    "avg_pool2d": [
        lambda t: F.avg_pool2d(t.x, 2), lambda t: F.avg_pool2d(t.x, 3, 2, 1, count_include_pad=False),
        lambda t: F.avg_pool2d(t.x, 3, 2, 1, ceil_mode=True),
    ],
    "avg_pool3d": [lambda t: F.avg_pool3d(t.v, 2)],
    "adaptive_avg_pool1d": [lambda t: F.adaptive_avg_pool1d(t.s, 2)],
    "adaptive_avg_pool2d": [lambda t: F.adaptive_avg_pool2d(t.x, 1), lambda t: F.adaptive_avg_pool2d(t.x, (4, None))],
    "adaptive_avg_pool3d": [lambda t: F.adaptive_avg_pool3d(t.v, 2)],
    "mean": [lambda t: t.x.mean(), lambda t: t.x.mean(1), lambda t: torch.mean(t.x, [2, 3], keepdim=True)],
    "std": [lambda t: t.x.std(1), lambda t: torch.std(t.x, [2, 3], unbiased=False, keepdim=True)],
    "grid_sample": [lambda t: F.grid_sample(t.x, t.f[:, :3, :3, :2] / 3, align_corners=False)],
    "grid_sampler": [lambda t: torch.grid_sampler(t.x, t.f[:, :3, :3, :2] / 3, 0, 0, False)],
    "upsample_bilinear2d": [lambda t: torch.ops.aten.upsample_bilinear2d(t.x, [9, 8], False)],
    "interpolate": [
        lambda t: F.interpolate(t.x, (9, 8), mode="bilinear"),
        lambda t: F.interpolate(t.x, scale_factor=2, mode="bilinear", align_corners=True),
    ],
    "cat": [lambda t: torch.cat([t.x, t.y], 1)],
    "quantized::add": [
        lambda t: Q.add(t.x, t.y, *TO), lambda t: Q.add(t.x, t.y[:, :1], scale=0.04, zero_point=50), lambda t: Q.add(t.x, 1.0),
        lambda t: Q.add(-1.3, t.x), written(lambda t: Q.add(t.y, t.y, out=t.x)),
    ],
    "quantized::add_out": [written(lambda t: Q.add_out(t.y, t.y, t.x))],
    "quantized::add_relu": [lambda t: Q.add_relu(t.x, t.y, *TO), lambda t: Q.add_relu(t.x, 1.0)],
    "quantized::add_relu_out": [written(lambda t: Q.add_relu_out(t.y, t.y, t.x))],
    "quantized::add_scalar": [lambda t: [Q.add_scalar(t.x, b) for b in (1, -100.0, 100.0, 0.03, torch.tensor(2.0))]],
    "quantized::add_scalar_relu": [lambda t: [Q.add_scalar_relu(t.x, b) for b in (1, -100.0, 100.0, 0.03, -2.0)]],
    "quantized::add_scalar_out": [written(lambda t: Q.add_scalar_out(t.x, 1.0, t.y.clone()))],
    "quantized::add_scalar_relu_out": [written(lambda t: Q.add_scalar_relu_out(t.x, 1.0, t.y.clone()))],
    "quantized::mul": [lambda t: Q.mul(t.x, t.y, *TO), lambda t: Q.mul(t.x, 2.0), lambda t: Q.mul(2.0, t.x)],
    "quantized::mul_out": [written(lambda t: Q.mul_out(t.y, t.y, t.x))],
    "quantized::mul_relu": [lambda t: Q.mul_relu(t.x, t.y, *TO), lambda t: Q.mul_relu(t.x, 2.0)],
    "quantized::mul_relu_out": [written(lambda t: Q.mul_relu_out(t.y, t.y, t.x))],
    "quantized::mul_scalar": [lambda t: [Q.mul_scalar(t.x, b) for b in (2, -2.0, 0.0, 0.3, torch.tensor(2.0))]],
    "quantized::mul_scalar_relu": [lambda t: [Q.mul_scalar_relu(t.x, b) for b in (2, -2.0, 0.0, 0.3)]],
    "quantized::mul_scalar_out": [written(lambda t: Q.mul_scalar_out(t.x, 2.0, t.y.clone()))],
    "quantized::mul_scalar_relu_out": [written(lambda t: Q.mul_scalar_relu_out(t.x, -2.0, t.y.clone()))],
    "quantized::matmul": [lambda t: Q.matmul(t.x, t.y.transpose(2, 3), 0.3, 100)],
    "quantized::cat": [lambda t: Q.cat([t.x, t.y], 1, *TO), lambda t: Q.cat([t.x, t.y], dim=1, scale=None, zero_point=None)],
    "quantized::cat_relu": [lambda t: Q.cat_relu([t.x, t.y], 1, *TO), lambda t: Q.cat_relu([t.x, t.x], 1, None, None)],
    "quantized::cat_out": [written(lambda t: Q.cat_out([t.y[:, :1], t.y[:, 1:]], 1, t.x))],
    "quantized::cat_relu_out": [written(lambda t: Q.cat_relu_out([t.y[:, :1], t.y[:, 1:]], 1, t.x))],
    "quantized::hardswish": [lambda t: Q.hardswish(t.x, *TO)],
    "quantized::elu": [lambda t: Q.elu(t.x, *TO, 0.7, 1.1, 0.9), lambda t: Q.elu(t.x, *TO)],
    "quantized::celu": [lambda t: Q.celu(t.x, *TO, 0.7)],
    "quantized::leaky_relu": [lambda t: Q.leaky_relu(t.x, 0.1, False, *TO)],
    "quantized::sigmoid": [lambda t: Q.sigmoid(t.x, 1 / 128, 3)],
    "quantized::softmax": [lambda t: Q.softmax(t.x, 1, 1 / 256, 0)],
    "quantized::prelu": [lambda t: Q.prelu(t.x, t.slope, *TO)],
    "quantized::threshold": [lambda t: Q.threshold(t.x, 0.52, 0.1)],
    "quantized_batch_norm": [lambda t: torch.quantized_batch_norm(t.x, *NORM, *STATISTICS, 1e-5, *TO)],
    **{
        f"quantized::batch_norm{axes}{relu}": [
            lambda t, name=f"batch_norm{axes}{relu}", of=of: getattr(Q, name)(getattr(t, of), *NORM, *STATISTICS, 1e-5, *TO)
        ]
        for axes, of in (("", "x"), ("1d", "s"), ("2d", "x"), ("3d", "v"))
        for relu in ("", "_relu")
    },
    "quantized::layer_norm": [
        lambda t: Q.layer_norm(t.x, [6], None, None, 1e-5, *TO),
        lambda t: Q.layer_norm(t.x, [6], t.f[0, 0, 0], bias=t.f[0, 0, 1], eps=1e-5, output_scale=0.04, output_zero_point=50),
    ],
    "quantized::group_norm": [lambda t: Q.group_norm(t.x, 2, *NORM, 1e-5, *TO)],
    "quantized::instance_norm": [lambda t: Q.instance_norm(t.x, *NORM, 1e-5, *TO)],
    **{f"quantized::conv{axes}d": [convolved(axes)] for axes in (1, 3)},
    "quantized::conv2d": [convolved(2), convolved(2, "", [2, 2], [1, 1], [1, 1], 1), convolved(2, stride=1, dilation=2)],
    **{f"quantized::conv{axes}d_relu": [convolved(axes, "_relu")] for axes in (1, 2, 3)},
    **{f"quantized::conv_transpose{axes}d": [transposed(axes)] for axes in (1, 2, 3)},
    "quantized::conv2d_add": [with_sum("conv2d_add")],
    "quantized::conv2d_add_relu": [with_sum("conv2d_add_relu")],
    "quantized::linear": [with_linear(lambda t, w: (Q.linear(t.x[:, :, :4, 0], w, 0.1, 70), Q.linear_unpack(w)[0].int_repr()))],
    "quantized::linear_relu": [with_linear(lambda t, w: Q.linear_relu(t.x[:, :, :4, 0], w, 0.1, 70))],
    "quantized::linear_tanh": [with_linear(lambda t, w: Q.linear_tanh(t.x[:, :, :4, 0], w, 0.01, 128), "onednn")],
    "quantized::linear_leaky_relu": [with_linear(lambda t, w: Q.linear_leaky_relu(t.x[:, :, :4, 0], w, 0.1, 70, 0.2), "onednn")],
}  # fmt: skip
"""Functions that round, with torch's integers or a neighbour."""


def agree(expected: Any, actual: Any, tolerance: float) -> None:
    """Compare results: numbers and shapes exactly, integers within a tolerance."""
    assert type(expected).__name__ == type(actual).__name__ or isinstance(actual, QuantizedTensor)
    if isinstance(expected, (list, tuple)):
        assert len(expected) == len(actual)
        for left, right in zip(expected, actual, strict=True):
            agree(left, right, tolerance)
    elif isinstance(expected, torch.Tensor) and expected.is_quantized:
        assert (actual.dtype, actual.qscheme()) == (expected.dtype, expected.qscheme())
        assert (actual.q_scale(), actual.q_zero_point()) == (pytest.approx(expected.q_scale()), expected.q_zero_point())
        assert actual.shape == expected.shape
        difference = (actual.integers.int() - expected.int_repr().int()).abs().max()
        assert difference <= tolerance
    elif isinstance(expected, torch.Tensor):
        torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance if expected.is_floating_point() else 0)
    else:
        assert actual == expected


@pytest.mark.parametrize("dtype", [torch.quint8, torch.qint8])
@pytest.mark.parametrize(
    ("name", "row", "tolerance"),
    [
        pytest.param(name, row, tolerance, id=f"{name}-{index}")
        for tolerance, table in ((0, EXACT | SETTINGS), (1, ROUNDED), (1e-5, FLOAT))
        for name, rows in table.items()
        for index, row in enumerate(rows)
    ],
)
def test_a_function(name: str, row: Row, tolerance: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    real = tensors(dtype)
    stand_in = pytree.tree_map_only(torch.Tensor, lambda x: as_stand_in(x) if x.is_quantized else x, vars(tensors(dtype)))
    try:
        expected = row(real)
    except (RuntimeError, NotImplementedError):
        if dtype is torch.quint8:
            raise
        pytest.skip("torch has it for quint8 only")
    called = []
    find = functions.FUNCTIONS.find
    monkeypatch.setattr(functions.FUNCTIONS, "find", lambda name: called.append(name) or find(name))
    with stand_ins(torch.nn.Module()):
        actual = row(SimpleNamespace(**stand_in))
    agree(expected, actual, tolerance)
    assert name in called or name in ("dequantize", "slice", "size", "unbind")


def test_each_function_has_a_row() -> None:
    kept = (parameters, layout, writing, prepacking, convolution_and_linear)
    computed = (arithmetic, activation, normalization, pooling_and_resampling)
    implemented = {name for module in (*kept, *computed) for name in module.table.names()}
    assert implemented == {*EXACT, *ROUNDED, *FLOAT, *SETTINGS, *UNPACKED}
