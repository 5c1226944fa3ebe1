"""Statements that define functions: defaults, closures, recursion, comprehensions."""

from __future__ import annotations

from .scope import Scope, at_least, is_all, number

_CALLS = (
    "def {f}(a, scale=2, shift=0.5):\n    return a * scale + shift\n{v} = {f}({x}, shift={c})",
    "def {f}(a, *, by=None):\n    return a if by is None else a + by\n{v} = {f}({x}, by={y}) - {f}({x})",
    "def {f}(*parts, axis=0):\n    return torch.stack(parts, axis)\n{v} = {f}({x}, {x} + 1, axis=-1)",
    "def {f}(a, times=2):\n    for _ in range(times):\n        a = a * 2 - 1\n    return a\n{v} = {f}({x}) + {f}({x}, 1)",
    "def {f}(a, **options):\n    return a.sum(**options)\n{v} = {f}({x}, dim={d}, keepdim=True)",
    "def {f}(factor=1.5):\n    return {x} * factor\n{v} = {f}()",
    "def {f}(n={x}.shape[{d}]):\n    return {x} * n\n{v} = {f}() + {f}(3)",
    "{f} = lambda a, b={y}: a + b\n{v} = {f}({x})",
    "def {f}(a, depth=2):\n    return a if depth == 0 else {f}(a * 0.5, depth - 1)\n{v} = {f}({x})",
    "def {f}(a, function=torch.sin):\n    return function(a)\n{v} = {f}({x}) + {f}({x}, torch.cos)",
    "def {f}(a):\n    def inner(b, offset=1):\n        return b + offset\n    return inner(a) * inner(a, 2)\n{v} = {f}({x})",
    "def {f}(a):\n    a = a.clone()\n    a[0] = {c}\n    return a\n{v} = {f}({x})",
    "def {f}(a):\n    a.mul_(2)\n    return a\n{v} = {f}({x} + 0) + {x}",
    "def {f}(a):\n    return {{'low': a.min(), 'high': a.max()}}\n{v} = {x} - {f}({x})['low']",
    "def {f}(a):\n    low, high = a.min(), a.max()\n    return low, high - low\n{v} = {f}({x})[1] + {x}",
    "{v} = sum([{x} * k for k in (1, 2, 3)])",
    "{v} = torch.cat([part * 2 for part in ({x}, {x} + 1)], {d})",
    "{v} = torch.cat([part for name, part in {{'one': {x}, 'two': -{x}}}.items()], {d})",
    "{v} = torch.stack([part.sum() for part in torch.stack([{x}, {x} * 2]).unbind()])",
    "def {f}(a, axis={d}):\n    with torch.no_grad():\n        return a.softmax(axis)\n{v} = {f}({x}.float())",
    "def {f}(a, size=None):\n    return a.reshape(-1) if size is None else a.reshape(size, -1)\n{v} = {f}({x}, {x}.shape[0])",
)


def called(s: Scope) -> str:
    """Write a function that the forward defines, and a call of it."""
    x = s.tensor(is_all(number, at_least(1)))
    return s.choice(_CALLS).format(v=s.new(), f=s.new("f"), x=x, y=s.fitting(s.shape(x)), d=s.dim(x), c=s.scalar())
