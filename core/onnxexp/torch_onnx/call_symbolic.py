"""Calling a symbolic that was written for torch.onnx."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch

from onnxexp.builder.builder import Builder
from onnxexp.errors import LoweringError
from onnxexp.lowering.output_check import contradiction
from onnxexp.torch_onnx.context import GraphContext, SymbolicContext
from onnxexp.torch_onnx.emit_nodes import PACKING
from onnxexp.torch_onnx.interop import torch_opset
from onnxexp.torch_onnx.python_op import python_op
from onnxexp.torch_onnx.scratch_graph import Scratch, original
from onnxexp.torch_onnx.settings import settings

__all__ = ["call_symbolic", "described"]


def call_symbolic(
    op: Builder,
    function: Callable[..., Any],
    args: Sequence[Any],
    *,
    constants: bool = True,
    python_class: type[torch.autograd.Function] | None = None,
) -> list[Any]:
    """Lower the current node with ``function(g, *args)``, a symbolic written for torch.onnx; returns what it gives, by outputs.

    Args:
        op: The builder; `op.node` is the node.
        function: The symbolic.
        args: The node's arguments: Tensors, Python constants, lists of those.
        constants: Python constants are handed on as constant values, as for torch's operators; else as they are (Functions).
        python_class: The Function that the node is a call of, for a symbolic of ``prim::PythonOp``: ``g.original_node`` is such a
            node, as torch traces it, and its attributes (`name`, the class's name, among them) are keyword arguments.

    Raises:
        LoweringError: it failed, or gave another number of outputs; names the symbolic, its file and line.
        Declined: it returned None.
    """
    scratch = Scratch(op)
    if python_class is None:
        (_graph, node), inputs = original(op.node), [op.resolve(value) for value in op.node.inputs()]
    else:
        _graph, node, inputs = python_op(op.node, python_class, args)
    keywords = _keywords(function, op, None if python_class is None else node)
    given = [scratch.value(arg) if constants else scratch.python(arg) for arg in args]
    env, params, block = scratch.env(node, inputs), dict(op.params), scratch.graph.block()
    g = GraphContext(scratch.graph, block, op.opset, node, params, env, set(env.values()), [], scratch)
    leading: list[Any] = [g]
    if _wants_context(function):
        leading.insert(0, SymbolicContext(params, env, node, block))
    with settings(opset=op.opset), torch_opset(op.opset):
        try:
            returned = function(*leading, *_fitting(function, given, op, len(leading)), **keywords)
            if returned is None:
                op.decline(f"{described(function)} returned None: it cannot express this call")
            listed = _elements(g, returned, len(op.node.outputs))
            _check(function, listed, len(op.node.outputs), scratch)
            results = scratch.results(listed)
        except LoweringError as error:
            _again(function, error)
        except Exception as error:  # anyone's code: told with whose it is
            raise LoweringError(
                f"{described(function)} failed{_line(error, function)}: {type(error).__name__}: {error}"
            ) from error
    for value, result in zip(op.node.outputs, results, strict=True):
        told = contradiction(op, value, result, shapes=True)
        if told:
            raise LoweringError(f"{described(function)} {told}")
    return results


def _keywords(function: Callable[..., Any], op: Builder, python_node: Any) -> dict[str, Any]:
    """What the symbolic wants to be told by name.

    `_outputs` is how many elements the list has that torch's operator gives. Of a ``prim::PythonOp`` all attributes, as torch has
    it: `name` in any case, newer ones where the symbolic knows them.
    """
    parameters = _parameters(function)
    takes = {each.name for each in parameters} | {"name"}
    everything = any(each.kind is each.VAR_KEYWORD for each in parameters)
    told: dict[str, Any] = {"_outputs": len(op.node.outputs)} if "_outputs" in takes else {}
    for name in python_node.attributeNames() if python_node is not None else ():
        if everything or name in takes:
            told[name] = getattr(python_node, python_node.kindOf(name))(name)  # torch names each reader by the attribute's kind
    return told


def _elements(g: GraphContext, returned: Any, wanted: int) -> list[Any]:
    """What was returned, by the node's outputs: a list may come as one value."""
    if isinstance(returned, (list, tuple)):
        return list(returned)
    if isinstance(returned, torch._C.Value) and g.scratch is not None and g.scratch.owns(returned):
        node = returned.node()
        if node.kind() in PACKING and node.inputsSize() == wanted:
            return list(node.inputs())
        if wanted > 1 and g.scratch.emitter.is_sequence(returned):
            return [g.op("SequenceAt", returned, index) for index in range(wanted)]
    return [returned]


def _again(function: Callable[..., Any], error: LoweringError) -> NoReturn:
    """An error of the builder's, with the line of the symbolic that called it; its class stays."""
    line = _line(error, function)
    if line and error.args and isinstance(error.args[0], str):
        error.args = (f"{described(function)}{line}: {error.args[0]}", *error.args[1:])
    raise error


def _check(function: Callable[..., Any], returned: list[Any], wanted: int, scratch: Scratch) -> None:
    for each in returned:
        if isinstance(each, torch._C.Value) and not scratch.owns(each):
            raise LoweringError(f"{described(function)} returned a value of another graph; keep no value between calls")
        if each is not None and not isinstance(each, (torch._C.Value, torch.Tensor, bool, int, float)):
            raise LoweringError(f"{described(function)} returned {each!r}, which is no value")
    if len(returned) != wanted:
        raise LoweringError(f"{described(function)} returned {len(returned)} values; the node has {wanted} outputs")


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a callable without a signature
        return []


def _wants_context(function: Callable[..., Any]) -> bool:
    """torch 1.10's symbolics take a context before the graph."""
    first = next(iter(_parameters(function)), None)
    if first is None:
        return False
    annotation = first.annotation if isinstance(first.annotation, str) else getattr(first.annotation, "__name__", "")
    return first.name == "ctx" or annotation.endswith("SymbolicContext")


def _fitting(function: Callable[..., Any], args: list[Any], op: Builder, leading: int) -> list[Any]:
    """The arguments without the last ones that the symbolic has no parameters for, as long as those are torch's defaults."""
    parameters = _parameters(function)
    if not parameters or any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return args
    takes = sum(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in parameters) - leading
    if takes >= len(args):
        return args
    schemas = torch._C._jit_get_schemas_for_operator(op.node.op.partition(".")[0])
    overload = op.node.op.partition(".")[2]
    schema = next((each for each in schemas if each.overload_name == overload), None)
    if schema is None or len(schema.arguments) != len(args):
        return args
    surplus = zip(schema.arguments[takes:], op.args[takes:], strict=True)
    return args[:takes] if all(each.has_default_value() and each.default_value == arg for each, arg in surplus) else args


def described(function: Callable[..., Any]) -> str:
    """``the symbolic f at file:line``."""
    inner = inspect.unwrap(function)
    name = getattr(inner, "__qualname__", type(inner).__name__)  # a callable object has none
    if not inspect.isfunction(inner):
        return f"the symbolic {name}"
    return f"the symbolic {name} at {inner.__code__.co_filename}:{inner.__code__.co_firstlineno}"


def _line(error: BaseException, function: Callable[..., Any]) -> str:
    """The last line of the symbolic's own file in the traceback."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if code and frame.filename == code.co_filename]
    return f", in line {frames[-1].lineno} ({frames[-1].line})" if frames else ""
