"""Run the nodes of a captured graph in torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxexp._neutral_graph import Graph, Node, Value, replace_values
from onnxexp._torch_ops.schemas import overload

Env = Mapping[Value, Any]


class CannotRun(Exception):
    """torch cannot run a node, for the reason in the message."""


class Interpreter:
    """An interpreter of captured nodes, one by one or a whole graph with its blocks.

    Results are contiguous, since ONNX's tensors have no strides.
    """

    def node(self, node: Node, env: Env) -> list[Any]:
        """Return one result for each output of a node.

        Raises CannotRun where torch cannot run the node.
        """
        args = [replace_values(arg, env.__getitem__) for arg in node.args]
        try:
            with torch.no_grad():
                results = self._control_flow(node, args, env) if node.blocks else _call(node, args)
        except CannotRun:
            raise
        except Exception as error:  # an operator may raise anything on values that the example did not have
            raise CannotRun(f"{node.op} fails in torch: {type(error).__name__}: {error}") from error
        if len(results) != len(node.outputs):
            raise CannotRun(f"{node.op} returns {len(results)} values in torch, the captured node {len(node.outputs)}")
        return [one.contiguous() if isinstance(one, torch.Tensor) and not one.is_sparse else one for one in results]

    def graph(self, graph: Graph, env: Env) -> list[Any]:
        """Run a graph whose inputs are in `env`, and return its outputs.

        Raises CannotRun where torch cannot run a node.
        """
        inner = {**env, **graph.params}
        for node in graph.nodes:
            inner.update(zip(node.outputs, self.node(node, inner), strict=True))
        return [replace_values(output, inner.__getitem__) for output in graph.outputs]

    def _control_flow(self, node: Node, args: Sequence[Any], env: Env) -> list[Any]:
        flows: dict[str, Callable[[Node, Sequence[Any], Env], list[Any]]]
        flows = {"prim::If": self._if, "prim::Loop": self._loop, "prim::Scan": self._scan}
        if node.op not in flows:
            raise CannotRun(f"{node.op} has blocks that torch cannot run")
        return flows[node.op](node, args, env)

    def _if(self, node: Node, args: Sequence[Any], env: Env) -> list[Any]:
        return self.graph(node.blocks[0 if args[0] else 1], env)

    def _loop(self, node: Node, args: Sequence[Any], env: Env) -> list[Any]:
        trips, going, *carried = args
        (block,) = node.blocks
        stacked: list[list[Any]] = [[] for _ in block.outputs[1 + len(carried) :]]
        index, count = 0, len(carried)
        while going and (trips is None or index < trips):
            going, *after = self.graph(block, {**env, **dict(zip(block.inputs, [index, *carried], strict=True))})
            carried = after[:count]
            for rows, row in zip(stacked, after[count:], strict=True):
                rows.append(torch.as_tensor(row))
            index += 1
        if index == 0 and stacked:
            raise CannotRun("a loop that runs no time has no rows to stack")
        return [*carried, *map(torch.stack, stacked)]

    def _scan(self, node: Node, args: Sequence[Any], env: Env) -> list[Any]:
        states, xs = list(args[0]), args[1]
        (block,) = node.blocks
        rows = []
        for slices in zip(*xs, strict=True):
            results = self.graph(block, {**env, **dict(zip(block.inputs, [*states, *slices], strict=True))})
            states, row = results[: len(states)], results[len(states) :]
            rows.append(row)
        if not rows:
            raise CannotRun("a scan over no elements has no rows to stack")
        return [*states, *(torch.stack(list(column)) for column in zip(*rows, strict=True))]


def _call(node: Node, args: Sequence[Any]) -> list[Any]:
    """Call a torch operator with every argument of its schema."""
    function = overload(node.op)
    if function is None:
        raise CannotRun(f"torch has no operator {node.op}")
    formals = function._schema.arguments
    if len(formals) != len(args):
        raise CannotRun(f"{node.op} takes {len(formals)} arguments in torch, the captured node has {len(args)}")
    named = {formal.name: arg for formal, arg in zip(formals, args, strict=True) if formal.kwarg_only}
    result = function(*args[: len(args) - len(named)], **named)
    return [] if result is None and not node.outputs else pytree.tree_leaves(result)


def is_random(node: Node) -> bool:
    """Return whether a node draws random numbers.

    Dropout draws them in training mode only.
    """
    if node.blocks:
        return any(is_random(inner) for block in node.blocks for inner in block.walk())
    function = overload(node.op)
    if function is None or torch.Tag.nondeterministic_seeded not in function.tags:
        return False
    given = dict(zip((formal.name for formal in function._schema.arguments), node.args, strict=False))
    if given.get("train", given.get("training", True)) is False:
        return False
    return not ("dropout_p" in given and given["dropout_p"] == 0)
