"""Keep writes that torch's tracer drops: to undeclared aliases, and ``resize_``.

torch's alias analysis takes the result of ``torch.atleast_3d(x)`` for a new tensor. If the model writes to one of the two and
returns the other, torch removes the write from the trace as dead code. ``resize_`` is not recorded at all: its result would be
a constant.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from onnxexp import CaptureError
from onnxexp.torch_ops import MutationInfo
from onnxexp_torchscript.jit.jit_nodes import outputs
from onnxexp_torchscript.trace.made_constants import no_trace

_tracer: Any = torch._C  # has more than torch's stubs


def keep_writes(graph: Any) -> int:
    """Make each write that torch may remove an output of the graph.

    Returns the number of such writes. It is 0 where torch's schemas declare all aliases: torch then removes dead writes only.
    """
    nodes = list(graph.nodes())
    if not any(MutationInfo.of(node.kind()).aliases_undeclared for node in nodes):
        return 0
    written = [output for node in nodes if "!" in node.schema() for output in outputs(node)]
    for value in written:
        graph.registerOutput(value)
    return len(written)


def drop_kept_writes(graph: Any, count: int) -> None:
    """Remove the outputs that `keep_writes` has added, which come first."""
    for _ in range(count):
        graph.eraseOutput(0)


def recorded_resizing() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield replacements (owner, name, function) of functions that resize.

    The replacements record a view of the first elements. They raise CaptureError where these elements are not certain.
    """
    yield torch.Tensor, "resize_", functools.partial(_resize, _given_sizes)
    for owner in (torch, torch.Tensor):
        yield owner, "resize_as_", functools.partial(_resize, _shape_of)


def _shape_of(the_template: torch.Tensor) -> Sequence[Any]:
    """Return the new sizes for the arguments of ``resize_as_``."""
    return the_template.shape


def _given_sizes(*size: Any) -> Sequence[Any]:
    """Return the new sizes for the arguments of ``resize_``."""
    return size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size


def _resize(
    sizes_of: Callable[..., Sequence[Any]],
    original: Callable[..., Any],
    self: torch.Tensor,
    *args: Any,
    memory_format: torch.memory_format | None = None,
    **options: Any,
) -> Any:
    """Resize a tensor, and record a view."""
    resize = functools.partial(original, self, *args, memory_format=memory_format, **options)
    if not torch._C._is_tracing():
        return resize()
    sizes = sizes_of(*args, **options)
    with no_trace():
        new_shape, count = [int(size) for size in sizes], self.numel()
        if list(self.shape) == new_shape:
            return self
        if count:
            name = "resize_as_" if sizes_of is _shape_of else "resize_"
            _refuse_uncertain_elements(name, self, math.prod(new_shape), memory_format)
    if not count:
        return resize()
    value = _tracer._get_value_trace(self.view(-1)[: math.prod(sizes)].view(tuple(sizes)))
    with no_trace():
        resize()
    _tracer._set_value_trace(self, value)
    return self


def _refuse_uncertain_elements(name: str, tensor: torch.Tensor, count: int, memory_format: torch.memory_format | None) -> None:
    """Raise CaptureError unless a resize keeps the first `count` elements in order."""
    if memory_format not in (None, torch.contiguous_format):
        problem = "to another memory format"
    elif count > tensor.numel():
        problem = f"from {tensor.numel()} to {count} elements: the last ones are undefined"
    elif not tensor.is_contiguous():
        problem = "whose elements have another order in memory"
    else:
        return
    raise CaptureError(
        f"{name} resizes a tensor {problem}; to fix this, take the elements with flatten()[:n].view(...), or pad() a new tensor"
    )
