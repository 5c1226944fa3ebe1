"""Names that the tests of PyTorch 2.6 import, and later releases moved or removed."""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

import torch
import torch.onnx
from torch.onnx._internal import torchscript_exporter
from torch.onnx._internal.torchscript_exporter import verification

_MOVED = {
    "torch.onnx._globals": "_globals",
    "torch.onnx._type_utils": "_type_utils",
    "torch.onnx._internal.jit_utils": "jit_utils",
    "torch.onnx.verification": "verification",
}
"""The new place of each module, in torch.onnx._internal.torchscript_exporter."""


class _Diagnostics(types.ModuleType):
    """torch.onnx._internal.diagnostics, whose `engine.clear()` the tests call."""

    class engine:
        @staticmethod
        def clear() -> None:
            """Do nothing, since there is nothing to clear."""


def install() -> None:
    """Make the names importable, and load weights from nowhere."""
    for name, place in _MOVED.items():
        _alias(name, importlib.import_module(f"{torchscript_exporter.__name__}.{place}"))
    _alias("torch.onnx._internal.diagnostics", _Diagnostics("diagnostics"))
    verification._onnx_backend_session = lambda model, backend: _session(model)
    verification._ort_session = _session
    _use_random_weights()


def _alias(name: str, module: types.ModuleType) -> None:
    parent, _, leaf = name.rpartition(".")
    sys.modules[name] = module
    setattr(sys.modules[parent], leaf, module)


def _session(model: Any) -> Any:
    """Open ONNX Runtime with one thread, so that tests do not depend on each other."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    data = model if isinstance(model, str) else model.getvalue()
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def _use_random_weights() -> None:
    """Let torchvision's models keep their random weights, of the test's seed.

    Some tests want trained weights, which would be downloaded.
    """
    from torchvision.models._api import WeightsEnum

    downloaded: dict[str, Any] = {}
    load = torch.nn.Module.load_state_dict

    def load_state_dict(self: Any, state: Any, *args: Any, **kwargs: Any) -> Any:
        return None if state is downloaded else load(self, state, *args, **kwargs)

    WeightsEnum.get_state_dict = lambda *_, **__: downloaded
    torch.nn.Module.load_state_dict = load_state_dict  # type: ignore[method-assign] # in this process only
