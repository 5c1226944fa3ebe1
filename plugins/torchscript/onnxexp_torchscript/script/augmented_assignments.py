"""Augmented assignments, compiled by torch.jit.script as Python runs them.

torch.jit.script drops ``x[0] ^= y``, ``|=``, ``&=`` and ``**=``, compiles ``x ^= y`` of a tensor out of place, so that views of
`x` keep their values, and ``x %= y`` as ``fmod_``, which has the sign of `x`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from torch._C._jit_tree_views import Apply, Assign, BinOp, ExprStmt, Ident, If, Select, SourceRangeFactory, Subscript, Var
from torch.jit.frontend import ExprBuilder, StmtBuilder, build_expr

_METHODS = {
    ast.BitXor: "bitwise_xor_",
    ast.BitOr: "bitwise_or_",
    ast.BitAnd: "bitwise_and_",
    ast.Pow: "pow_",
    ast.Mod: "remainder_",
}
_NAME = "Tensor"


def augmented_assignments() -> Iterator[tuple[Any, str, Any]]:
    """Yield the replacement (owner, name, function) in torch's compiler."""
    yield StmtBuilder, "build_AugAssign", staticmethod(_built_by(StmtBuilder.build_AugAssign))


def _built_by(original: Callable[[Any, ast.AugAssign], Any]) -> Callable[[Any, ast.AugAssign], Any]:
    """Return a builder of ``x[i] = x[i] ^ y``, or of an in-place method of a tensor."""

    def build(ctx: Any, stmt: ast.AugAssign) -> Any:
        method = _METHODS.get(type(stmt.op))
        if method is None:
            return original(ctx, stmt)
        target, value = build_expr(ctx, stmt.target), build_expr(ctx, stmt.value)
        where = target.range()
        if isinstance(target, Subscript):
            return Assign([target], BinOp(ExprBuilder.binop_map[type(stmt.op)], target, value))
        tensor = Var(Ident(SourceRangeFactory(_NAME, None, 0, 0).make_raw_range(0, len(_NAME)), _NAME))
        is_tensor = Apply(Var(Ident(where, "isinstance")), [target, tensor], [])
        return If(where, is_tensor, [ExprStmt(Apply(Select(target, Ident(where, method)), [value], []))], [original(ctx, stmt)])

    return build
