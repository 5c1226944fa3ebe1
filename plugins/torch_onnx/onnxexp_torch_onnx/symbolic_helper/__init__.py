"""The names of ``torch.onnx.symbolic_helper``."""

from __future__ import annotations

from onnxexp_torch_onnx.symbolic_helper import building, quantizing, reading, resizing, types
from onnxexp_torch_onnx.symbolic_helper.building import *  # noqa: F403
from onnxexp_torch_onnx.symbolic_helper.quantizing import *  # noqa: F403
from onnxexp_torch_onnx.symbolic_helper.reading import *  # noqa: F403
from onnxexp_torch_onnx.symbolic_helper.resizing import *  # noqa: F403
from onnxexp_torch_onnx.symbolic_helper.types import *  # noqa: F403

__all__ = [name for module in (reading, types, building, quantizing, resizing) for name in module.__all__]
