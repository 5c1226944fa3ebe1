"""Evaluate conditions on sizes at samples of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

import sympy  # type: ignore[import-untyped]
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.numbers import int_oo

from onnxexp._torch_export.symbol_names import InputSize

STEPS = (*range(32), 62, 98, 126, 254, 997, 4094, 100_000)
"""Offsets from the least size at which a condition is evaluated; one that holds at all of them counts as always true."""
LEAST, _LEAST_NUMBER = 2, -40
"""The least sample of a size and of a number. torch.export assumes no size of 0 or 1; an input number may be negative.
Where squeeze and chunk compare a size with 1, the samples include 1."""


def always_holds(
    env: ShapeEnv, expr: sympy.Expr, samples: Mapping[sympy.Symbol, list[sympy.Integer]], known: Iterable[sympy.Expr]
) -> bool:
    """Return whether a condition follows from the `known` ones at all samples.

    The sizes are changed together and one by one.
    """
    example = {symbol: env.backed_var_to_val[symbol] for symbol in expr.free_symbols}
    sizes = {symbol: samples[symbol] for symbol in example if symbol in samples}
    together = (dict(zip(sizes, point, strict=True)) for point in zip(*sizes.values(), strict=False))
    alone = ({**example, symbol: size} for symbol in sizes for size in sizes[symbol] if len(sizes) > 1)
    points = itertools.chain(together, alone)
    return all(
        holds(expr, point) or not all(holds(other, {**env.backed_var_to_val, **point}) for other in known) for point in points
    )


def sample_sizes(size: InputSize, least: int) -> list[sympy.Integer]:
    """Return the sample sizes of an axis within the user's range."""
    low, high = size.range
    low = max(low, least if size.axis is not None else _LEAST_NUMBER)
    steps = [low + step for step in STEPS if low + step <= high]
    return [sympy.Integer(step) for step in (*steps, *([high] if high < int_oo else ()))]


def holds(expr: sympy.Expr, sizes: Mapping[sympy.Symbol, sympy.Integer]) -> bool:
    """Return whether a condition holds at these sizes.

    True where it cannot be computed (the remainder of a negative size): eager does not accept such sizes.
    """
    try:
        return expr.xreplace(sizes) is not sympy.false
    except (ArithmeticError, AssertionError, TypeError, ValueError):
        return True
