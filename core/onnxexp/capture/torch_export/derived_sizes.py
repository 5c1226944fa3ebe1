"""Choose a larger example for derived sizes of 0 and 1, and for sums of sizes.

torch.export takes a size of 0 or 1 for always 0 or 1. The axes of the inputs are captured at 2 or more (see `example_inputs`). A
size that is computed from them, such as an image's height after pooling, needs a larger input. An axis that is the sum of two
others, such as a mask for past and new tokens, has to grow with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy  # type: ignore[import-untyped]
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from onnxexp.capture.example_inputs import derivation, grow
from onnxexp.capture.torch_export.fake_values import shape_env
from onnxexp.capture.torch_export.guard_warnings import conditions, unit_sizes
from onnxexp.capture.torch_export.symbol_names import input_sizes, input_symbols
from onnxexp.request.dynamic_shapes import DynamicSpec

__all__ = ["holds_at_example", "larger_sizes", "with_sizes"]


def larger_sizes(program: ExportedProgram, spec: DynamicSpec) -> dict[tuple[int, int], int]:
    """Return sizes for another capture by leaf and axis; empty if none is needed.

    Derived sizes are 2 or more where a factor serves. Conditions on sums of sizes hold as at the user's sizes. Axes of one name
    and size grow together.
    """
    symbols, values, groups = input_symbols(program, spec), shape_env(program).backed_var_to_val, {}
    own = {symbol: sympy.Integer(size.given) for symbol, size in symbols.items()}
    for symbol, size in symbols.items():
        if size.axis is not None and size.request is not None and derivation(size.request.dim) is None:
            groups[symbol] = (size.name, values[symbol])
    sizes = dict(values)
    for unit in unit_sizes(program):
        used = {groups[symbol] for symbol in unit.free_symbols & groups.keys()}
        grown = [{s: size * (factor if groups.get(s) in used else 1) for s, size in sizes.items()} for factor in (1, 2, 4, 8, 16)]
        factors = [factor for factor in sympy.Mul.make_args(unit) if factor.free_symbols]
        sizes = next((trial for trial in grown if all(factor.xreplace(trial) >= 2 for factor in factors)), sizes)
    for expr in conditions(program, spec, known=True):
        if expr.xreplace(own) is sympy.false and isinstance(expr, sympy.core.relational.Relational):
            difference = expr.lhs - expr.rhs
            excess = difference.xreplace(sizes) - difference.xreplace(own)
            terms = [symbol for symbol in sorted(expr.free_symbols, key=str) if difference.coeff(symbol) * excess == -abs(excess)]
            alike = groups.get(terms[0]) if terms else None
            sizes.update({symbol: sizes[symbol] + abs(excess) for symbol, key in groups.items() if key == alike})
    if sizes == values:
        return {}
    found = input_sizes(program, spec)
    return {(size.index, size.axis): int(size.expr.xreplace(sizes)) for size in found if size.axis is not None}


def with_sizes(args: Any, kwargs: Any, sizes: Mapping[tuple[int, int], int]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the example with these sizes of its tensors."""
    flat, structure = pytree.tree_flatten((tuple(args), dict(kwargs)))
    for (index, axis), size in sizes.items():
        flat[index] = grow(flat[index], axis, size)
    return pytree.tree_unflatten(flat, structure)  # type: ignore[no-any-return]


def holds_at_example(program: ExportedProgram, spec: DynamicSpec) -> bool:
    """Whether a program is right at the sizes of the user's example."""
    own = {symbol: sympy.Integer(size.given) for symbol, size in input_symbols(program, spec).items()}
    return not any(expr.xreplace(own) is sympy.false for expr in conditions(program, spec, known=True))
