"""Run the original model, to compare an exported program with."""

from __future__ import annotations

from typing import Any

from torch.export import ExportedProgram

from onnxexp.capture.model_tensors import call_unharmed
from onnxexp.capture.torch_state import model_mode
from onnxexp.request.example_call import ExampleCall
from onnxexp.request.training_mode import TrainingMode

__all__ = ["run_original"]


def run_original(call: ExampleCall, training: TrainingMode, /, *args: Any, **kwargs: Any) -> Any:
    """Run the original in the mode of the export."""
    modules = () if isinstance(call.model, ExportedProgram) else call.module.modules()
    with model_mode(modules, training):
        return call_unharmed(call.module, args, kwargs)
