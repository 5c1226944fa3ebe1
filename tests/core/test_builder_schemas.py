"""Every operator of ONNX's default domain at every opset: what can be built is valid, what cannot says which opset allows it.

Each call (`tests.core.operator_calls`) is written once and made at every opset, with every dtype that any version of the
operator takes. It must be built, and then pass onnx's checker with strict shape inference, or raise OpsetError whose
`first_opset` is the next one at which it is built. Nothing else is allowed.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import onnx
import pytest
import torch

from onnxexp import Builder, OpsetError, Tensor
from onnxexp.assembly import assemble
from onnxexp.dtypes import type_string
from onnxexp.graph import TensorType
from onnxexp.schemas import MAX_OPSET, MIN_OPSET, Operator, history, names, operator
from onnxexp.serialize import to_proto
from tests.core.operator_calls import CALLS, Dtype, OpCall, S
from tests.core.operator_programs import PROGRAMS

OPSETS = range(MIN_OPSET, MAX_OPSET + 1)
QUICK = {9, 13, 18, 20, 23, 26, 28}

DTYPES = {
    type_string(dtype): dtype
    for dtype in (
        torch.float32, torch.int64, torch.bool, torch.int32, torch.float16, torch.bfloat16, torch.float64, torch.uint8, torch.int8,
        torch.int16, torch.uint16, torch.uint32, torch.uint64, torch.complex64, torch.complex128, torch.float8_e4m3fn,
        torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu,
    )
}
"""The dtypes by the names that schemas use; a type variable starts with the first that it takes."""


@dataclasses.dataclass(frozen=True)
class Attempt:
    """One call with one choice of dtypes."""

    name: str
    given: OpCall | Callable[[Builder], Any]
    dtypes: tuple[tuple[str, torch.dtype], ...] = ()

    def run(self, op: Builder) -> Any:
        if not isinstance(self.given, OpCall):
            return self.given(op)
        fill = functools.partial(_argument, op, dict(self.dtypes))
        spec = history("", self.name)[-1]
        variables = {formal.name: formal.variable for formal in spec.inputs}
        given = dict(self.given.given)
        for formal in spec.inputs:
            if not (formal.optional or formal.variadic):
                given.setdefault(formal.name, S(2, 3))
        keywords = {key: fill(key, variables.get(key, ""), value) for key, value in given.items()}
        inputs = [fill(f"x{index}", spec.inputs[0].variable, value) for index, value in enumerate(self.given.inputs)]
        return op.call("", self.name, *inputs, outputs=self.given.outputs, **keywords)

    def __str__(self) -> str:
        call = self.given if not isinstance(self.given, OpCall) else {**self.given.given, "inputs": self.given.inputs}
        return f"{self.name} {call} {dict(self.dtypes)}"


def _argument(op: Builder, dtypes: Mapping[str, torch.dtype], name: str, variable: str, value: Any) -> Any:
    if isinstance(value, Dtype):
        return dtypes[value.variable]
    if isinstance(value, S):
        dtype = dtypes.get(variable) or DTYPES[variable]
        return op.input(name, TensorType(dtype, tuple(value)))
    if isinstance(value, list):
        return [_argument(op, {"": torch.int64}, name, "", element) for element in value]
    return value


def _choices(name: str, call: OpCall) -> Iterator[tuple[tuple[str, torch.dtype], ...]]:
    """Every type variable through every dtype that some version takes, the others at their first."""
    newest = history("", name)[-1]
    variables: dict[str, list[torch.dtype]] = {}
    taken = {formal.variable for formal in newest.inputs}
    results = [formal for formal in newest.outputs if formal.variable not in taken]
    for version in reversed(history("", name)):
        for formals, own in ((newest.inputs, version.inputs), (results, version.outputs)):
            for formal, other in itertools.product(formals, own):
                if formal.name == other.name and not formal.variable.startswith(("tensor(", "seq(", "optional(")):
                    known = variables.setdefault(formal.variable, [])
                    known += [dtype for text, dtype in DTYPES.items() if text in other.types and dtype not in known]
    variables = {variable: dtypes for variable, dtypes in variables.items() if dtypes and variable not in call.ties}
    usual = {variable: call.pins.get(variable, next(dtype for dtype in DTYPES.values() if dtype in dtypes)) for variable, dtypes in variables.items()}
    yielded = set()
    for variable, dtypes in variables.items():
        for dtype in dtypes if variable not in call.pins else [usual[variable]]:
            chosen = {**usual, variable: dtype}
            chosen |= {tied: chosen[to] for tied, to in call.ties.items()}
            choice = tuple(sorted(chosen.items(), key=lambda pair: pair[0]))
            if choice not in yielded and (call.only is None or dtype in call.only):
                yielded.add(choice)
                yield choice
    if not variables:
        yield ()


def attempts(name: str) -> list[Attempt]:
    if name in PROGRAMS:
        return [Attempt(name, program) for program in PROGRAMS[name]]
    return [Attempt(name, call, dtypes) for call in CALLS.get(name, [OpCall({})]) for dtypes in _choices(name, call)]


def build(attempt: Attempt, opset: int) -> onnx.ModelProto:
    op = Builder(opset, fold=False)
    results = attempt.run(op)
    tensors = [results] if isinstance(results, Tensor) else list(results)
    outputs = [op.Shape(tensor) if tensor.shape is None and tensor.known_dtype else tensor for tensor in tensors]
    return to_proto(assemble(op, [(f"y{index}", tensor) for index, tensor in enumerate(outputs)]))


def outcome(attempt: Attempt, opset: int) -> int | None | bool:
    """True where it is built and valid, else the opset that the error names."""
    try:
        model = build(attempt, opset)
    except OpsetError as error:
        assert f"opset {opset}" in str(error), error
        return error.first_opset
    assert {entry.domain: entry.version for entry in model.opset_import}[""] == opset
    onnx.checker.check_model(model, full_check=True)
    return True


def check(attempt: Attempt, opset: int) -> bool:
    """Whether it is built; AssertionError where anything else than valid or truthfully refused comes out."""
    try:
        said = outcome(attempt, opset)
        if said is True:
            return True
        if isinstance(attempt.given, OpCall):
            later = range(opset + 1, (said or MAX_OPSET) + 1)
            works = [other for other in later if _outcome(attempt, other) is True]
            assert works == ([said] if said else []), f"it says opset {said}, of the later ones work {works}"
        while said is not None and said is not True:  # of several calls the first that is refused says its own opset
            opset, said = said, _outcome(attempt, said)
            assert said is None or said is True or said > opset
    except Exception as error:
        raise AssertionError(f"{attempt} at opset {opset}: {type(error).__name__}: {error}") from error
    return False


@functools.lru_cache(maxsize=None)
def _outcome(attempt: Attempt, opset: int) -> int | None | bool:
    return outcome(attempt, opset)


FAILED = []
if __name__ == "__main__":
    import sys, time
    for opset in map(int, sys.argv[1:]):
        total = [0, 0]; t=time.time()
        for name in names():
          for attempt in attempts(name):
            try:
                total[check(attempt, opset)]+=1
            except AssertionError as error:
                print(str(error)[:600].replace("\n", " "))
        print(opset, total, time.time()-t)
