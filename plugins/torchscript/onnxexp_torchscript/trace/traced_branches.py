"""The branches in Python that a model takes on sizes while it is traced."""

from __future__ import annotations

import dataclasses
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from onnxexp.frontends import code_line, is_user_code, only_raises_or_warns
from onnxexp.graph import SourceLocation
from onnxexp_torchscript.trace.inplace_size_arithmetic import is_size


@dataclasses.dataclass(frozen=True)
class Branch:
    """A condition on sizes that the model tests.

    Attributes:
        condition: Its value in the trace.
        outcome: Whether it is true at the example's sizes.
        where: The user's line.
    """

    condition: Any
    outcome: bool
    where: SourceLocation


def recorded_branches(branches: list[Branch]) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield the replacement (owner, name, function) that adds to `branches`."""
    original = torch.Tensor.__bool__

    def test(self: torch.Tensor) -> bool:
        if not torch._C._is_tracing():
            return original(self)
        frame = sys._getframe(1)
        file, line = frame.f_code.co_filename, frame.f_lineno
        branches_on_size = is_size(self) and is_user_code(file) and not only_raises_or_warns(file, line)
        with warnings.catch_warnings(record=True) as caught:
            outcome = original(self)
        if branches_on_size:
            branches.append(Branch(torch._C._get_value_trace(self), outcome, code_line(file, line)))  # type: ignore[attr-defined]
        else:
            for each in caught:
                warnings.warn(each.message, each.category, stacklevel=2)  # the line of the test, not this one
        return outcome

    yield torch.Tensor, "__bool__", test
