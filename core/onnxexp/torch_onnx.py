"""An import error: torch.onnx's names are in the plugin `onnxexp_torch_onnx`."""

from onnxexp import _TORCH_ONNX_MOVED

raise ImportError(_TORCH_ONNX_MOVED, name=__name__)
