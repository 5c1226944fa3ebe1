"""Statements on shared memory: manual strides, and chains of writes through views."""

from __future__ import annotations

from .scope import Scope, at_least, is_all, number

_STRIDED = (
    "{c}.as_strided({x}.shape, {c}.stride())",
    "{c}.flatten().as_strided(({x}.numel() - 1, 2), (1, 1))",
    "torch.as_strided({c}.flatten(), ({x}.numel() // 2,), (2,))",
    "{c}.as_strided(({n},), (1,))",
    "{c}.flatten().as_strided(({x}.numel(), 3), (1, 0))",
    "{c}.as_strided(({n} // 2, 2), (2, 1))",
    "{c}.flatten().as_strided(({x}.numel() - 1,), (1,), 1)",
    "{c}.as_strided((2, {n} - 1), (1, 1), 0)",
    "torch.as_strided({c}, (1, {x}.shape[-1]), (0, 1))",
    "{x}.flatten().unfold(0, 2, 1)",
    "{c}.reshape({x}.shape[0], -1).as_strided(({x}.shape[0], 1), ({x}.reshape({x}.shape[0], -1).shape[1], 1))",
    "{c}.transpose(0, -1).as_strided(({n},), (1,))",
)
_CHAINED = (
    "{v}.view(-1).add_(1).mul_(2)",
    "{v}[0].add_(1)[..., :1].zero_()",
    "{v}.flatten()[0] = {c}\n{v}.mul_(2)",
    "{v}.T.mul_(2).add_({v}.T)",
    "{w} = {v}[1:]\n{w} += 1\n{w}[:1] *= 2\n{v}[:1] = {w}[:1]",
    "{w} = {v}.view(-1)\n{w}[::2] = 0\n{w}[1:].add_({w}[:-1].clone())",
    "{v}.select({d}, 0).sub_({v}.select({d}, -1)).mul_(2)",
    "{v}.chunk(2, {d})[0].add_({v}.sum().to({v}.dtype))",
    "{v}.unbind(0)[0].zero_().add_({c})",
    "F.relu({v}, inplace=True)\n{v}[-1:].neg_()",
    "{w} = {v}.unsqueeze(0).transpose(0, 1)\n{w}.add_(1)\n{w}[0].mul_(3)",
    "{w} = {v}[None].expand(2, *{v}.shape)\n{v}.add_(1)",
    "{v}.mT.tril_().add_({v}.mT)",
    "{w} = {v}.detach()\n{w}.mul_(2)\n{v}.add_(1)",
    "{w} = {v}[..., ::2]\n{w}.copy_({w}.flip(0))\n{v}.clamp_(max=3)",
    "{v}.narrow({d}, 0, 1).fill_({c}).add_(1)",
    "{v}.diagonal().fill_({c}).add_(1)",
    "{v}.swapaxes(0, -1)[0].add_(1).mul_(2)",
    "{w} = {v}.reshape(-1)\n{w}.mul_(2)\n{w}[0] = {c}",
    "{v} += {v}[:1].clone()\n{v}[-1] -= {v}[0]",
    "{w} = {v}.as_strided((1,), (1,))\n{w}.fill_({c})\n{v}.add_(1)",
    "{v}.squeeze().add_(1)\n{v}.unsqueeze(-1).mul_(2)",
    "{v}.fill_diagonal_({c}).add_(1)",
    "{w} = {v}.split(1, {d})\n{w}[0].add_(1)\n{w}[-1].mul_(2)",
    "{v}.unflatten(0, (-1, 1))[0].zero_()",
    "for k in range(2):\n    {v}[k] = {v}[k - 1] + k",
    "{v}[0], {v}[1] = {v}[1].clone(), {v}[0].clone()",
    "{v}.index_fill_({d}, torch.tensor([0]), {c}).add_(1)",
    "torch.add({v}, 1, out={v})",
    "{w} = {v}[0]\n{v} = {v} + 1\n{w}.add_(1)",
    "{v}.copy_({v}.flip({d})).add_({v})",
    "{v}.movedim(0, -1)[..., 0].sub_(1).mul_({v}[0])",
)


def strided(s: Scope) -> str:
    """Write a view whose sizes and strides are given by hand."""
    x = s.tensor(is_all(at_least(1), lambda value: value.numel() >= 4 and value.is_contiguous()))
    copy = f"{x}.clone(memory_format=torch.contiguous_format)"
    return f"{s.new()} = {s.choice(_STRIDED).format(x=x, n=s.values[x].numel(), c=copy)}"


def chained_writes(s: Scope) -> str:
    """Write statements that write into views of a fresh tensor, one after another."""
    x = s.tensor(is_all(number, at_least(1, 2)))
    v, w = s.new(), s.new()
    return f"{v} = {x} + 0\n{s.choice(_CHAINED).format(v=v, w=w, d=s.dim(x), c=s.scalar())}"
