"""The result of a frontend, which implements the hook `capture`.

A frontend builds a `Graph`, calls `make_functional` on it, and returns a `CapturedProgram`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch
from torch.utils import _pytree as pytree

from onnxexp._errors import CaptureError
from onnxexp._functionalize import drop_dead, functionalize
from onnxexp._neutral_graph import Graph, Node, Value, values_in
from onnxexp._request.pytree_leaves import Leaf
from onnxexp._user_warnings import warn


class CaptureRefused(CaptureError):
    """A frontend cannot capture the model, and another one may.

    With ``capture="auto"``, the frontends are called once more with ``capture="trace"``.
    """


@dataclasses.dataclass(frozen=True)
class CapturedProgram:
    """A captured model.

    Attributes:
        graph: The graph, which may write in place: the core functionalizes it. Its inputs are the leaves of the example's
            (args, kwargs).
        in_spec, out_spec: torch's pytree specs of (args, kwargs) and of the model's result.
        decompose: Decompose one node: return a graph whose inputs are `node.inputs()`, in order, or None. None stands for torch's
            own decompositions, for a graph without symbolic sizes; a `Decomposer` has them for symbolic sizes.
        written: The names of the inputs and buffers that the forward writes to without a node in the graph.
        constants: Branches and numbers that the example fixed, each with the user's source line.
        restrictions: Conditions on sizes under which the program is right, each with a test of a call's leaves.
        containers: The ONNX type of each input that is a sequence or an optional, and the shape of its tensors.
    """

    graph: Graph
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec
    decompose: Callable[[Node], Graph | None] | None = None
    written: Sequence[str] = ()
    constants: Sequence[str] = ()
    restrictions: Mapping[str, Callable[[Sequence[Any]], bool]] = dataclasses.field(default_factory=dict)
    containers: Mapping[Value, tuple[ir.TypeProtocol, ir.Shape]] = dataclasses.field(default_factory=dict)


def make_functional(program: CapturedProgram, leaves: Sequence[Leaf]) -> None:
    """Functionalize a graph in place, and warn of writes that outlive a call.

    Args:
        program: The result of a frontend.
        leaves: The user's example, a leaf for each input of the graph.

    Raises:
        CaptureError: See `functionalize`; or an input of the example shares memory with another one that the forward writes to.
    """
    changed = [*functionalize(program.graph), *program.written]
    drop_dead(program.graph)
    if changed:
        _check_shared(program.graph, changed, leaves)
        warn(
            f"the forward writes into {', '.join(changed)}; an ONNX graph keeps no state: its outputs are right, "
            "but the written values are lost between calls"
        )


def _check_shared(graph: Graph, changed: Sequence[str], leaves: Sequence[Leaf]) -> None:
    used = {value for node in graph.walk() for value in values_in(node.args)}.union(values_in(graph.outputs))
    inputs = [(value, leaf.name, leaf.value) for value, leaf in zip(graph.inputs, leaves, strict=True)]
    for written, name, tensor in inputs:
        for read, other_name, other in inputs if written.name in changed else ():
            if read is not written and read in used and _share(tensor, other):
                raise CaptureError(
                    f"{name} and {other_name} share memory in the example, and the forward writes into {name}: the inputs of an "
                    f"ONNX graph are separate, so {other_name} would keep its old values; "
                    "to fix this, pass a clone() of one as the "
                    "example, or clone() it in the forward before the write"
                )


def _share(one: Any, other: Any) -> bool:
    """Return whether two tensors have memory in common."""
    for tensor in (one, other):
        if not isinstance(tensor, torch.Tensor) or not torch._C._has_storage(tensor) or not tensor.numel():
            return False
    if one.untyped_storage()._cdata != other.untyped_storage()._cdata:
        return False
    (start, end), (other_start, other_end) = _extent(one), _extent(other)
    if start == other_start or start >= other_end or other_start >= end:
        return bool(start == other_start)
    return bool(torch.isin(_bytes(one), _bytes(other)).any())  # rows or columns between each other


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the first byte of a tensor in its storage, and the one after its last."""
    last = sum(int(size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    start = int(tensor.storage_offset())
    return start * tensor.element_size(), (start + last + 1) * tensor.element_size()


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return the places of a tensor's bytes in its storage."""
    offset = torch.tensor(tensor.storage_offset())
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        offset = offset.unsqueeze(-1) + torch.arange(size) * stride
    return offset.unsqueeze(-1) * tensor.element_size() + torch.arange(tensor.element_size())
