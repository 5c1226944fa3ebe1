"""Axes that a model needs equal: they become one, with the name of the first."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import onnxexp
from onnxexp import CaptureError, OnnxExporterError

from .running import exported


class Recurrent(nn.Module):
    """A layer with given states: an LSTM has two."""

    def __init__(self, kind: type[nn.RNNBase], **options: Any) -> None:
        super().__init__()
        self.layer = kind(5, 3, 2, bidirectional=True, **options)

    def forward(self, x: Tensor, h: Tensor, c: Tensor | None = None) -> Any:
        return self.layer(x, h if c is None else (h, c))


class Packed(nn.Module):
    """A layer on a packed sequence, with a given state."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(5, 3, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor, h: Tensor) -> Any:
        y, state = self.layer(pack_padded_sequence(x, lengths, True), h)
        return pad_packed_sequence(y, True)[0], state


class Cell(nn.Module):
    """A cell with a given state."""

    def __init__(self, kind: type[nn.RNNCellBase]) -> None:
        super().__init__()
        self.cell = kind(5, 3)

    def forward(self, x: Tensor, h: Tensor) -> Any:
        return self.cell(x, (h, h) if isinstance(self.cell, nn.LSTMCell) else h)


def summed(x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return y + z, x * z, torch.cat([x, y, z])


def compared(x: Tensor, y: Tensor) -> Tensor:
    return nn.functional.mse_loss(x, y)


def halves(x: Tensor, y: Tensor) -> Tensor:
    return torch.cat([x, x]) + y


def products(x: Tensor, y: Tensor) -> Tensor:
    return torch.bmm(x, y)


def sequence(batch: int, steps: int) -> Tensor:
    return torch.randn(steps, batch, 5)


def states(batch: int) -> Tensor:
    return torch.randn(4, batch, 3)


PROGRAMS: list[tuple[Any, Callable[..., tuple[Tensor, ...]], list[list[int]], list[list[Any]]]] = [
    (Recurrent(nn.GRU), lambda n, t: (sequence(n, t), states(n)), [[0, 1], [1]], [["a0", "a1", 5], [4, "a1", 3]]),
    (Recurrent(nn.RNN), lambda n, t: (sequence(n, t), states(n)), [[0, 1], [1]], [["a0", "a1", 5], [4, "a1", 3]]),
    (
        Recurrent(nn.LSTM, batch_first=True),
        lambda n, t: (sequence(t, n), states(n), states(n)),
        [[0, 1], [1], [1]],
        [["a0", "a1", 5], [4, "a0", 3], [4, "a0", 3]],
    ),
    (
        Packed(),
        lambda n, t: (torch.randn(n, t, 5), torch.arange(t, t - n, -1), torch.randn(1, n, 3)),
        [[0, 1], [0], [1]],
        [["a0", "a1", 5], ["a0"], [1, "a0", 3]],
    ),
    *(
        (Cell(kind), lambda n, t: (torch.randn(n, 5), torch.randn(n, 3)), [[0], [0]], [["a0", 5], ["a0", 3]])
        for kind in (nn.GRUCell, nn.LSTMCell, nn.RNNCell)
    ),
    (summed, lambda n, t: tuple(torch.randn(n, 2) for _ in range(3)), [[0], [0], [0]], [["a0", 2]] * 3),
    (compared, lambda n, t: (torch.randn(n, t), torch.randn(n, t)), [[0, 1], [0, 1]], [["a0", "a1"]] * 2),
    (halves, lambda n, t: (torch.randn(n, 2), torch.randn(2 * n, 2)), [[0], [0]], [["a0", 2], ["2*a0", 2]]),
    (products, lambda n, t: (torch.randn(n, 2, t), torch.randn(n, t, 3)), [[0, 2], [0, 1]], [["a0", 2, "a2"], ["a0", "a2", 3]]),
]


def names(program: onnxexp.ONNXProgram, letters: str) -> list[list[Any]]:
    """Return the declared sizes of the inputs; ``a0`` is axis 0 of the first input."""
    short = {value.name: letter for value, letter in zip(program.model.graph.inputs, letters, strict=False)}

    def brief(size: Any) -> Any:
        text = str(getattr(size, "value", size))  # a SymbolicDim has one
        for name, letter in short.items():
            text = text.replace(f"{name}_dim_", letter)
        return int(text) if text.isdigit() else text

    return [[brief(size) for size in value.shape or ()] for value in program.model.graph.inputs]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize(("model", "inputs", "axes", "declared"), PROGRAMS)
def test_axes_that_must_be_equal_are_one(
    model: Any, inputs: Callable[..., tuple[Tensor, ...]], axes: list[list[int]], declared: list[list[Any]], named: bool
) -> None:
    example = inputs(4, 6)
    dynamic = tuple(
        {axis: f"{letter}{axis}" if named else torch.export.Dim.DYNAMIC for axis in each}
        for letter, each in zip("abc", axes, strict=False)
    )
    for capture in ("export", "trace"):
        program = exported(model, example, capture=capture, dynamic_shapes=dynamic)
        assert names(program, "abc") == ([["a0", 2], ["b0", 2]] if named and model is halves else declared), capture
        for size in ((4, 6), (2, 7), (1, 1)):
            call = inputs(*size)
            torch.testing.assert_close(program(*call), model(*call))


def branching(x: Tensor, y: Tensor) -> Tensor:
    if x.shape[0] == y.shape[0]:
        return x.sum(0) + y.sum(0)
    return x.sum(0) - y.sum(0)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_sizes_that_a_branch_needs_equal_are_one_and_told(capture: str) -> None:
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    dynamic = ({0: "a"}, {0: "b"})
    with pytest.warns(UserWarning, match=r"right only where a == b \(.*test_tied_axes"):
        program = onnxexp.export(branching, (x, y), capture=capture, dynamic_shapes=dynamic)
    assert [value.shape[0] for value in program.model.graph.inputs if value.shape] == ["a", "a"]
    torch.testing.assert_close(program(x[:1], y[:1]), branching(x[:1], y[:1]))
    with pytest.raises(OnnxExporterError, match="axis 0 of input y is a, which is 3 in this call, but it has 2 elements|a == b"):
        program(x, y[:2])
    with warnings.catch_warnings():  # the fix
        warnings.filterwarnings("error", message="the exported model is right only")
        onnxexp.export(branching, (x, y), capture=capture, dynamic_shapes=({0: "a"}, {0: "a"}))


def test_a_branch_on_one_size_is_refused_in_a_trace() -> None:
    model = lambda x, y: x + 1 if x.shape[0] == 3 else y.sum()  # noqa: E731
    with pytest.raises(CaptureError, match="the trace fixes what depends on a dynamic axis"):
        exported(model, (torch.randn(3, 4), torch.randn(3, 4)), capture="trace", dynamic_shapes=({0: "a"}, {0: "b"}))


class InBranch(nn.Module):
    """Needs equal sizes in one branch only."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if x.size(0) == y.size(0):
            z = x + y
        else:
            z = torch.cat([x, y])
        return z * 2, x + 1, y + 1


def test_sizes_that_one_branch_of_a_script_needs_equal_are_two() -> None:
    model = InBranch()
    inputs = torch.randn(3, 4), torch.randn(3, 4)
    program = exported(model, inputs, capture="script", dynamic_shapes=({0: "a"}, {0: "b"}))
    for call in (inputs, (torch.randn(5, 4), torch.randn(2, 4)), (torch.randn(1, 4), torch.randn(3, 4))):
        torch.testing.assert_close(program(*call), model(*call))
