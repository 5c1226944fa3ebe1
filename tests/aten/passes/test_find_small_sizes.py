"""passes/find_small_sizes.py: axes that `squeeze` removes at a size of 0."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import onnxexp

X = torch.randn(2, 3)


def one_row_more(x: Tensor) -> Tensor:
    return torch.cat([x, x.sum(0, keepdim=True)]).squeeze(0)


def all_axes(x: Tensor) -> Tensor:
    return torch.cat([x, x.sum(0, keepdim=True)]).squeeze()


def several_axes(x: Tensor) -> Tensor:
    return torch.cat([x, x.sum(0, keepdim=True)])[:, :, None].squeeze((0, 2))


@pytest.mark.parametrize("function", [one_row_more, all_axes, several_axes])
def test_a_size_of_zero_is_refused(function: Callable[[Tensor], Tensor]) -> None:
    program = onnxexp.export(function, (X,), dynamic_shapes=({0: "rows"},), capture="export")
    for rows in (1, 2, 7):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(program(x), function(x))
    with pytest.raises(onnxexp.OnnxExporterError, match="right only where rows >= 1"):
        program(torch.randn(0, 3))


def test_an_axis_that_stays_at_zero_has_no_restriction() -> None:
    program = onnxexp.export(lambda x: torch.cat([x, x, X]).squeeze(0), (X,), dynamic_shapes=({0: "rows"},), capture="export")
    assert program(torch.randn(0, 3)).shape == (2, 3)
