"""Compare models with eager, run them in ONNX Runtime, and read their nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxexp._lazy_names import lazy_names

if TYPE_CHECKING:
    from onnxexp._checking.comparison import Comparison, VerificationReport, compare, run_eager
    from onnxexp._checking.mismatch import find_mismatch
    from onnxexp._checking.mismatch_report import MismatchReport, NodeReport
    from onnxexp._lowering.lowering import output_mismatch
    from onnxexp._model.onnxruntime_session import Session
    from onnxexp._model.origins import NodeOrigin
    from onnxexp._model.type_text import type_text

__all__ = [
    "Comparison",
    "MismatchReport",
    "NodeOrigin",
    "NodeReport",
    "Session",
    "VerificationReport",
    "compare",
    "find_mismatch",
    "output_mismatch",
    "run_eager",
    "type_text",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "_checking.comparison": "Comparison VerificationReport compare run_eager",
        "_checking.mismatch": "find_mismatch",
        "_checking.mismatch_report": "MismatchReport NodeReport",
        "_lowering.lowering": "output_mismatch",
        "_model.onnxruntime_session": "Session",
        "_model.origins": "NodeOrigin",
        "_model.type_text": "type_text",
    },
)
