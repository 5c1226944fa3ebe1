"""Replace in-place writes by operators without effects, node by node."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch

from onnxexp._functionalize.aliasing import Aliases
from onnxexp._functionalize.memory_values import Memory
from onnxexp._functionalize.mutation import RESIZE_FIX, RESIZING, SETTING, MutationInfo, is_out, is_tensor, packet, results
from onnxexp._functionalize.node_emitter import Emitter, differ, is_static, same_sizes
from onnxexp._functionalize.normalize_views import Sharing, ViewCall, places
from onnxexp._functionalize.places import Ref, View, refuse
from onnxexp._functionalize.write_back import are_apart
from onnxexp._neutral_graph import Graph, Node, ScalarType, TensorType, Type, Value, replace_values, values_in
from onnxexp._source_location import SourceLocation
from onnxexp._symbolic_size import SymbolicSize
from onnxexp._torch_ops.result_types import result_types
from onnxexp._torch_ops.schemas import bind, overload

_ONLY_SIZES = frozenset(
    f"aten::{name}"
    for name in [
        *("sym_size", "sym_numel", "sym_stride", "size", "dim", "numel", "len", "is_floating_point", "is_complex"),
        *("zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like", "new_zeros", "new_ones"),
        *("new_full", "new_empty"),
    ]
)
"""Operators that read only sizes and dtype: any version of the tensor will do."""

_WIDENING = {"aten::cumsum", "aten::cumprod"}
"""Operators that return int64 for all integers, but not in place."""
_NOTHING = {"aten::requires_grad_", "aten::retain_grad", "aten::detach_"}
_INSTEAD = {
    **dict.fromkeys(["aten::set_", "aten::set_data"], "use the other tensor under its own name, or copy_() it"),
    "aten::record_stream": "leave it out: a model has no streams",
}
"""Operators that change the memory of a tensor, with the fix."""


class InPlaceRewriter:
    """Rewrite a graph and its nested graphs.

    `rewrite_blocks` rewrites a node with blocks.

    Attributes:
        aliases: Which values may share memory.
        memory: The places in memory and their values.
        emit: Appends to the nodes rewritten so far.
        depth: How many blocks the rewriting is in.
    """

    def __init__(self, graph: Graph, rewrite_blocks: Callable[[InPlaceRewriter, Node], None]) -> None:
        self._rewrite_blocks = rewrite_blocks
        self.aliases = Aliases(graph)
        self.emit = Emitter(all(is_static(value.type.sizes) for value in graph.inputs if isinstance(value.type, TensorType)))
        self.memory = Memory(self.emit)
        self.depth = 0
        self._refs: dict[Value, Ref] = {}
        self._custom_dtype = functools.lru_cache(maxsize=None, typed=True)(_pointwise_dtype)
        for one, other in self.aliases.overlapping:
            if self.aliases.written(one):
                self.memory.link(self.ref(one), self.ref(other))

    def ref(self, value: Value) -> Ref:
        """Return the place of a tensor."""
        origin = self.aliases.origin(value)
        found = self._refs.get(origin)
        if found is None or found.root not in self.memory.state.versions:
            found = self._refs[origin] = self.memory.start(origin)
        return found

    def root(self, value: Any) -> Ref | None:
        """Return the root of a value; None if no node has used it yet."""
        found = self._refs.get(self.aliases.origin(value)) if isinstance(value, Value) else None
        return found.root if found is not None else None

    def resolve(self, arg: Any) -> Any:
        """Replace each written tensor in an argument by its current value."""
        return replace_values(arg, lambda each: self.memory.read(self.ref(each)) if self.aliases.written(each) else each)

    def sized(self, arg: Any) -> Any:
        """Replace each written tensor in an argument by any value of its size."""
        return replace_values(arg, lambda each: self.memory.peek(self.ref(each)) if self.aliases.written(each) else each)

    def run(self, graph: Graph) -> None:
        """Rewrite a graph's nodes and outputs."""
        outer, self.emit.nodes = self.emit.nodes, []
        for node in graph.nodes:
            self._node(node)
        graph.outputs = [self.resolve(output) for output in graph.outputs]
        if self.depth:  # pending writes are read only inside blocks
            self.memory.write_back_all()
        graph.nodes, self.emit.nodes = self.emit.nodes, outer

    def _node(self, node: Node) -> None:
        known = MutationInfo.of(node.op)
        if node.blocks:
            self._rewrite_blocks(self, node)
        elif known.written:
            self._write(node, known)
        elif known.viewed is not None and any(map(self.aliases.written, values_in(node.args[known.viewed]))):
            self._view(node, known.viewed)
        else:
            self._append(node, self.sized if packet(node.op) in _ONLY_SIZES else self.resolve, linked=known.opaque)

    def _append(self, node: Node, read: Callable[[Any], Any], *, linked: bool = False, views: bool = False) -> None:
        """Append a node with its arguments read; if `linked`, outputs may alias them.

        With `views` too, they are torch's own views.
        """
        args, node.args = node.args, [read(arg) for arg in node.args]
        self.emit.nodes.append(node)
        for output in filter(self.aliases.written, node.outputs if linked else ()):
            for value in filter(self.aliases.written, values_in(args)):
                self.memory.link(self.ref(output), self.ref(value), views=views)

    def _view(self, node: Node, viewed: int) -> None:
        source, einsum = node.args[viewed], packet(node.op) == "aten::einsum"
        if einsum and len(source) == 1:
            (source,) = source
        if not isinstance(source, Value):
            self._append(node, self.resolve, linked=not einsum, views=True)
            return
        ref = self.ref(source)
        args = [arg if index == viewed else self.sized(arg) for index, arg in enumerate(node.args)]
        several = len(node.outputs) > 1
        if several:  # one node for all pieces; made anew they are single slices
            self._append(node, lambda arg: self.resolve(arg) if arg is source else self.sized(arg))
        found = places(ViewCall(self.emit, self.memory, node, args, ref, self.aliases.contiguity))
        if not several and not isinstance(found[0], Ref):
            self._append(node, self.resolve)
        for output, place in zip(node.outputs, found, strict=True):
            if isinstance(place, Ref):
                self._refs[self.aliases.origin(output)] = place
                if several:
                    self.memory.set_value(place, output)
            elif place is Sharing.UNKNOWN:
                made = self.ref(output)
                self.memory.link(made, ref)
                if packet(node.op) == "aten::as_strided" and not are_apart(*args[1:3]):
                    self.memory.overlapping[made] = node.op

    def _write(self, node: Node, known: MutationInfo) -> None:
        name = packet(node.op)
        if name in _NOTHING:
            return
        functional = known.functional or ""
        if name in RESIZING:
            self._shrink(node)
        elif name in _INSTEAD or not (functional or name in SETTING):
            self._refuse(node)
        elif name in SETTING:
            self._set(node)
        elif name == "aten::copy_":
            self._copy(node)
        elif known.changes_strides:
            self._restride(node, functional)
        else:
            self._compute(node, known, functional)

    def _refuse(self, node: Node) -> None:
        namespace, _, base = packet(node.op).partition("::")
        other = base[:-1] if base.endswith("_") else f"{base}_functional"
        fix = f"define an operator {namespace}::{other} of the same arguments that returns new tensors"
        if namespace == "aten":
            fix = _INSTEAD.get(packet(node.op), "write the result to a new tensor instead of in place")
        refuse(f"{node.op} writes to its arguments, and no operator is known that computes the same without", node.where, fix)

    def _set(self, node: Node) -> None:
        """Rewrite ``zero_`` and ``fill_``, which do not read the old contents."""
        ref, value = self.ref(node.args[0]), node.args[1] if len(node.args) > 1 else 0
        where, output = node.where, self._output(node, ref)
        if is_tensor(value):
            output = self._fitted(self.resolve(value), ref, where)
        elif self.emit.static and ref.type.dtype is not None and is_static(ref.type.sizes):
            self.emit.call("aten::full", [list(ref.type.sizes or ()), value, ref.type.dtype], output, where)
        else:
            self.emit.call("aten::full_like", [self.memory.peek(ref), value], output, where)
        self.memory.write(ref, output, node.op, where, uniform=True)

    def _copy(self, node: Node) -> None:
        ref, source, where = self.ref(node.args[0]), node.args[1], node.where
        if not is_tensor(source):
            self._set(node)
            return
        value = self.resolve(source)
        if self.memory.is_current(ref, value):
            return  # `x[1:] += 1` ends in a copy of x[1:] to itself
        self.memory.write(ref, self._fitted(value, ref, where), node.op, where)

    def _fitted(self, value: Value, ref: Ref, where: SourceLocation) -> Value:
        """Cast and broadcast a value to the type of a place."""
        cast = self.emit.cast(value, ref.type, where, lambda: self.memory.peek(ref))
        return self.emit.expand(cast, ref.type, where, lambda: self.memory.peek(ref))

    def _restride(self, node: Node, functional: str) -> None:
        """Rewrite ``t_`` and the like: from here on the tensor is a view."""
        origin = self.aliases.origin(node.args[0])
        ref = self.ref(origin)
        output = self._output(node, ref)
        made = Node(functional, list(node.args), [output], where=node.where)
        (place,) = places(ViewCall(self.emit, self.memory, made, node.args, ref))
        if self.depth or not isinstance(place, Ref):
            where = " inside a branch or a loop" if self.depth else ""
            refuse(f"{node.op} changes the shape of a tensor in place{where}", node.where, f"use {functional}")
        else:
            self._refs[origin] = place

    def _shrink(self, node: Node) -> None:
        """Rewrite ``resize_``: from here on the tensor is a view of its first elements."""
        origin = self.aliases.origin(node.args[0])
        ref = self.ref(origin)
        if self.depth:
            refuse(f"{node.op} changes the size of a tensor inside a branch or a loop", node.where, RESIZE_FIX)
        call = ViewCall(self.emit, self.memory, node, node.args, ref, self.aliases.contiguity)
        self._refs[origin] = first_elements(call, self._output(node, ref).type)

    def _compute(self, node: Node, known: MutationInfo, functional: str) -> None:
        """Compute the new value by the operator's twin, and write it."""
        refs = [self._resized(value, node) for index in known.written for value in values_in(node.args[index])]
        args = [self.resolve(arg) for index, arg in enumerate(node.args) if not is_out(known, index)]
        if packet(functional) in _WIDENING:
            args[2] = args[2] or refs[0].type.dtype
        bound = bind(MutationInfo.of(functional).schema, args, {})
        outputs = [output for output, index in results(node) if index is None]
        computed = []
        for position, ref in enumerate(refs):
            dtype = self._result_dtype(functional, bound, ref.type.dtype)
            same = dtype == ref.type.dtype and (dtype is not None or sum(map(is_tensor, bound)) < 2)
            value = self._output(node, ref, position) if same else self.emit.value(ref.name, TensorType(dtype, ref.type.sizes))
            computed.append((ref, value, same))
        outputs += [value for _, value, _ in computed]
        self.emit.nodes.append(Node(functional, bound, outputs, where=node.where))
        for ref, value, same in computed:
            value = value if same else self.emit.cast(value, ref.type, node.where, functools.partial(self.memory.peek, ref))
            self.memory.write(ref, value, node.op, node.where)

    def _result_dtype(self, op: str, args: Sequence[Any], default: torch.dtype | None) -> torch.dtype | None:
        """Return a pointwise operator's result dtype, None if unknown; else `default`."""
        if not MutationInfo.of(op).pointwise or any(isinstance(arg, (list, tuple)) for arg in args):
            return default
        samples = [_sample(arg) for arg in args]
        if any(isinstance(sample, TensorType) and sample.dtype is None for sample in samples):
            return None
        dtype_of = _aten_dtype if op.startswith("aten::") else self._custom_dtype  # which the user may define anew
        return dtype_of(op, torch.get_default_dtype(), *samples) or default

    def _output(self, node: Node, ref: Ref, position: int = 0) -> Value:
        """Return the captured value of the written tensor, or a new one."""
        written = [output for output, index in results(node) if index is not None]
        return written[position] if position < len(written) else self.emit.value(ref.name, ref.type)

    def _resized(self, value: Value, node: Node) -> Ref:
        """Return the written place.

        An ``out=`` tensor of another size becomes a new one, as torch resizes it.
        """
        ref = self.ref(value)
        after = next((output.type for output, index in results(node) if index is not None), ref.type)
        if not isinstance(after, TensorType) or not differ(after.sizes, ref.type.sizes):
            return ref
        if ref is not ref.root or self.depth:
            refuse(f"{node.op} resizes a tensor that is a view, or inside a branch or a loop", node.where, "drop out=")
        origin = self.aliases.origin(value)
        self._refs[origin] = self.memory.start(Value(origin.name, TensorType(ref.type.dtype, after.sizes)))
        return self._refs[origin]


def _sample(arg: Any) -> Any:
    """Return an argument of a pointwise operator, a Value as its type at sizes of 1."""
    type_ = arg.type if isinstance(arg, Value) else arg
    if not isinstance(type_, TensorType):
        return type_
    return TensorType(type_.dtype, (1,) * (1 if type_.sizes is None else len(type_.sizes)))


def _pointwise_dtype(op: str, floats: torch.dtype, *samples: Any) -> torch.dtype | None:
    """Run a pointwise operator on samples; None where torch fails.

    `floats` is torch's default dtype, which the result may depend on, for a cache.
    """
    args = [Value("", sample) if isinstance(sample, (TensorType, ScalarType)) else sample for sample in samples]
    found = result_types(overload(op), args, lambda: SymbolicSize("?"))
    return found[0].dtype if found else None


_aten_dtype = functools.lru_cache(maxsize=1024, typed=True)(_pointwise_dtype)  # a run takes 1 ms


def first_elements(call: ViewCall, after: Type) -> Ref:
    """Return the place of a tensor after ``resize_`` or ``resize_as_``.

    The place is the first elements in memory. Raises CaptureError where these are not certain.
    """
    before, dtype = call.ref.type.sizes, call.ref.type.dtype
    sizes = after.sizes if isinstance(after, TensorType) else None
    if same_sizes(before, sizes):
        return call.ref
    old = [size for size in before or () if isinstance(size, int)]
    new = [size for size in sizes or () if isinstance(size, int)]
    index = MutationInfo.of(call.node.op).memory_format
    if before is None or sizes is None or len(old) < len(before) or len(new) < len(sizes):
        _refuse(call, "whose sizes depend on the run time")
    if index is not None and call.node.args[index] not in (None, torch.contiguous_format, 0):
        _refuse(call, "to another memory format")
    count, total = math.prod(new), math.prod(old)
    if count > total:
        _refuse(call, f"from {total} to {count} elements: the last ones are undefined")
    if not call.contiguous:
        _refuse(call, "whose order in memory is not certain")
    place, where = call.ref, call.node.where
    steps = (
        (View("aten::view", ((total,),)), (total,)),
        (View("aten::slice.Tensor", (0, 0, count, 1)), (count,)),
        (View("aten::view", (tuple(new),)), tuple(new)),
    )
    for view, shape in steps:
        place = call.memory.child(place, view, call.emit.value(place.name, TensorType(dtype, shape)), where)
    return place


def _refuse(call: ViewCall, why: str) -> NoReturn:
    refuse(f"{call.node.op} resizes a tensor {why}", call.node.where, RESIZE_FIX)
