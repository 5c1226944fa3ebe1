"""Sizes at which an exported model is not the user's: where the model decided by a size, torch.export records one side only.

torch keeps each decision as a guard of its ShapeEnv, with the frame that asked for it; `deciding` adds the user's line. What
counts is what Python decided in the user's files and in torch's modules, and the few operators whose results depend on it:
other operators' guards choose among ways to the same result, or ask for what eager asks for as well.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any, TypeAlias

import sympy  # type: ignore[import-untyped]
import torch
from torch._guards import SLoc
from torch.export import Dim, ExportedProgram
from torch.fx.experimental.symbolic_shapes import ShapeEnv, uninteresting_files

from onnxexp.capture.size_text import condition_text
from onnxexp.capture.source_lines import calling_line, code_line, guards_raise, is_modules, is_users
from onnxexp.capture.torch_export.symbol_names import input_sizes
from onnxexp.capture.torch_state import is_exporting, replaced
from onnxexp.graph import Where
from onnxexp.request.axis_spec import Axis
from onnxexp.request.dynamic_shapes import DynamicSpec
from onnxexp.user_warnings import warn

__all__ = ["deciding", "tell_restrictions"]

_SLICE = "_compute_slice_index"
_OPERATORS = {_SLICE, "split"}
"""torch's functions that decide by sizes what operators give: how long a slice is, and how many parts there are."""
_DYNAMO = os.path.join(os.path.dirname(torch.__file__), "_dynamo") + os.sep
"""Strict mode interprets the user's lines there."""
_STEPS = (*range(32), 62, 98, 126, 254, 997, 4094, 100_000)
"""What a condition is tried at, from the least size on: one that holds at these is taken for one that always holds."""
_LEAST, _LEAST_NUMBER = 2, -40
"""From where on they are tried: torch.export itself takes no size to be 0 or 1. Numbers that are inputs may be negative."""
_CURE = (
    "Other sizes take another path or give other shapes, which torch.export did not record. Write that line for any size "
    "(torch.where, torch.cond), or say in dynamic_shapes which sizes you mean (Dim.DYNAMIC(min=..., max=...))."
)


_Tried: TypeAlias = Mapping[sympy.Symbol, list[sympy.Integer]]


class _Decision(traceback.FrameSummary):
    """The frame that asked whether a condition on sizes holds, and the innermost line of the user's above it."""

    users: Where = Where()


@contextlib.contextmanager
def deciding() -> Iterator[None]:
    """Inside, torch keeps a `_Decision` with each guard of a symbolic size."""
    original = ShapeEnv._get_stack_summary

    def summary(env: ShapeEnv, is_debug: bool = False, framework_loc: str | None = None) -> tuple[SLoc, str]:
        found: Any = framework_loc or _decision(sys._getframe(1))  # torch's annotation knows no frames
        return original(env, is_debug, found)

    with replaced(((ShapeEnv, "_get_stack_summary", summary),)):
        yield


def _decision(frame: FrameType | None) -> _Decision | None:
    """Where torch is, from `frame` outwards: what torch itself would tell, and the user's line."""
    while frame is not None and frame.f_code.co_filename in uninteresting_files():
        frame = frame.f_back
    if frame is None:
        return None
    decision = _Decision(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, lookup_line=False)
    decision.users = calling_line(frame) if is_exporting() else Where()
    return decision


def tell_restrictions(env: ShapeEnv | None, program: ExportedProgram, spec: DynamicSpec, names: Mapping[sympy.Expr, str]) -> None:
    """Warn of the conditions under which the captured program is right, with the lines that made them.

    Only sizes that the user asked to be dynamic by a name or Dim.DYNAMIC count: for a Dim torch has proved its whole range.
    """
    if env is None or spec.shapes is None or not env.guards:
        return
    asked: dict[sympy.Symbol, list[sympy.Integer]] = {}
    called = dict(names)
    for leaf, axis, size, wanted in input_sizes(program, spec):
        # `_expr` is the axis' own symbol: its `expr` is that of another one where they came out equal
        symbol = size.node._expr if isinstance(size, torch.SymInt) else None
        if wanted is not None and wanted.asked and symbol in env.backed_var_to_val:
            asked[symbol] = _tried(wanted, _LEAST if axis is not None else _LEAST_NUMBER)
            called[symbol] = wanted.name or (leaf.name if axis is None else f"{leaf.name}_dim_{axis}")
    first: dict[Any, sympy.Symbol] = {}
    alike = {symbol: first.setdefault((called[symbol], env.backed_var_to_val[symbol]), symbol) for symbol in asked}
    found = [f"{condition_text(expr, called)} ({line})" for expr, line in _restrictions(env, asked, alike).items()]
    if found:
        warn(f"the exported model is right only where {'; '.join(found)}. {_CURE}")


def _restrictions(env: ShapeEnv, asked: _Tried, alike: Mapping[sympy.Symbol, sympy.Symbol]) -> dict[sympy.Expr, str]:
    """The conditions on the symbols in `asked` that do not hold at all their sizes, and the line that made each.

    `alike`: for each symbol the first that the user calls the same; that such are equal is stated.
    """
    found: dict[sympy.Expr, str] = {}
    for guard in env.guards:
        if not asked.keys().isdisjoint(guard.expr.free_symbols):
            expr = guard.expr.xreplace(alike)
            line = _decided(guard.sloc, expr) if expr not in found and _is_open(env, expr) else ""
            if line and not _always(env, expr, asked):
                found[expr] = line
    return found


def _is_open(env: ShapeEnv, expr: sympy.Expr) -> bool:
    """Whether a condition says something of the inputs' sizes.

    That axes are no longer than others that are just as long in the example does not: as a rule they are made to fit each
    other, as the mask of a decoder and the tokens, old and new, that it is for.
    """
    symbols = expr.free_symbols
    if not symbols or not symbols <= env.backed_var_to_val.keys():
        return False
    fits = len(symbols) > 1 and isinstance(expr, (sympy.Le, sympy.Ge))
    return not (fits and (expr.lhs - expr.rhs).xreplace(env.backed_var_to_val) == 0)


def _decided(sloc: SLoc, expr: sympy.Expr) -> str:
    """The line of the user's (or of torch's module) that decided by the condition; "" where the guard is of no account."""
    frame, related = sloc.framework_loc, len(expr.free_symbols) > 1
    if not isinstance(frame, _Decision):
        return ""
    if frame.filename.startswith(_DYNAMO):
        line = sloc.maybe_user_loc or ""
        return "" if line.startswith("assert ") else line
    if is_users(frame.filename):
        counts = True
    elif is_modules(frame.filename):
        counts = not related  # what modules ask of several axes is that they fit
    else:
        counts = frame.name in _OPERATORS and not (frame.name == _SLICE and _within(expr))
    if not counts or guards_raise(frame.filename, frame.lineno or 0):  # eager refuses such sizes too
        return ""
    return str(frame.users if frame.users.file else code_line(frame.filename, frame.lineno or 0))


def _within(expr: sympy.Expr) -> bool:
    """Whether a slice ends within what is sliced: a table as a rule, or a mask, beyond whose end eager fails as well.

    One that is a number (``x[:5]``) counts: the result has the size that the program claims from there on only.
    """
    upper = dict.fromkeys(expr.free_symbols, sympy.Integer(_STEPS[-1]))
    return isinstance(expr, (sympy.Le, sympy.Ge)) and (len(upper) > 1 or not _holds(expr, upper))


def _always(env: ShapeEnv, expr: sympy.Expr, asked: _Tried) -> bool:
    """Whether a condition holds wherever it is tried: all axes at other sizes than the example's, and each alone."""
    example = {symbol: env.backed_var_to_val[symbol] for symbol in expr.free_symbols}
    sizes = {symbol: asked.get(symbol) or _tried(Axis(Dim.AUTO, None, False), _LEAST) for symbol in example}
    together = (dict(zip(sizes, point, strict=True)) for point in zip(*sizes.values(), strict=False))
    alone = ({**example, symbol: size} for symbol in sizes for size in sizes[symbol] if len(sizes) > 1)
    return all(_holds(expr, point) for point in itertools.chain(together, alone))


def _tried(axis: Axis, least: int) -> list[sympy.Integer]:
    """What a size is tried at, in the range that the user asked for."""
    low, high = max(int(axis.dim.min or least), least), axis.dim.max or math.inf
    steps = [low + step for step in _STEPS if low + step <= high]
    return [sympy.Integer(size) for size in (*steps, *([high] if isinstance(high, int) else ()))]


def _holds(expr: sympy.Expr, sizes: Mapping[sympy.Symbol, sympy.Integer]) -> bool:
    """Whether a condition holds. Sizes at which it cannot be computed (the remainder of a negative size) are none that eager
    takes."""
    try:
        return expr.xreplace(sizes) is not sympy.false
    except (ArithmeticError, AssertionError, TypeError, ValueError):
        return True
