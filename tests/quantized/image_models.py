"""Networks for images like those that torchvision quantizes, with few channels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Unit(nn.Sequential):
    """Convolution, batch normalization, and an activation."""

    def __init__(
        self, entry: int, leave: int, kernel: int, stride: int = 1, groups: int = 1, act: type[nn.Module] | None = nn.ReLU
    ):
        layers = [nn.Conv2d(entry, leave, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(leave)]
        super().__init__(*layers, *([act()] if act else []))


class Classifier(nn.Module):
    """Features, the mean over space, and a linear layer."""

    def __init__(self, features: nn.Module, channels: int, classes: int) -> None:
        super().__init__()
        self.features, self.pool, self.dropout, self.linear = (
            features,
            nn.AdaptiveAvgPool2d(1),
            nn.Dropout(),
            nn.Linear(channels, classes),
        )

    def forward(self, image: Tensor) -> Tensor:
        return self.linear(self.dropout(torch.flatten(self.pool(self.features(image)), 1)))


class Inverted(nn.Module):
    """An inverted residual: expand, filter and weigh the channels, and project."""

    def __init__(
        self, entry: int, leave: int, expand: int, kernel: int, stride: int, act: type[nn.Module], squeeze: bool
    ) -> None:
        super().__init__()
        inner = entry * expand
        body = [Unit(entry, inner, 1, act=act)] if expand > 1 else []
        body.append(Unit(inner, inner, kernel, stride, inner, act))
        body.extend([SqueezeExcitation(inner)] if squeeze else [])
        self.body, self.residual = nn.Sequential(*body, Unit(inner, leave, 1, act=None)), stride == 1 and entry == leave

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.residual else self.body(x)


class SqueezeExcitation(nn.Module):
    """Weights of the channels between 0 and 1."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.pool, self.first, self.relu = nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, channels // 4, 1), nn.ReLU()
        self.second, self.gate = nn.Conv2d(channels // 4, channels, 1), nn.Hardsigmoid()

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(self.second(self.relu(self.first(self.pool(x)))))


def MobileNetV2(classes: int = 10) -> nn.Module:
    """Build the network of Sandler et al. 2018."""
    plan = [(8, 1, 1), (12, 6, 2), (12, 6, 1), (16, 6, 2), (16, 6, 1), (24, 6, 2), (24, 6, 1)]
    layers: list[nn.Module] = [Unit(3, 8, 3, 2, act=nn.ReLU)]
    entry = 8
    for leave, expand, stride in plan:
        layers.append(Inverted(entry, leave, expand, 3, stride, nn.ReLU, False))
        entry = leave
    return Classifier(nn.Sequential(*layers, Unit(entry, 64, 1, act=nn.ReLU)), 64, classes)


def MobileNetV3(classes: int = 10) -> nn.Module:
    """Build the network of Howard et al. 2019: hard swish, squeeze and excitation."""
    plan = [(8, 1, 3, 1, nn.ReLU, True), (12, 4, 3, 2, nn.ReLU, False), (12, 4, 5, 1, nn.ReLU, True),
            (16, 4, 5, 2, nn.Hardswish, True), (16, 4, 5, 1, nn.Hardswish, True), (24, 4, 3, 2, nn.Hardswish, False)]  # fmt: skip
    layers: list[nn.Module] = [Unit(3, 8, 3, 2, act=nn.Hardswish)]
    entry = 8
    for leave, expand, kernel, stride, act, squeeze in plan:
        layers.append(Inverted(entry, leave, expand, kernel, stride, act, squeeze))
        entry = leave
    return Classifier(nn.Sequential(*layers, Unit(entry, 64, 1, act=nn.Hardswish)), 64, classes)


class Shuffled(nn.Module):
    """A unit of ShuffleNet-v2: half of the channels pass, and all are shuffled."""

    def __init__(self, entry: int, leave: int, stride: int) -> None:
        super().__init__()
        half = leave // 2
        self.stride = stride
        inner = half if stride == 1 else entry
        self.left = nn.Sequential() if stride == 1 else nn.Sequential(
            Unit(entry, entry, 3, stride, entry, None), Unit(entry, half, 1))  # fmt: skip
        self.right = nn.Sequential(Unit(inner, half, 1), Unit(half, half, 3, stride, half, None), Unit(half, half, 1))

    def forward(self, x: Tensor) -> Tensor:
        left, right = x.chunk(2, dim=1) if self.stride == 1 else (x, x)
        joined = torch.cat((self.left(left), self.right(right)), dim=1)
        batch, channels, height, width = joined.size()
        return joined.view(batch, 2, channels // 2, height, width).transpose(1, 2).contiguous().view(batch, -1, height, width)


def ShuffleNet(classes: int = 10) -> nn.Module:
    """Build the network of Ma et al. 2018."""
    layers: list[nn.Module] = [Unit(3, 8, 3, 2), nn.MaxPool2d(3, 2, 1)]
    for entry, leave in ((8, 16), (16, 32)):
        layers.extend([Shuffled(entry, leave, 2), Shuffled(leave, leave, 1), Shuffled(leave, leave, 1)])
    return Classifier(nn.Sequential(*layers, Unit(32, 64, 1)), 64, classes)


class Inception(nn.Module):
    """Four branches over one input, joined."""

    def __init__(self, entry: int, plan: Sequence[int]) -> None:
        super().__init__()
        narrow, before_3, wide_3, before_5, wide_5, pooled = plan
        self.branches = nn.ModuleList([
            Unit(entry, narrow, 1), nn.Sequential(Unit(entry, before_3, 1), Unit(before_3, wide_3, 3)),
            nn.Sequential(Unit(entry, before_5, 1), Unit(before_5, wide_5, 3)),
            nn.Sequential(nn.MaxPool2d(3, 1, 1, ceil_mode=True), Unit(entry, pooled, 1)),
        ])  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def GoogLeNet(classes: int = 10) -> nn.Module:
    """Build the network of Szegedy et al. 2014, without the auxiliary heads."""
    layers: list[nn.Module] = [Unit(3, 8, 7, 2), nn.MaxPool2d(3, 2, ceil_mode=True), Unit(8, 8, 1), Unit(8, 24, 3)]
    layers.append(nn.MaxPool2d(3, 2, ceil_mode=True))
    layers.extend([Inception(24, (8, 12, 16, 4, 8, 8)), Inception(40, (16, 12, 16, 4, 8, 8)), nn.MaxPool2d(2, 2, ceil_mode=True)])
    return Classifier(nn.Sequential(*layers, Inception(48, (16, 16, 32, 4, 8, 8))), 64, classes)
