"""Capture ``contiguous()`` wherever it copies at some sizes.

torch's method returns the tensor itself, before anything is recorded, if that is contiguous at the example's sizes: a part
``x.split(3, 1)[0]`` of 3 columns or fewer. At other sizes it copies, and a later write to either of the two is not seen in the
other. A recorded call lets the rewriting of writes decide whether they share memory at every size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch


def contiguous(
    original: Callable[..., torch.Tensor], self: torch.Tensor, *, memory_format: torch.memory_format = torch.contiguous_format
) -> torch.Tensor:
    """Call aten::contiguous if the layout depends on sizes.

    Its argument is an alias of the tensor. If the result were the tensor itself, the capture would replace the tensor by it.
    """
    if memory_format is not torch.contiguous_format or self.layout is not torch.strided or not _may_copy(self):
        return original(self, memory_format=memory_format)
    return torch.ops.aten.contiguous.default(torch.ops.aten.alias.default(self))


def _may_copy(x: torch.Tensor) -> bool:
    """Return whether symbolic strides differ from contiguous ones at some size.

    The strides are compared as expressions, since torch takes for always true what an earlier operator found true at the
    example's sizes.
    """
    if all(isinstance(number, int) for number in (*x.shape, *x.stride())):
        return False
    expected = sympy.Integer(1)
    for size, stride in zip(map(_expr, reversed(x.shape)), map(_expr, reversed(x.stride())), strict=True):
        if size == 1:  # any stride will do
            continue
        if sympy.expand(stride - expected) != 0:
            return True
        expected *= size
    return False


def _expr(number: Any) -> sympy.Expr:
    return number.node.expr if isinstance(number, torch.SymInt) else sympy.Integer(number)
