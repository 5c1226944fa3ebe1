"""Models with quantized_decomposed's operators, as PT2E makes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401 - it registers the operators


@dataclasses.dataclass(frozen=True)
class Quantizer:
    """Parameters of one tensor: quantize it, dequantize it, or both."""

    scale: float
    zero_point: int
    lowest: int = 0
    highest: int = 255
    dtype: torch.dtype = torch.uint8

    def quantize(self, x: Tensor) -> Tensor:
        return torch.ops.quantized_decomposed.quantize_per_tensor(x, *self.arguments)  # type: ignore[no-any-return]

    def dequantize(self, x: Tensor) -> Tensor:
        return torch.ops.quantized_decomposed.dequantize_per_tensor(x, *self.arguments)  # type: ignore[no-any-return]

    def __call__(self, x: Tensor) -> Tensor:
        return self.dequantize(self.quantize(x))

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.scale, self.zero_point, self.lowest, self.highest, self.dtype


class Weight(nn.Module):
    """An int8 weight with a scale for each output channel."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.register_buffer("integers", torch.randint(-127, 128, shape, dtype=torch.int8))
        self.register_buffer("scales", torch.rand(shape[0]) * 0.01 + 0.005)
        self.register_buffer("zeros", torch.zeros(shape[0], dtype=torch.int64))

    def forward(self) -> Tensor:
        arguments = (self.integers, self.scales, self.zeros, 0, -127, 127, torch.int8)
        return torch.ops.quantized_decomposed.dequantize_per_channel(*arguments)  # type: ignore[no-any-return]


class Model(nn.Module):
    """A function with two weights, a convolution's and a linear layer's, and a bias."""

    def __init__(self, function: Callable[..., Any], channels: int = 8) -> None:
        super().__init__()
        self.function = function
        self.kernel, self.matrix = Weight(channels, channels, 3, 3), Weight(channels, channels)
        self.bias = nn.Parameter(torch.randn(channels), requires_grad=False)

    def forward(self, x: Tensor) -> Any:
        return self.function(self, x)

    def convolution(self, x: Tensor) -> Tensor:
        return nn.functional.conv2d(x, self.kernel(), self.bias, padding=1)

    def linear(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.matrix(), self.bias)
