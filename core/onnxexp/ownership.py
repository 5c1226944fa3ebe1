"""The graph of a finished model, made when somebody asks for it.

A graph of onnx-ir owns its nodes and values, so that passes can change it. To make it takes several times as long as all that
the writer reads, and most programs are written or run and nothing else: until then the model is over a view of its nodes.
"""

from __future__ import annotations

import onnx_ir as ir

__all__ = ["owned"]


def owned(model: ir.Model) -> ir.Model:
    """The model itself; its graph is an `onnx_ir.Graph` from now on."""
    view = model.graph
    if isinstance(view, ir.GraphView):
        model.graph = ir.Graph(
            view.inputs,
            view.outputs,
            nodes=view,
            initializers=list(view.initializers.values()),
            opset_imports=view.opset_imports,
            name=view.name,
        )
    return model
