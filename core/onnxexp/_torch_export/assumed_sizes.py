"""Check torch.export's assumptions about sizes that depend on values."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from onnxexp._capture.source_lines import node_location
from onnxexp._errors import CaptureError
from onnxexp._torch_export.squeezed_axes import compared_with_one

_ASSERTION = re.compile(r"Runtime assertion failed for expression (.+?) on node")
_FIXED_SIZE = re.compile(r"expression Eq\(u\d+, \d+\)")


class _Run(torch.fx.Interpreter):
    """A run of a program that keeps the first node with a rank that was not captured."""

    extra_traceback = False
    differs: torch.fx.Node | None = None

    def run_node(self, n: torch.fx.Node) -> Any:
        result, captured = super().run_node(n), n.meta.get("val")
        if isinstance(result, torch.Tensor) and isinstance(captured, torch.Tensor) and result.dim() != captured.dim():
            self.differs = self.differs or n
        return result


def check_assumed_sizes(program: ExportedProgram, args: Any, kwargs: Any) -> None:
    """Run the example if the program assumes sizes that depend on values.

    torch takes such a size for that of the axis which it broadcasts with, though it may be 1, and assumes that squeeze keeps it.

    Raises:
        CaptureError: The size is another one in the example.
    """
    if not any(map(_assumes, program.graph.nodes)):
        return
    module = program.module()
    for part in module.modules():  # the run may write into buffers, which are the model's own
        part._buffers = {name: each if each is None else each.clone() for name, each in part._buffers.items()}
    run = _Run(module)
    arguments = pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
    try:
        run.run(*pytree.tree_leaves(arguments))
    except Exception as error:  # noqa: BLE001 - operators that stand for others in a capture cannot run
        failed = _ASSERTION.search(str(error))
        if failed is not None:
            text = f"torch.export assumes {failed[1]} of a size that depends on values, which the example contradicts"
            fix = 'expand() the tensor before that line, or use capture="trace"'
            raise CaptureError(f"{text}; to fix this, {fix}") from None
    if run.differs is not None:
        text = "squeeze() removes an axis here that has one element in the example, while its size depends on values"
        fix = "select the element (x[0]), or give an example with more elements"
        raise CaptureError(f"{node_location(run.differs)}: {text}; to fix this, {fix}")


def _assumes(node: torch.fx.Node) -> bool:
    """Return whether a node assumes a size that depends on values."""
    if "_assert_scalar" in str(node.target):
        return _FIXED_SIZE.search(str(node.args[1:])) is not None
    return any(map(free_unbacked_symbols, compared_with_one(node)))
