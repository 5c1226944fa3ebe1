"""Statements that split tensors, or find distinct values with their counts."""

from __future__ import annotations

from .scope import Scope, at_least, floating, is_all, number

_PARTED = (
    "{v}, {w} = {x}.split([{k}, {x}.shape[{d}] - {k}], {d})",
    "{v}, {w} = torch.split({x}, [{x}.shape[{d}] - {k}, {k}], dim={d})",
    "{v}, {w} = {x}.chunk(2, {d})",
    "{v}, {w} = {x}.tensor_split(2, {d})",
    "{v}, {w} = torch.tensor_split({x}, ({k},), {d})",
    "{v}, _, {w} = torch.tensor_split({x}, ({k}, -1), dim={d})",
    "{v}, {w}, _ = {x}.tensor_split(3, {d})",
    "{v}, *others = {x}.split({k}, {d})\n{w} = others[0]",
    "{v} = {w} = torch.cat([part.flip({d}) for part in {x}.split({k}, {d})], {d})",
    "{v}, {w} = ({x}.chunk(3, {d})[k] for k in (0, -1))",
    "{v}, {w} = torch.stack([{x}, {x} + 1], {d}).unbind({d})",
    "{v}, {w} = {x}.unbind(0)[:2]",
    "parts = {x}.split({x}.shape[{d}] // 2 + 1, {d})\n{v}, {w} = parts[0], parts[-1]",
    "{v}, {w} = {x}.hsplit((1,))",
    "{v}, {w} = torch.tensor_split({x}, torch.tensor([{k}]), {d})",
    "{v}, {w} = {x}.split_with_sizes([{k}, {size} - {k}], {d})",
    "parts = {x}.tensor_split(2, {d})\n{v} = {w} = torch.cat([parts[1], parts[0]], {d})",
    "{v}, {w} = {x}.vsplit(({k},))",
    "{v}, {w} = {x}.chunk(2, {d})\n{v} = {v} + 1",
    "{v}, {w} = {x}.clone().split([{k}, {size} - {k}], {d})\n{v}.mul_(2)",
    "{v} = {w} = torch.stack([part.sum() for part in {x}.chunk(2, {d})])",
)
_DISTINCT = (
    "{v}, {w} = torch.unique({r}, return_counts=True)",
    "{v}, {w} = torch.unique({r}, return_inverse=True)",
    "u, i = {r}.unique(return_inverse=True)\n{v} = {w} = u[i]",
    "{v} = {w} = torch.unique({r}).sum()",
    "u, i, n = torch.unique({r}, return_inverse=True, return_counts=True)\n{v}, {w} = n[i], u.max()",
    "{v}, {w} = torch.unique({r}, dim={d}, return_counts=True)",
    "{v}, {w} = torch.unique_consecutive({r}, return_counts=True)",
    "{v}, {w} = torch.unique_consecutive({r}, return_inverse=True)",
    "{v} = {w} = torch.unique({r}, dim=0)",
    "u, n = {r}.flatten().unique(return_counts=True)\n{v} = {w} = u[n.argmax()]",
    "{v} = {w} = torch.unique({r}).numel() + {x}",
    "{v} = {w} = torch.unique_consecutive({r}, dim=0)",
    "u, i = torch.unique({r}, dim=0, return_inverse=True)\n{v} = {w} = u[i]",
)


def parted(s: Scope) -> str:
    """Write two parts of a tensor, or a result that joins its parts."""
    x = s.tensor(at_least(1, 2))
    d = s.dim(x)
    size = s.shape(x)[d]
    texts = {"v": s.new(), "w": s.new(), "x": x, "d": d, "size": f"{x}.shape[{d}]" if s.chance(0.5) else size}
    return s.choice(_PARTED).format(k=s.integer(1, size - 1), **texts)


def distinct(s: Scope) -> str:
    """Write distinct values or rows, with their counts or their places."""
    x = s.tensor(is_all(number, at_least(1)))
    rounded = f"{x}.round()" if floating(s.values[x]) and s.chance(0.7) else x
    return s.choice(_DISTINCT).format(v=s.new(), w=s.new(), x=x, r=rounded, d=s.dim(x))
