"""Make ``as_strided`` and ``fill_diagonal_`` use the tensor that they view.

Scatters into views whose elements overlap are refused. torch copies such a view with its strides:
``x.unfold(0, 2, 1).select_scatter(y, 1, 0)`` changes each element that shares the memory of a written one, in the order of the
kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from onnxexp._functionalize.contiguity import Contiguity, on_meta
from onnxexp._functionalize.mutation import RESIZING, MutationInfo, packet, results
from onnxexp._functionalize.node_emitter import is_static
from onnxexp._functionalize.places import refuse
from onnxexp._functionalize.write_back import are_apart
from onnxexp._neutral_graph import Graph, Node, TensorType, Value
from onnxexp._symbolic_size import SymbolicSize

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


_OP = "aten::fill_diagonal_"


def fill_diagonals(graph: Graph) -> None:
    """Replace each ``fill_diagonal_`` by ``diagonal`` and ``fill_``, in place.

    Raises CaptureError where the rank is unknown, and for ``wrap=True``.
    """
    for block in (graph, *(block for node in graph.walk() for block in node.blocks)):
        if any(node.op == _OP for node in block.nodes):
            block.nodes[:] = [made for node in block.nodes for made in (_through_view(node) if node.op == _OP else [node])]


def _through_view(node: Node) -> Iterator[Node]:
    """Yield the views of the diagonal, the write, and an alias of the tensor."""
    tensor, number, wrap = node.args
    type_ = tensor.type
    if type_.sizes is None or wrap:
        fix = "write through x.flatten()[:: x.shape[-1] + 1], or torch.where with torch.eye"
        refuse(f"{_OP} with wrap=True, or of a tensor of unknown rank, has no counterpart", node.where, fix)
    place, sizes = tensor, list(type_.sizes)
    while len(sizes) > 1:
        sizes = [*sizes[1:-1], SymbolicSize.smaller(sizes[0], sizes[-1])]
        view = Value(f"{tensor.name}_diagonal", TensorType(type_.dtype, tuple(sizes)))
        yield Node("aten::diagonal", [place, 0, 0, -1], [view], where=node.where)
        place = view
    written = Value(f"{tensor.name}_filled", place.type)
    yield Node("aten::fill_.Scalar", [place, number], [written], where=node.where)
    yield Node("aten::alias", [tensor], node.outputs, where=node.where)


_SCATTERS = frozenset({"aten::slice_scatter", "aten::select_scatter", "aten::diagonal_scatter"})


def refuse_scatters_into_overlaps(graph: Graph) -> None:
    """Raise CaptureError for a scatter into a view whose elements may overlap."""
    nodes = list(graph.walk())
    if not any(packet(node.op) in _SCATTERS for node in nodes):
        return
    contiguity, made = Contiguity(graph), dict[Value, Node]()
    for node in nodes:
        if packet(node.op) in _SCATTERS:
            layout = contiguity.layout(node.args[0])
            if layout is not None and are_apart(layout.shape, layout.stride()):
                continue
            if (view := _overlapping_view(node.args[0], made)) is not None:
                what = f"elements of the {view.op} that {node.op} copies may share memory, so that a write changes several"
                refuse(what, node.where, "clone() the view first")
        made.update(dict.fromkeys(node.outputs, node))
        contiguity.visit(node, MutationInfo.of(node.op))


def _overlapping_view(value: Value, made: dict[Value, Node]) -> Node | None:
    """Return the view, if any, in which several elements of a value share memory."""
    while (maker := made.get(value)) is not None:
        name, viewed = packet(maker.op), MutationInfo.of(maker.op).viewed
        if name == "aten::as_strided" and not are_apart(*maker.args[1:3]):
            return maker
        if name == "aten::unfold" and not _windows_are_apart(*maker.args[2:4]):
            return maker
        if name == "aten::contiguous" or viewed is None or not isinstance(maker.args[viewed], Value):
            break
        value = maker.args[viewed]
    return None


def _windows_are_apart(size: Any, step: Any) -> bool:
    """Return whether windows have no element in common."""
    return isinstance(size, int) and isinstance(step, int) and size <= step
