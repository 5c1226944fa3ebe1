"""Small programs exported through TorchScript, checked at seen and unseen sizes."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import onnx
import pytest
import torch
from torch.utils import _pytree as pytree

import onnxexp

OPSETS = (11, 13, 17, 20, 23)
ALL = (9, *OPSETS)
"""Where ONNX 9 can express it too."""
SEQUENCES = (13, 17, 20, 23)
"""The opsets at which a loop can carry a sequence."""
TABLES: dict[str, list[Program]] = {}
"""What each test module checks."""


class Program:
    """A function or module, its example, and other calls to check the model with.

    `dynamic` lists the axes of each argument: a set, a name for a number, or None where nothing varies.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        *inputs: Any,
        at: Sequence[tuple[Any, ...]] = (),
        dynamic: Sequence[Any] | None = None,
        captures: Sequence[str] = ("script",),
        opsets: Sequence[int] = OPSETS,
        holds: Sequence[str] = (),
        name: str = "",
    ) -> None:
        self.fn = fn
        self.inputs = inputs
        self.at = at
        self.dynamic = dynamic
        self.captures = captures
        self.opsets = opsets
        self.holds = holds
        self.name = name or str(getattr(fn, "__name__", type(fn).__name__))

    def shapes(self) -> Any:
        """Return the dynamic_shapes of torch.export."""
        if self.dynamic is None:
            return None
        return tuple(
            said if isinstance(said, str) else {axis: f"{chr(97 + place)}{axis}" for axis in sorted(said or ())} or None
            for place, said in enumerate(self.dynamic)
        )


def exported(fn: Any, inputs: Sequence[Any], **options: Any) -> onnxexp.ONNXProgram:
    """Export a program, and check that the file is valid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = onnxexp.export(fn, copied(inputs), **options)
    onnx.checker.check_model(program.model_proto, full_check=True)
    return program


def copied(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Clone the inputs, since a program may write into its arguments."""
    cloned: tuple[Any, ...] = pytree.tree_map_only(torch.Tensor, torch.clone, tuple(inputs))
    return cloned


def check(program: Program, capture: str, opset: int) -> onnxexp.ONNXProgram:
    """Export, and compare with the program itself at every call."""
    model = exported(program.fn, program.inputs, dynamic_shapes=program.shapes(), opset_version=opset, capture=capture)
    for inputs in (program.inputs, *program.at):
        torch.manual_seed(0)
        with torch.no_grad():
            expected = program.fn(*copied(inputs))
        torch.testing.assert_close(model(*copied(inputs)), expected, equal_nan=True)
    found = {node.op_type for node in model.model.graph}
    assert found.issuperset(program.holds), f"{program.holds} expected among {sorted(found)}"
    return model


def programs(*listed: Program) -> Any:
    """Parametrize a test with `run`, once for each program, frontend and opset.

    The quick tier has the first opset of a program, and opset 20 through its first frontend.
    """
    TABLES.setdefault(sys._getframe(1).f_globals["__name__"], []).extend(listed)
    return pytest.mark.parametrize("run", list(_parameters(listed)))


def _parameters(listed: Sequence[Program]) -> Iterator[Any]:
    names: dict[str, int] = {}
    for program in listed:
        number = names[program.name] = names.get(program.name, -1) + 1
        for capture in program.captures:
            for opset in program.opsets:

                def run(program: Program = program, capture: str = capture, opset: int = opset) -> onnxexp.ONNXProgram:
                    return check(program, capture, opset)

                quick = opset == min(program.opsets) or (opset == 20 and capture == program.captures[0])
                yield pytest.param(
                    run, id=f"{program.name}{number or ''}-{capture}-{opset}", marks=() if quick else pytest.mark.full
                )
