"""onnxexp-plugin-torchvision: the operators of torchvision's detection models."""

from __future__ import annotations

from onnxexp_torchvision.boxes import BOXES
from onnxexp_torchvision.deformable import DEFORMABLE
from onnxexp_torchvision.regions import REGIONS

__all__ = ["plugin"]


class Torchvision:
    """The plugin with symbolics of ``torchvision``, which need not be installed."""

    symbolics = (BOXES, REGIONS, DEFORMABLE)


plugin = Torchvision()
