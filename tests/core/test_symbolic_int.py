"""``int()`` of sizes, in models that strict mode refuses."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

import onnxexp


def rounded_up(x: Tensor) -> Tensor:
    """Pad to whole windows, with NumPy, as MONAI's Swin UNETR does; strict mode fixes the number."""
    whole = int(np.ceil(x.shape[0] / 4)) * 4
    return torch.nn.functional.pad(x, (0, whole - x.shape[0])).reshape(whole // 4, 4).sum(1)


def of_each_kind(x: Tensor) -> Tensor:
    assert isinstance(int("3") + x.dim(), int) and issubclass(bool, int) and type(x.dim()) == int  # noqa: E721
    return x * int(np.ceil(x.shape[0] / 3)) + int(2.9) * int(x.shape[0]) + int(x.shape[0] * 0.7) + int(math.pi) + int("11", 2)


@pytest.mark.parametrize("model", [rounded_up, of_each_kind])
def test_it_keeps_symbolic_numbers(model: Callable[[Tensor], Tensor]) -> None:
    program = onnxexp.export(model, (torch.rand(13),), dynamic_shapes=({0: "n"},), capture="export")
    for size in (2, 5, 13, 16, 27):
        x = torch.rand(size)
        torch.testing.assert_close(program(x), model(x))
    assert int is int and "int" not in globals()


def test_what_stays_fixed_is_refused_for_the_first_reason() -> None:
    def model(x: Tensor) -> Tensor:
        return x * float(np.sin(int(np.ceil(x.shape[0] / 2))))

    with pytest.raises(
        onnxexp.CaptureError, match=r"fixes a number that depends on a dynamic size: CeilToInt\(n/2\) == 7"
    ) as caught:
        onnxexp.export(model, (torch.rand(13),), dynamic_shapes=({0: "n"},), capture="export")
    assert str(caught.value).count("torch.export (") == 2
