"""`Case`: something to compute, and the check that its export computes the same."""

from __future__ import annotations

import dataclasses
import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import onnx
import torch
from torch._library.custom_ops import CustomOpDef

import onnxexp

__all__ = ["OPSETS", "Case", "cases", "cases_of", "check_case"]

OPSETS = (9, 11, 13, 18, 20, 23)
"""The opsets of a case that names none: each brought changes to many operators."""

RUNNABLE = 26
"""The last opset that ONNX Runtime is asked to run; what is exported beyond it goes through onnx's checker only."""

Emitted: TypeAlias = Mapping[str, int] | set[str] | frozenset[str]
"""The ONNX operators of a graph, with how many there are of each, or without."""


class Case:
    """A function, example inputs, and what is expected of its export.

    Args:
        fn: A function or an `nn.Module`.
        inputs: Its arguments: tensors (graph inputs) and constants.
        dynamic: The dynamic axes by the position of the input, ``{0: [0, 2]}``: the case is then also exported with them
            dynamic and checked at sizes that were not seen; None for static only.
        opsets: The target opsets that the function must export at, 9 to 28; above 26, where ONNX Runtime ends, only onnx's
            checker looks at the result.
        emits: The ONNX operators that the graph must consist of: a set, or a dict of how many there are of each
            (``{"Gemm": 2, "Relu": 1}``), at the highest of the opsets; ``{9: {"Erf", "Mul"}, 20: {"Gelu"}}`` from these opsets
            on. An operator of another domain is ``domain::Name``. None: any.
        rtol, atol: The tolerances against eager; by dtype where not given, as `torch.testing.assert_close`.
        xfail: Why the case cannot pass yet (for `cases`; a case that passes all the same is then a failure).
        plugins: As for `onnxexp.export`; None: every installed one.
        name: What pytest and messages show; the function's where not given.

    Raises ValueError for opsets, axes or positions that there are not.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        *inputs: Any,
        dynamic: Mapping[int, Sequence[int]] | None = None,
        opsets: Sequence[int] = OPSETS,
        emits: Emitted | Mapping[int, Emitted] | None = None,
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
        self.rtol, self.atol = (rtol, atol) if rtol is None or atol is not None else (rtol, rtol)
        self.xfail = xfail
        self.plugins = plugins
        self.name = name or _name(fn)
        self._check()
        self.emits = self._by_opset(emits)

    def grown(self) -> tuple[Any, ...]:
        """The inputs with every dynamic axis one longer (the first slice again at the end)."""
        inputs = list(self.inputs)
        for position, axes in (self.dynamic or {}).items():
            for axis in axes:
                tensor = inputs[position]
                inputs[position] = torch.cat([tensor, tensor.narrow(axis, 0, 1)], axis)
        return tuple(inputs)

    def model(self) -> torch.nn.Module:
        """The function as a module."""
        return self.fn if isinstance(self.fn, torch.nn.Module) else _Function(self.fn)

    def arguments(self, opset: int, *, dynamic: bool) -> dict[str, Any]:
        """What `onnxexp.export` is called with besides the model, for this opset."""
        shapes: Any = None
        if dynamic:
            axes = {position: dict.fromkeys(axes, torch.export.Dim.DYNAMIC) for position, axes in (self.dynamic or {}).items()}
            per_input = tuple(axes.get(position) for position in range(len(self.inputs)))
            shapes = per_input if isinstance(self.fn, torch.nn.Module) else (per_input,)
        return {"args": _copy(self.inputs), "opset_version": opset, "dynamic_shapes": shapes, "plugins": self.plugins}

    def emitted_at(self, opset: int) -> Emitted | None:
        """The ONNX operators that are expected at an opset, None where any may be."""
        fitting = [first for first in self.emits if first <= opset]
        return self.emits[max(fitting)] if fitting else None

    def runs(self) -> list[tuple[int, bool]]:
        """Every (opset, dynamic) that is checked."""
        return [(opset, dynamic) for opset in self.opsets for dynamic in ((False, True) if self.dynamic else (False,))]

    def _by_opset(self, emits: Emitted | Mapping[int, Emitted] | None) -> dict[int, Emitted]:
        if emits is None:
            return {}
        if isinstance(emits, Mapping) and all(isinstance(key, int) for key in emits):
            return dict(emits)  # type: ignore[arg-type]
        return {max(self.opsets): emits}  # type: ignore[dict-item]

    def _check(self) -> None:
        strange = [opset for opset in self.opsets if not 9 <= opset <= 28]
        if strange or not self.opsets:
            raise ValueError(f"the case {self.name}: opsets are some of 9 to 28, not {strange or 'none at all'}")
        for position, axes in (self.dynamic or {}).items():
            given = self.inputs[position] if 0 <= position < len(self.inputs) else None
            if not isinstance(given, torch.Tensor) or not all(-given.dim() <= axis < given.dim() for axis in axes):
                raise ValueError(f"the case {self.name}: dynamic names axes {list(axes)} of input {position}, which has no such")

    def __repr__(self) -> str:
        return f"Case({self.name})"


def _name(fn: Callable[..., Any]) -> str:
    if isinstance(fn, CustomOpDef):
        return fn._name
    return str(getattr(fn, "__name__", type(fn).__name__))  # a module, or another object that can be called, has none


class _Function(torch.nn.Module):
    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, *args: Any) -> Any:
        return self.fn(*args)


def check_case(case: Case, opset: int | None = None, *, dynamic: bool | None = None) -> onnxexp.ONNXProgram:
    """Export, run onnx's full checker and ONNX Runtime, and compare with eager.

    Args:
        case: What to check.
        opset: Only this opset; None: every opset of the case.
        dynamic: Only with or only without dynamic axes; None: without, and where no opset is given also with those that the
            case has.

    Returns:
        The program; of several the last: at the last of the opsets, dynamic where the case is.

    Raises:
        AssertionError: something differs. It says at which opset, static or dynamic, and what; of several runs it lists every
            one that fails.
        OnnxExporterError: the export itself failed (with an opset given).
    """
    if opset is not None:
        return _run(case, opset, bool(dynamic))
    failures, program = [], None
    for each, grows in case.runs():
        if dynamic in (None, grows):
            try:
                program = _run(case, each, grows)
            except AssertionError as error:
                failures.append(str(error))
            except onnxexp.OnnxExporterError as error:
                failures.append(f"{_place(case, each, grows)}: the export fails: {error}")
    if failures:
        raise AssertionError("\n".join(failures))
    if program is None:
        raise ValueError(f"the case {case.name} has no dynamic axes")
    return program


def _run(case: Case, opset: int, dynamic: bool) -> onnxexp.ONNXProgram:
    place, model = _place(case, opset, dynamic), case.model()
    program = onnxexp.export(model, **case.arguments(opset, dynamic=dynamic))
    try:
        onnx.checker.check_model(program.model_proto, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise AssertionError(f"{place}: onnx's checker refuses the model: {error}") from error
    if opset <= RUNNABLE:
        for inputs in [case.inputs, case.grown()] if dynamic else [case.inputs]:
            _compare(case, place, program, model, inputs)
    _check_emitted(case, place, program, opset)
    return program


def _place(case: Case, opset: int, dynamic: bool) -> str:
    return f"{case.name} at opset {opset}, {'dynamic' if dynamic else 'static'}"


def _compare(case: Case, place: str, program: onnxexp.ONNXProgram, model: torch.nn.Module, inputs: tuple[Any, ...]) -> None:
    fed = ", ".join(str(list(each.shape)) if isinstance(each, torch.Tensor) else repr(each) for each in inputs)
    with torch.no_grad():
        expected = model(*_copy(inputs))
    try:
        actual = program(*_copy(inputs))
    except onnxexp.OnnxExporterError as error:
        raise AssertionError(f"{place}, for inputs {fed}: {error}") from error
    torch.testing.assert_close(
        actual,
        expected,
        rtol=case.rtol,
        atol=case.atol,
        equal_nan=True,
        msg=lambda text: f"{place}, for inputs {fed}: ONNX Runtime and eager differ. {text}",
    )


def _check_emitted(case: Case, place: str, program: onnxexp.ONNXProgram, opset: int) -> None:
    expected = case.emitted_at(opset)
    if expected is None:
        return
    found = Counter(f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in program.model.graph)
    same = found == Counter(dict(expected)) if isinstance(expected, Mapping) else set(found) == set(expected)
    if not same:
        counts = dict(sorted(found.items()))
        raise AssertionError(f"{place}: the graph consists of {counts}, expected {expected!r}")


def _copy(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Clones: a function may write into its arguments."""
    return tuple(arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in inputs)


@dataclasses.dataclass(frozen=True)
class CaseRow:
    """A case at one opset, static or dynamic: what `cases` gives a test as `check`."""

    case: Case
    opset: int
    dynamic: bool

    def __call__(self) -> onnxexp.ONNXProgram:
        return check_case(self.case, self.opset, dynamic=self.dynamic)


def cases(*listed: Case) -> Any:
    """A pytest decorator: the test gets `check`, once for each case, opset and (static, dynamic)."""
    import pytest

    return pytest.mark.parametrize("check", _Listed(_parameters(listed, pytest)))


class _Listed(list[Any]):
    """The parameters that `cases` made, as `cases_of` knows them again."""


def _parameters(listed: Sequence[Case], pytest: Any) -> Iterator[Any]:
    names: dict[str, int] = {}
    for case in listed:
        number = names[case.name] = names.get(case.name, -1) + 1
        marks = [pytest.mark.xfail(reason=case.xfail, strict=True)] if case.xfail else []
        for opset, dynamic in case.runs():
            label = f"{case.name}{number or ''}-{opset}{'-dynamic' if dynamic else ''}"
            yield pytest.param(CaseRow(case, opset, dynamic), id=label, marks=marks)


def cases_of(*tests: Any) -> list[Case]:
    """The cases that test functions were decorated with; for a module those of all its functions."""
    functions = [
        function
        for test in tests
        for function in (vars(test).values() if inspect.ismodule(test) else [test])
        if callable(function)
    ]
    marks = [mark for function in functions for mark in getattr(function, "pytestmark", ())]
    parameters = [parameter for mark in marks for given in mark.args if isinstance(given, _Listed) for parameter in given]
    return list(dict.fromkeys(check.case for parameter in parameters for check in parameter.values))
