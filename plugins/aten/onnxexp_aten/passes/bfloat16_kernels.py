"""bfloat16 in ONNX Runtime, whose CPU provider moves such numbers only."""

from __future__ import annotations

import onnx_ir as ir

from onnxexp import warn

__all__ = ["WarnOfBfloat16", "uncomputed_bfloat16"]

_SHAPES = frozenset({"Concat", "Flatten", "Identity", "Reshape", "Shape", "Split", "Squeeze", "Transpose", "Unsqueeze"})
_MOVES = _SHAPES | {"Cast", "CastLike", "Constant", "Gather", "GatherElements", "GatherND", "If", "Loop", "Scan", "Slice"}
"""Operators whose kernels, from ONNX Runtime 1.20 on, take bfloat16 on a CPU."""


def uncomputed_bfloat16(node: ir.Node) -> bool:
    """Return whether an ONNX node has bfloat16 numbers and no kernel on a CPU."""
    if node.domain not in ("", "com.microsoft") or (not node.domain and node.op_type in _MOVES):
        return False
    return any(value is not None and value.dtype == ir.DataType.BFLOAT16 for value in (*node.inputs, *node.outputs))


class WarnOfBfloat16(ir.passes.InPlacePass):
    """A pass that warns of a file that ONNX Runtime does not load on a CPU.

    The pass changes nothing.
    """

    last = True

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        nodes = ir.traversal.RecursiveGraphIterator(model.graph)
        if found := sorted({node.op_type for node in nodes if uncomputed_bfloat16(node)}):
            names = ", ".join(found[:5]) + (", ..." if len(found) > 5 else "")
            warn(
                f"the model computes in bfloat16, for which ONNX Runtime's CPU provider has no kernels ({names}): the file loads "
                "on accelerators only; to fix this, export model.float() (`--dtype float32`), or pass the plugin "
                "onnxexp_ort.Bfloat16OnCpu(), which writes casts to float32 around these operators"
            )
        return ir.passes.PassResult(model, modified=False)
