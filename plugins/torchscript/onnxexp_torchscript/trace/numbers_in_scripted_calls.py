"""Keep the numbers dynamic that a traced model passes to scripted functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnxexp.frontends import signature_of

_NUMBERS = {"int": "aten::Int", "float": "aten::Float", "bool": "aten::Bool"}
"""The types of numbers, each with the operator that converts a 0-d tensor to it."""

_SCRIPTED: Any = torch.jit.ScriptFunction
_CALL = _SCRIPTED.__call__


def numbers_kept(copies: list[Any]) -> tuple[Any, str, Callable[..., Any]]:
    """Return a replacement (owner, name, function) of a scripted function's call.

    The tracer would make the numbers among the arguments constants. The replacement calls a copy of the function that takes
    tensors in their place. It appends the copies to `copies`, since they must live until the calls are inlined.
    """

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not torch._C._is_tracing() or not any(isinstance(arg, torch.Tensor) for arg in (*args, *kwargs.values())):
            return _CALL(self, *args, **kwargs)
        bound = signature_of(self).bind(*args, **kwargs)
        bound.apply_defaults()
        kinds = {argument.name: str(argument.type) for argument in self.schema.arguments}
        tensors = [name for name, arg in bound.arguments.items() if isinstance(arg, torch.Tensor) and kinds[name] in _NUMBERS]
        if not tensors:
            return _CALL(self, *args, **kwargs)
        copy = _taking_tensors(self, [index for index, name in enumerate(bound.arguments) if name in tensors])
        copies.append(copy)
        return _CALL(copy, *bound.arguments.values())

    return _SCRIPTED, "__call__", call


def _taking_tensors(function: Any, indexes: list[int]) -> Any:
    """Copy a scripted function, with 0-d tensors in place of the numbers at `indexes`."""
    graph = function.graph.copy()
    inputs = list(graph.inputs())
    first = next(graph.nodes(), graph.return_node())
    for index in indexes:
        number = inputs[index]
        kind = number.type()
        cast = graph.create(_NUMBERS[str(kind)], 1)
        cast.insertBefore(first)
        cast.output().setType(kind)
        number.replaceAllUsesWith(cast.output())
        number.setType(torch._C.TensorType.get())
        cast.addInput(number)
    return torch._C._create_function_from_graph(function.name, graph)
