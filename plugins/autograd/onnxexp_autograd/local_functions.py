"""Turn autograd Functions into functions of the ONNX model.

A capture puts marks around the inlined forward. In the captured graph, scopes replace the marks. In the finished model, a call of
a model-local function replaces the nodes of each scope.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir
import torch
from torch.utils import _pytree as pytree

from onnxexp import warn
from onnxexp.graph import Graph, Node, Value
from onnxexp_torch_onnx import FunctionExtractor

_ENTER, _LEAVE = "autograd::_enter", "autograd::_leave"
_SCOPE = "onnxexp.scope"
_FIRST_OPSET = 15
"""Model-local functions need ONNX IR version 8, and so opset 15."""


@functools.cache
def _library() -> Any:
    library: Any = torch.library.Library("autograd", "FRAGMENT")  # type: ignore[no-untyped-call]  # torch does not annotate it
    for name in ("_enter", "_leave"):
        library.define(f"{name}(Tensor[] tensors, str function, int call) -> Tensor[]")
        library.impl(name, _copies, "CompositeExplicitAutograd")
        torch.library.register_fake(f"autograd::{name}", _copies, lib=library)
    return library


def _copies(tensors: Sequence[torch.Tensor], function: str, call: int) -> list[torch.Tensor]:
    return [tensor.clone() for tensor in tensors]


def call_between_marks(name: str, call: int, forward: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Run ``forward(*args)`` between marks with the call's number.

    If no argument is a tensor, the forward runs without marks.
    """
    _library()
    flat, spec = pytree.tree_flatten(tuple(args))
    tensors = [leaf for leaf in flat if isinstance(leaf, torch.Tensor)]
    if not tensors:
        return forward(*args)
    inside = iter(torch.ops.autograd._enter(tensors, name, call))
    flat = [next(inside) if isinstance(leaf, torch.Tensor) else leaf for leaf in flat]
    returned, out_spec = pytree.tree_flatten(forward(*pytree.tree_unflatten(flat, spec)))
    results = [leaf for leaf in returned if isinstance(leaf, torch.Tensor)]
    outside = iter(torch.ops.autograd._leave(results, name, call) if results else ())
    returned = [next(outside) if isinstance(leaf, torch.Tensor) else leaf for leaf in returned]
    return pytree.tree_unflatten(returned, out_spec)


def replace_marks(graph: Graph) -> dict[str, str]:
    """Remove the marks, and give the nodes between them a scope per call.

    Returns the Functions' names by scope.
    """
    scopes: dict[str, str] = {}
    _assign_scopes(graph, scopes, {}, "")
    return scopes


def _assign_scopes(graph: Graph, scopes: dict[str, str], values: dict[Value, Any], outer: str) -> None:
    stack: list[tuple[int, str]] = []
    nodes: list[Node] = []
    for node in graph.nodes:
        node.replace_inputs(lambda value: values.get(value, value))
        kind = node.op.partition(".")[0]
        if kind not in (_ENTER, _LEAVE):
            if stack:
                node.where = dataclasses.replace(node.where, scope=stack[-1][1])
            for block in node.blocks:
                _assign_scopes(block, scopes, values, stack[-1][1] if stack else outer)
            nodes.append(node)
            continue
        tensors, name, call = node.args
        values.update(zip(node.outputs, tensors, strict=True))
        if kind == _ENTER:
            around = stack[-1][1] if stack else node.where.scope
            scope = f"{around}.{name}_{len(scopes)}".lstrip(".")
            scopes[scope] = name
            stack.append((call, scope))
        elif any(number == call for number, _ in stack):
            while stack.pop()[0] != call:
                pass
    graph.nodes[:] = nodes
    graph.outputs = [values.get(output, output) if isinstance(output, Value) else output for output in graph.outputs]


def extract_functions(model: ir.Model, scopes: dict[str, str], domain: str) -> None:
    """Replace each scope's nodes by a call of a model-local function.

    Equal functions are merged.
    """
    if scopes and model.opset_imports[""] < _FIRST_OPSET:
        warn(f"ONNX has functions from opset {_FIRST_OPSET} on; at opset {model.opset_imports['']}, Functions are inlined")
        return
    extractor = FunctionExtractor(model)
    for scope in sorted(scopes, key=lambda scope: (-scope.count("."), scope)):
        nodes = [node for node in model.graph if _within(node.metadata_props.get(_SCOPE, ""), scope)]
        if nodes:
            extractor.extract(nodes, domain, scopes[scope], scope)


def _within(scope: str, path: str) -> bool:
    return scope == path or scope.startswith(f"{path}.")
