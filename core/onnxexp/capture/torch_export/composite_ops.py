"""Capture recurrent layers and packed sequences as one node each.

Tracing into them would specialise a size: a recurrent layer unrolls over time, and packing a sequence reads the lengths' values.
During a capture, the entry points of torch's modules call operators of ours, which compute output shapes only. `NAMES` maps them
back to torch's names.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._higher_order_ops.scan import scan
from torch.nn.modules import transformer
from torch.nn.modules.rnn import RNNBase
from torch.utils import _pytree as pytree

from onnxexp.capture.torch_export import data_dependent_ops
from onnxexp.capture.torch_state import is_exporting, replace_attributes

__all__ = ["NAMES", "keep_composite_ops", "library", "torch_arguments"]

_RNN_ARGUMENTS = "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional"
_PADDED = f"(Tensor input, {{hx}} hx, {_RNN_ARGUMENTS}, bool batch_first) -> {{returns}}"
_PACKED = f"(Tensor data, Tensor batch_sizes, {{hx}} hx, {_RNN_ARGUMENTS}) -> {{returns}}"
_LAYERS = {
    "lstm": {"hx": "Tensor[]", "returns": "(Tensor, Tensor, Tensor)"},
    "gru": {"hx": "Tensor", "returns": "(Tensor, Tensor)"},
    "rnn_tanh": {"hx": "Tensor", "returns": "(Tensor, Tensor)"},
    "rnn_relu": {"hx": "Tensor", "returns": "(Tensor, Tensor)"},
}

NAMES = {f"onnxexp::{layer}.{kind}": f"aten::{layer}.{kind}" for layer in _LAYERS for kind in ("input", "data")}
NAMES |= {
    "onnxexp::pack": "aten::_pack_padded_sequence",
    "onnxexp::pad": "aten::_pad_packed_sequence",
    **data_dependent_ops.NAMES,
}
"""torch's name of each of our operators, for the neutral graph."""


def torch_arguments(name: str, args: list[Any]) -> list[Any]:
    """Return torch's arguments of a call of ours.

    Our `pad` has an extra argument, for its shape function.
    """
    return args[:-1] if name == "onnxexp::pad" else args


@functools.cache
def library() -> Any:
    """Define the operators, once per process."""
    library: Any = torch.library.Library("onnxexp", "DEF")  # type: ignore[no-untyped-call]
    for layer, types in _LAYERS.items():
        library.define(f"{layer}.input" + _PADDED.format(**types))
        library.define(f"{layer}.data" + _PACKED.format(**types))
        library.impl(f"{layer}.input", _padded, "Meta")
        library.impl(f"{layer}.data", _packed, "Meta")
    library.define("pack(Tensor input, Tensor lengths, bool batch_first) -> (Tensor, Tensor)")
    library.define(
        "pad(Tensor data, Tensor batch_sizes, bool batch_first, Scalar padding_value, SymInt total_length, SymInt batch)"
        " -> (Tensor, Tensor)"
    )
    torch.library.register_fake("onnxexp::pack", _pack, lib=library)
    torch.library.register_fake("onnxexp::pad", _pad, lib=library)
    data_dependent_ops.library()
    return library


def _states(hx: Any) -> tuple[torch.Tensor, ...]:
    states = tuple(hx) if isinstance(hx, (list, tuple)) else (hx,)
    return tuple(state.new_empty(state.shape) for state in states)


def _width(hx: Any, bidirectional: bool) -> int:
    first = hx[0] if isinstance(hx, (list, tuple)) else hx
    return int(first.shape[-1]) * (2 if bidirectional else 1)


def _padded(
    input: torch.Tensor, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    return input.new_empty((*input.shape[:-1], _width(hx, bidirectional))), *_states(hx)


def _packed(
    data: torch.Tensor, batch_sizes: torch.Tensor, hx: Any, params: Any, has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    return data.new_empty((data.shape[0], _width(hx, bidirectional))), *_states(hx)


def _pack(input: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> tuple[torch.Tensor, torch.Tensor]:
    context = torch.library.get_ctx()
    elements, steps = context.new_dynamic_size(min=1), context.new_dynamic_size(min=1)
    torch._check(steps <= input.shape[1 if batch_first else 0])  # type: ignore[no-untyped-call]
    return input.new_empty((elements, *input.shape[2:])), torch.empty((steps,), dtype=torch.int64)


def _pad(
    data: torch.Tensor, batch_sizes: torch.Tensor, batch_first: bool, padding_value: float, total_length: Any, batch: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    steps = batch_sizes.shape[0] if isinstance(total_length, int) and total_length <= 0 else total_length
    leading = (batch, steps) if batch_first else (steps, batch)
    return data.new_empty((*leading, *data.shape[1:])), torch.empty((batch,), dtype=torch.int64)


def _autocast(name: str, args: tuple[Any, ...]) -> Any:
    """Call a layer's operator.

    Under autocast, give its results the dtypes of torch's kernels.
    """
    packed = not isinstance(args[3], bool)
    packet = getattr(torch.ops.onnxexp, name)  # by the layer's name
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
        """Return the batch size at `pack`, else the first element of `batch_sizes`."""
        known = next((batch for sizes, batch in self._batches if sizes is batch_sizes), None)
        return batch_sizes[0].item() if known is None else known

    def layer(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            if not is_exporting():
                return original(*args)
            if not isinstance(args[3], bool):
                state = args[2][0] if isinstance(args[2], (list, tuple)) else args[2]
                torch._check(state.shape[1] == self.batch(args[1]))  # type: ignore[no-untyped-call]
            return _autocast(name, args)

        return call

    def pack(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(input: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> Any:
            if not is_exporting():
                return original(input, lengths, batch_first)
            data, batch_sizes = torch.ops.onnxexp.pack(input, lengths, batch_first)
            self._batches.append((batch_sizes, input.shape[0 if batch_first else 1]))
            return data, batch_sizes

        return call

    def pad(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(
            data: torch.Tensor, batch_sizes: torch.Tensor, batch_first: bool, padding_value: float, total_length: int
        ) -> Any:
            if not is_exporting():
                return original(data, batch_sizes, batch_first, padding_value, total_length)
            return torch.ops.onnxexp.pad(data, batch_sizes, batch_first, padding_value, total_length, self.batch(batch_sizes))

        return call


def _check_forward_args(original: Callable[..., None]) -> Callable[..., None]:
    def check(self: RNNBase, input: torch.Tensor, hidden: torch.Tensor, batch_sizes: torch.Tensor | None) -> None:
        if is_exporting() and batch_sizes is not None:
            self.check_input(input, batch_sizes)  # the other checks read a value; `_PackedSequences.layer` has them
        else:
            original(self, input, hidden, batch_sizes)

    return check


def _associative_scan(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap associative_scan as a plain scan.

    Its own recursion would specialise the length.
    """

    def call(operator: functools.partial[Any], leaves: list[torch.Tensor], *rest: Any, **options: Any) -> Any:
        length: Any = leaves[0].shape[0]
        if not is_exporting() or (isinstance(length, int) and length < 2):
            return original(operator, leaves, *rest, **options)
        combine = inspect.getclosurevars(operator.keywords["combine_fn"]).nonlocals["func"]  # the function under torch.vmap

        def step(before: list[torch.Tensor], element: list[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
            after = [leaf.contiguous() for leaf in pytree.tree_leaves(operator(*before, *element, combine_fn=combine))]
            return after, [leaf.clone() for leaf in after]

        _, later = scan(step, [leaf[0].contiguous() for leaf in leaves], [leaf[1:] for leaf in leaves])
        return [torch.cat([leaf[:1], after]) for leaf, after in zip(leaves, later, strict=True)]

    return call


def _max_pool1d(original: Callable[..., Any]) -> Callable[..., Any]:
    """Replace max_pool1d, which specialises the length, by a sibling operator."""

    def call(*args: Any, **options: Any) -> Any:
        return torch.max_pool1d_with_indices(*args, **options)[0] if is_exporting() else original(*args, **options)

    return call


@contextlib.contextmanager
def keep_composite_ops() -> Iterator[None]:
    """Capture recurrent layers and packed sequences as one node each.

    Other threads are not affected.

    `TransformerEncoder` compares its mask with the causal one, only to choose a faster kernel. During a capture its `is_causal`
    argument decides.
    """
    library()
    packing = _PackedSequences()
    functions: Any = torch._VF
    scans = importlib.import_module("torch._higher_order_ops.associative_scan")  # the attribute of that name is the function
    detect = transformer._detect_is_causal_mask
    detect_causal = lambda mask, is_causal=None, size=None: bool(is_causal) if is_exporting() else detect(mask, is_causal, size)  # noqa: E731
    table: list[tuple[Any, str, Callable[..., Any]]] = [
        *(
            (owner, name, packing.layer(name, getattr(functions, name)))  # one wrapper for each name
            for owner in (functions, torch)
            for name in _LAYERS
        ),
        (functions, "_pack_padded_sequence", packing.pack(functions._pack_padded_sequence)),
        (functions, "_pad_packed_sequence", packing.pad(functions._pad_packed_sequence)),
        (scans, "generic_associative_scan", _associative_scan(scans.generic_associative_scan)),
        (RNNBase, "check_forward_args", _check_forward_args(RNNBase.check_forward_args)),
        (torch, "max_pool1d", _max_pool1d(torch.max_pool1d)),
        (transformer, "_detect_is_causal_mask", detect_causal),
    ]
    with replace_attributes(table):
        yield
