"""Rewrite in-place operators and writes through views as pure nodes.

    written = functionalize(graph)

Afterwards no node writes to its arguments, and every node reads the values that it read in the original:

* An in-place or ``out=`` operator becomes the operator of the same arguments that returns its result, cast back to the dtype
  of the written tensor. torch's schemas list the written arguments.
* A write through views goes back to the base tensor (``slice_scatter``, ``select_scatter``, a reshape or permutation) when
  another part of that tensor is read. Other views of it are made again when they are read.
* A branch returns the outer tensors that it writes to; a loop carries them.

A tensor that may share memory with a written one (``reshape`` of a tensor that may not be contiguous, ``as_strided`` with
elements that overlap, a result that is one of two tensors) is an error where it would make a difference.
"""

from __future__ import annotations

from onnxexp._functionalize.blocks import rewrite_blocks
from onnxexp._functionalize.inplace_rewriter import InPlaceRewriter
from onnxexp._functionalize.mutation import MutationInfo
from onnxexp._functionalize.strided_views import fill_diagonals, rebase_strided_views, refuse_scatters_into_overlaps
from onnxexp._neutral_graph import Graph, Node, Value, values_in

__all__ = ["drop_dead", "functionalize"]


def functionalize(graph: Graph) -> list[str]:
    """Rewrite a graph in place so that no node writes to its arguments.

    Returns the names of the inputs and parameters that were written; their new values are lost. The new values have the types of
    the written tensors; the new nodes have the `where` of the writing node.

    Raises CaptureError, with the operator, its place and the fix, where the rewriting cannot follow the memory that is written.
    """
    fill_diagonals(graph)
    refuse_scatters_into_overlaps(graph)
    rebase_strided_views(graph)
    if not any(MutationInfo.of(node.op).written for node in graph.walk()):
        return []
    rewriter = InPlaceRewriter(graph, rewrite_blocks)
    rewriter.run(graph)
    changed = {root.origin for root in rewriter.memory.changed_roots()}
    return [value.name for value in (*graph.inputs, *graph.params) if value in changed]


def drop_dead(graph: Graph) -> None:
    """Remove unused nodes and parameters of a functional graph, in place."""
    used: set[Value] = set()
    _sweep(graph, used, graph.dropped)
    for value in graph.params.keys() - used:
        del graph.params[value]


def _sweep(graph: Graph, used: set[Value], dropped: list[Node]) -> None:
    used.update(values_in(graph.outputs))
    kept = []
    for node in reversed(graph.nodes):
        if not used.isdisjoint(node.outputs):
            for block in node.blocks:
                _sweep(block, used, dropped)
            used.update(values_in(node.args))
            kept.append(node)
        else:
            dropped.append(node)
    graph.nodes[:] = reversed(kept)
