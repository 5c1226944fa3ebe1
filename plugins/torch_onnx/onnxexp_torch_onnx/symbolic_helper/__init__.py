"""The names of ``torch.onnx.symbolic_helper``."""

from __future__ import annotations

from typing import Any

from onnxexp_torch_onnx.symbolic_helper import building, former_names, quantizing, reading, resizing, types
from onnxexp_torch_onnx.symbolic_helper.building import *  # noqa: F403
from onnxexp_torch_onnx.symbolic_helper.former_names import *  # noqa: F403
from onnxexp_torch_onnx.symbolic_helper.quantizing import *  # noqa: F403
from onnxexp_torch_onnx.symbolic_helper.reading import *  # noqa: F403
from onnxexp_torch_onnx.symbolic_helper.resizing import *  # noqa: F403
from onnxexp_torch_onnx.symbolic_helper.types import *  # noqa: F403

__all__ = [name for module in (reading, types, building, quantizing, resizing, former_names) for name in module.__all__]


def __getattr__(name: str) -> Any:  # values of the running export
    return former_names.of_running_export(name)
