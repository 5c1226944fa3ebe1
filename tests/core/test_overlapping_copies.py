"""Scatters into overlapping views, which torch copies with their strides."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import onnxexp
from onnxexp._errors import CaptureError

X = torch.arange(8.0)
VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "as_strided": lambda x: x.as_strided((7, 2), (1, 1)),
    "unfold": lambda x: x.unfold(0, 2, 1),
    "a part of unfold": lambda x: x.unfold(0, 4, 2)[:, 1:],
}


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("name", VIEWS)
def test_refused_and_fixed(name: str, capture: str) -> None:
    def scatters(view: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        return lambda x: view(x).select_scatter(view(x)[:, 0] + 10, 1, 1)

    view = VIEWS[name]
    with pytest.raises(CaptureError, match=r"may share memory.*\n?.*clone\(\) the view first"):
        onnxexp.export(scatters(view), (X,), capture=capture)
    for apart in (torch.clone, Tensor.contiguous):
        model = scatters(lambda x, apart=apart: apart(view(x)))
        torch.testing.assert_close(onnxexp.export(model, (X,), capture=capture)(X), model(X))


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_windows_without_a_common_element(capture: str) -> None:
    def model(x: Tensor) -> tuple[Tensor, ...]:
        windows, strided, part = x.unfold(0, 2, 2), x.as_strided((3, 2), (3, 1)), x.unfold(0, 3, 2)[:, 1:]
        scattered = tuple(each.select_scatter(each[:, 0] + 10, 1, 1) for each in (windows, part))
        return *scattered, strided.slice_scatter(strided[:1] * 2, 0, 1, 2)

    torch.testing.assert_close(onnxexp.export(model, (X,), capture=capture)(X), model(X))
