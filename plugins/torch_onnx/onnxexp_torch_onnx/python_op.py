"""The ``prim::PythonOp`` of a torch.autograd.Function's call, as torch traces it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxexp import Tensor
from onnxexp.graph import Node, ScalarType, TensorType
from onnxexp_torch_onnx.jit_types import jit_type, type_of_tensor


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
