"""Layers and attention that a trace records and does not compute.

They take most of a model's time, and a comparison of graphs needs their shapes only. Their results are zeros.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional

from onnxexp_torchscript.jit.jit_nodes import inputs
from onnxexp_torchscript.trace.inplace_size_arithmetic import is_size
from onnxexp_torchscript.trace.made_constants import no_trace

_ATTENTION = "scaled_dot_product_attention"
_PRODUCTS = (_ATTENTION, "linear", *(f"{name}{rank}d" for name in ("conv", "conv_transpose") for rank in (1, 2, 3)))
_OWNERS: tuple[Any, ...] = (torch, torch._C._nn, functional)
_READS = ("item", "tolist", "numpy", "__array__", "__bool__", "__int__", "__float__", "__complex__", "__index__")
_COMPARISONS = ("equal", "allclose", "is_nonzero")
_INDEX = "aten::index"
_OPEN = (torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output)
_tracer: Any = torch._C  # has more than torch's stubs


class SkippedProducts:
    """The products that one trace skips.

    Attributes:
        count: The number of skipped products.
    """

    def __init__(self) -> None:
        self.count = 0
        self._read = False
        self._skipping = {name: functools.partial(self._skip, name) for name in _PRODUCTS}

    def replacements(self) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
        """Yield replacements (owner, name, function) of products and of value reads.

        Value reads are methods that return a tensor's values.
        """
        for owner in _OWNERS:
            yield from ((owner, name, self._skipping[name]) for name in _PRODUCTS if name in vars(owner))
        for owner, names in ((torch.Tensor, (*_READS, *_COMPARISONS)), (torch, _COMPARISONS)):
            yield from ((owner, name, self._note) for name in names)

    def unused(self, graph: Any) -> bool:
        """Return whether no Python decision and no shape depends on a skipped product."""
        if not self.count:
            return True
        kinds = {node.kind() for node in graph.nodes() if node.kind() != _INDEX or _has_mask(node)}
        return not self._read and not any(map(_has_open_shape, kinds))

    def _skip(self, name: str, original: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Record a product by a call with an empty batch."""
        count = _batches(name, args, options) if _tracer._is_tracing() else 0
        if not count:
            return original(*args, **options)
        self.count += 1
        made = original(*map(_without_elements, args[:count]), *args[count:], **options)
        with no_trace():
            zeros = made.new_zeros((len(args[0]), *made.shape[1:]))
        return _standing_for(made, zeros)

    def _note(self, original: Callable[..., Any], tensor: torch.Tensor, *args: Any, **options: Any) -> Any:
        if self.count and _tracer._is_tracing() and not is_size(tensor):
            self._read = True
        return original(tensor, *args, **options)


def _batches(name: str, args: Sequence[Any], options: Mapping[str, Any]) -> int:
    """Count the leading arguments with a batch; return 0 if the call is not skipped."""
    if name == _ATTENTION:
        masked = len(args) > 3 or options.get("attn_mask") is not None
        return 0 if masked or len(args) < 3 or any(tensor.dim() != 4 for tensor in args) else 3
    if len(args) < 2 or type(args[1]) is not torch.nn.Parameter:
        return 0
    return int(args[0].dim() == args[1].dim() if name != "linear" else args[0].dim() > 1)


def _without_elements(batch: torch.Tensor) -> torch.Tensor:
    with no_trace():
        empty = batch[:0]
    return _standing_for(batch, empty)


def _standing_for(traced: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Let the trace take another tensor for a traced one; return it."""
    _tracer._set_value_trace(other, _tracer._get_value_trace(traced))
    return other


def _has_mask(node: Any) -> bool:
    """Return whether an index may be a mask.

    With integers as indices, the shape of the result depends on sizes only.
    """
    indices = inputs(node.inputsAt(1).node())
    tensors = [index.type() for index in indices if index.type().kind() == "TensorType"]
    return any(kind.dtype() not in (torch.int64, torch.int32) for kind in tensors)


def _has_open_shape(kind: str) -> bool:
    """Return whether a result's shape depends on values, as that of ``nonzero``."""
    namespace, _, name = kind.partition("::")
    packet = getattr(torch.ops.aten, name, None) if namespace == "aten" else None  # some kinds are TorchScript's own
    overloads = [getattr(packet, overload) for overload in packet.overloads()] if packet is not None else []
    return any(tag in overload.tags for overload in overloads for tag in _OPEN)
