"""Statements with boolean masks: fills, choices, selections and writes."""

from __future__ import annotations

from .scope import Scope, at_least, is_all, number

_MASKS = (
    "({x} > {c})",
    "({x} > 0) & ({x} < 2)",
    "~({x} > 0)",
    "({x} == {x}.max())",
    "torch.ones_like({x}, dtype=torch.bool).tril()",
    "({x} > {y})",
    "{x}.bool()",
    "({x} != 0) | ({x} > {c})",
    "({x} > {x}.float().mean())",
    "torch.isin({x}, {x}[:1])",
    "({x} < {x}.roll(1))",
    "{x}.ge(0).logical_not()",
    "({x}.cumsum(0) > 0)",
    "torch.zeros_like({x}).bool()",
)
_FILLED = (
    "{x}.masked_fill({m}, {c})",
    "{x}.float().masked_fill({m}, float('-inf')).softmax({d}).nan_to_num()",
    "torch.where({m}, {x}, {c})",
    "torch.where({m}, {c}, {x})",
    "torch.where({m}, {x}, {y})",
    "{x}.where({m}, {y})",
    "{x} * {m}",
    "({m}).cumsum({d})",
    "torch.where({m}, {x}, torch.zeros_like({x})).sum({d})",
    "({m}).float().mean({d})",
    "{x}.masked_scatter({m}, {x}.flip({d}))",
    "{x}.masked_scatter({m}, torch.arange({x}.numel()).to({x}.dtype))",
    "({x} * ({m})).sum({d}) / ({m}).sum({d}).clamp(min=1)",
    "torch.where({m}, {x}, {x}.new_tensor(0))",
    "{x}.masked_fill({m}, {x}.new_tensor({c}))",
    "torch.where(({m}).any({d}, keepdim=True), {x}, -{x})",
    "torch.where({m}, torch.tensor(1.0), torch.tensor(2))",
    "({m}).int().argmax({d})",
    "({m}).all({d}).logical_or(({m}).any({d}))",
    "{x}.masked_fill(torch.arange({x}.shape[-1]) >= {x}.shape[-1] - 1, {c})",
    "{x}.masked_fill(~({m}), 0).amax({d})",
)
_SELECTED = (
    "{x}[{m}]",
    "{x}.masked_select({m})",
    "torch.masked_select({x}, {m})",
    "{x}[{m}].sum()",
    "{x}[{m}] * 2 + 1",
    "{x}[{m}].sort()[0]",
    "{x}[{m}].cumsum(0)",
    "{x}[{r}]",
    "{x}[{r}].sum(0)",
    "{x}[{r}, 0]",
    "{x}[{r}].flatten()",
    "torch.where({m})[0]",
    "({m}).nonzero()",
    "({m}).nonzero(as_tuple=True)[-1]",
    "torch.argwhere({m}).sum(0)",
    "{x}[torch.where({m})]",
    "torch.cat([{x}[{m}], {x}.flatten()])",
    "F.pad({x}[{m}], (0, 2))",
    "{x}[{m}].numel() + {x}",
    "{x}[{m}][:1]",
    "{x}[{m}].unsqueeze(0).expand(2, -1)",
    "torch.stack([{x}[{m}], {y0}[{m}]])",
    "{x}[{m}].mean() * 0 + 1",
    "{x}.masked_select({r0}).sum()",
    "torch.zeros_like({x}[{m}])",
    "{x}[{m}].unique()",
    "{x}[..., ({x} > 0).flatten(0, -2).any(0)]",
)
_WRITTEN = (
    "{v}[{m}] = {c}",
    "{v}[{m}] = {v}[{m}] * 2",
    "{v}[{m}] += 1",
    "{v}.masked_fill_({m}, {c})",
    "{v}[{r}] = {c}",
    "{v}[{r}] = -{v}[{r}]",
    "{v}.masked_scatter_({m}, {x}.flip(0))",
    "{v}[{m}] = {x}.flip(0)[{m}]",
    "{v}[{r}, ..., :1] = {c}",
    "{v}[1:].masked_fill_({x}[1:] > 0, {c})",
    "{v}[:, 0][{r}] = {c}",
    "{v}[torch.where({m})] = {c}",
    "{v}.T[({m}).T] = {c}",
    "{v}[..., 0].masked_fill_({x}[..., 0] > 0, {c})",
    "{v}.flatten()[({m}).flatten()] *= 2",
)


def _mask(s: Scope, x: str) -> str:
    return s.choice(_MASKS).format(x=x, y=s.fitting(s.shape(x)), c=s.scalar())


def _rows(s: Scope, x: str) -> str:
    """Return the text of a mask over the first axis."""
    rows = f"({x} > 0).flatten(1).any(1)" if len(s.shape(x)) > 1 else f"({x} > 0)"
    return s.choice([rows, f"(torch.arange({x}.shape[0]) < {x}.shape[0] // 2)", f"({x}.reshape({x}.shape[0], -1).sum(1) > 0)"])


def filled(s: Scope) -> str:
    """Write a result of the mask's shape, or a reduction of it."""
    x = s.tensor(is_all(number, at_least(1)))
    return f"{s.new()} = {s.choice(_FILLED).format(x=x, m=_mask(s, x), y=s.fitting(s.shape(x)), d=s.dim(x), c=s.scalar())}"


def selected(s: Scope) -> str:
    """Write a result whose size is a number of selected elements, or a use of it."""
    x = s.tensor(is_all(number, at_least(1)))
    row = f"{x}[:1] > 0" if len(s.shape(x)) > 1 else f"{x} > 0"
    return f"{s.new()} = {s.choice(_SELECTED).format(x=x, m=_mask(s, x), r=_rows(s, x), r0=row, y0=f'({x} + 1)')}"


def written_where(s: Scope) -> str:
    """Write a statement that writes where a mask is true."""
    x = s.tensor(is_all(number, at_least(1)))
    v = s.new()
    return f"{v} = {x} + 0\n{s.choice(_WRITTEN).format(v=v, x=x, m=_mask(s, x), r=_rows(s, x), c=s.scalar())}"
