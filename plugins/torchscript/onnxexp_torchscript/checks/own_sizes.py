"""The trace at the sizes of the example, where those were enlarged for it.

A size of 1 becomes 2, and other sizes may grow with it: the model may take another branch in Python there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxexp import CaptureError
from onnxexp.checking import compare
from onnxexp.frontends import DynamicSpec, call_preserved
from onnxexp_torchscript.checks.trace_comparison import differences
from onnxexp_torchscript.trace.trace import Recording, Trace

_FIX = (
    "compute it from x.shape without an index, int(), range() or a branch in Python, script that part with "
    "torch.jit.script, or leave the axis static; or pass an example with 2 or more on every dynamic axis, for a program that is "
    "right there"
)
_RTOL = 1e-3
"""Another branch may compute the same in another way."""


def check_own_sizes(recording: Recording, spec: DynamicSpec, again: Callable[..., Trace]) -> None:
    """Compare a trace of an enlarged example with the model at its own sizes.

    Nothing is compared where Python has read no number of a tensor.

    Raises CaptureError where the results differ.
    """
    changes = [
        f"axis {axis} of {leaf.name} from {leaf.value.shape[axis]} to {traced.shape[axis]}"
        for leaf, traced, axes in zip(spec.leaves, recording.example, spec.axes, strict=True)
        for axis in axes
        if traced.shape[axis] != leaf.value.shape[axis]
    ]
    if not changes or not (recording.warnings or recording.indexed):
        return
    own = [leaf.value for leaf in spec.leaves]
    try:
        second = again(own, same_random=True)
    except CaptureError:  # the model does not run there, so it has no values
        return
    if second.returned[1] == recording.out_spec and not differences(recording.graph, second.graph):
        return
    problem = _problem(recording, second, own)
    if problem:
        enlarged = f"dynamic axes are traced at size 2 or more, so the example was changed: {'; '.join(changes)}"
        raise CaptureError(f"the trace is wrong at the sizes of the example: {problem}; {enlarged}; to fix this, {_FIX}")


def _problem(recording: Recording, second: Trace, own: Sequence[Any]) -> str:
    """Describe how the program's result differs from the model's, or return ""."""
    leaves, out_spec = second.returned
    if out_spec != recording.out_spec:
        return f"the model returns {out_spec.num_leaves} values there, and the program {recording.out_spec.num_leaves}"
    expected = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    try:
        actual = _run(recording, own)
    except RuntimeError:  # it fails there, and is not wrong; or it has an operator that only an exporter knows
        return ""
    report = compare(expected, actual, [f"output {place}" for place in range(len(expected))], rtol=_RTOL)
    return "; ".join(f"{output.name}: {output.problem}" for output in report.outputs if output.problem)


def _run(recording: Recording, own: Sequence[Any]) -> Any:
    """Run the program on the example, with copies of all that it may write into."""
    stored = [tensor.detach().clone() for tensor in recording.state.values()]
    leaves = (own[index] for index in recording.leaves)
    given = [leaf.detach().clone() if isinstance(leaf, torch.Tensor) else torch.tensor(leaf) for leaf in leaves]
    with recording.random.again(), torch.no_grad():
        if recording.module is not None:
            return call_preserved(recording.module, tuple(given), {})
        graph = recording.graph.copy()
        torch._C._jit_pass_erase_shape_information(graph)
        return torch._C._create_function_from_graph("forward", graph)(*given, *stored)
