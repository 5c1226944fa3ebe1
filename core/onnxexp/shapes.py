"""The shapes of what the commonest operators give, from the shapes of their inputs.

Asking onnx's own inference costs more than building the node. A rule tells the plain case and gives None for every other: onnx
is asked then, which also finds what is wrong with a node. `tests/core/test_shapes.py` holds that both say the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import onnx_ir as ir
import torch

from onnxexp.graph import Dim

__all__ = ["RULES", "SEVERAL", "Shape", "shape_of"]

Shape: TypeAlias = tuple[Dim, ...]
Shapes: TypeAlias = Sequence[Shape]
Constants: TypeAlias = Sequence[torch.Tensor | None]
Rule: TypeAlias = Callable[[ir.Node, Shapes, Constants], Shape | None]

_FROM_BEHIND = 11
"""The first opset at which all operators take axes that are counted from behind."""


def shape_of(node: ir.Node, opset: int, shapes: Shapes, constants: Constants) -> Shape | None:
    """The shape of each output of a node; None where only onnx can tell. What is left out among the inputs has the shape ()."""
    rule = None if node.domain else RULES.get(node.op_type)
    if rule is None or (opset < _FROM_BEHIND and _counts_from_behind(node)):
        return None
    return rule(node, shapes, constants)


def _counts_from_behind(node: ir.Node) -> bool:
    return _attribute(node, "axis", 0) < 0 or min(_attribute(node, "axes", ()), default=0) < 0


def _attribute(node: ir.Node, name: str, default: Any) -> Any:
    given = node.attributes.get(name)
    return default if given is None else given.value


def _plain(axes: Sequence[int] | None, rank: int) -> list[int] | None:
    """Axes that are known, in range and different, counted from the front; else None."""
    if axes is None or not all(-rank <= axis < rank for axis in axes):
        return None
    plain = [axis % rank for axis in axes]
    return plain if len(set(plain)) == len(plain) else None


def _ints(node: ir.Node, constants: Constants, name: str, position: int) -> list[int] | None:
    """What was an attribute and became an input; None where it is not given or not known."""
    if name in node.attributes:
        return list(node.attributes[name].value)
    constant = constants[position] if position < len(constants) else None
    return None if constant is None or constant.dim() != 1 else constant.tolist()


def _broadcast(shapes: Shapes) -> Shape | None:
    if all(shape == shapes[0] for shape in shapes[1:]):
        return shapes[0]
    rank = max(map(len, shapes))
    result: list[Dim] = []
    for sizes in zip(*((*(1,) * (rank - len(shape)), *shape) for shape in shapes), strict=True):
        different = set(sizes) - {1}
        numbers = [size for size in different if isinstance(size, int)]
        if len(numbers) > 1 or (len(different) > 1 and not numbers):
            return None
        result.append(numbers[0] if numbers else different.pop() if different else 1)
    return tuple(result)


def _expand(node: ir.Node, shapes: Shapes, constants: Constants) -> Shape | None:
    target = _ints(node, constants, "shape", 1)
    return None if target is None else _broadcast((shapes[0], tuple(target)))


def _reshape(node: ir.Node, shapes: Shapes, constants: Constants) -> Shape | None:
    target = _ints(node, constants, "shape", 1)
    if target is None or target.count(-1) > 1 or min(target, default=1) < -1:
        return None
    if 0 in target and (_attribute(node, "allowzero", 0) or len(target) > len(shapes[0])):
        return None
    sizes = [size or shapes[0][axis] for axis, size in enumerate(target)]
    if -1 not in sizes:
        return tuple(sizes)
    if 0 in sizes or any(isinstance(size, str) for size in (*sizes, *shapes[0])):
        return None
    rest, odd = divmod(math.prod(map(int, shapes[0])), -math.prod(map(int, sizes)))
    return None if odd else tuple(rest if size == -1 else size for size in sizes)


def _transpose(node: ir.Node, shapes: Shapes, constants: Constants) -> Shape | None:
    axes = list(range(len(shapes[0])))
    perm = _attribute(node, "perm", axes[::-1])
    return None if not axes or sorted(perm) != axes else tuple(shapes[0][axis] for axis in perm)


def _unsqueeze(node: ir.Node, shapes: Shapes, constants: Constants) -> Shape | None:
    axes = _ints(node, constants, "axes", 1)
    rank = len(shapes[0]) + len(axes or ())
    new, rest = _plain(axes, rank), iter(shapes[0])
    return None if new is None else tuple(1 if axis in new else next(rest) for axis in range(rank))


def _squeeze(node: ir.Node, shapes: Shapes, constants: Constants) -> Shape | None:
    gone = _plain(_ints(node, constants, "axes", 1), len(shapes[0]))
    if gone is None or any(shapes[0][axis] != 1 for axis in gone):
        return None
    return tuple(size for axis, size in enumerate(shapes[0]) if axis not in gone)


def _concat(node: ir.Node, shapes: Shapes, constants: Constants) -> Shape | None:
    axes = _plain([_attribute(node, "axis", 0)], len(shapes[0]))
    if axes is None or any(len(shape) != len(shapes[0]) or isinstance(shape[axes[0]], str) for shape in shapes):
        return None
    before, after = shapes[0][: axes[0]], shapes[0][axes[0] + 1 :]
    if any(shape[: axes[0]] != before or shape[axes[0] + 1 :] != after for shape in shapes):
        return None
    return (*before, sum(int(shape[axes[0]]) for shape in shapes), *after)


def _gather(node: ir.Node, shapes: Shapes, constants: Constants) -> Shape | None:
    axes = _plain([_attribute(node, "axis", 0)], len(shapes[0]))
    return None if axes is None else (*shapes[0][: axes[0]], *shapes[1], *shapes[0][axes[0] + 1 :])


def _slice(node: ir.Node, shapes: Shapes, constants: Constants) -> Shape | None:
    starts, ends = _ints(node, constants, "starts", 1), _ints(node, constants, "ends", 2)
    axes, steps = _ints(node, constants, "axes", 3), _ints(node, constants, "steps", 4)
    if starts is None or ends is None or (axes is None and len(constants) > 3) or (steps is None and len(constants) > 4):
        return None
    plain = _plain(range(len(starts)) if axes is None else axes, len(shapes[0]))
    if plain is None:
        return None
    result = list(shapes[0])
    for axis, start, end, step in zip(plain, starts, ends, steps or [1] * len(starts), strict=True):
        size = result[axis]
        if isinstance(size, str) or step == 0 or ("starts" in node.attributes and not 0 <= start <= min(size, end)):
            return None
        result[axis] = len(range(size)[start:end:step])
    return tuple(result)


def _matmul(node: ir.Node, shapes: Shapes, constants: Constants) -> Shape | None:
    one, other = shapes
    if not one or not other or one[-1] != other[-2:][0]:
        return None
    batch = _broadcast((one[:-2], other[:-2]))
    return None if batch is None else (*batch, *one[-2:-1], *other[1:][-1:])


def _pad(node: ir.Node, shapes: Shapes, constants: Constants) -> Shape | None:
    pads = _ints(node, constants, "pads", 1)
    rank = len(shapes[0])
    if pads is None or len(pads) != 2 * rank or len(constants) > 3:
        return None
    more = [before + after for before, after in zip(pads[:rank], pads[rank:], strict=True)]
    if any(isinstance(size, str) or size + each < 0 for size, each in zip(shapes[0], more, strict=True)):
        return None
    return tuple(int(size) + each for size, each in zip(shapes[0], more, strict=True))


def _top(node: ir.Node, shapes: Shapes, constants: Constants) -> Shape | None:
    axes = _plain([_attribute(node, "axis", -1)], len(shapes[0]))
    count = [node.attributes["k"].value] if "k" in node.attributes else _ints(node, constants, "K", 1)
    if axes is None or count is None or len(count) != 1 or count[0] < 1:
        return None
    size = shapes[0][axes[0]]
    if isinstance(size, str) or size < count[0]:
        return None
    return (*shapes[0][: axes[0]], count[0], *shapes[0][axes[0] + 1 :])


def _shape(node: ir.Node, shapes: Shapes, constants: Constants) -> Shape | None:
    return (len(shapes[0][_attribute(node, "start", 0) : _attribute(node, "end", None)]),)


def _along(node: ir.Node, shapes: Shapes, constants: Constants) -> Shape | None:
    axis = _attribute(node, "axis", None)
    return None if axis is None or _plain([axis], len(shapes[0])) is None else shapes[0]


def _reduce(node: ir.Node, shapes: Shapes, constants: Constants) -> Shape | None:
    axes = _ints(node, constants, "axes", 1)
    if axes is None and len(constants) == 1 and "noop_with_empty_axes" not in node.attributes:
        axes = list(range(len(shapes[0])))
    return _without(node, shapes[0], axes) if axes else None


def _arg(node: ir.Node, shapes: Shapes, constants: Constants) -> Shape | None:
    return _without(node, shapes[0], [_attribute(node, "axis", 0)])


def _without(node: ir.Node, shape: Shape, axes: list[int]) -> Shape | None:
    """Of these axes only ones are left, or nothing."""
    gone = _plain(axes, len(shape))
    if gone is None:
        return None
    if _attribute(node, "keepdims", 1):
        return tuple(1 if axis in gone else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in gone)


_AS_FIRST = """
    Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cast Ceil Clip Cos Cosh CumSum Erf Exp Floor Identity IsInf IsNaN Log Neg Not
    RandomNormalLike RandomUniformLike Reciprocal Relu Round ScatterElements ScatterND Sigmoid Sign Sin Sinh Softplus Sqrt Tan
    Tanh
"""
_BROADCASTING = """
    Add And BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Max Min Mod Mul Or Pow Sub Where Xor
"""
_REDUCTIONS = "ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"

RULES: dict[str, Rule] = {
    **dict.fromkeys(_AS_FIRST.split(), lambda node, shapes, constants: shapes[0]),
    **dict.fromkeys(_BROADCASTING.split(), lambda node, shapes, constants: _broadcast(shapes)),
    **dict.fromkeys(_REDUCTIONS.split(), _reduce),
    **dict.fromkeys(("ArgMax", "ArgMin"), _arg),
    **dict.fromkeys(("LogSoftmax", "Softmax"), _along),
    **dict.fromkeys(("RandomNormal", "RandomUniform"), lambda node, shapes, constants: tuple(node.attributes["shape"].value)),
    "Concat": _concat,
    "Expand": _expand,
    "Gather": _gather,
    "GatherElements": lambda node, shapes, constants: shapes[1],
    "MatMul": _matmul,
    "Pad": _pad,
    "Reshape": _reshape,
    "Shape": _shape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "TopK": _top,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
"""By operator; at every opset, whatever is an input or an attribute there."""
SEVERAL = frozenset({"TopK"})
"""Those that have several outputs, all of one shape."""
