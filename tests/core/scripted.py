"""Neutral graphs of TorchScript functions, which write in branches and loops."""

from __future__ import annotations

from typing import Any

import torch

from onnxexp._neutral_graph import Graph, Node, ScalarType, TensorType, Type, Value

_SCALARS = {"int": int, "float": float, "bool": bool}


def scripted(source: str) -> tuple[Any, Graph]:
    """Compile the only function in `source`; its graph has no sizes or dtypes."""
    unit = torch.jit.CompilationUnit(source)
    (function,) = unit.get_functions()
    torch._C._jit_pass_inline(function.graph)
    return function, _Reader().read(function.graph)


def _type(value: Any) -> Type:
    kind = str(value.type())
    return ScalarType(_SCALARS[kind]) if kind in _SCALARS else TensorType(None, None)


class _Reader:
    def __init__(self) -> None:
        self.env: dict[str, Any] = {}

    def read(self, block: Any) -> Graph:
        graph = Graph([self.new(value) for value in block.inputs()])
        for node in block.nodes():
            self.node(node, graph)
        for value in block.outputs():
            found = self.env[value.debugName()]
            graph.outputs += found if isinstance(found, list) else [found]
        return graph

    def new(self, value: Any) -> Value:
        self.env[value.debugName()] = made = Value(value.debugName(), _type(value))
        return made

    def node(self, node: Any, graph: Graph) -> None:
        kind, args = node.kind(), [self.env[value.debugName()] for value in node.inputs()]
        outputs = list(node.outputs())
        if kind == "prim::Constant":
            self.env[outputs[0].debugName()] = outputs[0].toIValue()
        elif kind in ("prim::ListConstruct", "prim::TupleConstruct"):
            self.env[outputs[0].debugName()] = args
        elif kind == "prim::ListUnpack":
            (pieces,) = args
            pieces.outputs = [self.new(value) for value in outputs]
        else:
            blocks = [self.read(block) for block in node.blocks()]
            schema = torch._C.parse_schema(node.schema()) if node.schema() != "(no schema)" else None
            name = kind if schema is None or not schema.overload_name else f"{kind}.{schema.overload_name}"
            made = Node(name, args, [], blocks)
            graph.nodes.append(made)
            if outputs and str(outputs[0].type()) == "List[Tensor]":
                self.env[outputs[0].debugName()] = made
            else:
                made.outputs = [self.new(value) for value in outputs]
