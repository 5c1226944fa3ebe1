"""In-place operators and writes through views as nodes that compute new values.

    report = functionalize(graph)

After it no node of the graph writes to its arguments, and every node reads what memory held when the original ran:

* an in-place or ``out=`` operator becomes the operator of the same arguments that returns its result, cast back to the
  dtype of the tensor that was written; which one that is, and what is written, torch's schemas tell;
* a write through views is carried back to the tensor at the end of the chain (``slice_scatter``, ``select_scatter``, a
  reshape or permutation back) once something else of that tensor is read, and other views of it are made anew when read;
* a branch that writes to what lives outside returns it, a loop carries it.

A tensor that may or may not share memory with one that is written (``reshape`` of a tensor that may not be contiguous,
``as_strided``, a result that is one of two tensors) is an error once it would make a difference, never a guess.

`facts` reads the schemas, `aliasing` finds the values that matter, `memory` follows their contents, `views` and
`write_back` handle the view operators, `rewrite` and `blocks` go through the nodes.
"""

from __future__ import annotations

import dataclasses

from onnxexp.functionalize.blocks import rewrite_blocks
from onnxexp.functionalize.mutation import facts
from onnxexp.functionalize.rewrite import Rewriter
from onnxexp.graph import Graph

__all__ = ["Report", "functionalize"]


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """What `functionalize` did.

    Attributes:
        rewritten: How many nodes wrote to their arguments.
        inputs: Names of the graph's inputs that were written; what they hold afterwards is written nowhere.
        params: Names of parameters and buffers that were written, likewise.
    """

    rewritten: int = 0
    inputs: tuple[str, ...] = ()
    params: tuple[str, ...] = ()


def functionalize(graph: Graph) -> Report:
    """Rewrite a graph in place so that no node writes to its arguments; a graph without such nodes is left as it is.

    Types of the new values are those of the tensors that are written; the new nodes say the writing node's `where`.
    Raises CaptureError, with the operator, its place and the cure, where the memory that is written cannot be followed.
    """
    if not any(facts(node.op).written for node in graph.walk()):
        return Report()
    rewriter = Rewriter(graph, rewrite_blocks)
    rewriter.run(graph)
    changed = {root.origin for root in rewriter.memory.changed}
    inputs = tuple(value.name for value in graph.inputs if value in changed)
    return Report(rewriter.count, inputs, tuple(value.name for value in graph.params if value in changed))
