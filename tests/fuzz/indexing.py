"""Statements that read and write at indices which are tensors."""

from __future__ import annotations

from .scope import Scope, at_least, boolean, floating, is_all, number
from .views import sliced


def _indices(s: Scope, size: int, count: int | None = None) -> str:
    """Return the text of a tensor of indices into an axis."""
    count = count or s.integer(1, 3)
    numbers = [s.integer(-size, size - 1) for _ in range(count)]
    return f"torch.tensor({numbers})"


def _advanced(s: Scope, x: str) -> str:
    """Return the text between the brackets of an advanced index."""
    shape = s.shape(x)
    count, parts = s.integer(1, 3), []
    for dim, size in enumerate(shape[: s.integer(1, len(shape))]):
        form = s.integer(0, 9)
        if form < 4:
            parts.append(_indices(s, size, count))
        elif form < 5:
            parts.append(str(s.integer(-size, size - 1)))
        elif form < 6:
            parts.append(sliced(s, x, dim))
        elif form < 7:
            parts.append(f"torch.arange({x}.shape[{dim}])[:, None]")
        elif form < 8:
            parts.append(f"torch.arange({x}.shape[{dim}] - 1, -1, -1)")
        else:
            parts.append(":")
    if s.chance(0.2):
        parts.insert(s.integer(0, len(parts)), s.choice(["None", "..."]))
    return ", ".join(parts)


def indexed(s: Scope) -> str:
    """Write a statement that reads at tensors of indices."""
    x = s.tensor(is_all(at_least(1), lambda value: value.numel() > 1))
    d = s.dim(x)
    size = s.shape(x)[d]
    form = s.choice(
        [
            lambda: f"{x}[{_advanced(s, x)}]", lambda: f"{x}[{_advanced(s, x)}]", lambda: f"{x}[{_advanced(s, x)}]",
            lambda: f"{x}.index_select({d}, {_indices(s, size)} % {size})", lambda: f"{x}.gather({d}, ({x} > 0).long())",
            lambda: f"torch.take_along_dim({x}, ({x} > 0).long(), {d})", lambda: f"{x}[{x} > 0]",
            lambda: f"{x}[{x}.argmax({d})]", lambda: f"{x}.flatten()[{_indices(s, 2)}]",
            lambda: f"{x}.take(torch.tensor([0, -1]))", lambda: f"{x}[[0, -1]]", lambda: f"{x}[torch.tensor(0)]",
            lambda: f"{x}[({x} > 0).long().sum({d}) - 1]", lambda: f"torch.masked_select({x}, {x} > 0)",
            lambda: f"{x}[torch.arange({x}.shape[0]) % 2]",
            lambda: f"{x}[torch.tensor([True] + [False] * {s.shape(x)[0] - 1})]", lambda: f"torch.nonzero({x})",
            lambda: f"{x}.flip({d})", lambda: f"F.one_hot({x}.long() % 3, 3)",
            lambda: f"{x}[{s.tensor(is_all(number, lambda i: not floating(i)))} % {x}.shape[0]]",
        ]
    )()  # fmt: skip
    return f"{s.new()} = {form}"


def indexed_write(s: Scope) -> str:
    """Write a statement that writes at indices: to a new tensor, or in place."""
    x = s.tensor(is_all(at_least(1), lambda value: value.numel() > 1 and not boolean(value)))
    d = s.dim(x)
    size = s.shape(x)[d]
    name, index, c = s.new(), _indices(s, size, 1), s.scalar()
    mask = f"({x} > 0)"
    pure = [
        f"{x}.index_fill({d}, {index} % {size}, {c})", f"{x}.scatter({d}, {mask}.long(), {x})",
        f"{x}.scatter({d}, {mask}.long(), {c})", f"{x}.index_add({d}, {index} % {size}, {x}.narrow({d}, 0, 1))",
        f"{x}.index_copy({d}, {index} % {size}, {x}.narrow({d}, 0, 1))",
        f"{x}.index_put(({index} % {x}.shape[0],), torch.tensor({c}, dtype={x}.dtype))",
        f"{x}.scatter_add({d}, {mask}.long() * 0, {x})", f"{x}.masked_scatter({mask}, {x}.flip(0))",
        f"{x}.scatter_reduce({d}, {mask}.long(), {x}, 'amax')", f"{x}.select_scatter({x}.select({d}, 0) + 1, {d}, -1)",
        f"{x}.slice_scatter({x}.narrow({d}, 0, 1), {d}, 0, 1)",
        f"{x}.diagonal_scatter({x}.diagonal(0, {d}, {s.dim(x)}) * 2, 0, {d}, {d})",
        f"{x}.index_put((torch.tensor([0, 0, -1]),), torch.tensor({c}, dtype={x}.dtype), accumulate=True)",
        f"{x}.index_reduce({d}, {index} % {size}, {x}.narrow({d}, 0, 1), 'amax')",
    ]  # fmt: skip
    if s.chance(0.5):
        return f"{name} = {s.choice(pure)}"
    target = s.choice(
        [
            f"{name}[{_advanced(s, x)}] = {c}", f"{name}[{_advanced(s, x)}] += 1", f"{name}[{mask}] = {c}",
            f"{name}[{mask}] *= 2", f"{name}[{_advanced(s, x)}] = {x}[{_advanced(s, x)}]",
            f"{name}.index_add_({d}, {index} % {size}, {x}.narrow({d}, 0, 1))", f"{name}.masked_fill_({mask}, {c})",
            f"{name}.scatter_({d}, {mask}.long(), {c})", f"{name}[torch.tensor(-1)] = {c}",
            f"{name}.index_fill_({d}, {index} % {size}, {c})", f"{name}[:, {_indices(s, 2)}] = {c}",
            f"{name}[..., -1] = {x}[..., 0]", f"{name}[{x}.argmax().clamp(max=0)] = {c}",
            f"{name}.index_put_(({index} % {name}.shape[0],), {x}[0], accumulate=True)",
        ]
    )  # fmt: skip
    return f"{name} = {x}.clone()\n{target}"
