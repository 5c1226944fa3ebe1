"""Scale and zero point of QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir
import torch

from onnxexp_quantized.passes.graph_editor import constant_of


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Constant parameters of one 8-bit tensor; equal ones make equal integers."""

    scale: float
    zero_point: int
    dtype: torch.dtype

    @property
    def lowest(self) -> int:
        return torch.iinfo(self.dtype).min

    @property
    def highest(self) -> int:
        return torch.iinfo(self.dtype).max

    def code(self, number: float) -> int:
        """Quantize a number as QuantizeLinear does: float32, half to even, saturated."""
        quotient = np.rint(np.float32(number) / np.float32(self.scale))
        return int(np.clip(quotient + self.zero_point, self.lowest, self.highest))


def parameters_of(node: ir.Node) -> Parameters | None:
    """Read the parameters of a QuantizeLinear or DequantizeLinear of an 8-bit tensor.

    Returns None if they are not constant, differ by channel, or belong to another width.
    """
    scale, zero_point = constant_of(node, 1), constant_of(node, 2)
    if scale is None or zero_point is None or scale.numel() != 1 or zero_point.dtype not in (torch.uint8, torch.int8):
        return None
    if scale.dtype is not torch.float32 or not scale.item() > 0:
        return None
    return Parameters(scale.item(), int(zero_point.item()), zero_point.dtype)
