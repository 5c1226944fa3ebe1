"""Samples that round: torch's integers or a neighbour."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from tests.quantized.samples.operands import Row, written

Q = torch.ops.quantized
NORM = (torch.tensor([1.0, 0.5, -2.0, 1.5]), torch.tensor([0.1, 0.0, -0.2, 0.3]))
STATISTICS = (torch.tensor([0.2, -0.1, 0.0, 0.4]), torch.tensor([1.0, 0.7, 2.0, 0.5]))
TO = (0.04, 50)

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
        lambda t: Q.add(-1.3, t.x),
    ],
    "quantized::add_relu": [lambda t: Q.add_relu(t.x, t.y, *TO), lambda t: Q.add_relu(t.x, 1.0), lambda t: Q.add_relu(1.0, t.x)],
    "quantized::add_scalar": [lambda t: [Q.add_scalar(t.x, b) for b in (1, -100.0, 100.0, 0.03, torch.tensor(2.0))]],
    "quantized::add_scalar_relu": [lambda t: [Q.add_scalar_relu(t.x, b) for b in (1, -100.0, 100.0, 0.03, torch.tensor(-2.0))]],
    "quantized::mul": [lambda t: Q.mul(t.x, t.y, *TO), lambda t: Q.mul(t.x, 2.0), lambda t: Q.mul(2.0, t.x)],
    "quantized::mul_relu": [lambda t: Q.mul_relu(t.x, t.y, *TO), lambda t: Q.mul_relu(t.x, 2.0), lambda t: Q.mul_relu(2.0, t.x)],
    "quantized::mul_scalar": [lambda t: [Q.mul_scalar(t.x, b) for b in (2, -2.0, 0.0, 0.3, torch.tensor(2.0))]],
    "quantized::mul_scalar_relu": [lambda t: [Q.mul_scalar_relu(t.x, b) for b in (2, -2.0, 0.0, 0.3, torch.tensor(2.0))]],
    "quantized::matmul": [lambda t: Q.matmul(t.x, t.y.transpose(2, 3), 0.3, 100)],
    "quantized::cat": [lambda t: Q.cat([t.x, t.y], 1, *TO), lambda t: Q.cat([t.x, t.y], dim=1, scale=None, zero_point=None)],
    "quantized::cat_relu": [lambda t: Q.cat_relu([t.x, t.y], 1, *TO), lambda t: Q.cat_relu([t.x, t.x], 1, None, None)],
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
}  # fmt: skip
"""Rows by the name of their function."""
