"""Choose a larger example for derived sizes of 0 and 1, and for sums of sizes.

torch.export takes a size of 0 or 1 for always 0 or 1. The axes of the inputs are captured at 2 or more (see `example_inputs`). A
size that is computed from them, such as an image's height after pooling, needs a larger input. An axis that is the sum of two
others, such as a mask for past and new tokens, has to grow with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from onnxexp.capture.example_inputs import derivation, grow
from onnxexp.capture.torch_export.guard_warnings import conditions, shape_env, unit_sizes
from onnxexp.capture.torch_export.symbol_names import input_sizes
from onnxexp.request.axis_spec import Axis
from onnxexp.request.dynamic_shapes import DynamicSpec

__all__ = ["holds_at_example", "larger_sizes", "with_sizes"]

_Place = tuple[int, int]  # the index of an input, and the axis


def larger_sizes(program: ExportedProgram, spec: DynamicSpec) -> dict[_Place, int]:
    """Return sizes of the inputs for another capture; empty if none is needed.

    Derived sizes are 2 or more where a factor serves. Conditions on sums of sizes hold as at the user's sizes. Axes of one name
    and size grow together.
    """
    values, own, groups = shape_env(program).backed_var_to_val, _own_sizes(program, spec), {}
    for place, size, request in _symbolic_sizes(program, spec):
        if request is not None and derivation(request.dim) is None:
            groups[size.node._expr] = (request.name or place, values[size.node._expr])
    sizes = dict(values)
    for unit in unit_sizes(program):
        used, grown = {groups.get(symbol) for symbol in unit.free_symbols}, sizes
        for _ in range(4):
            if not _at_least_two(unit, grown):
                grown = {symbol: size * (2 if groups.get(symbol, 0) in used else 1) for symbol, size in grown.items()}
        sizes = grown if _at_least_two(unit, grown) else sizes
    for expr in conditions(program, spec, every=True):
        if expr.xreplace(own) is sympy.false and isinstance(expr, sympy.core.relational.Relational):
            difference = expr.lhs - expr.rhs
            excess = difference.xreplace(sizes) - difference.xreplace(own)
            terms = [symbol for symbol in sorted(expr.free_symbols, key=str) if difference.coeff(symbol) * excess == -abs(excess)]
            alike = groups.get(terms[0]) if terms else None
            sizes.update({symbol: sizes[symbol] + abs(excess) for symbol, key in groups.items() if key == alike})
    return (
        {place: int(size.node.expr.xreplace(sizes)) for place, size, _ in _symbolic_sizes(program, spec)}
        if sizes != values
        else {}
    )


def with_sizes(args: Any, kwargs: Any, sizes: Mapping[_Place, int]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the example with these sizes of its tensors."""
    flat, structure = pytree.tree_flatten((tuple(args), dict(kwargs)))
    for (index, axis), size in sizes.items():
        flat[index] = grow(flat[index], axis, size)
    return pytree.tree_unflatten(flat, structure)  # type: ignore[no-any-return]


def holds_at_example(program: ExportedProgram, spec: DynamicSpec) -> bool:
    """Whether a program is right at the sizes of the user's example."""
    own = _own_sizes(program, spec)
    return not any(expr.xreplace(own) is sympy.false for expr in conditions(program, spec, every=True))


def _own_sizes(program: ExportedProgram, spec: DynamicSpec) -> dict[sympy.Symbol, sympy.Integer]:
    found = _symbolic_sizes(program, spec)
    return {size.node._expr: sympy.Integer(spec.leaves[index].value.shape[axis]) for (index, axis), size, _ in found}


def _at_least_two(size: sympy.Expr, values: Mapping[sympy.Symbol, sympy.Integer]) -> bool:
    return all(factor.xreplace(values) >= 2 for factor in sympy.Mul.make_args(size) if factor.free_symbols)


def _symbolic_sizes(program: ExportedProgram, spec: DynamicSpec) -> Iterator[tuple[_Place, torch.SymInt, Axis | None]]:
    indices = {leaf.path: index for index, leaf in enumerate(spec.leaves)}
    for leaf, axis, size, request in input_sizes(program, spec):
        if axis is not None and isinstance(size, torch.SymInt):
            yield (indices[leaf.path], axis), size, request
