"""shape/views_and_slices.py: views, axes, slices."""

from __future__ import annotations

import pytest
import torch

import onnxexp
from onnxexp.testing import Case, cases

torch.manual_seed(0)

X = torch.randn(2, 3, 4)


def twice_seen(x: torch.Tensor) -> torch.Tensor:
    """View a view of a view."""
    return x.view(x.shape[0], -1, 2, 2).reshape(x.shape[0], -1).unflatten(1, (-1, 4))


def folded_heads(x: torch.Tensor) -> torch.Tensor:
    """Compute the scores of an attention whose batch and heads are one axis."""
    rows = x.reshape(x.shape[0] * 4, -1, 8)
    return torch.bmm(rows, rows.transpose(-1, -2))


@cases(
    Case(
        lambda x: x.view(x.shape[0], -1, 2, 2).transpose(1, 2),
        X,
        dynamic={0: [0, 1]},
        emits={"Reshape", "Transpose"},
        name="heads",
    ),
    Case(lambda x: x.reshape(-1, 4), X, dynamic={0: [0, 1]}, emits={"Reshape"}, name="rows"),
    Case(
        lambda x: x.view(x.shape[0] * x.shape[1], 4).view(x.shape),
        X,
        dynamic={0: [0, 1]},
        emits={"Identity"},
        name="there_and_back",
    ),
    Case(twice_seen, X, dynamic={0: [0, 1]}, emits={"Identity"}),
    Case(lambda x: x.flatten(1), X, dynamic={0: [0]}, emits={"Reshape"}, name="flatten"),
    Case(lambda x: x.flatten(), X, dynamic={0: [0, 1]}, emits={"Reshape"}, name="flatten_all"),
    Case(lambda x: x.flatten(0, 1), X, dynamic={0: [0, 1, 2]}, name="flatten_two"),
    Case(lambda x: x.flatten(1, 2), X[None], dynamic={0: [0, 1, 2, 3]}, opsets=(9, 20), name="flatten_two_of_four"),
    Case(folded_heads, torch.randn(2, 4, 5, 8), dynamic={0: [0, 2]}, opsets=(9, 20)),
    Case(lambda x: x.tensor_split((2,), 1)[0].roll(1), X[0], dynamic={0: [0, 1]}, opsets=(9, 20), name="the_smaller_size"),
    Case(lambda x: x.new_ones(x.shape[0] ** 2, x.shape[1] ** 2).roll(1), X, dynamic={0: [0, 1]}, opsets=(9, 20), name="squares"),
    Case(lambda x: x.ravel(), X, dynamic={0: [0, 1]}, name="ravel"),
    Case(lambda x: x.unflatten(-1, (2, -1)), X, dynamic={0: [0]}, emits={"Reshape"}, name="unflatten"),
    Case(lambda x, y: x.reshape_as(y), X, torch.randn(3, 2, 4), name="reshape_as"),
    Case(lambda x: x.reshape(0, 3, 4), torch.empty(0, 12), opsets=(9, 13, 20), name="empty"),
    Case(lambda x: x.reshape(x.shape[1], x.shape[0], 2, -1), X, dynamic={0: [0, 1]}, name="two_sizes"),
)
def test_other_sizes(check):
    check()


@pytest.mark.parametrize(
    ("opset", "operators"),
    [(9, {"Shape", "Gather", "Concat", "Reshape"}), (14, {"Shape", "Gather", "Mul", "Unsqueeze", "Concat", "Reshape"})],
)
def test_a_product_of_dynamic_sizes(opset: int, operators: set[str]) -> None:
    """With allowzero (opset 14) all sizes are computed: -1 beside 0 has no value."""
    shapes = ({0: "a", 1: "b", 2: "c"},)
    program = onnxexp.export(lambda x: x.flatten(0, 1), (X,), dynamic_shapes=shapes, opset_version=opset)
    assert {node.op_type for node in program.model.graph} == operators


@cases(
    Case(lambda x: x[:, None][:, :, None], X, dynamic={0: [0, 1]}, emits={"Unsqueeze"}, name="unsqueeze"),
    Case(lambda x: x.unsqueeze(-1).unsqueeze(0).squeeze(-1), X, dynamic={0: [0]}, emits={"Unsqueeze"}, name="unsqueeze_squeeze"),
    Case(lambda x: x.squeeze(), torch.randn(1, 3, 1), emits={"Squeeze"}, name="squeeze"),
    Case(lambda x: x.squeeze(0).squeeze(-2), torch.randn(1, 3, 1), emits={"Squeeze"}, name="squeeze_dim"),
    Case(lambda x: x.squeeze((0, 2)), torch.randn(1, 3, 1), emits={"Squeeze"}, name="squeeze_dims"),
    Case(lambda x, y: torch.atleast_3d(x, y), torch.randn(3), torch.randn(2, 3), name="atleast_3d"),
    Case(lambda x: torch.atleast_2d(x), torch.tensor(1.0), name="atleast_2d"),
    Case(lambda x: torch.atleast_1d(x), torch.tensor(1.0), name="atleast_1d"),
)
def test_axes_of_size_one(check):
    check()


@cases(
    Case(lambda x: x.transpose(0, 1).permute(2, 0, 1).mT, X, dynamic={0: [0]}, emits={"Transpose"}, name="one_transpose"),
    Case(lambda x: x.transpose(0, 2).transpose(2, 0), X, dynamic={0: [0]}, emits={"Identity"}, name="none"),
    Case(lambda x: x.t(), torch.randn(2, 3), dynamic={0: [0]}, emits={"Transpose"}, name="t"),
    Case(lambda x: x.T, torch.randn(2, 3), emits={"Transpose"}, name="T"),
    Case(lambda x: x.mH, X, emits={"Transpose"}, name="mH"),
    Case(lambda x: x.movedim(0, -1), X, emits={"Transpose"}, name="movedim"),
    Case(lambda x: torch.moveaxis(x, (0, 1), (1, 2)), X, emits={"Transpose"}, name="moveaxis"),
    Case(lambda x: torch.swapaxes(x, 0, -1), X, emits={"Transpose"}, name="swapaxes"),
)
def test_order_of_axes(check):
    check()


@cases(
    Case(lambda x: x.expand(3, -1, 4), torch.randn(2, 1), dynamic={0: [0]}, emits={"Expand"}, name="expand"),
    Case(lambda x: x[None].expand(1, -1, -1), torch.randn(2, 1), dynamic={0: [0]}, emits={"Unsqueeze"}, name="expand_nothing"),
    Case(lambda x: x[None].expand(x.shape[1], -1, -1), torch.randn(2, 5), dynamic={0: [0, 1]}, name="expand_dynamic"),
    Case(lambda x, y: x.expand_as(y), torch.randn(2, 1), torch.randn(2, 3), dynamic={0: [0], 1: [0]}, name="expand_as"),
    Case(lambda x: torch.broadcast_to(x, (4, 2, 3)), torch.randn(2, 1), name="broadcast_to"),
    Case(
        lambda x, y: torch.broadcast_tensors(x, y), torch.randn(2, 1), torch.randn(3), dynamic={0: [0]}, name="broadcast_tensors"
    ),
    Case(lambda x: x.expand(2, 3), torch.tensor([[True], [False]]), opsets=(9, 20), name="expand_bool"),
    Case(lambda x: x.repeat(2, 1, 3), torch.randn(2, 3), dynamic={0: [0]}, name="repeat"),
    Case(lambda x: x.repeat(x.shape[0], 1), torch.randn(2, 3), dynamic={0: [0]}, name="repeat_dynamic"),
    Case(lambda x: x.repeat(3, 1), torch.randn(1, 3), emits={"Expand"}, name="repeat_one"),
    Case(lambda x: x.tile((2,)), torch.randint(9, (2, 3)), dynamic={0: [0]}, name="tile"),
)
def test_repetition(check):
    check()


@cases(
    Case(lambda x: x[:, None, 1:, :2], X, dynamic={0: [0]}, emits={"Unsqueeze", "Slice"}, name="slices_are_one"),
    Case(lambda x: x[:, :, 0:], X, dynamic={0: [0, 1]}, emits={"Identity"}, name="whole"),
    Case(lambda x: x[:, : x.shape[1]], X, dynamic={0: [0, 1]}, emits={"Identity"}, name="whole_symbolic"),
    Case(lambda x: x[-2:, ::2, :-1], X, emits={"Slice"}, opsets=(10, 13, 20), name="from_the_end"),
    Case(
        lambda x, y: x[:, y.shape[0] :],
        torch.randn(2, 4),
        torch.randn(2),
        dynamic={0: [0], 1: [0]},
        opsets=(10, 13, 20),
        name="run_time_start",
    ),
    Case(lambda x: x.narrow(1, 1, 2), X, dynamic={0: [0]}, emits={"Slice"}, name="narrow"),
    Case(lambda x: x.narrow(1, -2, 2), X, emits={"Slice"}, name="narrow_negative"),
    Case(lambda x, y: x.narrow(1, 1, y.shape[0]), X, torch.randn(2), opsets=(10, 20), name="narrow_symbolic"),
    Case(lambda x: x[:, 0], X, dynamic={0: [0, 1]}, emits={"Gather"}, name="select"),
    Case(lambda x: x[:, -1], X, dynamic={0: [0, 1]}, emits={"Gather"}, name="select_last"),
    Case(lambda x, y: x.select(1, y.shape[0] - 1), X, torch.randn(2), dynamic={1: [0]}, opsets=(9, 20), name="select_symbolic"),
    Case(lambda x: torch.slice_copy(x, 1, 1), X, name="slice_copy"),
    Case(lambda x: torch.select_copy(x, 1, 1), X, name="select_copy"),
)
def test_parts(check):
    check()


@cases(
    Case(lambda x: x.numel() + x, X, dynamic={0: [0]}, name="numel"),
    Case(lambda x: x.shape[0] * x.shape[1] + x, X, dynamic={0: [0, 1]}, name="size"),
    Case(lambda x: x.view(torch.int32), torch.randn(2, 3), opsets=(26,), emits={"BitCast"}, name="bits"),
)
def test_sizes_and_bits(check):
    check()


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_a_view_of_rows_that_may_be_none(capture: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        rows = x[x[:, 0, 0] > 0]
        return rows.view(rows.shape[0], x.shape[1] * 2, 3)

    program = onnxexp.export(function, (torch.rand(5, 4, 6),), dynamic_shapes=({1: "n"},), capture=capture)
    for x in (torch.rand(5, 3, 6), -torch.rand(5, 4, 6)):
        torch.testing.assert_close(program(x), function(x))


class ReversedDiagonal(torch.nn.Module):
    """A write into a diagonal, behind which the axes of the rest are one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        turned = x.reshape(x.size(2), x.shape[1], x.shape[0]) + 0
        diagonal = turned.diagonal()[..., 0]
        diagonal.copy_(diagonal.flip(0))
        return turned


@pytest.mark.parametrize("capture", ["export", "trace", "script"])
def test_a_write_into_a_diagonal_of_no_rows(capture: str) -> None:
    program = onnxexp.export(
        ReversedDiagonal(), (torch.randn(2, 3, 3),), dynamic_shapes=({0: "n"},), capture=capture, opset_version=15
    )
    for rows in (0, 1, 3):
        x = torch.randn(rows, 3, 3)
        torch.testing.assert_close(program(x), ReversedDiagonal()(x))
