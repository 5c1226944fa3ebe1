"""``GLOBALS`` of ``torch.onnx._globals``: the read-only settings of an export."""

from __future__ import annotations

from onnxexp import OperatorExportTypes, TrainingMode, is_in_onnx_export
from onnxexp_torch_onnx.settings import current


class _Globals:
    """The read-only settings of the running export.

    Outside of an export, the settings are the defaults.
    """

    @property
    def export_onnx_opset_version(self) -> int:
        return current().opset

    @property
    def training_mode(self) -> TrainingMode:
        return TrainingMode.TRAINING if current().training else TrainingMode.EVAL

    @property
    def export_training(self) -> bool:
        return current().training

    @property
    def in_onnx_export(self) -> bool:
        return bool(is_in_onnx_export())

    @property
    def operator_export_type(self) -> OperatorExportTypes:
        return OperatorExportTypes[current().operator_export_type]

    @property
    def autograd_inlining(self) -> bool:
        return current().autograd_inlining


GLOBALS = _Globals()
