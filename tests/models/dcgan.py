"""Radford et al. 2015: the generator and the discriminator of 64 × 64 images."""

from __future__ import annotations

import torch
from torch import nn


class Generator(nn.Module):
    """Noise (batch, noise, 1, 1) to images (batch, 3, 64, 64) in -1 to 1."""

    def __init__(self, noise: int = 100, width: int = 64) -> None:
        super().__init__()
        self.layers = nn.Sequential()
        channels = noise
        for index, multiple in enumerate((8, 4, 2, 1)):
            stride, padding = (2, 1) if index else (1, 0)
            self.layers.append(nn.ConvTranspose2d(channels, width * multiple, 4, stride, padding, bias=False))
            self.layers.append(nn.BatchNorm2d(width * multiple))
            self.layers.append(nn.ReLU(True))
            channels = width * multiple
        self.layers.append(nn.ConvTranspose2d(channels, 3, 4, 2, 1, bias=False))
        self.layers.append(nn.Tanh())

    def forward(self, noise: torch.Tensor) -> torch.Tensor:
        """Generate the images."""
        return self.layers(noise)


class Discriminator(nn.Module):
    """Images (batch, 3, 64, 64) to the chance (batch,) that each is real."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True))
        for multiple in (1, 2, 4):
            self.layers.append(nn.Conv2d(width * multiple, width * multiple * 2, 4, 2, 1, bias=False))
            self.layers.append(nn.BatchNorm2d(width * multiple * 2))
            self.layers.append(nn.LeakyReLU(0.2, inplace=True))
        self.layers.append(nn.Conv2d(width * 8, 1, 4, 1, 0, bias=False))
        self.layers.append(nn.Sigmoid())

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Return one number per image."""
        return self.layers(image).view(-1, 1).squeeze(1)
