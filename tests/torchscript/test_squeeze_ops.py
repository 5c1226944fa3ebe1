"""`squeeze` of sizes that are 1 in the example."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import onnxexp

Model = Callable[[Tensor], Tensor]


def pooled(x: Tensor) -> Tensor:
    return functional.max_pool1d(x, 2).squeeze(-1) + 1


def pooled_without_axis(x: Tensor) -> Tensor:
    return functional.avg_pool1d(x, 2).squeeze() + 1


def sliced(x: Tensor) -> Tensor:
    return x[:, :, 2:].squeeze(2) + 1


def convolved(x: Tensor) -> Tensor:
    return functional.conv1d(x, torch.ones(1, 4, 3)).squeeze(-1) + 1


def several(x: Tensor) -> Tensor:
    return x[:, :1, 2:].squeeze((1, 2)) + 1


def exported(model: Model, x: Tensor, capture: str) -> tuple[onnxexp.ONNXProgram, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = onnxexp.export(model, (x,), capture=capture, dynamic_shapes=({0: "batch", 2: "n"},))
    lines = [line.strip() for warning in caught for line in str(warning.message).splitlines()]
    return program, [line for line in lines if line.startswith("squeeze")]


@pytest.mark.parametrize("capture", ["trace", "script"])
@pytest.mark.parametrize(
    ("model", "gone", "right", "wrong"),
    [
        (pooled, "2", (2, 3), (4, 5, 9)),
        (pooled_without_axis, "2", (2, 3), (4, 5)),
        (sliced, "2", (3,), (2, 4, 7)),
        (convolved, "2", (3,), (4, 7)),
        (several, "1, 2", (3,), (4, 7)),
    ],
)
def test_an_axis_of_size_1_in_the_example(
    capture: str, model: Model, gone: str, right: Sequence[int], wrong: Sequence[int]
) -> None:
    """Right where the size is 1; an error of the run elsewhere, where eager's result has another rank."""
    program, told = exported(model, torch.randn(2, 4, 3), capture)
    assert len(told) == 1 and told[0].startswith(f"squeeze removes axis {gone}, as for the example, at File")
    for size in right:
        x = torch.randn(3, 4, size)
        torch.testing.assert_close(program(x), model(x))
    for size in wrong:
        with pytest.raises(onnxexp.OnnxExporterError, match="ONNX Runtime"):
            program(torch.randn(3, 4, size))


def kept(x: Tensor) -> Tensor:
    return x.unsqueeze(1).squeeze(1).squeeze(-1)


@pytest.mark.parametrize("capture", ["trace", "script"])
def test_known_sizes_are_not_told(capture: str) -> None:
    program, told = exported(kept, torch.randn(2, 4, 3), capture)
    assert told == []
    for shape in [(1, 4, 5), (3, 4, 3)]:
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), kept(x))


def area(x: Tensor) -> Tensor:
    return functional.adaptive_avg_pool1d(x, (x.sum() * 0 + 1).long().item()).squeeze(-1)


def test_a_size_that_depends_on_data() -> None:
    """The rank that the trace recorded decides."""
    program, told = exported(area, torch.randn(2, 4, 3), "trace")
    assert len(told) == 1
    x = torch.randn(3, 4, 8)
    torch.testing.assert_close(program(x), area(x))
