"""Models and kernels without data: no warning, no comparison of missing values."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import onnxexp
from onnxexp import CaptureError, SymbolicTable

CAPTURES = pytest.mark.parametrize("capture", ["export", "trace", "script"])


@pytest.fixture
def no_warning() -> Iterator[None]:
    """Show torch's C++ warnings in each test, and fail if there is one."""
    torch.set_warn_always(True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    torch.set_warn_always(False)
    assert [str(each.message) for each in caught] == []


def without_data(mode: Any) -> tuple[torch.nn.Module, torch.Tensor]:
    with mode:
        return torch.nn.Linear(3, 4), torch.randn(2, 3)


@CAPTURES
@pytest.mark.parametrize("mode", [FakeTensorMode(), torch.device("meta")], ids=["fake", "meta"])
@pytest.mark.usefixtures("no_warning")
def test_a_model_without_data(capture: str, mode: Any) -> None:
    model, x = without_data(mode)
    with pytest.raises(
        CaptureError, match="without data: weight, bias; to fix this, pass weights=CHECKPOINT, or export_params=False"
    ):
        onnxexp.export(model, (x,), capture=capture)
    program = onnxexp.export(model, (x,), capture=capture, export_params=False)
    assert [value.name for value in program.model.graph.inputs] == ["input", "weight", "bias"]


@torch.library.custom_op("without_data::positive", mutates_args=())
def positive(x: torch.Tensor) -> torch.Tensor:
    return (x > 0).nonzero()[:, 0]


@positive.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(torch.library.get_ctx().create_unbacked_symint(), dtype=torch.int64)  # as torchvision's nms does


OWN = SymbolicTable("without_data")


@OWN("without_data::positive")
def _positive(op: Any, x: Any) -> Any:
    return op.Squeeze(op.NonZero(op.Greater(x, 0.0)), [0])


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.usefixtures("no_warning")
def test_a_fake_kernel_warns_of_nothing(capture: str) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x[positive(x)]

    x = torch.tensor([1.0, -1.0, 2.0])
    program = onnxexp.export(model, (x,), capture=capture, dynamic_shapes=({0: "n"},), plugins=["...", OWN])
    assert program(x).tolist() == [1.0, 2.0]
