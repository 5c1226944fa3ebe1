"""shape/concat_and_split.py: split, chunk and unbind."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

import onnxexp
from onnxexp.testing import Case, cases
from tests.conformance.sizes import misdeclared

torch.manual_seed(0)

X = torch.randn(4, 5)


@cases(
    Case(lambda x: x.split(2, 1), X, dynamic={0: [0]}, emits={"Split"}, name="split"),
    Case(lambda x: x.split([2, 3], -1), X, dynamic={0: [0]}, emits={"Split"}, name="split_sizes"),
    Case(lambda x: x.split(5, 1), X, dynamic={0: [0]}, emits={"Identity"}, name="split_whole"),
    Case(lambda x: x.split([1, x.shape[0] - 1]), X, dynamic={0: [0]}, name="split_rest"),
    Case(lambda x: x.chunk(2, 1), X, dynamic={0: [0]}, emits={"Split"}, name="chunk"),
    Case(lambda x: x.chunk(2), X, dynamic={0: [0]}, opsets=(10, 13, 20), name="chunk_dynamic"),
    Case(lambda x: x.tensor_split(3, 1), X, dynamic={0: [0]}, emits={"Split"}, name="tensor_split"),
    Case(lambda x: x.tensor_split((1, 3), 1), X, dynamic={0: [0]}, emits={"Split"}, name="tensor_split_at"),
    Case(lambda x: x.tensor_split((-1, -3), 1), X, dynamic={0: [0]}, opsets=(9, 20), name="tensor_split_at_falling_places"),
    Case(lambda x: [part.sum(1) for part in x.tensor_split(torch.tensor([1, -2]), 1)], X, name="tensor_split_at_known_places"),
    Case(
        lambda x, at: [part.sum(1) for part in x.tensor_split(at, 1)],
        X,
        torch.tensor([4, -2]),
        opsets=(9, 20),
        name="split_anywhere",
    ),
    Case(lambda x: x.tensor_split(torch.tensor(2), 1), X, name="tensor_split_into_a_known_number"),
    Case(lambda x: torch.hsplit(x, [2]), X, name="hsplit"),
    Case(lambda x: torch.vsplit(x, 2), X, name="vsplit"),
    Case(lambda x: torch.dsplit(x, 2), torch.randn(1, 2, 4), name="dsplit"),
    Case(lambda x: x.unbind(1), X, dynamic={0: [0]}, emits={"Gather"}, name="unbind"),
    Case(lambda x: x.split(2, 1), torch.randint(9, (2, 4)) > 4, opsets=(9, 20), name="split_bool"),
)
def test_split(check):
    check()


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("opset", [9, 20])
@pytest.mark.parametrize(
    "places", [(3,), (4, -2), ([2, 5],), ((1, -2),), ((5, 2),), ((-9, 20),), (torch.tensor([2, -1]),)], ids=str
)
def test_tensor_split_at_any_remainder(places: tuple[Any, ...], opset: int, capture: str) -> None:
    """The parts' sizes follow from the axis at run time, not from the example's."""

    class Parts(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            return [part.reshape(-1) * 2 for part in x.tensor_split(*places)]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onnxexp.export(Parts(), (torch.randn(8, 4),), capture=capture, opset_version=opset, dynamic_shapes=({0: "n"},))
    for size in range(2, 14):
        x = torch.randn(size, 4)
        torch.testing.assert_close(program(x), Parts()(x))


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize(
    ("cut", "shape"),
    [
        (lambda x: torch.hsplit(x, [3, 5]), (2, 8)),
        (lambda x: x.hsplit((-3, 5)), (8,)),
        (lambda x: torch.vsplit(input=x, indices=[3, 5]), (8, 2)),
        (lambda x: x.vsplit([x.shape[0] // 2]), (8, 2)),
        (lambda x: torch.dsplit(x, (2, -2)), (2, 3, 8)),
    ],
)
def test_places_along_an_axis_at_any_size(cut: Any, shape: tuple[int, ...], capture: str) -> None:
    """The sizes in the file are right, and no warning claims otherwise."""
    axis = shape.index(8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = onnxexp.export(cut, (torch.randn(shape),), capture=capture, dynamic_shapes=({axis: "n"},))
    for size in range(1, 14):
        x = torch.randn(*shape[:axis], size, *shape[axis + 1 :])
        expected = cut(x)
        torch.testing.assert_close(tuple(program(x)), expected)
        assert misdeclared(program.model_proto, {"n": size}, expected) == ""


def test_a_number_of_parts_along_an_axis_divides_its_size() -> None:
    program = onnxexp.export(lambda x: x.hsplit(2), (torch.randn(2, 8),), capture="export", dynamic_shapes=({1: "n"},))
    x = torch.randn(2, 6)
    torch.testing.assert_close(tuple(program(x)), x.hsplit(2))


@pytest.mark.filterwarnings("ignore:the exported model is right only where")
@pytest.mark.parametrize("opset", [9, 13, 20])
def test_parts_of_a_length_that_follows_from_the_size(opset: int) -> None:
    def halves(x: torch.Tensor) -> torch.Tensor:
        first, second = x.split(x.shape[0] // 2)
        return second * 2 - first

    program = onnxexp.export(halves, (torch.randn(8, 4),), capture="export", opset_version=opset, dynamic_shapes=({0: "n"},))
    for size in (4, 6, 12):
        x = torch.randn(size, 4)
        torch.testing.assert_close(program(x), halves(x))


def test_places_along_an_axis_that_is_not_there() -> None:
    with pytest.raises(onnxexp.CaptureError, match="at least 2 dimension"):
        onnxexp.export(lambda x: torch.vsplit(x, [1]), (torch.randn(8),), capture="export", dynamic_shapes=({0: "n"},))


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_writes_into_the_parts_of_a_dynamic_axis(capture: str) -> None:
    def numbered(x: torch.Tensor) -> torch.Tensor:
        result = x * 1
        for number, part in enumerate((*result.tensor_split(3), *result.vsplit([2, 5]))):
            part.add_(number)
        return result

    program = onnxexp.export(numbered, (torch.randn(8, 4),), capture=capture, dynamic_shapes=({0: "n"},))
    for size in range(2, 9):
        x = torch.randn(size, 4)
        torch.testing.assert_close(program(x), numbered(x))


def test_a_number_of_parts_that_torch_refuses() -> None:
    with pytest.raises(onnxexp.CaptureError, match="number of sections must be larger than 0"):
        onnxexp.export(lambda x: x.tensor_split(0), (X,), capture="export", dynamic_shapes=({0: "n"},))


def test_a_number_of_parts_that_is_an_input() -> None:
    with pytest.raises(onnxexp.LoweringError, match="the number of parts must be known at export"):
        onnxexp.export(lambda x, count: x.tensor_split(count, 1), (X, torch.tensor(2)), capture="trace")
