"""Sizes that torch.export fixes or assumes, and larger examples that avoid this.

torch.export refuses a model that fixes a dynamic axis itself (``x.shape[2] == 5``). Behind a stride of 2 the same line is a
condition on ``h//2``, which torch records as a guard: the axis stays dynamic in name only.

torch.export takes a size of 0 or 1 for always 0 or 1. The axes of the inputs are captured at 2 or more (see `example_inputs`). A
size that is computed from them, such as an image's height after pooling, needs a larger input. An axis that is the sum of two
others, such as a mask for past and new tokens, has to grow with them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

import sympy  # type: ignore[import-untyped]
import torch
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from onnxexp._capture.source_lines import node_location
from onnxexp._errors import CaptureError
from onnxexp._request.dynamic_shapes import DynamicSpec
from onnxexp._torch_export.guard_warnings import conditions, unit_sizes
from onnxexp._torch_export.program_modes import shape_env
from onnxexp._torch_export.squeezed_axes import compared_with_one
from onnxexp._torch_export.symbol_names import input_sizes, input_symbols

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


_ASSERTION = re.compile(r"Runtime assertion failed for expression (.+?) on node")
_FIXED_SIZE = re.compile(r"expression Eq\(u\d+, \d+\)")


class _Run(torch.fx.Interpreter):
    """A run of a program that keeps the first node with a rank that was not captured."""

    extra_traceback = False
    differs: torch.fx.Node | None = None

    def run_node(self, n: torch.fx.Node) -> Any:
        result, captured = super().run_node(n), n.meta.get("val")
        if isinstance(result, torch.Tensor) and isinstance(captured, torch.Tensor) and result.dim() != captured.dim():
            self.differs = self.differs or n
        return result


def check_assumed_sizes(program: ExportedProgram, args: Any, kwargs: Any) -> None:
    """Run the example if the program assumes sizes that depend on values.

    torch takes such a size for that of the axis which it broadcasts with, though it may be 1, and assumes that squeeze keeps it.

    Raises:
        CaptureError: The size is another one in the example.
    """
    if not any(map(_assumes, program.graph.nodes)):
        return
    module = program.module()
    for part in module.modules():  # the run may write into buffers, which are the model's own
        part._buffers = {name: each if each is None else each.clone() for name, each in part._buffers.items()}
    run = _Run(module)
    arguments = pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
    try:
        run.run(*pytree.tree_leaves(arguments))
    except Exception as error:  # noqa: BLE001 - operators that stand for others in a capture cannot run
        failed = _ASSERTION.search(str(error))
        if failed is not None:
            text = f"torch.export assumes {failed[1]} of a size that depends on values, which the example contradicts"
            fix = 'expand() the tensor before that line, or use capture="trace"'
            raise CaptureError(f"{text}; to fix this, {fix}") from None
    if run.differs is not None:
        text = "squeeze() removes an axis here that has one element in the example, while its size depends on values"
        fix = "select the element (x[0]), or give an example with more elements"
        raise CaptureError(f"{node_location(run.differs)}: {text}; to fix this, {fix}")


def _assumes(node: torch.fx.Node) -> bool:
    """Return whether a node assumes a size that depends on values."""
    if "_assert_scalar" in str(node.target):
        return _FIXED_SIZE.search(str(node.args[1:])) is not None
    return any(map(free_unbacked_symbols, compared_with_one(node)))


_Sizes: TypeAlias = dict[sympy.Symbol, Any]


def larger_sizes(program: ExportedProgram, spec: DynamicSpec) -> dict[tuple[int, int], int]:
    """Return sizes for another capture by leaf and axis, empty if it is not needed.

    Derived sizes are 2 or more if a factor can make them so. Conditions on sums of sizes hold as at the user's sizes.
    """
    values = shape_env(program).backed_var_to_val
    groups = {  # axes of one name and size grow together
        symbol: (size.name, values[symbol])
        for symbol, size in input_symbols(program, spec).items()
        if size.axis is not None and size.request is not None and size.request.derived is None
    }
    sizes = dict(values)
    for unit in unit_sizes(program):
        _enlarge(unit, sizes, groups)
    own = _own_sizes(program, spec)
    for expr in conditions(program, spec, known=True):
        if expr.xreplace(own) is sympy.false and isinstance(expr, sympy.core.relational.Relational):
            _restore_difference(expr.lhs - expr.rhs, own, sizes, groups)
    if sizes == values:
        return {}
    found = input_sizes(program, spec)
    return {(size.index, size.axis): int(size.expr.xreplace(sizes)) for size in found if size.axis is not None}


def _enlarge(unit: sympy.Expr, sizes: _Sizes, groups: _Sizes) -> None:
    """Multiply the sizes in a derived size until its factors are 2 or more."""
    used = {groups[symbol] for symbol in unit.free_symbols & groups.keys()}
    parts = [part for part in sympy.Mul.make_args(unit) if part.free_symbols]
    for factor in (1, 2, 4, 8, 16):
        trial = {symbol: size * (factor if groups.get(symbol) in used else 1) for symbol, size in sizes.items()}
        with contextlib.suppress(ZeroDivisionError):  # a quotient by a size that is 0
            if all(part.xreplace(trial) >= 2 for part in parts):
                sizes.update(trial)
                return


def _restore_difference(difference: sympy.Expr, own: _Sizes, sizes: _Sizes, groups: _Sizes) -> None:
    """Enlarge one size, so that a difference equals the one at the user's sizes."""
    excess = difference.xreplace(sizes) - difference.xreplace(own)
    terms = [term for term in sorted(difference.free_symbols, key=str) if difference.coeff(term) * excess == -abs(excess)]
    group = groups.get(terms[0]) if terms else None
    sizes.update({symbol: sizes[symbol] + abs(excess) for symbol, each in groups.items() if each == group})


def _own_sizes(program: ExportedProgram, spec: DynamicSpec) -> _Sizes:
    """Return the sizes of the user's example by symbol."""
    return {symbol: sympy.Integer(size.given) for symbol, size in input_symbols(program, spec).items()}


def holds_at_example(program: ExportedProgram, spec: DynamicSpec) -> bool:
    """Return whether a program is right at the sizes of the user's example."""
    own, env = _own_sizes(program, spec), shape_env(program)
    # torch takes sizes that broadcast for equal, which one of them may not be in the example
    equal = (guard.expr for guard in env.guards if isinstance(guard.expr, sympy.Eq))
    broadcast = (expr for expr in equal if all(side.free_symbols for side in expr.args))
    return not any(expr.xreplace(own) is sympy.false for expr in (*conditions(program, spec, known=True), *broadcast))
