"""The names of ``torch.onnx.testing``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxexp import OptionError
from onnxexp.checking import run_eager
from onnxexp_torch_onnx.onnx_program import ONNXProgram

__all__ = ["assert_onnx_program"]


def assert_onnx_program(
    program: ONNXProgram,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    strategy: str | None = None,
    backend: str = "onnxruntime",
) -> None:
    """Assert that the model computes what the original computes.

    Args:
        program: The result of an export.
        rtol, atol: The tolerances; None is that of `torch.testing.assert_close` for the dtype.
        args, kwargs: The arguments of the call; None is the example of the export.
        strategy: Without effect. In torch, it is the name of a class that captures models.
        backend: ``onnxruntime``, or ``reference`` for onnx's reference evaluator.

    Raises AssertionError for a difference, and OptionError for another backend.
    """
    runs: dict[str, Callable[..., Any]] = {"onnxruntime": program, "reference": program.call_reference}
    if backend not in runs:
        raise OptionError(f"backend={backend!r}; to fix this, pass one of {', '.join(map(repr, runs))}")
    given, named, expected = original_results(program, args, kwargs)
    torch.testing.assert_close(
        tuple(runs[backend](*given, **named)),
        tuple(map(real_form, expected)),
        rtol=rtol,
        atol=atol,
        equal_nan=True,
        check_device=False,
    )


def original_results(
    program: ONNXProgram, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None
) -> tuple[Sequence[Any], Mapping[str, Any], list[Any]]:
    """Return the arguments of a call, and the original's results.

    Without arguments, they are the example's. None among the results is left out.
    """
    given, named = program.example if args is None and kwargs is None else (args or (), kwargs or {})
    assert program.eager is not None, "every program of an export has it"
    return given, named, [leaf for leaf in pytree.tree_leaves(run_eager(program.eager, given, named)) if leaf is not None]


def real_form(leaf: Any) -> torch.Tensor:
    """Return a result of the original as the graph's output.

    Complex numbers become pairs on a new last axis.
    """
    made = leaf.detach() if isinstance(leaf, torch.Tensor) else torch.tensor(leaf)
    return torch.view_as_real(made) if made.is_complex() else made
