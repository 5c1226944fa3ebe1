"""Export one program, check the file, and compare it with eager at several sizes."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import torch

from onnxexp._errors import LoweringError, OnnxExporterError, OpsetError, PassError, PluginError
from onnxexp._model.declared_sizes import contradiction

from .comparing import Problem, compared, is_rounding
from .exporters import Exported, exported
from .generator import other_sizes
from .processes import Ended, in_child
from .program import Program, load
from .running import accepts, computes_empty, eager, is_undefined, misreads, run_model, run_reference

FAILURES = (
    "wrong value",
    "wrong shape",
    "wrong dtype",
    "wrong outputs",
    "optimized",
    "invalid",
    "run",
    "crash",
    "hang",
    "state",
    "error",
)
"""The failing outcomes. The others:

"pass"; "refused", an error of onnxexp; "opset", one that names the opset as the reason; "fixed", a refused axis that eager itself
accepts at the example's size only; "eager", a program that eager refuses, leaves undefined or gets wrong; "rounding", a result as
good as eager's; "warned", wrong at sizes that the export has excluded; "runtime", right in the reference evaluator, or at a size
of 0 without optimisations. "optimized" fails: it is right without ONNX Runtime's optimisations only.
"""

_FIRST_WITH_EMPTY = 14
"""The first opset whose Reshape makes tensors without elements."""
_RUNTIMES_OWN = ("out of data bounds", "pool_attributes.h")
"""Parts of ONNX Runtime's errors at a size of 0: eager checks no index of an empty selection, and pools no channels."""
_PATIENCE = 20.0
"""The seconds that a run at a size of 0 may take."""


@dataclasses.dataclass(frozen=True)
class Result:
    """The outcome of a program."""

    seed: int
    exporter: str
    frontend: str
    opset: int
    outcome: str
    detail: str = ""
    sizes: str = ""
    """The sizes at which it fails; "" for the example's."""
    statements: int = 0
    seconds: float = 0.0
    source: str = ""
    """The program, for a failure; the smallest one with the same outcome once it is minimised."""
    operators: str = ""
    """The operators of the smallest program."""

    @property
    def cause(self) -> str:
        """The key that groups results: the outcome with operators, or a refusal's message."""
        by_operators = self.operators and self.outcome not in ("refused", "opset", "error")
        return f"{self.outcome}: {self.operators if by_operators else cause_of(self.detail, self.source)}"


def cause_of(message: str, source: str = "") -> str:
    """Remove code, names, numbers and places that differ between programs' messages."""
    for line in sorted(map(str.strip, source.splitlines()), key=len, reverse=True):
        message = message.replace(f": {line}", "") if line else message
    text = re.sub(r'File "[^"]*", line \d+|to fix this[,:].*|the model could not be captured: ', "", message)
    text = re.sub(r"%\w+", "%", text)
    text = re.sub(r"\b(v|x|b|m|n|p|u|s)\d+(_\d+)?\b", "V", text)
    text = re.sub(r"\[[\d, N.\-e]*\]", "[…]", text)
    return " ".join(re.sub(r"-?\b\d+(\.\d+)?\b", "N", text).split())[:200]


@dataclasses.dataclass(frozen=True)
class _Verdict:
    outcome: str
    detail: str = ""
    sizes: str = ""


def judge(program: Program, exporter: str = "onnxexp") -> Result:
    """Return the outcome of a program with one of the exporters."""
    start = time.perf_counter()
    verdict = _Judge(program, exporter).verdict()
    seconds = round(time.perf_counter() - start, 3)
    source = program.reproduction if verdict.outcome != "pass" else ""
    detail = " ".join(verdict.detail.split())[:900]
    given = program.seed, exporter, program.frontend, program.opset
    return Result(*given, verdict.outcome, detail, verdict.sizes, len(program.statements), seconds, source)


class _Judge:
    def __init__(self, program: Program, exporter: str) -> None:
        self.program, self.exporter = program, exporter

    def make(self) -> torch.nn.Module:
        return self.type().eval()

    def verdict(self) -> _Verdict:
        try:
            self.type = load(self.program)
            expected = eager(self.make(), self.program.tensors())
        except Exception as error:  # noqa: BLE001 - eager may refuse a program by any exception
            return _Verdict("eager", f"{type(error).__name__}: {error}")
        module, tensors = self.make(), self.program.tensors()
        before = _state(module, tensors)
        try:
            found = exported(self.exporter, self.program, module, tensors)
        except Exception as error:  # noqa: BLE001 - every error of an exporter is a result
            return self._refusal(error)
        changed = _changes(before, _state(module, tensors))
        return self._verdict_of(found, expected, changed)

    def _verdict_of(self, found: Exported, expected: list[torch.Tensor], changed: str) -> _Verdict:
        try:
            onnx.checker.check_model(found.model, full_check=True)
        except Exception as error:  # noqa: BLE001 - onnx's errors have no common base
            return _Verdict("invalid", f"{type(error).__name__}: {error}")
        problem = self._at(found, {}, expected)
        if problem is not None:
            return problem
        if changed:
            return _Verdict("state", changed)
        for sizes in other_sizes(self.program):
            problem = self._at_sizes(found, sizes)
            if problem is not None:
                return problem
        return _Verdict("pass")

    def _refusal(self, error: Exception) -> _Verdict:
        """Classify an error of an export."""
        detail = f"{type(error).__name__}: {error}"
        if self.exporter != "onnxexp":
            return _Verdict("refused", detail)
        unexpected = (
            not isinstance(error, OnnxExporterError)
            or isinstance(error, PluginError | PassError)
            or (isinstance(error, LoweringError) and not isinstance(error.__cause__, LoweringError | None))
            or " where torch returns " in detail  # a symbolic's result has another shape or dtype
        )
        if isinstance(error, OpsetError):
            return _Verdict("opset", detail)
        if unexpected:
            cause = f" caused by {type(error.__cause__).__name__}: {error.__cause__}" if error.__cause__ else ""
            return _Verdict("error", detail + cause)
        if is_undefined(self.make(), self.program.tensors(), self.program.frontend == "script"):
            return _Verdict("eager", detail)
        return _Verdict("fixed" if self.program.sizes and not self._accepts_others() else "refused", detail)

    def _accepts_others(self) -> bool:
        """Return whether eager accepts each dynamic axis at another size."""
        return all(
            any(accepts(self.make(), self.program.tensors({name: other})) for other in (size + 1, 2 * size))
            for name, size in self.program.sizes.items()
        )

    def _at_sizes(self, found: Exported, sizes: Mapping[str, int]) -> _Verdict | None:
        """Compare at other sizes, if eager and the file's declared axes allow them."""
        if not _declared(found.model, self._inputs(sizes)):
            return None
        try:
            expected = eager(self.make(), self.program.tensors(sizes))
        except Exception:  # noqa: BLE001 - a module may refuse sizes by any exception
            return None
        problem = self._at(found, sizes, expected)
        if problem is None or problem.outcome in ("rounding", "runtime", "eager"):
            return problem
        if any(each in problem.detail for each in _RUNTIMES_OWN) and computes_empty(self.make(), self.program.tensors(sizes)):
            return _Verdict("runtime", problem.detail, str(dict(sizes)))
        if self.program.opset < _FIRST_WITH_EMPTY and computes_empty(self.make(), self.program.tensors(sizes)):
            return None
        if found.is_limited(sizes, self.program.tensors(sizes)) or (
            found.fixes_numbers and self._differs_traced(sizes, expected)
        ):
            return _Verdict("warned", problem.detail, str(dict(sizes)))
        return problem

    def _differs_traced(self, sizes: Mapping[str, int], expected: Sequence[torch.Tensor]) -> bool:
        """Return whether torch's own trace is wrong at these sizes, too.

        A trace fixes the same branches and numbers.
        """
        try:
            traced = torch.jit.trace(self.make(), self.program.tensors(), check_trace=False)  # type: ignore[no-untyped-call]
            return compared(expected, eager(traced, self.program.tensors(sizes))) is not None
        except Exception:  # noqa: BLE001 - a fixed number does not fit these sizes
            return True

    def _inputs(self, sizes: Mapping[str, int]) -> dict[str, torch.Tensor]:
        return dict(zip((each.name for each in self.program.inputs), self.program.tensors(sizes), strict=True))

    def _at(self, found: Exported, sizes: Mapping[str, int], expected: Sequence[torch.Tensor]) -> _Verdict | None:
        """Compare at one set of sizes."""
        where = str(dict(sizes)) if sizes else ""
        try:
            actual = self._run(found.model, sizes)
        except Ended as ended:
            problem: Problem | None = "run" if ended.outcome == "error" else ended.outcome, ended.detail, 0
        except Exception as error:  # noqa: BLE001 - ONNX Runtime's errors have no common base
            problem = "run", f"{type(error).__name__}: {error}", 0
        else:
            problem = compared(expected, actual)
            if problem is None:
                return None
            outcome, detail, number = problem
            if outcome in ("wrong value", "wrong shape"):
                pair = expected[number], actual[number]
                if is_rounding(self.make, self.program.tensors(sizes), *pair, number):
                    return _Verdict("rounding", detail, where)
            if misreads(self.make(), self.program.tensors(sizes)):
                return _Verdict("eager", detail, where)
        assert problem is not None
        elsewhere = self._outcome_elsewhere(found.model, sizes, expected)
        return _Verdict(elsewhere or problem[0], f"{problem[0]}: {problem[1]}" if elsewhere else problem[1], where)

    def _run(self, model: onnx.ModelProto, sizes: Mapping[str, int], *, optimised: bool = True) -> list[torch.Tensor]:
        """Run a model; with empty tensors, in a process of its own.

        Some of ONNX Runtime's kernels end the process at a size of 0.
        """
        inputs = self._inputs(sizes)
        if not self._has_empty(sizes):
            return run_model(model, inputs, optimised=optimised)
        found: list[torch.Tensor] = in_child(lambda: run_model(model, inputs, optimised=optimised), _PATIENCE)
        return found

    def _has_empty(self, sizes: Mapping[str, int]) -> bool:
        """Return whether a tensor without elements occurs, such as ``x[1:]`` of one row."""
        small = {*sizes.values()}
        return 0 in small or (1 in small and computes_empty(self.make(), self.program.tensors(sizes)))

    def _outcome_elsewhere(self, model: onnx.ModelProto, sizes: Mapping[str, int], expected: Sequence[torch.Tensor]) -> str:
        """Return the outcome if another evaluation of the file agrees with eager, else ""."""
        without = "runtime" if self._has_empty(sizes) else "optimized"
        for outcome, run in (
            (without, lambda: self._run(model, sizes, optimised=False)),
            ("runtime", lambda: run_reference(model, self._inputs(sizes))),
        ):
            try:
                if compared(expected, run()) is None:
                    return outcome
            except Exception:  # noqa: BLE001, S112 - this evaluation fails as well
                continue
        return ""


def _declared(model: onnx.ModelProto, inputs: Mapping[str, torch.Tensor]) -> bool:
    """Return whether inputs fit the declared axes.

    Axes of one name must have the same size, and expressions of sizes their value.
    """
    declared = {
        slot.name: [str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param for dim in slot.type.tensor_type.shape.dim]
        for slot in model.graph.input
    }
    return not contradiction(declared, {name: tensor.shape for name, tensor in inputs.items()})


_OF_TORCH = ("_modules", "__overloads__")
"""Attributes that are compared elsewhere, or that torch.jit.script adds to each module."""


def _state(module: torch.nn.Module, tensors: Sequence[torch.Tensor]) -> dict[str, Any]:
    """Return copies of a module's tensors, attributes and modes, and of the arguments."""
    found: dict[str, Any] = {f"argument {number}": tensor.clone() for number, tensor in enumerate(tensors)}
    for prefix, each in module.named_modules():
        found.update((f"{prefix}.{name}", _copy(value)) for name, value in vars(each).items() if name not in _OF_TORCH)
    return found


def _copy(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    return {key: _copy(each) for key, each in value.items()} if isinstance(value, dict) else repr(value)


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return what differs between two states; "" if nothing does."""
    changed = [
        f"{name} is {'changed' if name in before else 'new'}" for name in after if not _same(before.get(name), after[name])
    ]
    return "; ".join([*changed, *(f"{name} is gone" for name in before if name not in after)])


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.dtype == other.dtype and one.shape == other.shape and torch.equal(one.nan_to_num(), other.nan_to_num())
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return type(one) is type(other) and bool(one == other)
