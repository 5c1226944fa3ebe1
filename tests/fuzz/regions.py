"""Statements with torch.cond and torch.while_loop."""

from __future__ import annotations

from .scope import Scope, Unfit, at_least, floating, is_all

_PREDICATES = (
    "{x}.sum() > 0", "({x} > 0).any()", "{x}.max() > {y}.min()", "({x} > 1).all()", "{x}.shape[{d}] > 3", "{x}.mean() < 0.5",
    "({x} > 9).any()", "{x}.numel() == {y}.numel()",
)  # fmt: skip
_BRANCHES = (
    "{v} = torch.cond({p}, lambda a: a + 1, lambda a: a * 2, ({x},))",
    "{v} = torch.cond({p}, lambda a, b: a + b, lambda a, b: a - b, ({x}, {y}))",
    "{v} = torch.cond({p}, lambda: {x} * 2, lambda: {x} - 1, ())",
    "def {f}(a):\n    return a.sin(), a.sum({d})\ndef {g}(a):\n    return a.cos(), a.amax({d})\n"
    "{v}, {w} = torch.cond({p}, {f}, {g}, ({x},))",
    "def {f}(a):\n    b = a.clone()\n    b[0] = 1.0\n    return b\n{v} = torch.cond({p}, {f}, lambda a: a + 1, ({x},))",
    "def {f}(a):\n    return torch.cond(a.max() > 1, lambda a: a / 2, lambda a: a - 1, (a,))\n"
    "{v} = torch.cond({p}, {f}, lambda a: a * 1.5, ({x},))",
    "{v} = torch.cond({p}, lambda a: a.flip(0).cumsum(0), lambda a: a.softmax(0), ({x},)) + {x}",
    "{v} = torch.cond({p}, lambda a: {{'r': a.mean(0)}}, lambda a: {{'r': a.sum(0)}}, ({x},))['r']",
)
_LOOPS = (
    "{v} = torch.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 0.5), (torch.tensor(0), {x}))[1]",
    "{v} = torch.while_loop(lambda a: a.abs().sum() > 1, lambda a: (a / 2,), ({x},))[0]",
    "{w}, {v} = torch.while_loop(lambda i, a: i < a.shape[0], lambda i, a: (i + 1, a + i), (torch.tensor(0), {x}))",
    "def {f}(i, a):\n    return (i < 4) & (a.sum() < 50)\ndef {g}(i, a):\n    return i + 1, a + {x}\n"
    "{w}, {v} = torch.while_loop({f}, {g}, (torch.tensor(0), {x} + 0))",
    "{w}, {v} = torch.while_loop(lambda a, b: b.max() < 5, lambda a, b: (a + b, b + 1), ({x} * 1, {x}.clamp(-5)))",
)
_MOST = 2
"""Regions in one program: eager compiles each of them."""


def chosen_region(s: Scope) -> str:
    x = _argument(s)
    y, d, v, w = s.fitting(s.shape(x), floating), s.dim(x), s.new(), s.new()
    predicate = s.choice(_PREDICATES).format(x=x, y=y, d=d)
    return s.choice(_BRANCHES).format(v=v, w=w, f=s.new("f"), g=s.new("g"), x=x, y=y, d=d, p=predicate)


def repeated_region(s: Scope) -> str:
    if s.frontend != "export":
        raise Unfit  # torch.while_loop leaves no loop in a trace
    x = _argument(s)
    return s.choice(_LOOPS).format(v=s.new(), w=s.new(), f=s.new("f"), g=s.new("g"), x=x)


def _argument(s: Scope) -> str:
    """Return a tensor for a region; TorchScript compiles none."""
    s.regions += 1
    if s.frontend == "script" or s.regions > _MOST:
        raise Unfit
    return s.tensor(is_all(floating, at_least(1)))
