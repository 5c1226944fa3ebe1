"""Normalize view operators to the few kinds that `write_back` handles.

``x[0]``, ``unbind`` and ``select`` of the same row are the same place. So are equal pieces of ``narrow``, ``split`` and
``slice``.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable
from typing import Any

import torch

from onnxexp._functionalize.contiguity import Contiguity
from onnxexp._functionalize.memory_values import Memory
from onnxexp._functionalize.mutation import MutationInfo, packet
from onnxexp._functionalize.node_emitter import END, Emitter, same_sizes
from onnxexp._functionalize.places import Ref, View
from onnxexp._neutral_graph import Dim, Node, TensorType, Value


class Sharing(enum.Enum):
    """The relation of a result that is no known view to the argument."""

    NEW = "its own memory"
    UNKNOWN = "maybe the argument's memory"


Place = Ref | Sharing


class ViewCall:
    """A call of an operator that may return views of a tensor.

    Attributes:
        args: All arguments, with tensors replaced by values of the same size (views read only sizes from them).
        ref: The place of the tensor that is viewed.
        contiguous: Whether that tensor is contiguous for certain.
        strided: That tensor without data, with its strides; None where they are not certain.
    """

    def __init__(
        self, emit: Emitter, memory: Memory, node: Node, args: list[Any], ref: Ref, layouts: Contiguity | None = None
    ) -> None:
        self.emit, self.memory, self.node, self.args, self.ref = emit, memory, node, args, ref
        source = node.args[0]
        self.strided = layouts.layout(source) if layouts is not None and isinstance(source, Value) else None
        plain = self.strided is not None and self.strided.is_contiguous()
        self.contiguous = plain or (layouts is not None and source in layouts.values)

    @property
    def output(self) -> TensorType:
        type_ = self.node.outputs[0].type
        assert isinstance(type_, TensorType)
        return type_

    def child(self, op: str, *args: Any, output: int = 0) -> Ref:
        """Return the place of the view `op` with these arguments after the tensor."""
        return self.memory.child(self.ref, View(op, _frozen(args)), self.node.outputs[output], self.node.where)

    def dim(self, dim: int, rank: int | None = None) -> int:
        """Count a dimension from the front if the rank is known."""
        rank = rank if rank is not None else len(self.ref.type.sizes) if self.ref.type.sizes is not None else None
        return dim + rank if dim < 0 and rank is not None else dim

    def size(self, dim: int) -> Dim | None:
        return self.ref.type.sizes[dim] if self.ref.type.sizes is not None else None

    def piece(self, dim: int, start: Any, end: Any, step: Any = 1, output: int = 0) -> Ref:
        """Return the place of a slice."""
        size = self.size(dim)
        if isinstance(size, int):
            start, end = _from_front(start, size), _from_front(end, size)
            end = END if isinstance(end, int) and end >= size else end
        if (start, end, step) == (0, END, 1):
            return self.ref
        return self.child("aten::slice.Tensor", dim, start, end, step, output=output)


def places(call: ViewCall) -> list[Place]:
    """Find the place of each output of a call, or its relation to the argument."""
    if (handler := _VIEWS.get(packet(call.node.op))) is None:
        return [Sharing.UNKNOWN] * len(call.node.outputs)
    found = handler(call)
    return found if isinstance(found, list) else [found] * len(call.node.outputs)


def _frozen(arg: Any) -> Any:
    return tuple(map(_frozen, arg)) if isinstance(arg, (list, tuple)) else arg


def _from_front(index: Any, size: int) -> Any:
    return max(index + size, 0) if isinstance(index, int) and index < 0 else index


def _view(call: ViewCall) -> Place:
    """Handle a view whose own arguments are already normal."""
    return call.child(call.node.op, *call.args[1:])


def _shape(call: ViewCall) -> Place:
    return call.ref if same_sizes(call.ref.type.sizes, call.output.sizes) else _view(call)


def _maybe_copy(call: ViewCall) -> Place:
    """Handle ``reshape``, a view if contiguous or if only sizes of 1 come or go.

    The strides decide about other tensors.
    """
    before, after = call.ref.type.sizes, call.output.sizes
    ones = before is not None and after is not None and same_sizes([s for s in before if s != 1], [s for s in after if s != 1])
    if ones or call.contiguous:
        return _shape(call)
    sizes = [size for size in after or () if isinstance(size, int)]
    if call.strided is None or after is None or len(sizes) < len(after):
        return Sharing.UNKNOWN
    shared = call.strided.reshape(sizes).untyped_storage()._cdata == call.strided.untyped_storage()._cdata
    return _view(call) if shared else Sharing.NEW


def _contiguous(call: ViewCall) -> Place:
    plain = call.args[1] in (None, torch.contiguous_format, torch.preserve_format, 0)
    if plain and call.contiguous:
        return call.ref
    return Sharing.NEW if plain and call.strided is not None else Sharing.UNKNOWN


def _to(call: ViewCall) -> Place:
    """Handle ``to``, which returns the tensor itself if nothing changes."""
    before, after = call.ref.type.dtype, call.output.dtype
    known = {argument.name: arg for argument, arg in zip(MutationInfo.of(call.node.op).schema.arguments, call.args, strict=False)}
    if known.get("copy") is True or (before is not None and after is not None and before != after):
        return Sharing.NEW
    plain = known.get("memory_format") in (None, torch.preserve_format) and known.get("copy") in (None, False)
    return call.ref if plain and before is not None and after is not None else Sharing.UNKNOWN


def _slice(call: ViewCall) -> Place:
    dim, start, end, step = call.args[1:]
    return call.piece(call.dim(dim), 0 if start is None else start, END if end is None else end, step)


def _narrow(call: ViewCall) -> Place:
    dim, start, length = call.dim(call.args[1]), call.args[2], call.args[3]
    if isinstance(start, Value) and isinstance(start.type, TensorType):
        return Sharing.UNKNOWN
    end = call.emit.add(start, length, call.node.where)
    return call.piece(dim, start, END if end == 0 and start != 0 else end)


def _select(call: ViewCall) -> Place:
    dim, index = call.dim(call.args[1]), call.args[2]
    size = call.size(dim)
    return call.child("aten::select.int", dim, _from_front(index, size) if isinstance(size, int) else index)


def _unbind(call: ViewCall) -> list[Place]:
    dim = call.dim(call.args[1])
    return [call.child("aten::select.int", dim, index, output=index) for index in range(len(call.node.outputs))]


def _split(call: ViewCall, dim: int) -> list[Place]:
    """Handle an operator that splits a tensor along one dimension."""
    outputs, dim = call.node.outputs, call.dim(dim)
    if call.node.op.endswith((".indices", ".array")):  # pieces between indices may overlap
        bounds = [0, *call.args[1], END]
        return [call.piece(dim, *ends, output=index) for index, ends in enumerate(itertools.pairwise(bounds))]
    if isinstance(call.args[1], Value) and isinstance(call.args[1].type, TensorType) and call.args[1].type.sizes != ():
        return [Sharing.UNKNOWN] * len(outputs)
    found: list[Place] = []
    start: int | Value = 0
    for index, output in enumerate(outputs):
        last = index == len(outputs) - 1
        end = END if last else call.emit.add(start, call.emit.size(output, dim, call.node.where), call.node.where)
        found.append(call.piece(dim, start, end, output=index))
        start = end
    return found


def _hsplit(call: ViewCall) -> list[Place]:
    return _split(call, 0 if call.ref.type.sizes is not None and len(call.ref.type.sizes) == 1 else 1)


def _diagonal(call: ViewCall) -> Place:
    offset, dim1, dim2 = call.args[1:]
    return call.child("aten::diagonal", offset, call.dim(dim1), call.dim(dim2))


def _transpose(call: ViewCall) -> Place:
    one, other = sorted(call.dim(dim) for dim in call.args[1:3])
    return call.ref if one == other else call.child("aten::transpose.int", one, other)


def _t(call: ViewCall) -> Place:
    if (sizes := call.ref.type.sizes) is None:
        return call.child("aten::t")
    return call.ref if len(sizes) < 2 else call.child("aten::transpose.int", 0, 1)


def _last_two(call: ViewCall) -> Place:
    """Handle ``mT`` and the like, and ``mH`` for real numbers only."""
    if packet(call.node.op) in ("aten::mH", "aten::adjoint", "aten::matrix_H") and not _is_real(call):
        return Sharing.UNKNOWN
    sizes = call.ref.type.sizes
    return call.child("aten::mT") if sizes is None else call.child("aten::transpose.int", len(sizes) - 2, len(sizes) - 1)


def _permute(call: ViewCall) -> Place:
    dims = [call.dim(dim, len(call.args[1])) for dim in call.args[1]]
    if not (moved := sorted(dim for index, dim in enumerate(dims) if dim != index)):
        return call.ref
    return call.child("aten::transpose.int", *moved) if len(moved) == 2 else call.child("aten::permute", dims)


def _unsqueeze(call: ViewCall) -> Place:
    sizes = call.ref.type.sizes
    return call.child("aten::unsqueeze", call.dim(call.args[1], len(sizes) + 1 if sizes is not None else None))


def _squeeze(call: ViewCall) -> Place:
    if same_sizes(call.ref.type.sizes, call.output.sizes):
        return call.ref
    return call.child("aten::squeeze.dim", call.dim(call.args[1])) if call.node.op == "aten::squeeze.dim" else _view(call)


def _is_real(call: ViewCall) -> bool:
    dtype = call.ref.type.dtype
    return dtype is not None and not dtype.is_complex


def _conjugate(call: ViewCall) -> Place:
    if _is_real(call):
        return call.ref
    return call.child("aten::_conj") if packet(call.node.op) in ("aten::conj", "aten::_conj") else Sharing.UNKNOWN


def _real(call: ViewCall) -> Place:
    return call.ref if _is_real(call) else call.child("aten::real")


def _dropout(call: ViewCall) -> Place:
    p, train = call.args[1:]
    if p == 0 or train is False:
        return call.ref
    return Sharing.NEW if train is True else Sharing.UNKNOWN


def _einsum(call: ViewCall) -> Place:
    """Handle ``einsum`` of one tensor as diagonals and a permutation, unless it sums."""
    left, arrow, right = call.args[0].replace(" ", "").partition("->")
    if call.ref.type.sizes is None:
        return Sharing.UNKNOWN
    if not arrow:
        right = "..." * ("..." in left) + "".join(sorted(letter for letter in set(left) - {"."} if left.count(letter) == 1))
    hidden = "0123456789"[: len(call.ref.type.sizes) - len(left.replace("...", ""))]
    left, right = left.replace("...", hidden), right.replace("...", hidden)
    if set(left) != set(right):
        return Sharing.NEW
    ref, letters, sizes = call.ref, list(left), list(call.ref.type.sizes)
    for letter in left:
        if letters.count(letter) > 1:
            one, other = [index for index, each in enumerate(letters) if each == letter][:2]
            kept = [index for index in range(len(letters)) if index not in (one, other)] + [one]
            letters, sizes = [letters[index] for index in kept], [sizes[index] for index in kept]
            value = call.emit.value(ref.name, TensorType(ref.type.dtype, tuple(sizes)))
            ref = call.memory.child(ref, View("aten::diagonal", (0, one, other)), value, call.node.where)
    dims = tuple(letters.index(letter) for letter in right)
    return call.memory.child(ref, View("aten::permute", (dims,)), call.node.outputs[0], call.node.where)


def _unfold(call: ViewCall) -> Place:
    """Handle windows.

    Windows of one element are a slice, which can be written back.
    """
    dim, size, step = call.args[1:]
    if size != 1 or not call.ref.type.sizes or call.output.sizes is None:
        return _view(call)
    sizes = call.output.sizes[:-1]
    elements = call.emit.value(call.ref.name, TensorType(call.ref.type.dtype, sizes))
    taken = View("aten::slice.Tensor", (call.dim(dim), 0, END, step))
    ref = call.ref if step == 1 else call.memory.child(call.ref, taken, elements, call.node.where)
    return call.memory.child(ref, View("aten::unsqueeze", (len(sizes),)), call.node.outputs[0], call.node.where)


def _view_dtype(call: ViewCall) -> Place:
    """Handle ``view`` with sizes, or with a dtype, which cannot be written back."""
    return _shape(call) if call.node.op == "aten::view" else _view(call)


def _as_strided(call: ViewCall) -> Place:
    """Handle a view by strides of a whole contiguous tensor, see `strided_views`."""
    return _view(call) if call.ref.parent is None else Sharing.UNKNOWN


_HANDLERS: dict[Callable[[ViewCall], Place | list[Place]], str] = {
    (lambda call: call.ref): "alias detach positive lift_fresh resolve_neg _fw_primal cpu",
    _shape: "view_as _unsafe_view expand expand_as broadcast_to atleast_1d atleast_2d atleast_3d",
    _view: "numpy_T imag view_as_real view_as_complex unflatten movedim moveaxis",
    _view_dtype: "view",
    _maybe_copy: "reshape reshape_as flatten ravel",
    _contiguous: "contiguous",
    _to: "to type_as",
    _slice: "slice",
    _narrow: "narrow",
    _select: "select",
    _unbind: "unbind",
    (lambda call: _split(call, int(call.args[2]))): (
        "split split_with_sizes chunk tensor_split unsafe_split unsafe_split_with_sizes unsafe_chunk"
    ),
    _as_strided: "as_strided",
    _hsplit: "hsplit",
    (lambda call: _split(call, 0)): "vsplit",
    (lambda call: _split(call, 2)): "dsplit",
    _diagonal: "diagonal",
    _transpose: "transpose swapaxes swapdims",
    _t: "t",
    _last_two: "mT mH adjoint matrix_H",
    _permute: "permute",
    _unsqueeze: "unsqueeze",
    _squeeze: "squeeze",
    _unfold: "unfold",
    _conjugate: "conj _conj resolve_conj conj_physical",
    _real: "real",
    _einsum: "einsum",
    _dropout: "dropout feature_dropout alpha_dropout feature_alpha_dropout",
}
_VIEWS = {f"aten::{name}": handler for handler, names in _HANDLERS.items() for name in names.split()}
