"""`Module.to` in a forward: captured where it changes nothing."""

from __future__ import annotations

import pytest
import torch

import onnxexp
from onnxexp_aten.capture.module_casts import _changes


class Cast(torch.nn.Module):
    """A layer that is cast at each call, as routers of experts are."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.layer, self.dtype = torch.nn.Linear(4, 3), dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.layer = self.layer.to(self.dtype)
        return self.layer.to(x)(x.to(self.dtype))


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_a_cast_to_the_same_dtype(capture: str) -> None:
    model, x = Cast(torch.float32), torch.randn(2, 4)
    program = onnxexp.export(model, (x,), dynamic_shapes=({0: "n"},), capture=capture)
    for rows in (2, 5):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(program(x), model(x))


def test_complex_weights_count_as_changed() -> None:
    module = torch.nn.Module()
    module.weight = torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))
    assert _changes(module, torch.complex128)
    assert not _changes(module, torch.complex64)
