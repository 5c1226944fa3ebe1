"""Make ``as_strided`` read the tensor whose memory its argument views."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp._functionalize.contiguity import Contiguity, on_meta
from onnxexp._functionalize.mutation import RESIZING, MutationInfo, packet, results
from onnxexp._functionalize.node_emitter import is_static
from onnxexp._functionalize.places import refuse
from onnxexp._neutral_graph import Graph, Node, Value

_STRIDED = frozenset({"aten::as_strided", "aten::as_strided_copy", "aten::as_strided_scatter"})
_PARTS = frozenset(f"aten::{name}" for name in ("slice", "select", "narrow", "split", "split_with_sizes", "chunk", "unbind"))
_SAME_START = frozenset(
    f"aten::{name}"
    for name in (
        *("alias", "detach", "view", "view_as", "unsqueeze", "squeeze", "expand", "expand_as", "broadcast_to"),
        *("t", "transpose", "permute", "mT", "movedim", "swapaxes", "swapdims"),
    )
)
"""Operators that return views for all sizes, with the first element of their argument."""
_SAME_ORDER = _SAME_START | {f"aten::{name}" for name in ("reshape", "reshape_as", "flatten", "unflatten", "ravel", "contiguous")}
"""Operators that return the same memory if argument and result are contiguous."""


def rebase_strided_views(graph: Graph) -> None:
    """Replace the argument of each ``as_strided`` by the tensor that it views.

    Raises CaptureError where the layout of the memory is not certain.
    """
    nodes = list(graph.walk())
    if not any(packet(node.op) in _STRIDED for node in nodes):
        return
    contiguity, made = Contiguity(graph), dict[Value, Node]()
    contiguity.values -= {value for value, it in graph.params.items() if it.untyped_storage().nbytes() != it.nbytes}
    for node in nodes:
        if packet(node.op) in _STRIDED:
            _rebase(node, made, contiguity.values)
        made.update(dict.fromkeys(node.outputs, node))
        contiguity.visit(node, MutationInfo.of(node.op))
        if packet(node.op) in RESIZING:
            contiguity.values.clear()  # the strides of a view count from the new size


def _rebase(node: Node, made: dict[Value, Node], contiguous: set[Value]) -> None:
    views, base, given = list[tuple[Node, Value]](), node.args[0], node.args[-1]
    if given is None and packet(node.op) != "aten::as_strided_scatter" and all(size == 1 for size in node.args[1]):
        node.args[-1] = 0  # the first element, in any layout
        return
    while (maker := made.get(base)) is not None:
        known, written = MutationInfo.of(maker.op), dict(results(maker))[base]
        source = written if written is not None else known.viewed
        if source is None or not isinstance(maker.args[source], Value):
            break
        views[:0] = [(maker, base)] if written is None else []
        base = maker.args[source]
    base, start = _first_element(base, views, contiguous) if base in contiguous else (base, None)
    scatters_elsewhere = packet(node.op) == "aten::as_strided_scatter" and base is not node.args[0]
    certain = base in contiguous and base.type.dtype == node.args[0].type.dtype and not scatters_elsewhere
    if not certain or start is None or (start, given) == (-1, None):
        fix = "call clone(memory_format=torch.contiguous_format) on its argument, and count the strides in that"
        refuse(f"the layout of the memory that {node.op} views is not certain", node.where, fix)
    node.args[0], node.args[-1] = base, start if given is None else given


def _first_element(base: Any, views: list[tuple[Node, Value]], contiguous: set[Value]) -> tuple[Any, int | None]:
    """Return the tensor whose memory the last view has, and its first element there.

    The element is -1 where it depends on sizes at run time, and None where the tensor is not certain.
    """
    if not is_static(base.type.sizes) or any(len(view.inputs()) > 1 for view, _ in views):
        names, before = set[str](), base
        for view, value in views:
            if value not in contiguous or not names <= _SAME_START or packet(view.op) in _PARTS:
                names.add(packet(view.op))
            elif before not in contiguous or packet(view.op) not in _SAME_ORDER:
                base, names = value, set()  # a copy, or the same elements in the same order
            before = value
        return base, 0 if names <= _SAME_START else -1 if names <= _SAME_START | _PARTS else None
    tensor: Any = torch.empty(base.type.sizes, dtype=base.type.dtype, device="meta")
    for view, value in views:
        made = on_meta(view.op, [tensor if isinstance(arg, Value) else arg for arg in view.args])
        result = made if isinstance(made, torch.Tensor) else made[view.outputs.index(value)]
        if result.untyped_storage()._cdata != tensor.untyped_storage()._cdata:
            base = value
            contiguous.update([value] if result.is_contiguous() else [])
        tensor = result
    return base, tensor.storage_offset()
