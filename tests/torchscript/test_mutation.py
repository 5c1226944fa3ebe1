"""In-place operators and writes through views, traced and scripted; no blocks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import onnxexp

from .running import ALL, OPSETS, Program, programs

X, MORE = torch.arange(12.0).reshape(3, 4) - 5, torch.arange(24.0).reshape(6, 4) / 3
CUBE, MORE_CUBES = torch.arange(60.0).reshape(3, 4, 5), torch.arange(100.0).reshape(5, 4, 5)
BOTH = ("trace", "script")


def set_row(x: Tensor) -> Tensor:
    y = x.clone()
    y[1] = 7
    return y


def set_last_row(x: Tensor) -> Tensor:
    y = x.clone()
    y[-1] = y[0]
    return y


def set_column(x: Tensor) -> Tensor:
    y = x.clone()
    y[:, 1] = x[:, 0] * 2
    return y


def add_to_columns(x: Tensor) -> Tensor:
    y = x.clone()
    y[:, 1:3] += 1
    return y


def set_with_step(x: Tensor) -> Tensor:
    y = x.clone()
    y[::2, 1:] = 0.5
    return y


def set_from_tail(x: Tensor) -> Tensor:
    y = x.clone()
    y[-2:] *= 3
    return y


def set_masked(x: Tensor) -> Tensor:
    y = x.clone()
    y[y > 0] = 5
    return y


def fill_masked(x: Tensor) -> Tensor:
    return x.clone().masked_fill_(x < 0, 2.0).add_(1)


def through_transpose(x: Tensor) -> Tensor:
    y = x.clone()
    y.t().mul_(2)
    return y


def through_view(x: Tensor) -> Tensor:
    y = x.clone()
    y.view(-1)[1:].add_(10)
    return y


def through_chain(x: Tensor) -> Tensor:
    y = x.clone()
    y[1:].t()[2].fill_(0)
    return y


def through_unsqueeze(x: Tensor) -> Tensor:
    y = x.clone()
    y.unsqueeze(0)[0, 1] += 4
    return y


def clamped(x: Tensor) -> Tensor:
    y = x.clone()
    y.clamp_(min=-1, max=2)
    return y


def clamped_part(x: Tensor) -> Tensor:
    y = x.clone()
    y[:, :2].clamp_(0.0, 1.0)
    return y


def copied_part(x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    y[1:].copy_(x[:-1])
    return y


def copied_other_dtype(x: Tensor) -> Tensor:
    y = torch.zeros(4, dtype=torch.int64)
    y.copy_(x[0])
    return y


def view_after_write(x: Tensor) -> Tensor:
    y = x.clone()
    row = y[0]
    y.add_(1)
    return row * 2


def base_after_write(x: Tensor) -> Tensor:
    y = x.clone()
    row = y[0]
    row.mul_(3)
    return y + row


def integers_in_place(x: Tensor) -> Tensor:
    y = x.to(torch.int64)
    y += 2
    y[0] = 1.7
    return y


def relu_in_place(x: Tensor) -> Tensor:
    y = x + 0
    torch.relu_(y)
    return y.sigmoid_()


def zeros_filled(x: Tensor) -> Tensor:
    y = torch.zeros(x.size(0), 6)
    y[:, 1:5] = x
    return y


def transposed_in_place(x: Tensor) -> Tensor:
    y = x.clone()
    y.t_()
    return y + 1


def squeezed_in_place(x: Tensor) -> Tensor:
    y = x.clone()
    return y.unsqueeze_(1).add_(1)


def put_at(x: Tensor) -> Tensor:
    y = x.clone()
    y.index_put_((torch.tensor([0, 2]), torch.tensor([1, -1])), torch.tensor([7.0, 8.0]))
    return y


def accumulated(x: Tensor) -> Tensor:
    y = x.clone()
    y.index_put_((torch.tensor([0, 2, 0]),), torch.ones(4), accumulate=True)
    return y


def added_at(x: Tensor) -> Tensor:
    y = x.clone()
    y.index_add_(0, torch.tensor([0, 2, 0]), torch.ones(3, 4))
    return y


def filled_at(x: Tensor) -> Tensor:
    y = x.clone()
    y.index_fill_(1, torch.tensor([0, 2]), 9.0)
    return y


def scattered(x: Tensor) -> Tensor:
    y = x.clone()
    y.scatter_(1, torch.tensor([[0], [2], [1]]), 3.0)
    return y


def rows_of_unbind(x: Tensor) -> Tensor:
    y = x.clone()
    a, b, _c, _d = y.unbind(1)
    b.add_(a)
    return y


def parts_of_split(x: Tensor) -> Tensor:
    y = x.clone()
    a, b = y.split(2, dim=1)
    b.mul_(a)
    return y


def end_pieces_of_split(x: Tensor) -> Tensor:
    y = x.clone()
    y.split(2)[0].mul_(3)
    y.split(2)[-1][..., :2].zero_()
    return y


# Every write that torch.onnx's documentation lists as unsupported


def several_of_rank_two(data: Tensor) -> Tensor:
    out = data.clone()
    out[torch.tensor([[1, 2], [2, 1]]), torch.tensor([2, 3])] = torch.ones(5)
    return out


def not_consecutive(data: Tensor) -> Tensor:
    out = data.clone()
    out[torch.tensor([2, 1]), :, torch.tensor([1, 2])] = torch.zeros(4) - 1
    return out


def negative(data: Tensor) -> Tensor:
    out = data.clone()
    out[torch.tensor([1, -2]), torch.tensor([-2, 3])] = torch.arange(5.0)
    return out


def broadcasting(data: Tensor) -> Tensor:
    out = data.clone()
    out[torch.tensor([[0, 2], [1, 1]]), 1:3] = torch.arange(5.0)
    return out


def mixed_with_slices(data: Tensor) -> Tensor:
    out = data.clone()
    out[1:, torch.tensor([0, 2]), ::2] = 4.0
    return out


def mask_and_value(data: Tensor) -> Tensor:
    out = data.clone()
    out[data > 20] = data[data > 20] * 2
    return out


def filled_of_unknown_size(x: Tensor) -> Tensor:
    y = x[x > 0] * 2
    y.unsqueeze(0)[0].fill_(3)
    z = x[x < 0] * 2
    z.view(1, -1)[:, 1:].zero_()
    return torch.cat([y, z])


def augmented_parts(x: Tensor) -> Tensor:
    y = x.to(torch.int64)
    y[1:] ^= 5
    y[:, 1] |= 2
    y[0] **= 2
    y[0, 1:] &= 6
    y[y > 3] %= 3
    y[torch.tensor([0, -1])] ^= 1
    return y


def augmented_views(x: Tensor) -> Tensor:
    y = x.to(torch.int64)
    row, column, n = y[0], y[:, 1], 5
    row ^= 5
    column |= 2
    row **= 2
    column &= 6
    y %= 3
    n ^= 1
    return y * n


def squeezed_at_another_size(x: Tensor) -> Tensor:
    y = x * 2
    y.squeeze_(0).add_(1)
    z = x.unsqueeze(0)
    z.squeeze_(0)
    return y + z


def squeezed_where_it_can_be(x: Tensor) -> Tensor:
    y = x.unsqueeze(-1) * 2
    y.squeeze_(-1).squeeze_(1)
    return y.unsqueeze_(0)


class Counting(nn.Module):
    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add_(x.sum(0))
        return x + self.seen


def overlapping_pieces(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x.clone()
    first, _middle, last = torch.tensor_split(y, (3, -1))
    first.add_(1)
    return last.mul(2), y


@programs(
    Program(
        overlapping_pieces, X, at=[(MORE[:n],) for n in (1, 2, 3, 4)], dynamic=[{0}], captures=("export", "trace"), opsets=(18,)
    ),
    *(
        Program(fn, X, at=[(MORE,)], dynamic=[{0}], captures=BOTH, opsets=OPSETS if fn is set_with_step else ALL)
        for fn in [
            set_row, set_last_row, set_column, add_to_columns, set_with_step, set_from_tail, set_masked, fill_masked,
            through_transpose, through_view, through_chain, through_unsqueeze, clamped, clamped_part, copied_part,
            copied_other_dtype, view_after_write, base_after_write, integers_in_place, relu_in_place, zeros_filled,
            transposed_in_place, squeezed_in_place, put_at, accumulated, added_at, filled_at, rows_of_unbind, parts_of_split,
        ]
    ),
    *(
        Program(fn, CUBE, at=[(torch.cat([CUBE, CUBE], axis),)], dynamic=[{axis}], captures=BOTH, opsets=(11, 20))
        for fn in [squeezed_at_another_size, squeezed_where_it_can_be]
        for axis in (0, 1, 2)
    ),
    Program(end_pieces_of_split, X, at=[(MORE[:rows],) for rows in (0, 1, 2, 5)], dynamic=[{0}], opsets=(14, 20)),
    Program(scattered, X, captures=BOTH),
    Program(filled_of_unknown_size, X, at=[(X + 2,)], captures=BOTH),
    *(
        Program(fn, X, at=[(MORE,)], dynamic=[{0}], captures=BOTH, opsets=(18, 20))
        for fn in [augmented_parts, augmented_views]
    ),
    *(
        Program(fn, CUBE, at=[(MORE_CUBES,)], dynamic=[{0}], captures=BOTH, opsets=OPSETS if fn is mixed_with_slices else ALL)
        for fn in [several_of_rank_two, not_consecutive, negative, broadcasting, mixed_with_slices, mask_and_value]
    ),
)  # fmt: skip
def test_writes(run) -> None:
    run()


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_writes_through_data(capture: str) -> None:
    def model(x: Tensor) -> Tensor:
        y = x * 1
        y.data.mul_(2)
        y[1:].data[0] = 5
        return y + 1

    torch.testing.assert_close(onnxexp.export(model, (X,), capture=capture)(MORE[:3]), model(MORE[:3]))


def test_an_assignment_to_data_is_refused() -> None:
    def model(x: Tensor) -> Tensor:
        y = x * 1
        y.data = x
        return y

    with pytest.raises(onnxexp.CaptureError, match=r"an assignment to \.data cannot be captured; to fix this, write with copy_"):
        onnxexp.export(model, (X,))


# The tracer and torch.jit.script take a write through an alias that no schema declares for dead


class ByDropout(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.cat([x, x], 1)
        flat = torch.ravel(y)
        kept = nn.functional.dropout(y, 0.5, False)
        flat.add_(1)
        return kept


class ByFeatureDropout(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x * 2
        nn.functional.dropout1d(y, 0.5, False).add_(1)
        return y


class ByEinsum(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x * 2
        torch.einsum("ij->ji", y).add_(1)
        return y


class ByTypeAs(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x * 2
        y.type_as(x).add_(1)
        return y


class ByNothing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x * 2
        torch.atleast_1d(y).mul_(3)
        return nn.functional.dropout(torch.conj_physical(y), 0.5, False)


@pytest.mark.parametrize("opset", [13, 20])
@pytest.mark.parametrize("model", [ByDropout, ByFeatureDropout, ByEinsum, ByTypeAs, ByNothing])
def test_a_write_through_an_undeclared_alias_stays_in_a_trace(model: type[nn.Module], opset: int) -> None:
    program = onnxexp.export(model().eval(), (X,), capture="trace", opset_version=opset, dynamic_shapes={"x": {0: "n"}})
    for x in (X, MORE, MORE[:1]):
        torch.testing.assert_close(program(x), model()(x))


@pytest.mark.parametrize("capture", ["trace", "script"])
def test_a_write_through_views_of_a_list_is_a_write_into_the_input(capture: str) -> None:
    """``broadcast_tensors`` declares no alias, and its results are views."""

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            view = torch.broadcast_tensors(y, y)[0]
            view[0].add_(1)
            return x * 2

    x = torch.rand(2, 3)
    with pytest.warns(UserWarning, match="the forward writes into y"):
        onnxexp.export(Model(), (x, x.clone()), capture=capture)
    with pytest.raises(onnxexp.CaptureError, match="y and x share memory in the example, and the forward writes into y"):
        onnxexp.export(Model(), (x, x), capture=capture)
