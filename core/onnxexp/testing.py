"""The kit for authors of symbolics: say what to compute, and every claimed opset is checked against eager.

from onnxexp.testing import Case, cases

@cases(Case(torch.abs, torch.randn(3, 4), dynamic={0: [0]}), Case(...))
def test_abs(check):
    check()
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import onnx
import torch

import onnxexp

__all__ = ["OPSETS", "Case", "cases", "check_case"]

OPSETS = (9, 11, 13, 18, 20, 23)
"""The opsets of a case that names none: each brought changes to many operators."""


class Case:
    """A function, example inputs, and what is expected of its export.

    Args:
        fn: A function or an `nn.Module`.
        inputs: Its arguments: tensors (graph inputs) and constants.
        dynamic: The dynamic axes by the position of the input, ``{0: [0, 2]}``: the case is then also exported with them
            dynamic and checked at sizes that were not seen; None for static only.
        opsets: The target opsets that the function must export at.
        emits: ONNX operators that the graph must consist of at the highest of the opsets (a set), None to not look.
        rtol, atol: The tolerances against eager; by dtype where not given, as `torch.testing.assert_close`.
        xfail: Why the case cannot pass yet.
        plugins: As for `onnxexp.export`.
        name: What pytest shows.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        *inputs: Any,
        dynamic: Mapping[int, Sequence[int]] | None = None,
        opsets: Sequence[int] = OPSETS,
        emits: set[str] | None = None,
        rtol: float | None = None,
        atol: float | None = None,
        xfail: str = "",
        plugins: Sequence[Any] | None = None,
        name: str = "",
    ) -> None:
        self.fn = fn
        self.inputs = inputs
        self.dynamic = dynamic
        self.opsets = tuple(opsets)
        self.emits = emits
        self.rtol, self.atol = (rtol, atol) if rtol is None or atol is not None else (rtol, rtol)
        self.xfail = xfail
        self.plugins = plugins
        self.name = name or str(getattr(fn, "__name__", type(fn).__name__))

    def grown(self) -> tuple[Any, ...]:
        """The inputs with every dynamic axis one longer (the first slice again at the end)."""
        inputs = list(self.inputs)
        for position, axes in (self.dynamic or {}).items():
            for axis in axes:
                tensor = inputs[position]
                inputs[position] = torch.cat([tensor, tensor.narrow(axis, 0, 1)], axis)
        return tuple(inputs)


class _Function(torch.nn.Module):
    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, *args: Any) -> Any:
        return self.fn(*args)


def check_case(case: Case, opset: int, *, dynamic: bool = False) -> onnxexp.ONNXProgram:
    """Export at one opset, run onnx's full checker and ONNX Runtime, compare with eager; returns the program.

    Raises AssertionError where something differs.
    """
    model = case.fn if isinstance(case.fn, torch.nn.Module) else _Function(case.fn)
    shapes: Any = None
    if dynamic:
        axes = {position: dict.fromkeys(axes, torch.export.Dim.DYNAMIC) for position, axes in (case.dynamic or {}).items()}
        per_input = tuple(axes.get(position) for position in range(len(case.inputs)))
        shapes = per_input if isinstance(case.fn, torch.nn.Module) else (per_input,)
    program = onnxexp.export(model, _copy(case.inputs), opset_version=opset, dynamic_shapes=shapes, plugins=case.plugins)
    onnx.checker.check_model(program.model_proto, full_check=True)
    for inputs in [case.inputs, case.grown()] if dynamic else [case.inputs]:
        with torch.no_grad():
            expected = model(*_copy(inputs))
        torch.testing.assert_close(program(*_copy(inputs)), expected, rtol=case.rtol, atol=case.atol, equal_nan=True)
    if case.emits is not None and opset == max(case.opsets):
        found = {node.op_type for node in program.model.graph}
        assert found == case.emits, f"the graph at opset {opset} consists of {sorted(found)}, expected {sorted(case.emits)}"
    return program


def _copy(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Clones: a function may write into its arguments."""
    return tuple(arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in inputs)


@dataclasses.dataclass(frozen=True)
class _Check:
    case: Case
    opset: int
    dynamic: bool

    def __call__(self) -> onnxexp.ONNXProgram:
        return check_case(self.case, self.opset, dynamic=self.dynamic)


def cases(*listed: Case) -> Any:
    """A pytest decorator: the test gets `check`, once for each case, opset and (static, dynamic)."""
    import pytest

    return pytest.mark.parametrize("check", list(_parameters(listed, pytest)))


def _parameters(listed: Sequence[Case], pytest: Any) -> Iterator[Any]:
    names: dict[str, int] = {}
    for case in listed:
        number = names[case.name] = names.get(case.name, -1) + 1
        marks = [pytest.mark.xfail(reason=case.xfail, strict=True)] if case.xfail else []
        for opset in case.opsets:
            for dynamic in (False, True) if case.dynamic else (False,):
                label = f"{case.name}{number or ''}-{opset}{'-dynamic' if dynamic else ''}"
                yield pytest.param(_Check(case, opset, dynamic), id=label, marks=marks)
