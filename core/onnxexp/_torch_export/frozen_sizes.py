"""Find dynamic axes that an equality over a derived size fixes.

torch.export refuses a model that fixes a dynamic axis itself (``x.shape[2] == 5``). Behind a stride of 2 the same line is a
condition on ``h//2``, which torch records as a guard: the axis stays dynamic in name only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import sympy  # type: ignore[import-untyped]
from torch.export import ExportedProgram

from onnxexp._request.dynamic_shapes import DynamicSpec
from onnxexp._torch_export.guard_warnings import conditions
from onnxexp._torch_export.program_modes import shape_env
from onnxexp._torch_export.symbol_names import input_symbols

_LARGE = range(4096, 4096 + 257)
"""Sizes among which one meets each equality that holds at infinitely many, such as that of a remainder."""
_FIX = (
    "to fix this, write that line for any size (torch.where, torch.cond), "
    "pass an example that takes the branch of all other sizes, "
    "or leave the axis out of dynamic_shapes / dynamic_axes"
)

_LOOP = re.compile(r"\bfor [\w, ()]+ in [^:\n]*(?:\.(?:\w*split\w*|chunk|unbind)|\brange)\(")
"""Code that loops over the pieces of a tensor, or over a range."""


def frozen_sizes(program: ExportedProgram, spec: DynamicSpec) -> str:
    """Return a message on equalities that fix a dynamic axis, or ""."""
    required = {symbol for symbol, size in input_symbols(program, spec).items() if size.request and size.request.required}
    values = shape_env(program).backed_var_to_val
    found = [text for expr, text in conditions(program, spec).items() if expr.free_symbols & required and _bounds(expr, values)]
    reasons = "; ".join(found)
    return f"the model fixes a size that is computed from a dynamic axis: {reasons}; {_FIX}{loop_fix(reasons)}" if found else ""


def loop_fix(reasons: str) -> str:
    """Return the fix that serves loops, where the user's lines in `reasons` have one."""
    return ', or pass capture="script", which keeps the loop' if _LOOP.search(reasons) else ""


def _bounds(expr: sympy.Expr, values: Mapping[sympy.Symbol, sympy.Integer]) -> bool:
    """Return whether an equality holds at no large size, alone or together."""
    if isinstance(expr, sympy.Or):
        return all(_bounds(part, values) for part in expr.args)
    if not isinstance(expr, sympy.Eq):
        return False
    difference, symbols = expr.lhs - expr.rhs, sorted(expr.free_symbols, key=str)
    signs = set()
    for changed in (*([symbol] for symbol in symbols), symbols):
        for size in _LARGE:
            try:
                sign = sympy.sign(difference.xreplace({**values, **dict.fromkeys(changed, sympy.Integer(size))}))
            except (ArithmeticError, AssertionError, TypeError, ValueError):  # eager does not accept this size either
                continue
            signs.add(sign)
            if len(signs) > 1 or sympy.S.Zero in signs:
                return False
    return bool(signs)
