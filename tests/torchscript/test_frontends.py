"""The aten plugin's cases have equal graphs by torch.export and by a trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from onnxexp.testing import Case
from tests.torch_versions import needs_torch

from .frontends import aten_cases, text_of

BAKED = "`item()` of a tensor is a Python number while tracing, so the example's value is in the graph (the user is warned)"
REFLECTED = "a size is a tensor while tracing, so `size + x` calls its own `__add__`: the operands change places"
NO_CONTROL_FLOW = "torch.cond goes through dynamo, whose functions torch.jit.trace refuses"
SYMBOLIC_NUMBERS = "torch.sym_ite takes symbolic numbers; the tracer's sizes are tensors"
NO_LISTS_OF_BOOLS = "torch's tracer cannot write down a call with a list of bools, and refuses it"
NO_LISTS_OF_NUMBERS = "torch's tracer cannot write down a call with a list of Python numbers, and refuses it"
ONE_LEVEL_BELOW = "the tracer sees the operator that `pinv` calls, with an absolute tolerance of 0 that then stands in the graph"
WHOLE_BROADCAST = "a trace keeps broadcast_tensors whole, and which argument's memory a result has is not certain there"
BYTES = "torch.export's kernels without data gather with int32 and int64 only, and so refuse labels in bytes, which eager takes"

PERMITTED: dict[tuple[str, str], str] = {
    ("math.python_scalars", "taken_out"): BAKED,
    ("math.python_scalars", "kept_a_tensor"): BAKED,
    ("shape.views_and_slices", "numel"): REFLECTED,
    ("shape.views_and_slices", "size"): REFLECTED,
    ("linalg.factorization", "pinv (2, 5, 5)"): ONE_LEVEL_BELOW,
    ("linalg.factorization", "pinv (3, 6, 4)"): ONE_LEVEL_BELOW,
    ("linalg.factorization", "pinv (6, 5)"): ONE_LEVEL_BELOW,
    ("linalg.factorization", "pinv, hermitian"): ONE_LEVEL_BELOW,
    ("operators_by_name", "_local_scalar_dense"): BAKED,
    **{("operators_by_name", name): NO_CONTROL_FLOW for name in ("le", "ge", "eq", "and", "or", "not")},
    **{("nn.backward", f"conv{name}"): NO_LISTS_OF_BOOLS for name in ("", "1d", "_transpose", "_with_everything")},
    ("nn.backward", "conv_transpose_with_everything"): NO_LISTS_OF_BOOLS,
    ("reduction.differences", "slopes_of_own_gaps"): NO_LISTS_OF_NUMBERS,
    **{
        ("nn.classification_losses", f"{loss}_reduction_{reduction}_bytes"): BYTES
        for loss in ("cross_entropy", "nll_loss")
        for reduction in ("none", "mean", "sum")
    },
    ("operators_by_name", "ite"): SYMBOLIC_NUMBERS,
    ("shape.diagonals", "as_strided_broadcast"): WHOLE_BROADCAST,
    ("operators_by_name", "random.from"): "torch.export writes Python code with the argument's name, which is Python's `from`",
    ("operators_by_name", "round"): "the tracer's sizes are tensors, which Python's round() refuses",
}
"""The differences that are allowed, by the test module and the case, each with its reason."""

QUANTILES = needs_torch((2, 12), "torch.export refuses quantiles of a size that is not known")


def by_module() -> dict[str, list[Case]]:
    """Return the cases that must not differ, by module."""
    found: dict[str, list[Case]] = {}
    for name, case in aten_cases():
        module = name.partition("-")[0]
        if (module, case.name) not in PERMITTED:
            found.setdefault(module, []).append(case)
    return found


def rows() -> Iterator[Any]:
    """Yield each tenth case of a module; the others are in the full tier.

    All 1,844 cases together take 100 s.
    """
    for module, cases in sorted(by_module().items()):
        yield pytest.param(cases[::10], id=module, marks=QUANTILES if module == "statistics.quantiles" else [])
        rest = [case for number, case in enumerate(cases) if number % 10]
        if rest:
            yield pytest.param(rest, id=f"{module}-others", marks=pytest.mark.full)


@pytest.mark.parametrize("cases", rows())
def test_the_same_graph_through_both_frontends(cases: list[Case]) -> None:
    for case in cases:
        exported, traced = text_of(case, "export"), text_of(case, "trace")
        assert traced == exported, f"{case.name}: the trace gives\n{traced}\nand torch.export\n{exported}"


def test_no_permitted_difference_is_out_of_date() -> None:
    known = {(name.partition("-")[0], case.name) for name, case in aten_cases()}
    assert PERMITTED.keys() <= known
