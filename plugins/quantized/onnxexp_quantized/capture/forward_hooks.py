"""Hooks around the forward of a model while it is captured."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import torch

from onnxexp.frontends import replace_attributes

PreHook: TypeAlias = "Callable[[Any, Any, Any], Any]"
"""From the module, the arguments and the keyword arguments to other arguments."""
Hook: TypeAlias = "Callable[[Any, Any, Any], Any]"
"""From the module, the arguments and the result to another result."""


@contextlib.contextmanager
def hooked(model: torch.nn.Module, before: PreHook, after: Hook) -> Iterator[None]:
    """Call hooks before and after the model's forward."""
    handles = [
        model.register_forward_pre_hook(before, prepend=True, with_kwargs=True),
        model.register_forward_hook(after),
    ]
    graphs = [(model, "_graph", _with_calls(model, before, after))] if isinstance(model, torch.fx.GraphModule) else []
    try:
        with replace_attributes(graphs):
            yield
    finally:
        for handle in handles:
            handle.remove()


def _with_calls(model: torch.fx.GraphModule, before: PreHook, after: Hook) -> torch.fx.Graph:
    """Copy a model's graph with calls of the hooks: torch.export runs its nodes only."""
    graph = torch.fx.Graph()
    placeholders = [node for node in model.graph.nodes if node.op == "placeholder"]
    copies = {node: graph.node_copy(node) for node in placeholders}
    given = graph.call_function(lambda *args: before(model, args, {})[0], tuple(copies.values()))
    copies |= {node: graph.call_function(operator.getitem, (given, index)) for index, node in enumerate(placeholders)}
    for node in model.graph.nodes:
        if node.op == "output":
            result = torch.fx.node.map_arg(node.args[0], copies.__getitem__)
            graph.output(graph.call_function(lambda result: after(model, (), result), (result,)))
        elif node.op != "placeholder":
            copies[node] = graph.node_copy(node, copies.__getitem__)
    return graph
