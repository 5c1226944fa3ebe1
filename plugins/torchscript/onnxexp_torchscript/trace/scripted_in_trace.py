"""Calls of scripted functions from a trace: their numbers stay dynamic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnxexp.frontends import signature_of

_NUMBERS = {"int": "aten::Int", "float": "aten::Float", "bool": "aten::Bool"}


_SCRIPTED: Any = torch.jit.ScriptFunction
_CALL = _SCRIPTED.__call__


def numbers_kept(made: list[Any]) -> tuple[Any, str, Callable[..., Any]]:
    """Return a replacement (owner, name, function) of a scripted function's call.

    A traced number stays dynamic in its arguments; the tracer would make it a constant. `made` collects the functions that are
    called instead: they must live until the calls are inlined.
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
        places = [index for index, name in enumerate(bound.arguments) if name in tensors]
        made.append(_of_tensors(self, places))
        return _CALL(made[-1], *bound.arguments.values())

    return _SCRIPTED, "__call__", call


def _of_tensors(function: Any, places: list[int]) -> Any:
    """Copy a scripted function, with tensors in place of these numbers."""
    graph = function.graph.copy()
    inputs = list(graph.inputs())
    first = next(graph.nodes(), graph.return_node())
    for index in places:
        number = inputs[index]
        kind = number.type()
        cast = graph.create(_NUMBERS[str(kind)], 1)
        cast.insertBefore(first)
        cast.output().setType(kind)
        number.replaceAllUsesWith(cast.output())
        number.setType(torch._C.TensorType.get())
        cast.addInput(number)
    return torch._C._create_function_from_graph(function.name, graph)
