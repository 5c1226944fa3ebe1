"""Inline the calls in a graph of TorchScript.

torch makes the graph that it runs and inlines once for each function, at the first run or the first inlining. A run without
optimizations leaves calls in it, for good.
"""

from __future__ import annotations

from typing import Any

import torch

_CALLS = ("prim::CallFunction", "prim::CallMethod")


def inline(graph: Any) -> None:
    """Inline all calls of functions and methods."""
    before: list[str] | None = None
    while (calls := _calls(graph)) != before:
        torch._C._jit_pass_inline(graph)
        before = calls


def _calls(graph: Any) -> list[str]:
    """List the calls as text, which has the numbers of their values."""
    return [str(node) for kind in _CALLS for node in graph.findAllNodes(kind, recurse=True)]


def optimize_methods(model: torch.nn.Module) -> None:
    """Make the graphs of the scripted modules in a model.

    It must come before a run without optimizations, which would make them.
    """
    if isinstance(model, torch.jit.ScriptModule):
        for name in model._c._method_names():
            torch._C._jit_pass_inline(_call_of(model._c, model._c._get_method(name)))  # makes those of its modules, too
    else:
        for part in model.children():
            optimize_methods(part)


def _call_of(module: Any, method: Any) -> Any:
    """Return a graph that calls a method of a scripted module."""
    graph: Any = torch._C.Graph()
    values = [graph.addInput() for _ in method.schema.arguments]
    types = [module._type(), *(argument.type for argument in method.schema.arguments[1:])]
    for value, own in zip(values, types, strict=True):
        value.setType(own)
    call = graph.create("prim::CallMethod", values, 1)
    call.s_("name", method.name)
    call.output().setType(method.schema.returns[0].type)
    graph.appendNode(call)
    return graph
