"""Capture recurrent layers and packed sequences as one node each.

Tracing into them would specialise a size: a recurrent layer unrolls over time, and packing a sequence reads the lengths' values.
During a capture, the entry points of torch's modules call the operators of `stand_in_ops`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch._higher_order_ops.scan import scan
from torch.nn.modules import transformer
from torch.nn.modules.rnn import RNNBase
from torch.utils import _pytree as pytree

from onnxexp.frontends import redirected
from onnxexp_aten.capture.stand_in_ops import LAYERS


def _autocast(name: str, args: tuple[Any, ...]) -> Any:
    """Call a layer's operator; under autocast, with the dtypes of torch's kernels."""
    packed = not isinstance(args[3], bool)
    packet = getattr(torch.ops.onnxexp_shapes, name)  # by the layer's name
    op, params = (packet.data, args[3]) if packed else (packet.input, args[2])
    device = args[0].device.type
    if not torch.is_autocast_enabled(device):
        return op(*args)
    low, full = torch.get_autocast_dtype(device), params[0].dtype
    results = op(*pytree.tree_map_only(torch.Tensor, lambda x: x.to(full) if x.dtype.is_floating_point else x, args))
    num_layers, bidirectional = args[4 + packed], args[7 + packed]
    projected = len(params) // (num_layers * (2 if bidirectional else 1)) % 2 == 1
    if name == "gru" or (name == "lstm" and packed and not projected):
        return results
    lowered = [result.to(low) for result in results]
    return (*lowered[:2], results[2]) if projected else tuple(lowered)


class _PackedSequences:
    """The packed sequences of one capture, with the batch size of each."""

    def __init__(self) -> None:
        self._batches: list[tuple[torch.Tensor, Any]] = []

    def batch(self, batch_sizes: torch.Tensor) -> Any:
        """Return the batch size from `pack`, else the first element of `batch_sizes`."""
        known = next((batch for sizes, batch in self._batches if sizes is batch_sizes), None)
        return batch_sizes[0].item() if known is None else known

    def layer(self, name: str, original: Callable[..., Any], *args: Any) -> Any:
        if not isinstance(args[3], bool):
            state = args[2][0] if isinstance(args[2], (list, tuple)) else args[2]
            torch._check(state.shape[1] == self.batch(args[1]))  # type: ignore[no-untyped-call]
        return _autocast(name, args)

    def pack(self, original: Callable[..., Any], input: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> Any:
        data, batch_sizes = torch.ops.onnxexp_shapes._pack_padded_sequence(input, lengths, batch_first)
        self._batches.append((batch_sizes, input.shape[0 if batch_first else 1]))
        return data, batch_sizes

    def pad(self, original: Callable[..., Any], data: torch.Tensor, batch_sizes: torch.Tensor, *rest: Any) -> Any:
        return torch.ops.onnxexp_shapes._pad_packed_sequence(data, batch_sizes, *rest, self.batch(batch_sizes))


def _check_forward_args(original: Callable[..., None], self: RNNBase, input: Any, hidden: Any, batch_sizes: Any) -> None:
    if batch_sizes is not None:
        self.check_input(input, batch_sizes)  # the other checks read a value; `_PackedSequences.layer` has them
    else:
        original(self, input, hidden, batch_sizes)


def _associative_scan(
    original: Callable[..., Any], operator: functools.partial[Any], leaves: list[torch.Tensor], *rest: Any, **options: Any
) -> Any:
    """Call associative_scan as a scan: its recursion would specialise the length."""
    length: Any = leaves[0].shape[0]
    if isinstance(length, int) and length < 2:
        return original(operator, leaves, *rest, **options)
    combine = inspect.getclosurevars(operator.keywords["combine_fn"]).nonlocals["func"]  # the function under torch.vmap

    def step(before: list[torch.Tensor], element: list[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        started, *state = before
        combined = pytree.tree_leaves(operator(*state, *element, combine_fn=combine))
        after = [torch.where(started, new, first) for new, first in zip(combined, element, strict=True)]
        return [torch.ones_like(started), *after], [leaf.clone() for leaf in after]

    started = torch.zeros((), dtype=torch.bool, device=leaves[0].device)
    # The first element is scanned as well: ONNX Runtime's Scan fails on an empty sequence, which the others of a single one are.
    _, results = scan(step, [started, *(leaf[0].contiguous() for leaf in leaves)], leaves)
    return list(results)


def _max_pool1d(original: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Call a sibling of max_pool1d that does not specialise the length."""
    return torch.max_pool1d_with_indices(*args, **options)[0]


def _detect_is_causal_mask(original: Callable[..., bool], mask: Any, is_causal: bool | None = None, size: Any = None) -> bool:
    """Return `is_causal`: torch reads the mask only to choose a faster kernel."""
    return bool(is_causal)


def composite_ops() -> list[tuple[Any, str, Callable[..., Any]]]:
    """Return what replaces torch's functions in one capture: (owner, name, function)."""
    packing = _PackedSequences()
    functions: Any = torch._VF
    return [
        *((owner, name, functools.partial(packing.layer, name)) for owner in (functions, torch) for name in LAYERS),
        (functions, "_pack_padded_sequence", packing.pack),
        (functions, "_pad_packed_sequence", packing.pad),
        (torch, "max_pool1d", _max_pool1d),
    ]


def keep_composite_ops() -> contextlib.AbstractContextManager[None]:
    """Replace functions that torch calls around composite operators.

    No mode sees them: they do not look for one.
    """
    scans = importlib.import_module("torch._higher_order_ops.associative_scan")  # the attribute of that name is the function
    table: list[tuple[Any, str, Callable[..., Any]]] = [
        (scans, "generic_associative_scan", _associative_scan),
        (RNNBase, "check_forward_args", _check_forward_args),
        (transformer, "_detect_is_causal_mask", _detect_is_causal_mask),
    ]
    return redirected(table, attributes=True)
