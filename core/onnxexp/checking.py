"""Compare models with eager and with each other, and run them in ONNX Runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxexp._lazy_names import lazy_names

if TYPE_CHECKING:
    from onnxexp._checking.comparison import Comparison, VerificationReport, compare, run_eager
    from onnxexp._checking.mismatch import find_mismatch
    from onnxexp._checking.mismatch_report import MismatchReport, NodeReport
    from onnxexp._checking.model_diff import ModelDiff, diff_models
    from onnxexp._lowering.lowering import output_mismatch
    from onnxexp._model.declared_sizes import size_at
    from onnxexp._model.onnxruntime_session import Session
    from onnxexp._model.origins import NodeOrigin, origin_of
    from onnxexp._model.type_text import dtype_text, type_text

__all__ = [
    "Comparison",
    "MismatchReport",
    "ModelDiff",
    "NodeOrigin",
    "NodeReport",
    "Session",
    "VerificationReport",
    "compare",
    "diff_models",
    "dtype_text",
    "find_mismatch",
    "origin_of",
    "output_mismatch",
    "run_eager",
    "size_at",
    "type_text",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "_checking.comparison": "Comparison VerificationReport compare run_eager",
        "_checking.mismatch": "find_mismatch",
        "_checking.mismatch_report": "MismatchReport NodeReport",
        "_checking.model_diff": "ModelDiff diff_models",
        "_lowering.lowering": "output_mismatch",
        "_model.declared_sizes": "size_at",
        "_model.onnxruntime_session": "Session",
        "_model.origins": "NodeOrigin origin_of",
        "_model.type_text": "dtype_text type_text",
    },
)
