"""The plugin behind the entry point."""

from __future__ import annotations

import onnxexp
from onnxexp.graph import Node
from onnxexp_torch_onnx import onnx_ops
from onnxexp_torch_onnx.registry import is_registered
from onnxexp_torch_onnx.torch_onnx_state import is_registered_with_torch

_LEFT_OUT = "a symbolic for {} is registered with {}, and this export does not use it; to fix this, call {}"


class TorchOnnx:
    """Lower ``torch.onnx.ops``, and name registered symbolics that an export omits."""

    symbolics = onnx_ops.table

    @onnxexp.hookimpl
    def lower_node(self, op: onnxexp.Builder, node: Node) -> None:
        """Decline with the fix where a symbolic is registered.

        The reason appears only if nothing lowers the node: an export that uses the registrations has them as a table.
        """
        name = node.op.partition(".")[0]
        if is_registered(name, op.opset):
            fix = "onnxexp_torch_onnx.export(...), or onnxexp.export(..., plugins=[onnxexp_torch_onnx.registered(), ...])"
            op.decline(_LEFT_OUT.format(name, "onnxexp_torch_onnx", fix))
        if is_registered_with_torch(name, op.opset):
            op.decline(_LEFT_OUT.format(name, "torch.onnx", "onnxexp_torch_onnx.export(..., torch_registrations=True)"))


plugin = TorchOnnx()
