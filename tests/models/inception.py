"""Inception-v3 of Szegedy et al. 2015, with the auxiliary head for training."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

Kernel = int | tuple[int, int]


class Unit(nn.Sequential):
    """Convolution, batch normalization, ReLU."""

    def __init__(self, entry: int, leave: int, kernel: Kernel, stride: int = 1, padding: Kernel = 0) -> None:
        convolution = nn.Conv2d(entry, leave, kernel, stride, padding, bias=False)
        super().__init__(convolution, nn.BatchNorm2d(leave, eps=0.001), nn.ReLU(inplace=True))


def chain(entry: int, *plan: tuple[int, Kernel, int, Kernel]) -> nn.Sequential:
    """Chain units, each given as (channels, kernel, stride, padding)."""
    units = nn.Sequential()
    for leave, kernel, stride, padding in plan:
        units.append(Unit(entry, leave, kernel, stride, padding))
        entry = leave
    return units


class Branches(nn.Module):
    """Branches over one input, joined along the channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (batch, sum of the branches' channels, height, width)."""
        return torch.cat([branch(x) for branch in self.branches], 1)


class Forked(nn.Module):
    """A stem whose output two asymmetric convolutions see, as in the widest modules."""

    def __init__(self, stem: nn.Module, entry: int, leave: int) -> None:
        super().__init__()
        self.stem = stem
        self.fork = Branches(Unit(entry, leave, (1, 3), 1, (0, 1)), Unit(entry, leave, (3, 1), 1, (1, 0)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (batch, 2 * leave, height, width)."""
        return self.fork(self.stem(x))


class PooledUnit(nn.Module):
    """Average pooling, then a 1 × 1 unit."""

    def __init__(self, entry: int, leave: int) -> None:
        super().__init__()
        self.unit = Unit(entry, leave, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (batch, leave, height, width)."""
        return self.unit(functional.avg_pool2d(x, kernel_size=3, stride=1, padding=1))


def same(channels: int, kernel: Kernel) -> tuple[int, Kernel, int, Kernel]:
    """Plan a unit that keeps height and width."""
    padding = kernel // 2 if isinstance(kernel, int) else (kernel[0] // 2, kernel[1] // 2)
    return channels, kernel, 1, padding


def module_a(entry: int, pooled: int, w: Callable[[int], int]) -> tuple[nn.Module, int]:
    """Build the module of 35 × 35 in the paper, and return its number of channels."""
    branches = (
        chain(entry, same(w(64), 1)),
        chain(entry, same(w(48), 1), same(w(64), 5)),
        chain(entry, same(w(64), 1), same(w(96), 3), same(w(96), 3)),
        PooledUnit(entry, pooled),
    )
    return Branches(*branches), w(64) + w(64) + w(96) + pooled


def module_b(entry: int, w: Callable[[int], int]) -> tuple[nn.Module, int]:
    """Build the module from 35 × 35 to 17 × 17."""
    last = chain(entry, same(w(64), 1), same(w(96), 3), (w(96), 3, 2, 0))
    return Branches(chain(entry, (w(384), 3, 2, 0)), last, nn.MaxPool2d(3, 2)), w(384) + w(96) + entry


def module_c(entry: int, inner: int, w: Callable[[int], int]) -> tuple[nn.Module, int]:
    """Build the module of 17 × 17, with 7 × 7 convolutions in two halves."""
    row, column = (1, 7), (7, 1)
    branches = (
        chain(entry, same(w(192), 1)),
        chain(entry, same(inner, 1), same(inner, row), same(w(192), column)),
        chain(entry, same(inner, 1), same(inner, column), same(inner, row), same(inner, column), same(w(192), row)),
        PooledUnit(entry, w(192)),
    )
    return Branches(*branches), 4 * w(192)


def module_d(entry: int, w: Callable[[int], int]) -> tuple[nn.Module, int]:
    """Build the module from 17 × 17 to 8 × 8."""
    seven = chain(entry, same(w(192), 1), same(w(192), (1, 7)), same(w(192), (7, 1)), (w(192), 3, 2, 0))
    return Branches(chain(entry, same(w(192), 1), (w(320), 3, 2, 0)), seven, nn.MaxPool2d(3, 2)), w(320) + w(192) + entry


def module_e(entry: int, w: Callable[[int], int]) -> tuple[nn.Module, int]:
    """Build the module of 8 × 8, with forked branches."""
    branches = (
        chain(entry, same(w(320), 1)),
        Forked(chain(entry, same(w(384), 1)), w(384), w(384)),
        Forked(chain(entry, same(w(448), 1), same(w(384), 3)), w(384), w(384)),
        PooledUnit(entry, w(192)),
    )
    return Branches(*branches), w(320) + 4 * w(384) + w(192)


class Auxiliary(nn.Module):
    """The second classifier, on the 17 × 17 features."""

    def __init__(self, entry: int, classes: int, w: Callable[[int], int]) -> None:
        super().__init__()
        self.units = nn.Sequential(Unit(entry, w(128), 1), nn.AdaptiveAvgPool2d(5), Unit(w(128), w(768), 5))
        self.fc = nn.Linear(w(768), classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute class scores."""
        return self.fc(self.units(x).flatten(1))


class InceptionV3(nn.Module):
    """(batch, 3, height, width) to (batch, classes); training adds auxiliary scores."""

    def __init__(self, classes: int = 1000, width: float = 1.0) -> None:
        super().__init__()

        def w(channels: int) -> int:
            return max(4, int(channels * width))

        self.stem = nn.Sequential(
            Unit(3, w(32), 3, 2), Unit(w(32), w(32), 3), Unit(w(32), w(64), 3, 1, 1), nn.MaxPool2d(3, 2),
            Unit(w(64), w(80), 1), Unit(w(80), w(192), 3), nn.MaxPool2d(3, 2),
        )  # fmt: skip
        channels = w(192)
        self.low, self.high = nn.Sequential(), nn.Sequential()
        for pooled in (32, 64, 64):
            channels = self._add(self.low, module_a(channels, w(pooled), w))
        channels = self._add(self.low, module_b(channels, w))
        for inner in (128, 160, 160, 192):
            channels = self._add(self.low, module_c(channels, w(inner), w))
        self.auxiliary = Auxiliary(channels, classes, w)
        channels = self._add(self.high, module_d(channels, w))
        channels = self._add(self.high, module_e(channels, w))
        channels = self._add(self.high, module_e(channels, w))
        self.dropout = nn.Dropout()
        self.fc = nn.Linear(channels, classes)

    @staticmethod
    def _add(row: nn.Sequential, made: tuple[nn.Module, int]) -> int:
        module, channels = made
        row.append(module)
        return channels

    def forward(self, image: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """Compute class scores, and in training those of the auxiliary head, too."""
        middle = self.low(self.stem(image))
        x = functional.adaptive_avg_pool2d(self.high(middle), (1, 1))
        scores = self.fc(torch.flatten(self.dropout(x), 1))
        return (scores, self.auxiliary(middle)) if self.training else scores
