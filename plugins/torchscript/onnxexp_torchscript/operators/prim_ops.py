"""TorchScript's own operators (``prim::``), and queries on tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnxexp.graph import ScalarType, TensorType, Value
from onnxexp.rewriting import dtype_of_number
from onnxexp.torch_ops import TYPE_CODES
from onnxexp_torchscript.conversion import constants, python_numbers
from onnxexp_torchscript.conversion.export_time_values import UNINITIALIZED, Items, Maybe
from onnxexp_torchscript.conversion.interpreter import Interpreter
from onnxexp_torchscript.conversion.python_numbers import Number
from onnxexp_torchscript.lists import unknown_length_lists
from onnxexp_torchscript.lists.list_ops import OPERATORS
from onnxexp_torchscript.operators import branches, loops, script_objects
from onnxexp_torchscript.operators.contiguous_strides import stride
from onnxexp_torchscript.operators.squeeze_ops import halved, has_halves, squeezed

_ASSERTIONS = ("aten::_assert_async", "aten::_assert_scalar", "aten::_assert_tensor_metadata")
_WITHOUT_EFFECT = (*_ASSERTIONS, "aten::warn", "aten::manual_seed", "aten::set_grad_enabled")
OF_TEXT = frozenset({"aten::format", "aten::percentFormat", "aten::add", "aten::str", *_WITHOUT_EFFECT})
"""Operators that accept a run-time text."""


def _list(interpreter: Interpreter, node: Any) -> list[Any]:
    return [interpreter.items(interpreter.args(node))]


def _tuple(interpreter: Interpreter, node: Any) -> list[Any]:
    return [tuple(interpreter.args(node))]


def _dict(interpreter: Interpreter, node: Any) -> list[Any]:
    args = interpreter.args(node)
    made = dict(zip(args[::2], args[1::2], strict=True))
    interpreter.journal.created(made)
    return [made]


def _unpack(interpreter: Interpreter, node: Any) -> list[Any]:
    (pieces,) = interpreter.args(node)
    count = node.outputsSize()
    if isinstance(pieces, Items) and pieces.sequence is not None:
        return [unknown_length_lists.get(interpreter, pieces, index) for index in range(count)]
    if len(pieces) != count:
        raise interpreter.refuse(
            f"a list of {len(pieces)} elements is unpacked into {count}",
            "let the number of pieces not depend on a dynamic size",
        )
    return list(pieces)


def _same(interpreter: Interpreter, node: Any) -> list[Any]:
    ivalue = interpreter.args(node)[0]
    return [ivalue.value if isinstance(ivalue, Maybe) else ivalue]


def _number_to_tensor(interpreter: Interpreter, node: Any) -> list[Any]:
    (number,) = interpreter.args(node)
    return [number if isinstance(number, Number) else python_numbers.wrap(number)]


def _nothing(interpreter: Interpreter, node: Any) -> list[Any]:
    return [None]


def _uninitialized(interpreter: Interpreter, node: Any) -> list[Any]:
    return [UNINITIALIZED]


def _raise(interpreter: Interpreter, node: Any) -> list[Any]:
    message = next((repr(arg) for arg in interpreter.args(node) if isinstance(arg, str) and arg), "an exception")
    error = interpreter.refuse(f"the program raises {message} for these inputs", "give inputs that it accepts")
    raise branches.Raised(error, f"{message} at {interpreter.where}")


def _get_attribute(interpreter: Interpreter, node: Any) -> list[Any]:
    (module,) = interpreter.args(node)
    return [interpreter.stored(module.path, node.s("name"))]


def _set_attribute(interpreter: Interpreter, node: Any) -> list[Any]:
    module, value = interpreter.args(node)
    key = module.path, node.s("name")
    if module.object is None:  # one of the grad modes
        interpreter.attributes[key] = value
        return []
    interpreter.stored(*key)  # so that what it held is known where this is undone
    interpreter.journal.note(interpreter.attributes)
    interpreter.attributes[key] = value
    interpreter.changed[".".join(filter(None, key))] = None
    return []


def _tuple_slice(interpreter: Interpreter, node: Any) -> list[Any]:
    return [interpreter.args(node)[0][node.i("beg") : node.i("end")]]


def _tuple_index(interpreter: Interpreter, node: Any) -> list[Any]:
    ivalues, index = interpreter.args(node)
    return [ivalues[index]]


def _to_list(interpreter: Interpreter, node: Any) -> list[Any]:
    """Convert ``tolist`` of a tensor with known sizes."""
    tensor = interpreter.args(node)[0]
    return [_numbers_of(interpreter, tensor)]


def _numbers_of(interpreter: Interpreter, tensor: Any) -> Any:
    rank = interpreter.rank(tensor)
    if rank == 0:
        return python_numbers.unwrap(tensor) if isinstance(tensor, Number) else interpreter.emit("aten::item", [tensor])
    length = interpreter.size(tensor, 0)
    if rank is None or isinstance(length, Value):
        raise interpreter.refuse("tolist of a tensor whose size is known only at run time", "compute with the tensor itself")
    rows = [interpreter.emit("aten::select.int", [tensor, 0, index]) for index in range(length)]
    return interpreter.items(_numbers_of(interpreter, row) for row in rows)


def _fork(interpreter: Interpreter, node: Any) -> list[Any]:
    """Inline a fork; the future is its result."""
    graph, outer = node.g("Subgraph"), interpreter.env
    pairs = zip(graph.inputs(), interpreter.args(node), strict=True)
    interpreter.env = {value.unique(): ivalue for value, ivalue in pairs}
    try:
        results = interpreter.block(graph.block())
    finally:
        interpreter.env = outer
    return [results[0] if len(results) == 1 else tuple(results)]


def _entered(interpreter: Interpreter, node: Any) -> list[Any]:
    return [interpreter.args(node)[0]] * node.outputsSize()


HANDLERS: dict[str, Callable[[Interpreter, Any], list[Any]]] = {
    "prim::Constant": constants.constant,
    "prim::ListConstruct": _list,
    "prim::TupleConstruct": _tuple,
    "prim::DictConstruct": _dict,
    "prim::ListUnpack": _unpack,
    "prim::TupleUnpack": _unpack,
    "prim::TupleSlice": _tuple_slice,
    "prim::TupleIndex": _tuple_index,
    "prim::NumToTensor": _number_to_tensor,
    "prim::unchecked_cast": _same,
    "prim::unchecked_unwrap_optional": _same,
    "prim::data": _same,
    "prim::Print": _nothing,
    "prim::Uninitialized": _uninitialized,
    "prim::RaiseException": _raise,
    "prim::GetAttr": _get_attribute,
    "prim::SetAttr": _set_attribute,
    "prim::If": branches.if_,
    "prim::Loop": loops.loop,
    "prim::CreateObject": script_objects.create,
    "prim::Enter": _entered,
    "prim::Exit": _entered,
    "prim::isinstance": script_objects.is_instance,
    "prim::tolist": _to_list,
    "prim::ConstantMKLDNNTensor": script_objects.mkldnn,
    "prim::PythonOp": script_objects.python,
    "prim::fork": _fork,
    "aten::wait": _same,
}
"""Handlers by node kind; each returns the values of the node's outputs."""


def _size(interpreter: Interpreter, tensor: Any, dim: Any = None) -> Any:
    if dim is not None:
        return interpreter.size(tensor, dim)
    rank = interpreter.rank(tensor)
    if rank is None:
        raise interpreter.refuse("the program reads the whole shape of a tensor of unknown rank", "read one size by its axis")
    return interpreter.items(interpreter.size(tensor, index) for index in range(rank))


def _dim(interpreter: Interpreter, tensor: Any) -> Any:
    rank = interpreter.rank(tensor)
    if rank is None:
        raise interpreter.refuse(
            "the program reads the rank of a tensor of unknown rank", "give the tensor one rank in all branches and rounds"
        )
    return rank


def _numel(interpreter: Interpreter, tensor: Any) -> Any:
    return interpreter.emit("aten::sym_numel", [tensor])


def _dtype(tensor: Any) -> torch.dtype | None:
    if isinstance(tensor, Number):
        return tensor.dtype
    return tensor.type.dtype if isinstance(tensor, Value) and isinstance(tensor.type, TensorType) else None


def _of_dtype(test: Callable[[torch.dtype], Any]) -> Callable[..., Any]:
    def python(interpreter: Interpreter, tensor: Any) -> Any:
        dtype = _dtype(tensor)
        if dtype is None:
            raise interpreter.refuse("the program reads the dtype of a tensor of unknown dtype", "cast the tensor first")
        return test(dtype)

    return python


def _implicit(interpreter: Interpreter, tensor: Any) -> Any:
    """Convert a 0-d tensor to a number."""
    return interpreter.emit("aten::item", [tensor])


def _cast(kind: type) -> Callable[..., Any]:
    name = {int: "aten::Int", float: "aten::Float", bool: "aten::Bool"}[kind]

    def python(interpreter: Interpreter, tensor: Any) -> Any:
        if isinstance(tensor, str):
            return kind(tensor)
        if not isinstance(tensor, Value) or isinstance(tensor.type, ScalarType):
            return NotImplemented
        number = interpreter.emit("aten::item", [tensor])
        own = number.type.kind if isinstance(number, Value) and isinstance(number.type, ScalarType) else type(number)
        return number if own is kind else python_numbers.compute(interpreter, name, [number])

    return python


def _is(interpreter: Interpreter, one: Any, other: Any) -> Any:
    """Convert ``x is None``."""
    if isinstance(one, Maybe) and other is None:
        if isinstance(one.absent, Value):
            interpreter.presence.tests(interpreter.sizes.of(one.absent))
        return one.absent
    if isinstance(one, Value) or isinstance(other, Value):
        return one is other
    return one is other or (type(one) is type(other) and isinstance(one, (bool, int, str)) and one == other)


def _is_not(interpreter: Interpreter, one: Any, other: Any) -> Any:
    return python_numbers.compute(interpreter, "aten::__not__", [_is(interpreter, one, other)])


def _unwrap(interpreter: Interpreter, ivalue: Any) -> Any:
    return ivalue.value if isinstance(ivalue, Maybe) else ivalue


def _unbind(interpreter: Interpreter, tensor: Any, dim: int = 0) -> Any:
    if interpreter.unpacks() or not isinstance(interpreter.size(tensor, dim), Value):
        return NotImplemented
    return unknown_length_lists.unbound(interpreter, tensor, dim % (interpreter.rank(tensor) or 1))


def _split(interpreter: Interpreter, tensor: Any, size: Any, dim: int = 0) -> Any:
    if interpreter.unpacks() or isinstance(size, list) or isinstance(tensor, str):
        return NotImplemented
    if not isinstance(interpreter.size(tensor, dim), Value) and not isinstance(size, Value):
        return NotImplemented
    return unknown_length_lists.split(interpreter, tensor, size, dim % (interpreter.rank(tensor) or 1), keepdims=True)


def _chunk(interpreter: Interpreter, tensor: Any, chunks: Any, dim: int = 0) -> Any:
    halves = chunks == 2 and (interpreter.traced or has_halves(interpreter, tensor, dim))
    if interpreter.unpacks() or halves or not isinstance(interpreter.size(tensor, dim), Value):
        return halved(interpreter, tensor, chunks, dim)
    return unknown_length_lists.chunks(interpreter, tensor, chunks, dim % (interpreter.rank(tensor) or 1))


def _select(interpreter: Interpreter, tensor: Any, dim: Any, index: Any) -> Any:
    """Return a packed sequence's batch size for the first of its batch sizes."""
    batch = interpreter.sizes.packed.of(tensor) if dim == index == 0 else None
    return Number(batch, torch.int64) if isinstance(batch, int) else NotImplemented


def _tensor(interpreter: Interpreter, data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """Convert ``torch.tensor`` of numbers and lists of numbers."""
    return _made_of(interpreter, data, dtype)


def _made_of(interpreter: Interpreter, data: Any, dtype: Any) -> Any:
    wanted = TYPE_CODES["ScalarType"][dtype] if type(dtype) is int else dtype
    if isinstance(data, Items) and data.sequence is not None:
        made = unknown_length_lists.concatenated(interpreter, data, 0, new_axis=True)
        return made if wanted is None else interpreter.emit("aten::to.dtype", [made, wanted, False, False, None])
    leaves = _leaves(data)
    if not any(isinstance(leaf, Value) for leaf in leaves):
        constant = interpreter.constant(torch.tensor(_plain(data), dtype=wanted))
        return interpreter.emit("aten::lift_fresh_copy", [constant])
    if isinstance(data, list):
        kinds = {branches.kind_of(python_numbers.unwrap(leaf)) for leaf in leaves if python_numbers.is_number(leaf)}
        kind = next((kind for kind in (float, int) if kind in kinds), bool)
        wanted = wanted or dtype_of_number(kind())
        return interpreter.emit("aten::stack", [[_made_of(interpreter, element, wanted) for element in data], 0])
    if isinstance(data, Value) and isinstance(data.type, TensorType):
        return data if wanted is None else interpreter.emit("aten::to.dtype", [data, wanted, False, False, None])
    natural = dtype_of_number(branches.kind_of(python_numbers.unwrap(data))())
    return interpreter.emit("aten::scalar_tensor", [data, wanted or natural, None, None, None])


def _leaves(data: Any) -> list[Any]:
    return [leaf for element in data for leaf in _leaves(element)] if isinstance(data, list) else [python_numbers.unwrap(data)]


def _plain(data: Any) -> Any:
    return [_plain(element) for element in data] if isinstance(data, list) else python_numbers.unwrap(data)


def _as_tensor(interpreter: Interpreter, data: Any, dtype: Any = None, device: Any = None) -> Any:
    return _made_of(interpreter, data, dtype)


def _shape_as_tensor(interpreter: Interpreter, tensor: Any) -> Any:
    return _made_of(interpreter, _size(interpreter, tensor), torch.int64)


def _reshape_from_tensor(interpreter: Interpreter, tensor: Any, shape: Any) -> Any:
    """Convert ``torch.onnx.operators.reshape_from_tensor_shape``."""
    return interpreter.emit("aten::reshape", [tensor, _numbers_of(interpreter, shape)])


def _dim_arange(interpreter: Interpreter, like: Any, dim: Any) -> Any:
    return interpreter.emit("aten::arange", [interpreter.size(like, dim), torch.int64])


def _ignored(interpreter: Interpreter, *args: Any) -> None:
    """Drop a node that has no effect in a graph."""


PYTHON: dict[str, Callable[..., Any]] = {
    **OPERATORS,
    **dict.fromkeys(_WITHOUT_EFFECT, _ignored),
    "aten::size": _size,
    "aten::dim": _dim,
    "aten::stride": stride,
    "aten::numel": _numel,
    "prim::dtype": _of_dtype(lambda dtype: dtype),
    "prim::device": lambda interpreter, tensor: torch.device("cpu"),
    "prim::type": lambda interpreter, device: device.type,
    "prim::index": lambda interpreter, device: device.index,
    "prim::layout": lambda interpreter, tensor: torch.strided,
    "prim::requires_grad": lambda interpreter, tensor: False,
    "prim::is_cuda": lambda interpreter, tensor: False,
    "prim::is_quantized": lambda interpreter, tensor: False,
    "prim::is_sparse": lambda interpreter, tensor: False,
    "prim::is_nested": lambda interpreter, tensor: False,
    "prim::is_mkldnn": lambda interpreter, tensor: False,
    "aten::is_cuda": lambda interpreter, tensor: False,
    "aten::is_floating_point": _of_dtype(lambda dtype: dtype.is_floating_point),
    "aten::is_complex": _of_dtype(lambda dtype: dtype.is_complex),
    "aten::is_scripting": lambda interpreter: True,
    "aten::is_grad_enabled": lambda interpreter: False,
    "aten::ScalarImplicit": _implicit,
    "aten::IntImplicit": _cast(int),
    "aten::FloatImplicit": _cast(float),
    "aten::Int": _cast(int),
    "aten::Float": _cast(float),
    "aten::Bool": _cast(bool),
    "aten::__is__": _is,
    "aten::__isnot__": _is_not,
    "aten::_unwrap_optional": _unwrap,
    "aten::select.int": _select,
    **dict.fromkeys(("aten::squeeze", "aten::squeeze_", "aten::squeeze_copy"), squeezed),
    "aten::chunk": _chunk,
    "aten::_shape_as_tensor": _shape_as_tensor,
    "aten::_reshape_from_tensor": _reshape_from_tensor,
    "aten::_dim_arange": _dim_arange,
    "aten::unbind": _unbind,
    "aten::split": _split,
    "aten::tensor_split.tensor_indices_or_sections": unknown_length_lists.split_at,
    "aten::tensor": _tensor,
    "aten::as_tensor": _as_tensor,
}
"""By the operator's name, with or without its overload; NotImplemented leaves the call to torch's operator."""
