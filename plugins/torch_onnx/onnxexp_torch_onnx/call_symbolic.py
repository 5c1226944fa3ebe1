"""Calls of a symbolic that was written for torch.onnx."""

from __future__ import annotations

import dataclasses
import inspect
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import torch
from torch.utils import _pytree as pytree

from onnxexp import Builder, LoweringError, Tensor
from onnxexp.checking import output_mismatch
from onnxexp.graph import Node, ScalarType, TensorType, Value
from onnxexp.torch_ops import schemas
from onnxexp_torch_onnx.context import GraphContext, SymbolicContext
from onnxexp_torch_onnx.emit_nodes import PACKING
from onnxexp_torch_onnx.jit_types import jit_type, type_of_tensor
from onnxexp_torch_onnx.scratch_graph import QUANTIZED, ScratchGraph, jit_node
from onnxexp_torch_onnx.settings import settings
from onnxexp_torch_onnx.torch_onnx_state import torch_opset

__all__ = ["call_symbolic", "describe"]

_QUANTIZED = (torch.uint8, torch.int8, torch.int32)
"""The dtypes of the integers of a quantized tensor."""


def call_symbolic(
    op: Builder,
    function: Callable[..., Any],
    args: Sequence[Any],
    *,
    constants: bool = True,
    python_class: type[torch.autograd.Function] | None = None,
) -> list[Any]:
    """Lower the current node with a symbolic written for torch.onnx.

    The symbolic is called as ``function(g, *args)``.

    Args:
        op: The builder; `op.node` is the node.
        function: The symbolic.
        args: The node's arguments: Tensors, Python constants, lists of those.
        constants: Pass Python constants as constant values, as for torch's operators; False passes them as they are (Functions).
        python_class: The Function that the node calls, for a symbolic of ``prim::PythonOp``. ``g.original_node`` is then such a
            node, as torch traces it, and its attributes (the class's name as `name`, and others) are keyword arguments.

    Returns:
        What the symbolic returned, one result for each output of the node.

    Raises:
        LoweringError: The symbolic failed, or returned another number of results; names the symbolic, its file and line.
        Declined: The symbolic returned None.
    """
    scratch = ScratchGraph(op)
    if python_class is None:
        (_graph, node), inputs = jit_node(op.node), list(_inputs(op.node.args, op.args))
    else:
        _graph, node, inputs = python_op(op.node, python_class, args)
    keywords = _keywords(function, op, None if python_class is None else node)
    values = [scratch.value(arg) if constants else scratch.nested_value(arg) for arg in args]
    env, params, block = scratch.env(node, inputs), dict(op.params), scratch.graph.block()
    g = GraphContext(scratch.graph, block, op.opset, node, params, env, set(env.values()), [], scratch)
    leading: list[Any] = [g]
    if _takes_context(function):
        leading.insert(0, SymbolicContext(params, env, node, block))
    with settings(opset=op.opset), torch_opset(op.opset):
        try:
            returned = function(*leading, *_without_defaults(function, values, op, len(leading)), **keywords)
            if returned is None:
                op.decline(f"{describe(function)} returned None: it cannot express this call")
            elements = _elements(g, returned, len(op.node.outputs))
            _check(function, elements, len(op.node.outputs), scratch)
            results = _quantized(op, scratch.results(elements))
        except LoweringError as error:
            _raise_with_line(function, error)
        except Exception as error:  # anyone's code: the message names the symbolic
            raise LoweringError(
                f"{describe(function)} failed{_line(error, function)}: {type(error).__name__}: {error}"
            ) from error
    for value, result in zip(op.node.outputs, results, strict=True):
        mismatch = output_mismatch(value, result, shapes=True)
        if mismatch:
            raise LoweringError(f"{describe(function)} {mismatch}")
    return results


def _quantized(op: Builder, results: list[Any]) -> list[Any]:
    """Take the integers of a quantized tensor for the node's output.

    As in torch.onnx, such a tensor is a tuple of integers, scale, zero point and maybe axis. The next symbolic gets it again.
    """
    output = op.node.outputs[0].type if op.node.outputs else None
    parts = results[0] if len(results) == 1 else None
    if not isinstance(output, TensorType) or not isinstance(parts, (list, tuple)) or len(parts) not in (3, 4):
        return results
    integers = parts[0]
    if not isinstance(integers, Tensor) or integers.known_dtype not in _QUANTIZED:
        return results
    op.node.outputs[0].type = dataclasses.replace(output, dtype=integers.known_dtype)  # torch's is quint8, torch.export's float
    op.context.plugin_data.setdefault(QUANTIZED, {})[integers] = tuple(parts)
    return [integers]


def _inputs(captured: Any, resolved: Any) -> Iterator[Any]:
    """Yield the resolved values of a node's arguments, in the order of its inputs."""
    if isinstance(captured, Value):
        yield resolved
    elif isinstance(captured, (list, tuple)):
        for each, other in zip(captured, resolved, strict=True):
            yield from _inputs(each, other)


def _keywords(function: Callable[..., Any], op: Builder, python_node: Any) -> dict[str, Any]:
    """Collect the keyword arguments of the symbolic.

    `_outputs` is the number of elements in the list that torch's operator returns. For a ``prim::PythonOp``, as in torch.onnx,
    `name` is always passed, and the node's other attributes where the symbolic takes them.
    """
    parameters = _parameters(function)
    accepted = {each.name for each in parameters} | {"name"}
    accepts_all = any(each.kind is each.VAR_KEYWORD for each in parameters)
    keywords: dict[str, Any] = {"_outputs": len(op.node.outputs)} if "_outputs" in accepted else {}
    for name in python_node.attributeNames() if python_node is not None else ():
        if accepts_all or name in accepted:
            keywords[name] = getattr(python_node, python_node.kindOf(name))(name)  # torch names readers by kind
    return keywords


def _elements(g: GraphContext, returned: Any, count: int) -> list[Any]:
    """Split a symbolic's result by the node's outputs.

    One value that is a list, a tuple or a sequence is split into its elements.
    """
    if isinstance(returned, (list, tuple)):
        return list(returned)
    if isinstance(returned, torch._C.Value) and g.scratch is not None and g.scratch.owns(returned):
        node = returned.node()
        if node.kind() in PACKING and node.inputsSize() == count:
            return list(node.inputs())
        if count > 1 and g.scratch.emitter.is_sequence(returned):
            return [g.op("SequenceAt", returned, index) for index in range(count)]
    return [returned]


def _raise_with_line(function: Callable[..., Any], error: LoweringError) -> NoReturn:
    """Raise the builder's error again with the symbolic's line in its message.

    The class of the error stays the same.
    """
    line = _line(error, function)
    if line and error.args and isinstance(error.args[0], str):
        error.args = (f"{describe(function)}{line}: {error.args[0]}", *error.args[1:])
    raise error


def _check(function: Callable[..., Any], returned: list[Any], count: int, scratch: ScratchGraph) -> None:
    """Raise LoweringError for results of a wrong kind or number."""
    for each in returned:
        if isinstance(each, torch._C.Value) and not scratch.owns(each):
            raise LoweringError(f"{describe(function)} returned a value of another graph; keep no value between calls")
        if each is not None and not isinstance(each, (torch._C.Value, torch.Tensor, bool, int, float)):
            raise LoweringError(f"{describe(function)} returned {each!r}, which is no value")
    if len(returned) != count:
        raise LoweringError(f"{describe(function)} returned {len(returned)} values; the node has {count} outputs")


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a callable without a signature
        return []


def _takes_context(function: Callable[..., Any]) -> bool:
    """Return whether the symbolic takes a context before the graph, as in torch 1.10."""
    first = next(iter(_parameters(function)), None)
    if first is None:
        return False
    annotation = first.annotation if isinstance(first.annotation, str) else getattr(first.annotation, "__name__", "")
    return first.name == "ctx" or annotation.endswith("SymbolicContext")


def _without_defaults(function: Callable[..., Any], values: list[Any], op: Builder, leading: int) -> list[Any]:
    """Drop trailing arguments without a parameter if each equals torch's default."""
    parameters = _parameters(function)
    if not parameters or any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return values
    positional = sum(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in parameters) - leading
    if positional >= len(values):
        return values
    overload = op.node.op.partition(".")[2]
    schema = next((each for each in schemas(op.node.op) if each.overload_name == overload), None)
    if schema is None or len(schema.arguments) != len(values):
        return values
    surplus = zip(schema.arguments[positional:], op.args[positional:], strict=True)
    droppable = all(each.has_default_value() and each.default_value == arg for each, arg in surplus)
    return values[:positional] if droppable else values


def describe(function: Callable[..., Any]) -> str:
    """Describe a symbolic for messages: ``the symbolic f at file:line``."""
    inner = inspect.unwrap(function)
    name = getattr(inner, "__qualname__", type(inner).__name__)  # a callable object has none
    if not inspect.isfunction(inner):
        return f"the symbolic {name}"
    return f"the symbolic {name} at {inner.__code__.co_filename}:{inner.__code__.co_firstlineno}"


def _line(error: BaseException, function: Callable[..., Any]) -> str:
    """Format the last line of the symbolic's own file in the traceback."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if code and frame.filename == code.co_filename]
    return f", in line {frames[-1].lineno} ({frames[-1].line})" if frames else ""


def python_op(node: Node, function: type[torch.autograd.Function], args: Sequence[Any]) -> tuple[Any, Any, list[Tensor]]:
    """Trace ``function.apply(*args)`` as one ``prim::PythonOp``.

    Returns the graph, that node, and its inputs.

    `pyobj`, `cconv` and `scalar_args` are those of the call. The traced class is a subclass whose forward computes nothing.
    """
    results = tuple(_example(value.type) for value in node.outputs)
    members = {
        "forward": staticmethod(lambda ctx, *args: results),
        "setup_context": staticmethod(torch.autograd.Function.setup_context),
        "__module__": function.__module__,
        "__qualname__": function.__qualname__,
    }
    stand_in: Any = type(function.__name__, (function,), members)
    flat, spec = pytree.tree_flatten(tuple(args))
    places = [index for index, leaf in enumerate(flat) if isinstance(leaf, Tensor)]
    examples = tuple(torch.empty((), dtype=flat[index].known_dtype or torch.float32) for index in places)

    def call(*tensors: torch.Tensor) -> Any:
        leaves = dict(enumerate(flat)) | dict(zip(places, tensors, strict=True))
        return stand_in.apply(*pytree.tree_unflatten(list(leaves.values()), spec))

    jit: Any = torch._C
    graph = jit._create_graph_by_tracing(call, examples, lambda value: "", True, False, None, ())[0]
    jit._jit_pass_lower_all_tuples(graph)
    made = next(each for each in graph.nodes() if each.kind() == "prim::PythonOp")
    made.removeAttribute("Subgraph")
    made.s_("name", function.__name__)
    for index, value in zip(places, graph.inputs(), strict=True):
        value.setType(type_of_tensor(flat[index]))
    for output, value in zip(node.outputs, made.outputs(), strict=True):
        value.setType(jit_type(output.type))
    return graph, made, [flat[index] for index in places]


def _example(type_: TensorType | ScalarType) -> torch.Tensor:
    dtype = type_.dtype if isinstance(type_, TensorType) else None
    return torch.empty((), dtype=dtype or torch.float32)
