"""Classic convolutional networks, written from their papers at full depth.

``width`` scales the channels (1 is the paper's size), so that the tests stay quick. Two more are in inception.py and dcgan.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from .case import CLASSIC_OPSETS, Inputs, ModelCase, Sizes, floats, registry, seeded
from .dcgan import Discriminator, Generator
from .inception import InceptionV3


def scaled(width: float) -> Callable[[int], int]:
    """Scale a number of channels in the paper to the network's, a multiple of 4."""
    return lambda channels: max(4, int(channels * width) // 4 * 4)


class AlexNet(nn.Module):
    """Krizhevsky 2014: (batch, 3, height, width) to (batch, classes)."""

    def __init__(self, classes: int = 1000, width: float = 1.0) -> None:
        super().__init__()
        w = scaled(width)
        self.features = nn.Sequential(
            nn.Conv2d(3, w(64), 11, stride=4, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
            nn.Conv2d(w(64), w(192), 5, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
            nn.Conv2d(w(192), w(384), 3, padding=1), nn.ReLU(inplace=True),
            nn.Conv2d(w(384), w(256), 3, padding=1), nn.ReLU(inplace=True),
            nn.Conv2d(w(256), w(256), 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2),
        )  # fmt: skip
        self.pool = nn.AdaptiveAvgPool2d(6)
        self.classifier = nn.Sequential(
            nn.Dropout(), nn.Linear(w(256) * 36, w(4096)), nn.ReLU(inplace=True),
            nn.Dropout(), nn.Linear(w(4096), w(4096)), nn.ReLU(inplace=True), nn.Linear(w(4096), classes),
        )  # fmt: skip

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Compute class scores."""
        return self.classifier(torch.flatten(self.pool(self.features(image)), 1))


class VGG(nn.Module):
    """Simonyan and Zisserman 2014, configuration A, batch-normalized on demand."""

    layout = (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0)  # 0 is a pooling layer

    def __init__(self, normalized: bool, classes: int = 1000, width: float = 1.0) -> None:
        super().__init__()
        w = scaled(width)
        layers: list[nn.Module] = []
        channels = 3
        for size in self.layout:
            if size == 0:
                layers.append(nn.MaxPool2d(2, 2))
                continue
            layers.append(nn.Conv2d(channels, w(size), 3, padding=1))
            layers.extend([nn.BatchNorm2d(w(size))] if normalized else [])
            layers.append(nn.ReLU(inplace=True))
            channels = w(size)
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(channels * 49, w(4096)), nn.ReLU(True), nn.Dropout(),
            nn.Linear(w(4096), w(4096)), nn.ReLU(True), nn.Dropout(), nn.Linear(w(4096), classes),
        )  # fmt: skip

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Compute class scores."""
        return self.classifier(self.pool(self.features(image)).flatten(1))


class Residual(nn.Module):
    """A block of He et al. 2015: a body plus a shortcut, projected to a new shape."""

    def __init__(self, entry: int, inner: int, leave: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        if bottleneck:
            plan = [(entry, inner, 1, 1), (inner, inner, 3, stride), (inner, leave, 1, 1)]
        else:
            plan = [(entry, inner, 3, stride), (inner, leave, 3, 1)]
        self.body = nn.Sequential()
        for index, (before, after, kernel, step) in enumerate(plan):
            self.body.append(nn.Conv2d(before, after, kernel, step, kernel // 2, bias=False))
            self.body.append(nn.BatchNorm2d(after))
            if index + 1 < len(plan):
                self.body.append(nn.ReLU(inplace=True))
        self.shortcut = nn.Sequential()
        if stride != 1 or entry != leave:
            self.shortcut = nn.Sequential(nn.Conv2d(entry, leave, 1, stride, bias=False), nn.BatchNorm2d(leave))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute the block's output; the sum is made in place, as is common."""
        y = self.body(x)
        y += self.shortcut(x)
        return self.relu(y)


class ResNet(nn.Module):
    """ResNet of the given blocks per stage: (2, 2, 2, 2) is 18, (3, 4, 6, 3) is 50."""

    def __init__(self, blocks: Sequence[int], bottleneck: bool, classes: int = 1000, width: float = 1.0) -> None:
        super().__init__()
        w = scaled(width)
        self.stem = nn.Sequential(
            nn.Conv2d(3, w(64), 7, 2, 3, bias=False), nn.BatchNorm2d(w(64)), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        )
        channels = w(64)
        self.stages = nn.ModuleList()
        for stage, count in enumerate(blocks):
            inner = w(64 * 2**stage)
            leave = inner * 4 if bottleneck else inner
            steps = [2 if stage else 1] + [1] * (count - 1)
            entries = [channels] + [leave] * (count - 1)
            self.stages.append(
                nn.Sequential(*(Residual(e, inner, leave, step, bottleneck) for e, step in zip(entries, steps, strict=True)))
            )
            channels = leave
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, classes)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Compute class scores."""
        x = self.stem(image)
        for stage in self.stages:
            x = stage(x)
        return self.fc(torch.flatten(self.pool(x), 1))


class DenseLayer(nn.Module):
    """A layer of Huang et al. 2016 that sees all features before it."""

    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(channels), nn.ReLU(inplace=True), nn.Conv2d(channels, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth), nn.ReLU(inplace=True), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )  # fmt: skip

    def forward(self, features: list[torch.Tensor]) -> torch.Tensor:
        """Compute the features that this layer adds."""
        return self.body(torch.cat(features, 1))


class DenseBlock(nn.ModuleList):
    """Dense layers, and the concatenation of all their results."""

    def __init__(self, count: int, channels: int, growth: int) -> None:
        super().__init__(DenseLayer(channels + index * growth, growth) for index in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (batch, channels + count * growth, height, width)."""
        features = [x]
        for layer in self:
            features.append(layer(features))
        return torch.cat(features, 1)


class DenseNet(nn.Module):
    """Huang et al. 2016; the blocks given are DenseNet-121's."""

    def __init__(self, blocks: Sequence[int] = (6, 12, 24, 16), growth: int = 32, classes: int = 1000) -> None:
        super().__init__()
        channels = 2 * growth
        self.features = nn.Sequential(
            nn.Conv2d(3, channels, 7, 2, 3, bias=False), nn.BatchNorm2d(channels), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        )
        for index, count in enumerate(blocks):
            self.features.append(DenseBlock(count, channels, growth))
            channels += count * growth
            self.features.append(nn.BatchNorm2d(channels))
            if index + 1 < len(blocks):
                narrower = channels // 2
                self.features.extend([nn.ReLU(inplace=True), nn.Conv2d(channels, narrower, 1, bias=False), nn.AvgPool2d(2, 2)])
                channels = narrower
        self.classifier = nn.Linear(channels, classes)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Compute class scores."""
        x = torch.relu_(self.features(image))
        return self.classifier(torch.nn.functional.adaptive_avg_pool2d(x, (1, 1)).flatten(1))


class Fire(nn.Module):
    """A module of Iandola et al. 2016: squeeze channels, expand by 1 × 1 and 3 × 3."""

    def __init__(self, entry: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(entry, squeezed, 1)
        self.narrow = nn.Conv2d(squeezed, expanded, 1)
        self.wide = nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (batch, 2 * expanded, height, width)."""
        x = self.squeeze(x).relu()
        return torch.cat([self.narrow(x).relu(), self.wide(x).relu()], dim=1)


class SqueezeNet(nn.Module):
    """SqueezeNet 1.1; its pooling rounds sizes up."""

    def __init__(self, classes: int = 1000, width: float = 1.0) -> None:
        super().__init__()
        w = scaled(width)
        self.features = nn.Sequential(nn.Conv2d(3, w(64), 3, stride=2), nn.ReLU(inplace=True))
        channels = w(64)
        for squeezed, expanded, pooled in (
            (16, 64, True), (16, 64, False), (32, 128, True), (32, 128, False),
            (48, 192, True), (48, 192, False), (64, 256, False), (64, 256, False),
        ):  # fmt: skip
            self.features.extend([nn.MaxPool2d(3, 2, ceil_mode=True)] if pooled else [])
            self.features.append(Fire(channels, w(squeezed), w(expanded)))
            channels = 2 * w(expanded)
        self.classifier = nn.Sequential(nn.Dropout(), nn.Conv2d(channels, classes, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Compute class scores."""
        return torch.flatten(self.classifier(self.features(image)), 1)


class SuperResolution(nn.Module):
    """Shi et al. 2016: luminance enlarged ``factor`` times by sub-pixel convolution."""

    def __init__(self, factor: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 64, 5, padding=2)
        self.second = nn.Conv2d(64, 64, 3, padding=1)
        self.third = nn.Conv2d(64, 32, 3, padding=1)
        self.last = nn.Conv2d(32, factor**2, 3, padding=1)
        self.shuffle = nn.PixelShuffle(factor)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Return (batch, 1, factor * height, factor * width)."""
        for layer in (self.first, self.second, self.third):
            image = layer(image).relu_()
        return self.shuffle(self.last(image))


def lively(build: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    """Use He's initial weights in ``build``: with torch's, all images score the same."""

    def factory() -> nn.Module:
        model = build()
        for module in model.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        return model

    return factory


def calibrated(build: Callable[[], nn.Module], shape: tuple[int, ...]) -> Callable[[], nn.Module]:
    """Use the batch statistics of one pass over random data in ``build``."""

    def factory() -> nn.Module:
        model = build()
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.momentum = None  # a plain average: the statistics become those of the only batch
        with torch.no_grad():
            model.train()(torch.randn(shape))
        return model

    return factory


def case(
    name: str, build: Callable[[], nn.Module], shape: Sequence[int | str], quick_opset: int, argument: str = "image"
) -> ModelCase:
    """Build a case of one (batch, channels, height, width) input.

    The names in `shape` are those of dynamic axes.
    """
    dims = {axis: size for axis, size in enumerate(shape) if isinstance(size, str)}
    sizes, *others = ({"batch": b, "height": h, "width": w} for b, h, w in ((2, 64, 80), (3, 96, 72), (1, 65, 91)))

    def inputs(at: Sizes) -> Inputs:
        return (floats(*(at[size] if isinstance(size, str) else size for size in shape)),), {}

    def used(at: Sizes) -> Sizes:
        return {name: at[name] for name in dims.values()}

    used_others = tuple(used(other) for other in others)
    return ModelCase(name, seeded(build), inputs, used(sizes), used_others, {argument: dims}, CLASSIC_OPSETS, quick_opset)


def square(side: int, channels: int = 3) -> tuple[int | str, ...]:
    """Return the shape of a batch of square images."""
    return ("batch", channels, side, side)


ANY_IMAGE = ("batch", 3, "height", "width")

CASES: dict[str, ModelCase] = registry(
    [
        case("alexnet", lively(lambda: AlexNet(100, 0.25)), square(127), 9),
        case("vgg11", lively(lambda: VGG(False, 100, 0.125)), square(64), 15),
        case("vgg11-bn", calibrated(lambda: VGG(True, 100, 0.125), (4, 3, 64, 64)), square(64), 18),
        case("resnet18", calibrated(lambda: ResNet((2, 2, 2, 2), False, 100, 0.25), (4, 3, 64, 64)), ANY_IMAGE, 13),
        case("resnet50", calibrated(lambda: ResNet((3, 4, 6, 3), True, 100, 0.125), (4, 3, 64, 64)), ANY_IMAGE, 20),
        case("densenet121", calibrated(lambda: DenseNet(growth=8, classes=100), (4, 3, 64, 64)), square(64), 21),
        case("squeezenet", lively(lambda: SqueezeNet(100, 0.5)), square(96), 11),
        case("inception-v3", calibrated(lambda: InceptionV3(100, 0.125), (4, 3, 107, 107)), square(107), 23),
        case("dcgan-generator", calibrated(lambda: Generator(24, 8), (4, 24, 1, 1)), ("batch", 24, 1, 1), 17, "noise"),
        case("dcgan-discriminator", calibrated(lambda: Discriminator(8), (4, 3, 64, 64)), square(64), 24),
        case("super-resolution", lively(lambda: SuperResolution(3)), ("batch", 1, "height", "width"), 26),
    ]
)
