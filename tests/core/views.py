"""More functions that write to memory, through views and lists; CASES has all."""

from __future__ import annotations

import torch
from torch import nn

from tests.core.writes import CASES, case, x34, x234

__all__ = ["CASES"]


@case(x234())
def squeeze_and_unsqueeze(x):
    z = x[:, :1] * 1
    z.squeeze(1).add_(1)
    z.squeeze().mul_(2)
    z.unsqueeze(-1)[0] = 3
    return z


@case(x234())
def permuted_slices(x):
    z = x * 1
    z.permute(2, 0, 1)[1].sub_(100)
    z.movedim(0, -1)[0, 0, 0] = 5
    z.transpose(-1, -2)[:, 2:, 0] *= 2
    z.mT[1] += 1
    return z


@case()
def narrowed(x):
    z = x * 1
    z.narrow(1, 1, 2).add_(1)
    z.narrow(0, -2, 1).mul_(3)
    return z


@case()
def strided_slice(x):
    z = x * 1
    z[::2, 1::2] = 0
    return z


@case()
def diagonals(x):
    z = x * 1
    z.diagonal().fill_(0)
    z.diagonal(1).add_(5)
    z.diagonal(-1, 1, 0).neg_()
    return z


@case(x234())
def reshaped(x):
    z = x * 1
    z.reshape(6, 4)[5] = 1
    z.flatten(1)[:, 0] += 9
    z.flatten()[3:5].zero_()
    z.unflatten(2, (2, 2))[..., 1].mul_(-1)
    return z


@case()
def reshape_copies(x):
    y = x.t().reshape(-1)
    y.add_(1)
    return y


@case(x234())
def ones_reshaped(x):
    y = (x * 1).transpose(0, 1)
    y.reshape(3, 1, 2, 4)[1] = 0
    return y


@case(x234())
def reshaped_parts(x):
    z = x * 1
    turned = z.transpose(1, 2)
    turned.reshape(-1)[:5].add_(100)  # a copy
    turned.reshape(2, 2, 2, 3)[0].mul_(2)  # a view
    z[:, :, 1:3].flatten().add_(7)  # a copy
    z[:, 1:].reshape(2, 8)[1] = -3  # a view
    z[:, :2].reshape(2, 2, 1, 4).mul_(5)  # a view
    whole, part = z[1:].contiguous(), z[:, 1:].contiguous()
    whole.sub_(1)
    part.sub_(50)
    return z, part


@case()
def strided_views(x):
    z = x * 1
    rows, columns = z[1:], z[:, 1:]
    rows.add_(1)
    one = rows.as_strided((2, 2), (1, 2), 1) + 0
    columns.mul_(3)
    two = columns.as_strided((2,), (2,)) + 0
    return one, two, z.t().add_(1).as_strided((3,), (1,))


@case()
def written_strided_views(x):
    z = x * 1
    z.as_strided((2, 3), (4, 1), 1).add_(5)
    z[1:].mul_(2)
    corner, every = z.as_strided((2,), (5,)), z.as_strided(z.shape, z.stride())
    every.sub_(1)
    corner.zero_()
    z[:, 1:].as_strided((3,), (4,)).neg_()
    return z, corner, every + corner.sum()


@case(torch.arange(27.0).reshape(3, 3, 3))
def einsum_views(x):
    y = x * 1
    turned, same = torch.einsum("ijk->kij", y), torch.einsum("...", y)
    plane, line = torch.einsum("i j i", y), torch.einsum("iii->i", y)
    square, summed = torch.einsum("ji...->...ij", y[0]), torch.einsum("ijk->k", y)
    y.add_(1)
    plane.mul_(2)
    line[1] = -5
    square[0] += 3
    product = torch.einsum("ijk,kl->il", y, y[0])
    y.neg_()
    return y, turned, same, plane, line, square, summed, product


@case()
def to_itself(x):
    z = x * 1
    z.to(torch.float32)[0] = 1
    z.to(torch.float64)[1] = 1
    z.contiguous()[2] = 2
    z.detach().add_(1)
    z.type_as(x).mul_(2)
    return z


@case()
def dropped_out(x):
    z = x * 1
    nn.functional.dropout(z, 0.5, training=False).add_(1)
    return z


@case()
def out_arguments(x):
    z = torch.empty(3, 4)
    torch.add(x, x, out=z)
    torch.mul(x[0], 2, out=z[1])
    values, indices = torch.empty(3), torch.empty(3, dtype=torch.int64)
    torch.max(x, 1, out=(values, indices))
    return z, values, indices


@case()
def out_resized(x):
    z = torch.empty(0)
    torch.matmul(x, x.t(), out=z)
    return z + 1


@case()
def reshaping_in_place(x):
    z = x * 1
    y = z[0]
    z.t_()
    z[1] = 100
    z.unsqueeze_(0)
    z.squeeze_(0).transpose_(0, 1)
    return z, y


@case()
def fewer_elements(x):
    z = x * 1
    y = z[2]
    z.resize_(2, 5)
    z[1, :2] = 100
    w = z + 0
    z.resize_as_(x[0]).neg_()
    return z, z.reshape(2, 2), y, w, (x * 3).resize_(4, 3), (x * 2).resize_(3, 4)


@case(x34(), torch.tensor([1, 0]))
def index_family(x, i):
    z = x * 1
    z.index_add_(0, i, x[:2])
    z.index_copy_(1, i, x[:, 2:])
    z.index_fill_(0, i[:1], -1)
    z[1:].scatter_(1, i.unsqueeze(1), 8.0)
    z.scatter_add_(0, i.expand(4, 2).t(), x[:2])
    return z


@case()
def swap(x):
    z = x * 1
    first = z[0].clone()
    z[0] = z[1]
    z[1] = first
    return z


@case()
def self_copy(x):
    z = x * 1
    z[1:] = z[1:]
    z.copy_(z)
    return z


@case()
def stacked_reads(x):
    z = x * 1
    parts = []
    for index in range(3):
        z[index] += index
        parts.append(z.sum(0))
    return torch.stack(parts), torch.cat([z, z[1:]])


@case()
def list_of_tensors(x):
    a, b = x * 1, x * 2
    torch._foreach_add_([a, b], 1.0)
    torch._foreach_mul_([a[0], b], [b[0], a])
    return a, b


@case(torch.randn(3, 2, dtype=torch.complex64))
def complex_parts(x):
    z = x * 1
    z.real.add_(1)
    z.imag[0] = 4
    torch.view_as_real(z)[1, :, 0] = 9
    return torch.view_as_real(z)


@case()
def item_assignment(x):
    z = x * 1
    z[0, 0] = 1
    z[1][2] = 2
    z[..., -1] = 3
    z[None, 2] = 4
    return z


@case()
def clone_is_new(x):
    z = x * 1
    y = z.clone()
    z.add_(1)
    y[0] = 0
    return z, y


@case()
def exotic_functions(x):
    z = x * 1
    z.clamp_(-3, 3).pow_(2).add_(1).sqrt_().addcmul_(x, x, value=0.5).addcdiv_(x, z + 10)
    z.tril_()
    z.lerp_(x, 0.25)
    z.where(x > 0, x)
    return torch.where(z > 0, z, x)


@case(x34())
def attention_mask(x):
    mask = torch.full((3, 4), float("-inf"))
    mask.triu_(diagonal=1)
    mask[:, 0].masked_fill_(x[:, 0] > 0, -1)
    return mask + x


@case(x234())
def views_of_a_view(x):
    z = x * 1
    y = z.view(6, 4)
    a, b = y[1:], y[:, 1:3]
    a[0].add_(1)
    y.mul_(2)
    b[3].sub_(1)
    return a, b, y, z


@case()
def flipped_and_rolled(x):
    z = x * 1
    z.flip(0)[0] = 9
    z.roll(1)[0].add_(1)
    z[1] = z[0].flip(0)
    return z


@case()
def random_shapes(x):
    z = torch.zeros_like(x)
    z[1:].uniform_(2, 2)
    z[:, 0].bernoulli_(1.0)
    return z + nn.functional.dropout(x, 0.5, False).mul_(2)
