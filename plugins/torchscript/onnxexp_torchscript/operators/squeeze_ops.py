"""`squeeze` and `chunk` of sizes that are known only at run time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from onnxexp.graph import TensorType, Value
from onnxexp.torch_ops import MutationInfo
from onnxexp_torchscript.conversion.interpreter import Interpreter
from onnxexp_torchscript.conversion.restrictions import may_be_one
from onnxexp_torchscript.jit.jit_nodes import recorded
from onnxexp_torchscript.types.abstract_tensor import AbstractTensor, expr_of

_RETURNING = ("prim::Return", "prim::TupleConstruct", "prim::ListConstruct", "prim::DictConstruct")


def squeezed(interpreter: Interpreter, tensor: Any, dims: Any = None) -> Any:
    """Squeeze as the example does: squeeze, squeeze_ and squeeze_copy.

    A result that is only returned has the rank of its call. For any other, the example decides: where its size is 1, record the
    place for a warning, since the exported model fails at any other size; where it is not 1, record that the model is wrong at 1.
    Raises CaptureError where no trace decides.
    """
    fake = _fake(interpreter, tensor)
    if fake is None:
        return NotImplemented
    axes = _axes(fake, dims)
    in_place = interpreter.node.kind() == "aten::squeeze_"
    if (
        not in_place
        and any(may_be_one(interpreter.sizes, fake.shape[axis]) for axis in axes)
        and _only_returned(interpreter.node)
    ):
        return _squeezed_at_run_time(interpreter, tensor, axes, fake.dtype)
    gone = _gone(interpreter, fake, axes)
    first = next(
        (axis for axis, size in enumerate(fake.shape) if axis not in gone and not (isinstance(size, int) and size == 1)), -1
    )
    broadcast = {first} if not in_place and _only_broadcast(interpreter.node) else set()
    _record_kept(interpreter, fake, [axis for axis in axes if axis not in gone and axis not in broadcast])
    if all(isinstance(fake.shape[axis], int) for axis in gone):
        return NotImplemented
    interpreter.kept[f"squeeze removes axis {_listed(gone)}, as for the example, at {interpreter.where}"] = None
    removed = (fake.shape[axis] for axis in gone)
    interpreter.only_one |= dict.fromkeys(expr_of(size) for size in removed if not isinstance(size, int) and _hint(size) == 1)
    sizes = [1 if axis in gone else size for axis, size in enumerate(fake.shape)]
    interpreter.sizes.record(tensor, AbstractTensor(fake.dtype, sizes))
    made = interpreter.emit(f"{interpreter.node.kind()}.dims", [tensor, gone])
    if interpreter.sizes.of(tensor).dim() == fake.dim():  # not in place
        interpreter.sizes.record(tensor, fake)
    return made


def _only_returned(node: Any) -> bool:
    """Return whether the program returns a node's result, and reads it nowhere else."""
    if node.kind() == "prim::Return":
        return node.owningBlock().owningNode() is None  # the program's own, not that of a branch
    users = [use.user for use in node.output().uses()]
    return bool(users) and all(user.kind() in _RETURNING and _only_returned(user) for user in users)


def _only_broadcast(node: Any) -> bool:
    """Return whether a traced tensor only meets others of a higher rank, pointwise.

    A first axis of size 1 broadcasts there as if it were removed. Another tensor of the same rank may be squeezed as well.
    """
    result = recorded(node.output())
    if result is None or len(result.sizes or ()) < 2:  # without axes it would take part in type promotion in another way
        return False
    for user in [use.user for use in node.output().uses()]:
        known = MutationInfo.of(user.schema().partition("(")[0])
        if not known.pointwise or known.written:
            return False
        others = [recorded(each) for each in user.inputs() if each.debugName() != node.output().debugName()]
        ranks = [len(other.sizes) for other in others if other is not None and other.sizes is not None]
        if max(ranks, default=-1) <= len(result.sizes or ()) and not _only_broadcast(user):
            return False
    return True


def _squeezed_at_run_time(interpreter: Interpreter, tensor: Value, axes: list[int], dtype: Any) -> Value:
    """Emit a squeeze whose result has a rank that is known at run time only."""
    name = "aten::squeeze.dims"
    result = interpreter.value(name, TensorType(dtype, None))
    interpreter.append(name, [tensor, axes], [result])
    return result


def halved(interpreter: Interpreter, tensor: Any, chunks: Any, dim: Any = 0) -> Any:
    """Record that a tensor of size 1 has a single chunk.

    Only two chunks need this: torch compares the size with any other number of chunks.
    """
    fake = _fake(interpreter, tensor)
    if fake is not None and chunks == 2 and has_halves(interpreter, tensor, dim):
        _record_kept(interpreter, fake, [dim % fake.dim()])
    elif fake is not None and chunks == 2 and interpreter.traced and _hint(fake.shape[dim]) is None:
        interpreter.kept[f"aten::chunk gives as many pieces as for the example, 2, at {interpreter.where}"] = None
    return NotImplemented


def has_halves(interpreter: Interpreter, tensor: Any, dim: int) -> bool:
    """Return whether an axis has a size other than 1 in the example."""
    fake = _fake(interpreter, tensor)
    return fake is not None and _hint(fake.shape[dim]) not in (None, 1)


def _fake(interpreter: Interpreter, tensor: Any) -> AbstractTensor | None:
    fake = interpreter.sizes.of(tensor) if isinstance(tensor, Value) else None
    return fake if isinstance(fake, AbstractTensor) and fake.dim() else None


def _axes(fake: AbstractTensor, dims: Any) -> list[int]:
    listed = range(fake.dim()) if dims is None else dims if isinstance(dims, list) else [dims]
    return sorted({dim % fake.dim() for dim in listed})


def _gone(interpreter: Interpreter, fake: AbstractTensor, axes: list[int]) -> list[int]:
    """Find the axes of size 1 in the example.

    For sizes that the example does not fix, the rank that a trace recorded decides.
    """
    sizes = {axis: fake.shape[axis] for axis in axes}
    free = [axis for axis, size in sizes.items() if _hint(size) is None]
    gone = [axis for axis, size in sizes.items() if axis not in free and _hint(size) == 1]
    type_ = recorded(interpreter.node.output()) if interpreter.traced else None
    if free and type_ is None:
        what = "squeeze removes an axis only at size 1, and it is known only at run time whether an axis is 1 long here"
        raise interpreter.refuse(what, "select element 0 of the axis, or keep it")
    missing = 0 if type_ is None or type_.sizes is None else fake.dim() - len(type_.sizes) - len(gone)
    return sorted([*gone, *free]) if free and missing == len(free) else gone


def _record_kept(interpreter: Interpreter, fake: AbstractTensor, axes: Iterable[int]) -> None:
    """Record the sizes that are not 1 in the example, and may be 1 at run time."""
    for axis in axes:
        size = fake.shape[axis]
        if _hint(size) is None:
            interpreter.kept[f"squeeze keeps axis {axis}, as for the example, at {interpreter.where}"] = None
        elif not isinstance(size, int):
            interpreter.not_one.setdefault(expr_of(size), interpreter.where)


def _listed(axes: Iterable[int]) -> str:
    return ", ".join(map(str, axes))


def _hint(size: Any) -> int | None:
    """Return the example's size, or None where it depends on data."""
    if isinstance(size, int):
        return size
    return None if free_unbacked_symbols(size) else int(size.node.hint)
