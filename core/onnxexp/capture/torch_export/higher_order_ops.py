"""torch's higher-order operators as nested neutral graphs: cond, while_loop, scan, map, and the wrappers around a region."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxexp.capture.source_lines import place
from onnxexp.capture.torch_export.fx_converter import Conversion, Converter
from onnxexp.graph import Graph, Node, ScalarType, TensorType, Value

__all__ = ["CONVERSIONS"]


def _inline(outer: Converter, module: torch.fx.GraphModule, args: Sequence[Any], into: Graph) -> list[Any]:
    """Convert a submodule's nodes into a graph, its placeholders standing for `args`; returns its outputs."""
    inner = Converter(
        module, Graph(nodes=into.nodes, params=outer.graph.params), outer.dim_text, outer.conversions, outer.autocast
    )
    for placeholder, arg in zip(module.graph.find_nodes(op="placeholder"), args, strict=True):
        inner.env[placeholder] = arg
    inner.run()
    return inner.graph.outputs


def _finish(converter: Converter, op: str, args: list[Any], node: torch.fx.Node, blocks: list[Graph]) -> Any:
    metas = node.meta.get("val")
    metas = list(metas) if isinstance(metas, (list, tuple)) else [metas]
    outputs = [converter.new(f"{node.name}_{index}", meta) for index, meta in enumerate(metas)]
    converter.graph.nodes.append(Node(op, args, outputs, blocks, place(node)))
    return outputs


def _cond(converter: Converter, node: torch.fx.Node) -> Any:
    """``cond(pred, true, false, operands)`` as prim::If, whose blocks use the operands directly."""
    pred, true, false, operands = converter.look_up(node.args)
    blocks = []
    for branch in (true, false):
        block = Graph()
        block.outputs = _inline(converter, branch, operands, block)
        blocks.append(block)
    return _finish(converter, "prim::If", [pred], node, blocks)


def _while_loop(converter: Converter, node: torch.fx.Node) -> Any:
    """``while_loop(cond, body, carried, additional)`` as prim::Loop: the condition is asked before and after each round."""
    cond, body, carried, additional = converter.look_up(node.args)
    first = _inline(converter, cond, [*carried, *additional], converter.graph)
    block = Graph()
    block.inputs = [Value("i", ScalarType(int)), *(_like(converter, arg, index) for index, arg in enumerate(carried))]
    after = _inline(converter, body, [*block.inputs[1:], *additional], block)
    again = _inline(converter, cond, [*after, *additional], block)
    block.outputs = [*again, *after]
    return _finish(converter, "prim::Loop", [None, first[0], *carried], node, [block])


def _scan(converter: Converter, node: torch.fx.Node) -> Any:
    """``scan(combine, init, xs, additional)`` as prim::Scan over axis 0: args are the lists init and xs."""
    combine, init, xs, additional = converter.look_up(node.args)
    return _over_first_axis(converter, node, combine, init, xs, additional)


def _map(converter: Converter, node: torch.fx.Node) -> Any:
    """``map(f, xs, args)`` as prim::Scan that carries nothing."""
    body, xs, args = converter.look_up(node.args)
    return _over_first_axis(converter, node, body, [], xs, args)


def _over_first_axis(
    converter: Converter, node: torch.fx.Node, body: Any, init: list[Any], xs: list[Any], args: list[Any]
) -> Any:
    block = Graph()
    states = [_like(converter, arg, index) for index, arg in enumerate(init)]
    slices = [Value(f"slice_{index}", _without_first(x)) for index, x in enumerate(xs)]
    block.inputs = [*states, *slices]
    block.outputs = _inline(converter, body, [*states, *slices, *args], block)
    return _finish(converter, "prim::Scan", [init, xs], node, [block])


def _like(converter: Converter, arg: Any, index: int) -> Value:
    value = arg if isinstance(arg, Value) else converter.new("", arg)
    type_ = value.type
    return Value(f"carried_{index}", ScalarType(type_.kind) if isinstance(type_, ScalarType) else type_)


def _without_first(x: Value) -> TensorType:
    assert isinstance(x.type, TensorType) and x.type.sizes is not None
    return TensorType(x.type.dtype, x.type.sizes[1:])


def _grad_mode(converter: Converter, node: torch.fx.Node) -> Any:
    """A region under another grad mode computes the same values."""
    _, body, *args = converter.look_up(node.args)
    return _inline(converter, body, args, converter.graph)


def _autocast(converter: Converter, node: torch.fx.Node) -> Any:
    """A region under autocast: the converter makes explicit the casts that autocast does inside the operators."""
    _device, _dtype, enabled, _cache, body, *args = converter.look_up(node.args)
    before, converter.autocast = converter.autocast, bool(enabled)
    try:
        return _inline(converter, body, args, converter.graph)
    finally:
        converter.autocast = before


CONVERSIONS: dict[str, Conversion] = {
    "cond": _cond,
    "while_loop": _while_loop,
    "scan": _scan,
    "map_impl": _map,
    "wrap_with_set_grad_enabled": _grad_mode,
    "wrap_with_autocast": _autocast,
}
