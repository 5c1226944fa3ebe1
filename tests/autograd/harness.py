"""Export a Function through each frontend; run it in ONNX Runtime at unseen sizes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch

import onnxexp
from onnxexp_autograd import plugin
from tests.autograd.functions import Holder
from tests.torch_versions import needs_torch

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
BATCH = {0: "batch"}
STRICT = needs_torch((2, 12), "the compiler refuses an intercepted Function")


@dataclasses.dataclass(frozen=True)
class Case:
    """A model and its inputs; axis 0 of each input is dynamic.

    The graph shows that the symbolic was used: it has the operators in `has`, and none of those in `lacks`.
    """

    name: str
    function: Callable[..., Any]
    inputs: tuple[torch.Tensor, ...] = (X,)
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    dynamic: bool = True
    frontends: tuple[str, ...] = ("non-strict", "strict", "trace")
    full: bool = False


def rows(cases: list[Case]) -> Any:
    """Parametrize a test over the cases by frontend, as `case` and `how`.

    Of the cases with several frontends, the quick tier runs each third one in strict mode.
    """
    found = []
    for number, case in enumerate(cases):
        for how in case.frontends:
            full = case.full or (how == "strict" and len(case.frontends) > 1 and number % 3 > 0)
            marks = [STRICT] * (how == "strict") + [pytest.mark.full] * full
            found.append(pytest.param(case, how, id=f"{case.name}-{how}", marks=marks))
    return pytest.mark.parametrize(("case", "how"), found)


def program(case: Case, how: str) -> onnxexp.ONNXProgram:
    model = Holder(case.function).eval()
    shapes = (tuple(BATCH for _ in case.inputs),) if case.dynamic else None
    if how != "strict":
        capture = "export" if how == "non-strict" else how
        return onnxexp.export(model, case.inputs, dynamic_shapes=shapes, plugins=[plugin, ...], capture=capture)
    dims = (tuple({0: torch.export.Dim.DYNAMIC} for _ in case.inputs),) if case.dynamic else None
    with plugin.capture_context(onnxexp.ExportContext(onnxexp.Options(20))):
        exported = torch.export.export(model, case.inputs, dynamic_shapes=dims, strict=True)
        return onnxexp.export(exported, plugins=[plugin, ...])  # the operators in the program belong to the context


def check(case: Case, how: str) -> None:
    made = program(case, how)
    onnx.checker.check_model(made.model_proto, full_check=True)
    model = Holder(case.function)
    grown = tuple(torch.cat([each, each[:1] * 2]) for each in case.inputs)
    for inputs in (case.inputs, grown) if case.dynamic else (case.inputs,):
        with torch.no_grad():
            expected = model(*(each.clone() for each in inputs))
        torch.testing.assert_close(made(*inputs), expected, atol=1e-4, rtol=1e-4)
    found = {node.op_type for node in made.model.graph.all_nodes()}
    assert found >= set(case.has) and not found & set(case.lacks), found
