"""Read an ONNX model that anyone may have written.

The message is checked before anything is made of it. `stored_tensors` checks the sizes of tensors and finds their external data,
and `_check_functions` bounds the nodes that functions expand to. onnx-ir and ONNX Runtime would allocate as much memory as the
sizes declare, open any file that a location names, and inline functions without a bound.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TypeAlias

import google.protobuf.message  # type: ignore[import-untyped]
import onnx
import onnx_ir as ir

from onnxexp._errors import OptionError
from onnxexp._request.untrusted_files import read_regular
from onnxexp._serialize.stored_tensors import DAMAGED, DataFiles, check_tensor, is_external

_LARGEST = (1 << 31) - 1
"""Bytes of the largest message that protobuf reads."""
_EXPANDED, _EXPANSION = 100_000, 100
"""Nodes that functions may expand to, and how many for each node of the file: a function that calls another one twice, and so on
forty times, has 2**40."""
_SHOWN = 300
_Function: TypeAlias = "tuple[str, str, str]"
_Body: TypeAlias = "onnx.GraphProto | onnx.FunctionProto"


def read_model(source: str | os.PathLike[str] | bytes) -> ir.Model:
    """Read an ONNX model and map its external data into memory.

    Args:
        source: The path of a file, or the bytes of one. The external data of a file must be regular files in its folder, or below
            it. A model from bytes has no folder, and may have no external data.

    Raises:
        OptionError: There is no such file, it is no ONNX model, or it is damaged. The message names the tensor.
    """
    path = None if isinstance(source, bytes) else Path(source)
    name = "the model" if path is None else str(path)
    contents = source if isinstance(source, bytes) else read_regular(source, _LARGEST)
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(contents)
    except google.protobuf.message.DecodeError as error:
        raise _no_model(name, error) from error
    if not proto.HasField("graph"):
        raise OptionError(f"{name} is not an ONNX model: it has no graph; to fix this, give a file that an export has written")
    if not _has_valid_texts(proto):
        raise OptionError(f"{name} is not an ONNX model: it has a text that is no UTF-8; to fix this, {DAMAGED}")
    files = DataFiles(name, path)
    _check_functions(proto, name)
    for tensor in proto.graph.initializer:
        check_tensor(tensor, name)
    for tensor in _inner_tensors(proto):
        check_tensor(tensor, name)
        if is_external(tensor):  # onnx-ir and ONNX Runtime would look for the file in other places
            files.load(tensor)
    external = {tensor.name: files.mapped(tensor) for tensor in proto.graph.initializer if is_external(tensor)}
    try:
        model = ir.serde.deserialize_model(proto)
    except Exception as error:  # onnx-ir's errors have no common class
        raise _no_model(name, error) from error
    for value in model.graph.initializers.values():
        if isinstance(value.const_value, ir.ExternalTensor):
            value.const_value = external[value.name or ""]
    return model


def _has_valid_texts(message: google.protobuf.message.Message) -> bool:
    """Return whether all texts of a message are Unicode.

    protobuf returns bytes for other texts.
    """
    for field, value in message.ListFields():
        if field.type == field.TYPE_STRING:
            texts = [value] if isinstance(value, (str, bytes)) else value
            if not all(isinstance(text, str) for text in texts):
                return False
        elif field.type == field.TYPE_MESSAGE:
            messages = [value] if isinstance(value, google.protobuf.message.Message) else value
            if not all(map(_has_valid_texts, messages)):
                return False
    return True


def _no_model(name: str, error: Exception) -> OptionError:
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    text = str(cause).strip().partition("\n")[0][:_SHOWN]
    return OptionError(f"{name} is not an ONNX model: {type(cause).__name__}: {text}; to fix this, {DAMAGED}")


def _inner_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield every tensor of a model but the graph's initializers."""
    for root in (model.graph, *model.functions):
        for graph in (root, *_inner(root)):
            if isinstance(graph, onnx.GraphProto):
                if graph is not root:
                    yield from graph.initializer
                for sparse in graph.sparse_initializer:
                    yield from (sparse.values, sparse.indices)
            for attribute in _attributes(graph):
                yield from _held(attribute)


def _attributes(graph: _Body) -> Iterator[onnx.AttributeProto]:
    for node in graph.node:
        yield from node.attribute
    if isinstance(graph, onnx.FunctionProto):
        yield from graph.attribute_proto


def _held(attribute: onnx.AttributeProto) -> Iterator[onnx.TensorProto]:
    if attribute.HasField("t") or attribute.type == onnx.AttributeProto.TENSOR:
        yield attribute.t
    yield from attribute.tensors
    sparse = [*attribute.sparse_tensors, *([attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else [])]
    for each in sparse:
        yield from (each.values, each.indices)


def _inner(root: _Body) -> Iterator[onnx.GraphProto]:
    """Yield the graphs inside of a graph or a function."""
    waiting = [root]
    while waiting:
        for attribute in _attributes(waiting.pop()):
            found = [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]
            yield from found
            waiting += found


def _check_functions(model: onnx.ModelProto, name: str) -> None:
    """Raise OptionError where functions call themselves, or expand to too much."""
    bodies: dict[_Function, onnx.FunctionProto] = {(each.domain, each.name, each.overload): each for each in model.functions}
    if not bodies:
        return
    calls = {function: _calls(body, bodies) for function, body in bodies.items()}
    try:
        order = list(TopologicalSorter({function: list(called) for function, called in calls.items()}).static_order())
    except CycleError as error:
        shown = " -> ".join(repr(each[1]) for each in error.args[1][:5])
        raise OptionError(
            f"{name} is not an ONNX model: its functions call themselves ({shown}); to fix this, {DAMAGED}"
        ) from None
    expanded: dict[_Function, int] = {}
    for function in order:
        expanded[function] = len(bodies[function].node) + sum(expanded[each] * count for each, count in calls[function].items())
    total = sum(expanded[each] * count for each, count in _calls(model.graph, bodies).items())
    own = len(model.graph.node) + sum(len(body.node) for body in bodies.values())
    if total > _EXPANDED + _EXPANSION * own:
        raise OptionError(f"{name} is not loaded: its functions expand to {total:,} nodes from {own:,}; to fix this, {DAMAGED}")


def _calls(body: _Body, functions: Iterable[_Function]) -> dict[_Function, int]:
    """Count the calls of each function in a body."""
    counts: dict[_Function, int] = defaultdict(int)
    for graph in (body, *_inner(body)):
        for node in graph.node:
            if (called := (node.domain, node.op_type, node.overload)) in functions:
                counts[called] += 1
    return counts
