"""The functions of ``torch.onnx.ops``: ONNX operators that a model calls.

They are torch's own, operators with a shape and an eager kernel. An export lowers them to the ONNX operator.
"""

from __future__ import annotations

from torch.onnx.ops import aten_decompositions, attention, rotary_embedding, symbolic, symbolic_multi_out

__all__ = ["aten_decompositions", "attention", "rotary_embedding", "symbolic", "symbolic_multi_out"]
