"""Prevent ONNX Runtime from fusing a sum with the LayerNormalization after it.

ONNX Runtime makes SkipLayerNormalization of the two where it can prove, by the names of symbolic sizes, that the operands of the
sum have equal shapes. On CPU this kernel takes more time than the operators that it replaces: without the names, the latency of
BERT fell from 1.04 to 0.96 of the better peer's in `make bench`, that of DistilBERT from 1.04 to 1.00.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxexp import Options


class UnnameSizes(ir.passes.InPlacePass):
    """Remove the names of symbolic sizes inside models that normalize residual sums.

    The inputs and outputs keep theirs, and so do models in which something else uses the sums as well. Sizes that are numbers
    stay. The pass does nothing for the target "onnx".
    """

    last = True

    def __init__(self, options: Options) -> None:
        self._needed = options.target == "onnxruntime"

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        if not self._needed or not any(map(_normalizes_a_sum, model.graph)):
            return ir.passes.PassResult(model, modified=False)
        for node in model.graph:
            for value in node.outputs:
                if value.shape is not None and not value.is_graph_output():
                    value.shape = ir.Shape([size if isinstance(size, int) else None for size in value.shape])
        return ir.passes.PassResult(model, modified=True)


def _normalizes_a_sum(node: ir.Node) -> bool:
    """Return whether a node is a LayerNormalization of a sum that nothing else uses."""
    if node.domain or node.op_type != "LayerNormalization" or node.inputs[0] is None:
        return False
    total = node.inputs[0]
    made = total.producer()
    return made is not None and made.op_type == "Add" and len(total.uses()) == 1 and not total.is_graph_output()
