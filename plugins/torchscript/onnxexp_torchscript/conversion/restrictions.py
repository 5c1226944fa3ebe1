"""Conditions on sizes under which a traced or scripted program is right."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import sympy  # type: ignore[import-untyped]
import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from onnxexp import CaptureError, warn
from onnxexp.graph import SourceLocation, Value
from onnxexp_torchscript.conversion.python_numbers import unwrap
from onnxexp_torchscript.trace.traced_branches import Branch
from onnxexp_torchscript.types.abstract_tensor import expr_of
from onnxexp_torchscript.types.type_inference import TypeInference

Restrictions: TypeAlias = Mapping[str, Callable[[Sequence[Any]], bool]]
"""Each condition as a text, with a test of a call's leaves."""

_LARGEST = 64
"""The largest size of an axis that is tried to find out whether a computed size can be 1."""
_FIX = (
    "Other sizes have other shapes, which the captured graph lacks: squeeze removes an axis of size 1, and chunk does not split "
    "it. Name the axes that squeeze removes (x.squeeze(-1)), or limit the sizes in dynamic_shapes (Dim.DYNAMIC(min=2))."
)
_FIX_OF_BRANCHES = (
    "Other sizes take another branch, which the trace did not record. Write that line for any size (torch.where, torch.cond), "
    "script it with torch.jit.script, or limit the sizes in dynamic_shapes (Dim.DYNAMIC(min=..., max=...))."
)
_FIX_OF_TIES = (
    "Other sizes take another branch, which the trace did not record. Script that line with torch.jit.script, or give such axes "
    "one name in dynamic_shapes / dynamic_axes."
)


def restrictions(
    sizes: TypeInference, not_one: Mapping[sympy.Expr, SourceLocation], only_one: Iterable[sympy.Expr]
) -> Restrictions:
    """Return the conditions that sizes are not 1, or are 1, as tests of leaves.

    Warns of sizes that must not be 1 in the ranges that the user asked for.
    """
    found: dict[str, Callable[[Sequence[Any]], bool]] = {}
    lines: list[str] = []
    for size, where in not_one.items():
        expr = sizes.expanded(size)
        if _may_be_one(expr, 0):
            text = sizes.names.condition(sympy.Ne(expr, 1))
            found[text] = functools.partial(_allows, expr, dict(sizes.inputs), False)
            if _may_be_one(expr, _least(expr, sizes)):
                lines.append(f"{text} ({where})")
    for size in only_one:
        expr = sizes.expanded(size)
        found[sizes.names.condition(sympy.Eq(expr, 1))] = functools.partial(_allows, expr, dict(sizes.inputs), True)
    if lines:
        warn(f"the exported model is right only where {'; '.join(lines)}. {_FIX}")
    return found


def tied(sizes: TypeInference, ties: Mapping[tuple[sympy.Symbol, sympy.Symbol], str]) -> Restrictions:
    """Unify pairs of sizes; return their equality as tests of leaves.

    Warns of the pairs with the reasons: at other sizes the model takes another branch.
    """
    places = {expr_of(size): place for place, size in sizes.inputs.items()}
    texts = {pair: sizes.names.condition(sympy.Eq(*pair[::-1])) for pair in ties}
    for pair in ties:
        sizes.tie(*pair)
    if ties:
        lines = "; ".join(f"{texts[pair]} (elsewhere it differs: {reason})" for pair, reason in ties.items())
        warn(f"the exported model is right only where {lines}. {_FIX_OF_TIES}")
    return {text: functools.partial(_equal, [places[symbol] for symbol in pair]) for pair, text in texts.items()}


def branched(sizes: TypeInference, branches: Sequence[Branch], conditions: Sequence[Any], fixed: bool) -> Restrictions:
    """Return the conditions of the branches that a trace took, as tests of leaves.

    Warns of conditions that are not true at all sizes. With `fixed`, it also warns of branches on values, which have no test.

    Raises CaptureError for a branch on values, unless `fixed` is set.
    """
    found: dict[str, Callable[[Sequence[Any]], bool]] = {}
    lines: list[str] = []
    for branch, condition in zip(branches, map(unwrap, conditions), strict=True):
        if not isinstance(condition, Value):
            continue
        computed = sizes.of(condition)
        known = isinstance(computed, (bool, int, float, torch.SymBool, torch.SymInt, torch.SymFloat))
        expr = sizes.expanded(expr_of(computed)) if known else sympy.true
        expr = expr if expr.is_Boolean or expr.is_Relational else sympy.Ne(expr, 0)
        expr = expr if branch.outcome else sympy.Not(expr)
        if not known or free_unbacked_symbols(expr):
            if not fixed:
                text = "the model branches on a size that depends on values; to fix this, write it with torch.where or torch.cond"
                raise CaptureError(f"{branch.where}: {text}")
            lines.append(f"this line takes the example's branch ({branch.where})")
            continue
        text = sizes.names.condition(expr)
        points = _points(list(expr.free_symbols), max(1, _least(expr, sizes)))
        if text not in found and any(_value(expr, point) is sympy.false for point in points):
            found[text] = functools.partial(_meets, expr, dict(sizes.inputs))
            lines.append(f"{text} ({branch.where})")
    if lines:
        warn(f"the exported model is right only where {'; '.join(lines)}. {_FIX_OF_BRANCHES}")
    return found


def _meets(condition: sympy.Basic, inputs: Mapping[tuple[int, int | None], Any], leaves: Sequence[Any]) -> bool:
    """Return whether a condition holds for a call's leaves."""
    return _value(condition, _known(inputs, leaves)) is not sympy.false


def _equal(places: Sequence[tuple[int, Any]], leaves: Sequence[Any]) -> bool:
    """Return whether these axes have one length in a call."""
    return len({np.shape(leaves[index])[axis] for index, axis in places if leaves[index] is not None}) < 2


def may_be_one(sizes: TypeInference, size: Any) -> bool:
    """Return whether a dynamic size can be 1 in the ranges that the user asked for."""
    if isinstance(size, int):
        return False
    expr = sizes.expanded(expr_of(size))
    return bool(free_unbacked_symbols(expr)) or _may_be_one(expr, _least(expr, sizes))


def _least(expr: sympy.Expr, sizes: TypeInference) -> int:
    """Return the least size asked for of the axes that a size depends on."""
    return max((sizes.least.get(symbol, 0) for symbol in expr.free_symbols), default=0)


def _may_be_one(expr: sympy.Expr, least: int) -> bool:
    """Return whether a size can be 1 where its axes are `least` long or longer."""
    return any(_value(expr, point) == 1 for point in _points(list(expr.free_symbols), least))


def _points(symbols: Sequence[sympy.Symbol], least: int) -> Iterator[dict[sympy.Symbol, int]]:
    """Yield sizes to try: one for all axes, and one for an axis beside small ones."""
    for size in range(least, max(least, _LARGEST)):
        yield dict.fromkeys(symbols, size)
        for symbol in symbols if len(symbols) > 1 else ():
            for other in range(max(least, 1), max(least, 1) + 3):
                yield {**dict.fromkeys(symbols, other), symbol: size}


def _allows(expr: sympy.Expr, inputs: Mapping[tuple[int, int | None], Any], one: bool, leaves: Sequence[Any]) -> bool:
    """Return whether a computed size is 1, or not 1 without `one`, in a call's leaves."""
    return bool(_value(expr, _known(inputs, leaves)) == 1) is one


def _known(inputs: Mapping[tuple[int, int | None], Any], leaves: Sequence[Any]) -> dict[sympy.Symbol, int]:
    """Return the sizes in a call's leaves."""
    known: dict[sympy.Symbol, int] = {}
    for (index, axis), captured in inputs.items():
        if leaves[index] is None:  # an optional input
            continue
        given = leaves[index] if axis is None else np.shape(leaves[index])[axis]
        size = expr_of(captured)
        for symbol in size.free_symbols:  # one symbol: a size, or a multiple of one and a number
            start = size.xreplace({symbol: sympy.Integer(0)})
            known.setdefault(symbol, (given - start) // size.coeff(symbol))
    return known


def _value(expr: sympy.Expr, known: Mapping[sympy.Symbol, int]) -> Any:
    """Evaluate a size; return None where it has no value (a division by 0)."""
    try:
        return expr.xreplace({symbol: sympy.Integer(size) for symbol, size in known.items()})
    except (ArithmeticError, AssertionError, TypeError, ValueError):
        return None
