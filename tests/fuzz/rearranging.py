"""Statements that rearrange axes as einops does, repeat them, and reduce them."""

from __future__ import annotations

from .scope import Scope, at_least, floating, is_all


def _pieces(s: Scope, x: str) -> list[str]:
    """Return the sizes of each axis: the whole, or two factors of it."""
    found = []
    for dim, size in enumerate(s.shape(x)):
        whole = f"{x}.shape[{dim}]"
        factors = [factor for factor in (2, 3) if size % factor == 0 and size > factor]
        if factors and s.chance(0.4):
            factor = s.choice(factors)
            found += s.rng.sample([f"{whole} // {factor}", str(factor)], 2)
        else:
            found.append(whole)
    return found


def _merged(s: Scope, sizes: list[str]) -> str:
    """Return the sizes after neighbouring axes are merged."""
    groups = [[sizes[0]]]
    for size in sizes[1:]:
        if s.chance(0.5):
            groups[-1].append(size)
        else:
            groups.append([size])
    texts = [group[0] if len(group) == 1 else " * ".join(f"({size})" for size in group) for group in groups]
    if s.chance(0.3):
        texts[s.integer(0, len(texts) - 1)] = "-1"
    return ", ".join(texts)


def rearranged_axes(s: Scope) -> str:
    """Write a split, permutation and merge of axes, or a repetition or reduction."""
    x = s.tensor(at_least(1))
    pieces = _pieces(s, x)
    order = s.rng.sample(range(len(pieces)), len(pieces))
    split = f"{x}.reshape({', '.join(pieces)})"
    permuted = f"{split}.permute({', '.join(map(str, order))})"
    merged = f"{permuted}.reshape({_merged(s, [pieces[axis] for axis in order])})"
    d, rank = s.dim(x), len(s.shape(x))
    form = s.choice(
        [
            merged, merged, merged, permuted, f"{split}.sum({s.integer(0, len(pieces) - 1)})",
            f"{permuted}.amax({s.integer(0, len(pieces) - 1)})", f"{x}.unsqueeze(1).expand(-1, 2, *{x}.shape[1:]).flatten(0, 1)",
            f"{x}.unsqueeze(1).repeat(1, 2, *[1] * {rank - 1}).flatten(0, 1)", f"{x}.flatten(1).transpose(-1, -2)",
            f"{x}[..., None].expand(*{x}.shape, 2).flatten(-2)", f"{x}.movedim({d}, 0).flatten(1).T",
            f"{x}.unflatten({d}, (-1, 1)).transpose(0, -1)", f"{x}.reshape({x}.shape[0], -1).unsqueeze(0).contiguous()",
        ]
    )  # fmt: skip
    return f"{s.new()} = {form}"


_CONTRACTED = (
    "b, n = {x}.shape[:2]\n{v} = {x}.reshape(b, n, -1).transpose(1, 2).reshape(-1, n)",
    "b, *rest = {x}.shape\n{v} = {x}.reshape(b, -1).mean(1).view(b, *[1 for _ in rest])",
    "{v} = torch.einsum('b...,b...->...', {x}, {x})",
    "{v} = torch.einsum('b...n,b...m->b...nm', {x}, {x})",
    "{v} = torch.einsum('bn...->nb...', {x})",
    "{v} = torch.einsum('b...->b', {x})",
    "{v} = torch.einsum('ij...,kj...->ik...', {x}, {x})",
    "b, n = {x}.shape[:2]\n{v} = torch.einsum('bn,bm->bnm', {x}.reshape(b, -1), {x}.reshape(b, -1)).softmax(-1)",
    "b, c = {x}.shape[0], {x}.shape[-1]\n{v} = {x}.reshape(b, -1, c) @ {x}.reshape(b, -1, c).transpose(1, 2)",
    "b, n = {x}.shape[:2]\n{v} = torch.cat([{x}.new_zeros(1, 1, 1).expand(b, -1, n), {x}.reshape(b, n, -1).mT], 1)",
)


def contracted(s: Scope) -> str:
    """Write a contraction over named axes."""
    x = s.tensor(is_all(floating, at_least(2)))
    return s.choice(_CONTRACTED).format(v=s.new(), x=x)
