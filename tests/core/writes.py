"""Functions that write to memory: what functionalization must keep the meaning of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Fn = Callable[..., Any]
CASES: dict[str, tuple[Fn, tuple[Any, ...]]] = {}


def x34() -> Tensor:
    return torch.arange(12.0).reshape(3, 4) - 5


def x234() -> Tensor:
    return torch.arange(24.0).reshape(2, 3, 4) - 11


def case(*inputs: Any) -> Callable[[Fn], Fn]:
    def note(function: Fn) -> Fn:
        assert function.__name__ not in CASES
        CASES[function.__name__] = function, inputs or (x34(),)
        return function

    return note


@case(x34(), torch.ones(4))
def set_row(x, y):
    z = x.clone()
    z[1] = y
    return z


@case()
def set_number(x):
    z = x * 1
    z[:, 1] = 3
    z[-1] = 7.5
    return z


@case()
def augmented_slice(x):
    z = x * 1
    z[:, 1:3] += 1
    return z, z[:, 2]


@case()
def mask_set(x):
    z = x * 1
    z[z > 2] = 5
    return z


@case()
def transposed(x):
    z = x * 1
    z.t().mul_(2)
    return z


@case()
def flat_tail(x):
    z = x * 1
    z.view(-1)[1:].add_(10)
    return z


@case()
def flat_tail_after_a_constant(x):
    y = x * torch.tensor([1.0, 2.0, 3.0, 4.0])
    y.flatten()[1:].mul_(2)
    return y


@case()
def copy_into(x):
    z = torch.zeros(3, 4)
    z.copy_(x)
    return z + 1


@case(torch.arange(4))
def copy_broadcast_and_cast(x):
    z = torch.zeros(3, 4)
    z.copy_(x)
    z[0].copy_(x * 2)
    return z


@case()
def clamp_select(x):
    z = x * 1
    z[0].clamp_(min=-2, max=1)
    return z


@case(x34(), torch.tensor([0, 2, 0]), torch.ones(3, 4))
def index_put_accumulate(x, i, v):
    z = x * 1
    z.index_put_((i,), v, accumulate=True)
    z[i, 1] = 9.0
    return z


@case(x234())
def nested_views(x):
    z = x * 1
    z[1].transpose(0, 1)[1:3].unsqueeze(0)[:, :, 1] -= 4
    return z


@case()
def two_views(x):
    z = x * 1
    a, b = z[0], z[:, 0]
    a.add_(1)
    b.mul_(3)
    a.sub_(0.5)
    return z, a, b


@case()
def overlapping_read(x):
    z = x * 1
    a, b = z[:, :3], z[:, 1:]
    a.add_(100)
    c = b * 2
    b.neg_()
    return a, b, c, z


@case()
def input_returned(x):
    x.mul_(2)
    return x


@case()
def input_view_returned(x):
    y = x[1:]
    x.add_(1)
    return y


@case()
def input_and_result(x):
    y = x.add_(1)
    x.mul_(2)
    return y, x + y


@case()
def view_after_write(x):
    z = x * 1
    z.add_(1)
    return z.t(), z.view(2, 6), z[2]


@case(x234())
def split_pieces(x):
    z = x * 1
    a, b = z.split([1, 3], dim=2)
    a.fill_(7)
    b[0] += 1
    return z, a, b


@case(x234())
def chunk_pieces(x):
    z = x * 1
    a, b = z.chunk(2, dim=-1)
    b.mul_(a)
    a.zero_()
    return z, b


@case(x234())
def unbind_pieces(x):
    z = x * 1
    pieces = z.unbind(1)
    pieces[1].add_(pieces[0])
    pieces[2].copy_(pieces[1])
    return z, z[:, 1]


@case(x234())
def tensor_split_pieces(x):
    z = x * 1
    for index, piece in enumerate(z.tensor_split(3, dim=2)):
        piece.add_(index)
    return z


@case()
def split_with_size(x):
    z = x * 1
    first, second = z.split(2)
    first[0], second[0] = second[0].clone(), first[0].clone()
    return z


@case(x34(), torch.tensor([True, False, True, False]))
def masked_fill(x, mask):
    z = x * 1
    z.masked_fill_(mask, -1e4)
    z[0].masked_fill_(~mask, 3)
    return z


@case()
def zero(x):
    z = x * 1
    y = z[1]
    y.zero_()
    return z, y


@case()
def fill(x):
    z = x * 1
    z[:, 3].fill_(2)
    z[0].fill_(z[1, 2])
    return z


@case(torch.ones(4))
def fill_expanded(x):
    z = (x * 1).unsqueeze(0)
    z.expand(3, 4).fill_(5)
    z.expand(2, 3, 4).zero_()
    return z


@case()
def expanded_then_read(x):
    z = x[:1] * 1
    wide = z.expand(3, 4)
    z.add_(1)
    return wide + x


@case(torch.arange(6, dtype=torch.int32), torch.arange(6))
def narrow_integers(x, y):
    z = x.clone()
    z += y
    z.cumsum_(0)
    return z


@case(torch.ones(3, dtype=torch.float16), torch.full((3,), 1 / 3))
def half_plus_float(x, y):
    z = x * 1
    z.add_(y)
    z[1:].mul_(y[1:])
    return z


@case()
def compare_in_place(x):
    z = x * 1
    z.gt_(0)
    w = x.clone().logical_not_()
    return z, w


@case()
def inplace_relus(x):
    y = nn.ReLU(inplace=True)(x * 2)
    return nn.functional.leaky_relu_(nn.functional.hardtanh_(y + x, -3, 3), 0.1)
