"""Slices whose length torch.export simplifies, at dynamic sizes of 0 and 1."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim

import onnxexp

X = torch.randn(5, 4, 3)


class Model(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def fill_the_last(x: torch.Tensor) -> torch.Tensor:
    y = x + 0
    y.unsqueeze(2)[-1:].fill_(-2.0)
    return y


def fill_a_copy(x: torch.Tensor) -> torch.Tensor:
    y = (x + 0)[:, :1, :1][-1:]
    y.fill_(-2.0)
    return y + 1


def fill_last_column(x: torch.Tensor) -> torch.Tensor:
    y = x + 0
    y.transpose(0, 1)[:, -1:].fill_(0)
    return y


def double_part(x: torch.Tensor) -> torch.Tensor:
    y = x + 0
    y[x.shape[0] - 1 : x.shape[1] // 4, 1:] *= 2
    return y


def half_of_a_part(x: torch.Tensor) -> torch.Tensor:
    y = x + 0
    y[x.shape[0] // 2 : 1 : 3][-1:] *= 2
    return y


def overwrite_with_a_number(x: torch.Tensor) -> torch.Tensor:
    y = (x + 0)[1:2:2]
    y[...] = 3
    return y


def overwrite_with_a_row(x: torch.Tensor) -> torch.Tensor:
    y = (x + 0)[1:2:2]
    y[...] = X[:1]
    return y


def exported(function: Any, capture: str, opset: int = 20, dim: Any = "n") -> tuple[onnxexp.ONNXProgram, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = onnxexp.export(Model(function), (X,), capture=capture, opset_version=opset, dynamic_shapes=({0: dim},))
    return program, [str(each.message) for each in caught]


WRONG_AT_ONE = [
    lambda x: x[1:2],
    lambda x: x[1:2, 0] * 2,
    lambda x: x[1:2].expand(2, 4, 3),
    overwrite_with_a_row,
]
MEETING = [
    lambda x: x[-1:1],
    lambda x: x[x.shape[0] - 1 : 1] + 0,
    lambda x: x[-1:1, 0],
    double_part,
    half_of_a_part,
]
WRONG_AT_ZERO = [
    fill_the_last,
    fill_a_copy,
    fill_last_column,
    lambda x: x[:, 0][-1:].expand(1, 3),
    lambda x: torch.ones_like(x[:1]),
]


@pytest.mark.parametrize("opset", [10, 20])
@pytest.mark.parametrize("function", WRONG_AT_ONE)
def test_a_slice_that_is_another_at_size_one_is_a_restriction(function: Any, opset: int) -> None:
    program, told = exported(function, "export", opset)
    assert "n != 1" in program.model.metadata_props["onnxexp.restrictions"].split("; ")
    assert [text for text in told if "n != 1 (" in text and "Dim.DYNAMIC(min=2)" in text and __file__ in text]
    check(program, function)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("opset", [10, 20])
@pytest.mark.parametrize("function", MEETING)
def test_a_capture_is_right_at_size_one(function: Any, opset: int, capture: str) -> None:
    """The length of a slice whose limits meet is that of every size."""
    program, told = exported(function, capture, opset)
    assert not [text for text in told if "n != 1" in text]
    check(program, function)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("function", WRONG_AT_ZERO)
def test_a_slice_that_is_another_at_size_zero_is_refused_there(function: Any, capture: str) -> None:
    program, told = exported(function, capture)
    assert program.model.metadata_props["onnxexp.restrictions"] == "n >= 1"
    assert not told
    check(program, function)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.full((x[1:].shape[0], 2), 1.5),
        lambda x: torch.zeros(x.split(1, 1)[-1][1:].shape),
        lambda x: torch.ones_like(x.tensor_split((1,))[0]),
        lambda x: torch.ones_like(x.transpose(0, 1).hsplit((1, 2))[1]),
        lambda x: torch.ones_like(x.transpose(0, 2).dsplit((1,))[0]),
        lambda x: torch.ones_like(x.vsplit((1,))[0]),
    ],
)
def test_a_tensor_of_the_length_of_a_slice_is_refused_at_size_zero(function: Any) -> None:
    program, told = exported(function, "export")
    assert program.model.metadata_props["onnxexp.restrictions"] == "n >= 1"
    assert not told
    check(program, function)


@pytest.mark.parametrize(
    ("function", "restrictions"),
    [
        (lambda x: x[1:].shape[0], "n >= 1"),
        (lambda x: x[:-2].shape[0] * 2, "n != 1; n >= 1"),
        (lambda x: (x * 1, x.diff(dim=0).shape[0]), "n >= 1"),
        (lambda x: x.shape[0] - 1, ""),
    ],
)
def test_the_length_of_a_slice_that_nothing_reads(function: Any, restrictions: str) -> None:
    """torch.export computes the length as a number, negative where the slice is empty."""
    program, told = exported(function, "export")
    assert program.model.metadata_props.get("onnxexp.restrictions", "") == restrictions
    assert bool(told) == ("n != 1" in restrictions)
    for size in (2, 3, 7, *([0, 1] if not restrictions else [])):
        x = torch.randn(size, 4, 3)
        torch.testing.assert_close(program(x), function(x))


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("opset", [14, 20])
def test_an_empty_slice_of_an_axis_that_has_no_elements(opset: int, capture: str) -> None:
    function = lambda x: x[1:-1, 3:]  # noqa: E731 - three columns: the result is empty at every size
    program, told = exported(function, capture, opset)
    assert not told
    check(program, function)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("function", [overwrite_with_a_number, overwrite_with_a_row])
def test_a_slice_whose_values_are_all_replaced_is_a_restriction(function: Any, capture: str) -> None:
    """Nothing reads the slice, but the result has its size."""
    program, _ = exported(function, capture)
    assert program.model.metadata_props["onnxexp.restrictions"] == "n != 1; n >= 1"
    check(program, function)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[:, 0],
        lambda x: x[:-1],
        lambda x: x[1:],
        lambda x: x[: x.shape[0] // 2],
        lambda x: x[x.shape[0] // 2 :],
        lambda x: x[::2],
        lambda x: torch.cat([x[1:], x[:-1]]),
        lambda x: X.repeat(9, 1, 1)[: x.shape[0]],
        lambda x: x[1:-1],
        lambda x: x[2:],
        lambda x: x[:-2],
        lambda x: x.transpose(0, 1)[:, :-1],
        lambda x: x.transpose(0, 1)[:, : x.shape[0] // 2] * 2,
        lambda x: x.narrow(0, x.shape[0] // 2, x.shape[0] - x.shape[0] // 2),
        lambda x: x.chunk(2)[0],
        lambda x: x.chunk(2, 1)[1],
        lambda x: x.tensor_split(2)[1],
    ],
)
def test_ordinary_slices_have_no_restriction(function: Any, capture: str) -> None:
    program, told = exported(function, capture)
    assert "onnxexp.restrictions" not in program.model.metadata_props
    assert not told
    check(program, function)


def test_a_range_from_two_needs_no_warning() -> None:
    _, told = exported(WRONG_AT_ONE[0], "export", dim=Dim.DYNAMIC(min=2))
    assert not told


def test_a_given_program_has_the_restriction() -> None:
    given = torch.export.export(Model(fill_the_last), (X,), dynamic_shapes=({0: Dim.DYNAMIC},))
    program = onnxexp.export(given, (X,))
    assert program.model.metadata_props["onnxexp.restrictions"] == "x_dim_0 >= 1"
    check(program, fill_the_last)


def check(program: onnxexp.ONNXProgram, function: Any) -> None:
    """Compare at other sizes; those outside of the restrictions are refused."""
    for size in (0, 1, 2, 3, 6, 9):
        x = torch.randn(size, 4, 3)
        if all(allows([x]) for allows in program.signature.restrictions.values()):
            torch.testing.assert_close(torch.as_tensor(program(x)), function(x))
        else:
            assert size < 2
            with pytest.raises(onnxexp.OnnxExporterError, match="right only where"):
                program(x)
