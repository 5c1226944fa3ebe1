"""Compare a program compiled by torch.jit.script with the model, at the example.

The compiler removes writes that it takes for dead code: by torch's schemas, ``torch.atleast_3d(x)`` and ``x.type_as(y)`` return
new tensors, and a write into the result leaves `x` as it was. In eager PyTorch the two are one tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.jit._fuser import optimized_execution
from torch.utils import _pytree as pytree

from onnxexp import CaptureError
from onnxexp_torchscript.trace.random_state import RandomState
from onnxexp_torchscript.trace.trace import run_example

_FIX = (
    "write into the tensor itself, not into what type_as, atleast_2d or einsum returned for it; make code under "
    'torch.jit.is_scripting() compute what the other branch does; or use capture="trace"'
)
_FAILS = "the program that torch.jit.script compiles fails on the example inputs", 'mend that line, or use capture="trace"'


class _Calls(torch.nn.Module):
    """A scripted function as a module."""

    def __init__(self, function: torch.jit.ScriptFunction[Any, Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)


def check_compiled(scripted: Any, args: Sequence[Any], kwargs: Mapping[str, Any], expected: Any, random: RandomState) -> None:
    """Compare a compiled program with the results expected of it.

    Raises CaptureError where it fails, or returns other values.
    """
    module = scripted if isinstance(scripted, torch.nn.Module) else _Calls(scripted)
    with random.again(), optimized_execution(False):
        found = run_example(module, args, kwargs, *_FAILS)
    pairs = list(zip(pytree.tree_leaves(expected), pytree.tree_leaves(found), strict=False))
    for number, (one, other) in enumerate(pairs):
        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and _differ(one, other):
            which = f"result {number} of the model" if len(pairs) > 1 else "the model's result"
            raise CaptureError(f"torch.jit.script compiles another program: {which} differs from eager's; to fix this, {_FIX}")


def _differ(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors of one dtype differ by more than rounding."""
    if one.dtype != other.dtype or one.is_quantized or one.layout is not torch.strided:
        return False  # the conversion refuses another dtype, with both
    if one.is_meta or isinstance(one, FakeTensor):
        return one.shape != other.shape  # they have no values
    if one.is_floating_point():
        one, other = one.double(), other.double()  # float8 has no arithmetic
    return one.shape != other.shape or not torch.allclose(one, other, rtol=1e-3, atol=1e-5, equal_nan=True)
