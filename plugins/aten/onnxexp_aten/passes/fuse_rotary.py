"""Replace the composition of a rotary position embedding by RotaryEmbedding."""

from __future__ import annotations

from types import MappingProxyType

import onnx_ir as ir
import torch

from onnxexp import Builder, Options
from onnxexp.graph import Dim
from onnxexp.rewriting import RewritePass, Rewriter
from onnxexp_aten.passes.view_rules import known_dims, reshaped, transposed
from onnxexp_aten.support.kernel_dtypes import runs

__all__ = ["FuseRotary"]

_SWAP = [0, 2, 1, 3]
_FLOATS = MappingProxyType({ir.DataType.FLOAT: torch.float32, ir.DataType.FLOAT16: torch.float16})
_UNARY = frozenset({"Cast", "Cos", "Sin"})


class FuseRotary(RewritePass):
    """Fuse ``x * cos + rotate_half(x) * sin``, x of [batch, heads, sequence, width].

    `cos` and `sin` must repeat their first half of the width in the second. RotaryEmbedding takes that half.

    Args:
        options: The options of the export.
        domain: The domain of the operator: ONNX's own (from opset 23 on), or ONNX Runtime's.
    """

    def __init__(self, options: Options, domain: str = "") -> None:
        op = Builder(options.opset, target=options.target)
        self._domain = domain
        self._numbered: dict[ir.Value, ir.Value] = {}
        self._halves: dict[ir.Value, ir.Value] = {}
        self._dtypes = {dtype for dtype, torch_dtype in _FLOATS.items() if domain or runs(op, "RotaryEmbedding", torch_dtype)}
        self.rules = MappingProxyType({"Add": self._fused} if self._dtypes else {})

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        result = super().call(model)
        for half in self._halves.values():
            if half.is_initializer() and not half.uses():
                model.graph.initializers.pop(half.name or "")
        return result

    def _fused(self, rewriter: Rewriter, node: ir.Node) -> ir.Value | None:
        found = _rotation(node) if node.outputs[0].dtype in self._dtypes else None
        if found is None:
            return None
        x, cos, sin = found
        batch, heads, length, width = _four(x)
        if not isinstance(heads, int) or not isinstance(width, int) or width % 2 or any(v.dtype != x.dtype for v in found):
            return None
        narrow = [_half(rewriter, table, width, self._halves) for table in (cos, sin)]
        halves = [_rows(rewriter, table, (batch, length, width // 2)) for table in narrow]
        if known_dims(halves[0]) != known_dims(halves[1]):
            return None
        packed = reshaped(rewriter, transposed(rewriter, x, _SWAP), [batch, length, heads * width])
        inputs = self._caches(rewriter, packed, halves)
        turned = rewriter.emit("RotaryEmbedding", inputs, {"num_heads": heads}, sizes=known_dims(packed), domain=self._domain)[0]
        return transposed(rewriter, reshaped(rewriter, turned, [batch, length, heads, width]), _SWAP)

    def _caches(self, rewriter: Rewriter, packed: ir.Value, halves: list[ir.Value]) -> list[ir.Value]:
        """Return the inputs of RotaryEmbedding.

        `halves` are [1 or batch, sequence, width / 2].
        """
        batch, length, _ = known_dims(packed)
        own, _, width = known_dims(halves[0])
        if not self._domain:
            if own != batch:
                copies = _repeats(rewriter, packed)
                halves = [rewriter.one("Expand", [half, copies], sizes=[batch, length, width]) for half in halves]
            return [packed, *halves]
        if own == 1:
            rows = [reshaped(rewriter, half, [length, width]) for half in halves]
            return [packed, rewriter.constant([0]), *rows]  # the first row belongs to the first position
        rows = [reshaped(rewriter, half, [batch * length, width]) for half in halves]
        return [packed, self._places(rewriter, halves[0]), *rows]

    def _places(self, rewriter: Rewriter, table: ir.Value) -> ir.Value:
        """Return the row of each position in a table of [batch, sequence, half]."""
        if table not in self._numbered:
            batch, length, _ = known_dims(table)
            zero, one = (rewriter.initializer(torch.tensor(number)) for number in (0, 1))
            shape = rewriter.emit("Shape", [table], sizes=[3], type_=zero.type)[0]
            sizes = rewriter.one("Gather", [shape, rewriter.constant([0, 1])], sizes=[2])
            count = rewriter.one("ReduceProd", [sizes], {"keepdims": 0}, [])
            numbers = rewriter.one("Range", [zero, count, one], sizes=[batch * length])
            self._numbered[table] = rewriter.one("Reshape", [numbers, sizes], sizes=[batch, length])
        return self._numbered[table]


def _repeats(rewriter: Rewriter, packed: ir.Value) -> ir.Value:
    """Return the target of an Expand to the batch of [batch, sequence, width].

    A graph input with this size is preferred, so that all layers share the nodes.
    """
    batch = known_dims(packed)[0]
    if isinstance(batch, int):
        return rewriter.constant([batch, 1, 1])
    places = [(x, axis) for x in rewriter.inputs for axis, size in enumerate(rewriter.dims(x) or ()) if size == batch]
    source, axis = places[0] if places else (packed, 0)
    shape = rewriter.emit("Shape", [source], sizes=[len(known_dims(source))], type_=ir.TensorType(ir.DataType.INT64))[0]
    size = rewriter.one("Gather", [shape, rewriter.constant([axis])], sizes=[1])
    return rewriter.one("Concat", [size, rewriter.constant([1, 1])], {"axis": 0}, [3])


def _four(x: ir.Value) -> tuple[Dim, Dim, Dim, Dim]:
    sizes = known_dims(x)
    if len(sizes) != 4:
        raise Rewriter.Unfit
    return sizes[0], sizes[1], sizes[2], sizes[3]


# The composition


def _made_by(value: ir.Value | None, operator: str) -> ir.Node | None:
    node = None if value is None else value.producer()
    return node if node is not None and node.op_type == operator and not node.domain else None


def _rotation(node: ir.Node) -> tuple[ir.Value, ir.Value, ir.Value] | None:
    """Match ``x * cos + rotate_half(x) * sin``; return x, cos and sin."""
    products = [_made_by(value, "Mul") for value in node.inputs]
    for plain, turned in (products, products[::-1]):
        if plain is None or turned is None:
            return None
        for half, sin in (turned.inputs, turned.inputs[::-1]):
            x = _rotated(half)
            for own, cos in (plain.inputs, plain.inputs[::-1]):
                if x is not None and own is x and cos is not None and sin is not None:
                    return x, cos, sin
    return None


def _rotated(value: ir.Value | None) -> ir.Value | None:
    """Match ``cat([-x[..., n:], x[..., :n]], -1)`` with n half of the width; return x."""
    joined = _made_by(value, "Concat")
    sizes = Rewriter.dims(value)
    if joined is None or sizes is None or len(joined.inputs) != 2 or not isinstance(sizes[-1], int):
        return None
    negated = _made_by(joined.inputs[0], "Neg")
    if negated is None or joined.attributes.get_int("axis", 0) % len(sizes) != len(sizes) - 1:
        return None
    width = sizes[-1]
    last, first = _part(negated.inputs[0], width), _part(joined.inputs[1], width)
    if last is None or first is None or last[0] is not first[0] or (first[1], last[1]) != (0, 1):
        return None
    return last[0]


def _part(value: ir.Value | None, width: int) -> tuple[ir.Value, int] | None:
    """Match the first (0) or second (1) half of the width; return tensor and number."""
    half, sizes = width // 2, Rewriter.dims(value)
    node = _made_by(value, "Slice") or _made_by(value, "Split")
    source = None if node is None else node.inputs[0]
    known = Rewriter.dims(source)
    if node is None or source is None or value is None or sizes is None or known is None or known[-1] != width or width % 2:
        return None
    if sizes[-1] != half or sizes[:-1] != known[:-1]:
        return None
    if node.op_type == "Split":
        axis = node.attributes.get_int("axis", 0) % len(known)
        return (source, node.outputs.index(value)) if axis == len(known) - 1 and len(node.outputs) == 2 else None
    parts = enumerate(("starts", "ends", "axes", "steps"), 1)
    starts, _, axes, steps = (Rewriter.constant_ints(node, index, name) for index, name in parts)
    if starts is None or axes is None or len(axes) != 1 or axes[0] % len(known) != len(known) - 1 or (steps or [1]) != [1]:
        return None
    start = starts[0] % width
    return (source, start // half) if start in (0, half) else None


# The tables of cosines and sines


def _half(rewriter: Rewriter, table: ir.Value | None, width: int, constants: dict[ir.Value, ir.Value]) -> ir.Value:
    """Return the first half of the width of a table whose halves are equal.

    `constants` are the halves of constant tables, so that all layers share them. Raises Unfit where the halves may differ.
    """
    sizes = known_dims(table)
    if table is None or sizes[-1] != width:
        raise Rewriter.Unfit
    known = None if table.is_graph_input() else table.const_value
    if known is not None:
        if table not in constants or not constants[table].is_initializer():  # removed with a node that did not fit
            half, second = torch.from_numpy(known.numpy().copy()).chunk(2, -1)
            if not torch.equal(half, second):
                raise Rewriter.Unfit
            constants[table] = rewriter.initializer(half.contiguous(), table)
        return constants[table]
    node = table.producer()
    if node is None or node.domain or len(node.outputs) != 1:
        raise Rewriter.Unfit
    if node.op_type == "Concat":
        first, *others = node.inputs
        twice = len(others) == 1 and others[0] is first and known_dims(first)[-1] == width // 2
        if not twice or first is None or node.attributes.get_int("axis", 0) % len(sizes) != len(sizes) - 1:
            raise Rewriter.Unfit
        return first
    place = _source(node)
    source = node.inputs[place]
    narrow = _half(rewriter, source, width, constants)
    inputs = [narrow if index == place else value for index, value in enumerate(node.inputs)]
    attributes = {name: each.value for name, each in node.attributes.items()}
    return rewriter.emit(node.op_type, inputs, attributes, sizes=[*sizes[:-1], width // 2], type_=table.type)[0]


def _source(node: ir.Node) -> int:
    """Return the index of the input whose width the output has, element by element.

    Raises Unfit where no input is certain to have it.
    """
    if node.op_type in _UNARY:
        return 0
    rank = len(known_dims(node.inputs[0]))
    if node.op_type == "Mul":
        for place in (0, 1):
            if Rewriter.dims(node.inputs[1 - place]) in ((), (1,)):
                return place
    if node.op_type == "Gather" and rank > 1 and node.attributes.get_int("axis", 0) % rank != rank - 1:
        return 0
    if node.op_type == "Slice":
        sliced = Rewriter.constant_ints(node, 3, "axes") or [rank - 1]
        if rank - 1 not in [axis % rank for axis in sliced]:
            return 0
    if node.op_type == "Unsqueeze":
        axes = Rewriter.constant_ints(node, 1, "axes")
        if axes is not None and rank + len(axes) - 1 not in [axis % (rank + len(axes)) for axis in axes]:
            return 0
    raise Rewriter.Unfit


def _rows(rewriter: Rewriter, table: ir.Value, wanted: tuple[Dim, Dim, int]) -> ir.Value:
    """View a table of [..., 1, sequence, half] as [1 or batch, sequence, half]."""
    batch, length, half = wanted
    sizes = [1, 1, *known_dims(table)][-4:]
    if len(known_dims(table)) > 4 or sizes[1:] != [1, length, half] or sizes[0] not in (1, batch):
        raise Rewriter.Unfit
    return reshaped(rewriter, table, [sizes[0], length, half])
