"""Export functions at several opsets as test cases, and compare with eager."""

from __future__ import annotations

import dataclasses
import inspect
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import onnx
import torch
from torch._library.custom_ops import CustomOpDef
from torch.utils import _pytree as pytree

import onnxexp
from onnxexp._model.onnxruntime_session import last_opset
from onnxexp.testing._other_sizes import Sizes, inputs_at, sizes_of_one, symbol_values

OPSETS = (9, 11, 13, 18, 20, 23)
"""The default opsets of a case; each of them changed many operators."""

RUNNABLE = 26
"""The last opset that is run. ONNX Runtime 1.31 loads no later one, and 1.32 lacks kernels of these."""

Emitted: TypeAlias = Mapping[str, int] | set[str] | frozenset[str]
"""The ONNX operators of a graph, with or without the count of each."""


class Case:
    """A function, example inputs, and the expected properties of its export.

    Args:
        fn: A function or an `nn.Module`.
        inputs: Its arguments: tensors (graph inputs) and constants.
        dynamic: The dynamic axes by the position of the input, ``{0: [0, 2]}``. The case is then also exported with these axes
            dynamic, and checked at sizes other than the example's: each axis one longer, and each of size 1 that `fn` accepts
            there and the export has not excluded by a warning. None checks the static export only.
        opsets: The target opsets, 9 to 28. Those that the installed onnx does not know are left out; those
            that the installed ONNX Runtime does not load, and those above 26, are validated by onnx's checker only.
        emits: The exact ONNX operators of the graph: a set, or a dict with counts (``{"Gemm": 2, "Relu": 1}``), at the highest
            of the opsets; or a dict by opset, each entry valid from its opset on (``{9: {"Erf", "Mul"}, 20: {"Gelu"}}``). An
            operator of another domain is ``domain::Name``. None allows any.
        rtol, atol: The tolerances against eager; by default those of `torch.testing.assert_close` for the dtype.
        xfail: The reason why the case cannot pass yet (for `cases`, which then fails if the case passes).
        plugins: The plugins, as in `onnxexp.export`; None selects every installed plugin.
        name: The name in pytest and in messages; by default the function's.
        runs: False for operators that ONNX Runtime lacks, as those of another domain: the model is validated by onnx's checker,
            and not run.
        libraries: Files of ONNX Runtime custom operators, which are registered in each session.

    Raises:
        ValueError: An opset, an input position or an axis does not exist.
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
        runs: bool = True,
        libraries: Sequence[str | os.PathLike[str]] = (),
    ) -> None:
        self.fn = fn
        self.inputs = inputs
        self.dynamic = dynamic
        self.opsets = tuple(opsets)
        self.rtol, self.atol = (rtol, atol) if rtol is None or atol is not None else (rtol, rtol)
        self.xfail = xfail
        self.plugins = [*([...] if plugins is None else plugins), _Libraries(libraries)] if libraries else plugins
        self.runnable = runs
        self.name = name or _name(fn)
        self._check()
        self.emits = self._by_opset(emits)

    def grown(self) -> tuple[Any, ...]:
        """Return the inputs with every dynamic axis one longer.

        The first slice is repeated at the end.
        """
        inputs = list(self.inputs)
        for position, axes in (self.dynamic or {}).items():
            for axis in axes:
                tensor = inputs[position]
                inputs[position] = torch.cat([tensor, tensor.narrow(axis, 0, 1)], axis)
        return tuple(inputs)

    def model(self) -> torch.nn.Module:
        """Return the function as a module."""
        return self.fn if isinstance(self.fn, torch.nn.Module) else _Function(self.fn)

    def arguments(self, opset: int, *, dynamic: bool) -> dict[str, Any]:
        """Return the keyword arguments of `onnxexp.export` for this opset."""
        shapes: Any = None
        if dynamic:
            axes = {position: dict.fromkeys(axes, torch.export.Dim.DYNAMIC) for position, axes in (self.dynamic or {}).items()}
            per_input = tuple(axes.get(position) for position in range(len(self.inputs)))
            shapes = per_input if isinstance(self.fn, torch.nn.Module) else (per_input,)
        return {"args": _copy(self.inputs), "opset_version": opset, "dynamic_shapes": shapes, "plugins": self.plugins}

    def emitted_at(self, opset: int) -> Emitted | None:
        """Return the expected ONNX operators at an opset, or None for any."""
        applicable = [first for first in self.emits if first <= opset]
        return self.emits[max(applicable)] if applicable else None

    def runs(self) -> list[tuple[int, bool]]:
        """List every checked (opset, dynamic) pair, at opsets of the installed onnx."""
        known = [opset for opset in self.opsets if opset <= onnx.defs.onnx_opset_version()]
        return [(opset, dynamic) for opset in known for dynamic in ((False, True) if self.dynamic else (False,))]

    def _by_opset(self, emits: Emitted | Mapping[int, Emitted] | None) -> dict[int, Emitted]:
        if emits is None:
            return {}
        if isinstance(emits, Mapping) and all(isinstance(key, int) for key in emits):
            return dict(emits)  # type: ignore[arg-type]
        return {max(self.opsets): emits}  # type: ignore[dict-item]

    def _check(self) -> None:
        invalid = [opset for opset in self.opsets if not 9 <= opset <= 28]
        if invalid or not self.opsets:
            raise ValueError(f"the case {self.name}: opsets must be some of 9 to 28, not {invalid or 'none at all'}")
        for position, axes in (self.dynamic or {}).items():
            value = self.inputs[position] if 0 <= position < len(self.inputs) else None
            if not isinstance(value, torch.Tensor) or not all(-value.dim() <= axis < value.dim() for axis in axes):
                raise ValueError(f"the case {self.name}: input {position} is no tensor with the dynamic axes {list(axes)}")

    def __repr__(self) -> str:
        return f"Case({self.name})"


def _name(fn: Callable[..., Any]) -> str:
    if isinstance(fn, CustomOpDef):
        return fn._name
    return str(getattr(fn, "__name__", type(fn).__name__))  # only functions have a name


class _Libraries:
    """A plugin that registers libraries of custom operators in each session."""

    def __init__(self, libraries: Sequence[str | os.PathLike[str]]) -> None:
        self._libraries = [os.fspath(library) for library in libraries]

    @onnxexp.hookimpl
    def prepare_session(self, options: Any) -> None:
        for library in self._libraries:
            options.register_custom_ops_library(library)


class _Function(torch.nn.Module):
    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, *args: Any) -> Any:
        return self.fn(*args)


def check_case(case: Case, opset: int | None = None, *, dynamic: bool | None = None) -> onnxexp.ONNXProgram:
    """Export a case, validate it, run it in ONNX Runtime, and compare with eager.

    Args:
        case: The case.
        opset: Check this opset only; None checks every opset of the case.
        dynamic: Check only with (True) or only without (False) dynamic axes. None checks without and, unless `opset` is set,
            also with the case's dynamic axes.

    Returns:
        The program of the last check: at the last opset, dynamic if the case is.

    Raises:
        AssertionError: A check failed. The message lists each failure with its opset, static or dynamic.
        OnnxExporterError: The export failed and `opset` is set.
        ValueError: `dynamic` is True and the case has no dynamic axes.
    """
    if opset is not None:
        return _run(case, opset, bool(dynamic))
    failures, program = [], None
    for each, is_dynamic in case.runs():
        if dynamic in (None, is_dynamic):
            try:
                program = _run(case, each, is_dynamic)
            except onnxexp.OnnxExporterError as error:
                failures.append(f"{_title(case, each, is_dynamic)}: the export fails: {error}")
            except AssertionError as error:
                failures.append(str(error))
    if failures:
        raise AssertionError("\n".join(failures))
    if program is None:
        lacking = "dynamic axes" if case.runs() else "opset that the installed onnx knows"
        raise ValueError(f"the case {case.name} has no {lacking}")
    return program


def _run(case: Case, opset: int, dynamic: bool) -> onnxexp.ONNXProgram:
    title, model = _title(case, opset, dynamic), case.model()
    program = onnxexp.export(model, **case.arguments(opset, dynamic=dynamic))
    try:
        onnx.checker.check_model(program.model_proto, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise AssertionError(f"{title}: onnx's checker refuses the model: {error}") from error
    if case.runnable and opset <= min(RUNNABLE, last_opset()):
        for inputs in [case.inputs, case.grown(), *_with_ones(case, program, model)] if dynamic else [case.inputs]:
            _compare(case, title, program, model, inputs)
    _check_emitted(case, title, program, opset)
    return program


def _with_ones(case: Case, program: onnxexp.ONNXProgram, model: torch.nn.Module) -> Iterator[tuple[Any, ...]]:
    """Yield the inputs with as many dynamic axes of size 1 as are accepted."""
    leaves, structure = pytree.tree_flatten(case.inputs)
    example = {slot.name: leaves[slot.leaf] for slot in program.signature.inputs}
    places = {slot.name: slot.leaf for slot in program.signature.inputs}
    proto = program.model_proto

    def inputs(sizes: Sizes) -> tuple[Any, ...]:
        changed = {places[name]: tensor for name, tensor in inputs_at(proto, example, sizes).items()}
        found: tuple[Any, ...] = pytree.tree_unflatten([changed.get(*each) for each in enumerate(leaves)], structure)
        return found

    def accepts(sizes: Sizes) -> bool:
        try:
            program.signature.flatten(inputs(sizes), {})
            with torch.no_grad():
                results = model(*_copy(inputs(sizes)))
        except Exception:  # noqa: BLE001 - the model may refuse sizes by any exception
            return False
        return len(pytree.tree_leaves(results)) == len(program.signature.outputs)

    sizes = sizes_of_one(symbol_values(proto, example), accepts)
    if sizes is not None:
        yield inputs(sizes)


def _title(case: Case, opset: int, dynamic: bool) -> str:
    return f"{case.name} at opset {opset}, {'dynamic' if dynamic else 'static'}"


def _compare(case: Case, title: str, program: onnxexp.ONNXProgram, model: torch.nn.Module, inputs: tuple[Any, ...]) -> None:
    shapes = ", ".join(str(list(each.shape)) if isinstance(each, torch.Tensor) else repr(each) for each in inputs)
    with torch.no_grad():
        expected = model(*_copy(inputs))
    try:
        actual = program(*_copy(inputs))
    except onnxexp.OnnxExporterError as error:
        raise AssertionError(f"{title}, for inputs {shapes}: {error}") from error
    torch.testing.assert_close(
        actual,
        expected,
        rtol=case.rtol,
        atol=case.atol,
        equal_nan=True,
        msg=lambda text: f"{title}, for inputs {shapes}: ONNX Runtime and eager differ. {text}",
    )


def _check_emitted(case: Case, title: str, program: onnxexp.ONNXProgram, opset: int) -> None:
    expected = case.emitted_at(opset)
    if expected is None:
        return
    found = Counter(f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in program.model.graph)
    same = found == Counter(dict(expected)) if isinstance(expected, Mapping) else set(found) == set(expected)
    if not same:
        counts = dict(sorted(found.items()))
        raise AssertionError(f"{title}: the graph consists of {counts}, expected {expected!r}")


def _copy(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Clone the inputs, since a function may write into them."""
    return tuple(arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in inputs)


@dataclasses.dataclass(frozen=True)
class CaseRow:
    """A case at one opset, static or dynamic, the `check` of a test with `cases`."""

    case: Case
    opset: int
    dynamic: bool

    def __call__(self) -> onnxexp.ONNXProgram:
        return check_case(self.case, self.opset, dynamic=self.dynamic)


def cases(*listed: Case) -> Any:
    """Parametrize a test with `check` over cases, opsets, static and dynamic.

    The result is a decorator for pytest. `check()` runs one check and returns the program, see `check_case`.
    """
    import pytest

    return pytest.mark.parametrize("check", _CaseParameters(_parameters(listed, pytest)))


class _CaseParameters(list[Any]):
    """The parameters from `cases`, which `cases_of` recognises by this type."""


def _parameters(listed: Sequence[Case], pytest: Any) -> Iterator[Any]:
    names: dict[str, int] = {}
    for case in listed:
        number = names[case.name] = names.get(case.name, -1) + 1
        marks = [pytest.mark.xfail(reason=case.xfail, strict=True)] if case.xfail else []
        for opset, dynamic in case.runs():
            label = f"{case.name}{number or ''}-{opset}{'-dynamic' if dynamic else ''}"
            yield pytest.param(CaseRow(case, opset, dynamic), id=label, marks=marks)


def cases_of(*tests: Any) -> list[Case]:
    """Return the cases of decorated test functions, or of all functions of a module."""
    functions = [
        function
        for test in tests
        for function in (vars(test).values() if inspect.ismodule(test) else [test])
        if callable(function)
    ]
    marks = [mark for function in functions for mark in getattr(function, "pytestmark", ())]
    parameters = [parameter for mark in marks for arg in mark.args if isinstance(arg, _CaseParameters) for parameter in arg]
    return list(dict.fromkeys(check.case for parameter in parameters for check in parameter.values))
