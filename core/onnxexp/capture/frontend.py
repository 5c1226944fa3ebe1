"""The result of a frontend, and the steps that all frontends share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import torch
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree

from onnxexp.capture.model_tensors import Parts
from onnxexp.errors import CaptureError
from onnxexp.functionalize import functionalize
from onnxexp.functionalize.dead_code import drop_dead
from onnxexp.graph import Graph, Node
from onnxexp.request.dynamic_shapes import DynamicSpec
from onnxexp.user_warnings import warn

__all__ = ["CapturedProgram", "CaptureRefused", "check_tensors", "make_functional", "warn_of_constants"]

_SHOWN = 10
"""How many places are listed in one warning."""


@dataclasses.dataclass(frozen=True)
class CapturedProgram:
    """A captured model.

    Attributes:
        graph: Functional: nothing in it is written in place. Its inputs are the leaves of the example's (args, kwargs).
        decompose: torch's decomposition of one node, see `onnxexp.lowering.lowering.Decompose`.
        in_spec, out_spec: torch's pytree specs of (args, kwargs) and of what the model returns.
        constants: Places where the example decided: branches and numbers that are constants of the graph, with the user's lines.
    """

    graph: Graph
    decompose: Callable[[Node], Graph | None]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec
    constants: Sequence[str] = ()


class CaptureRefused(CaptureError):
    """A frontend could not capture the model at all, so that another one may try; raised inside capturing only."""


def check_tensors(parts: Parts, spec: DynamicSpec) -> None:
    """Raise CaptureError for tensors that ONNX has no form of."""
    for leaf in spec.leaves:
        tensor = leaf.value
        if isinstance(tensor, torch.Tensor) and (tensor.is_nested or tensor.is_quantized or tensor.layout != torch.strided):
            kind = "nested" if tensor.is_nested else "quantized" if tensor.is_quantized else str(tensor.layout)
            raise CaptureError(f"an input is a {kind} tensor, which ONNX does not have; cure: give dense tensors")
    for name, stored in parts.state.items():
        if is_lazy(stored):
            raise CaptureError(f"{name} is not initialized yet; cure: run the model once before it is exported")


def make_functional(graph: Graph, written_elsewhere: Sequence[str]) -> None:
    """Functionalize a graph, and warn of writes that outlive a call.

    `written_elsewhere`: names of what the forward writes that no node of the graph shows.
    """
    report = functionalize(graph)
    changed = [*report.inputs, *report.params, *written_elsewhere]
    if changed:
        warn(
            f"the forward writes into {', '.join(changed)}; an ONNX graph keeps no state: its outputs are right, "
            "but what is written is not kept from one call to the next"
        )
    drop_dead(graph)


def warn_of_constants(constants: Sequence[str], refused: CaptureError | None = None) -> None:
    """Warn of a trace's constants, and of the reason for tracing where the user did not ask for it."""
    shown, left = constants[:_SHOWN], len(constants) - _SHOWN
    if refused is None and not shown:
        return
    fixed = "Tracing keeps the branches that the example inputs took, and the Python numbers that came of them"
    lines = [f"{fixed}:" if shown else f"{fixed}.", *(f"  {line}" for line in shown)]
    if left > 0:
        lines.append(f"  and {left} more places")
    if refused is not None:
        lines = ["torch.export failed, so the model was traced.", *lines, f"Why it failed: {refused}"]
    warn("\n".join(lines))
