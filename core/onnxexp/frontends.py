"""Tools for frontends and for plugins that prepare a capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxexp._lazy_names import lazy_names

if TYPE_CHECKING:
    from onnxexp._capture.captured_program import CapturedProgram
    from onnxexp._capture.exact_reshape_sizes import fake_kernels
    from onnxexp._capture.example_inputs import resize_example
    from onnxexp._capture.fitting_examples import run_fitting
    from onnxexp._capture.kept_tensors import warn_of_kept_tensors
    from onnxexp._capture.preserved_model import call_preserved, capture_mode
    from onnxexp._capture.redirect import redirected
    from onnxexp._capture.restored_state import restored_state
    from onnxexp._capture.shape_env_snapshot import ShapeEnvSnapshot
    from onnxexp._capture.size_names import SizeNames
    from onnxexp._capture.source_lines import model_error
    from onnxexp._capture.torch_state import model_mode, replace_attributes
    from onnxexp._decompose.node_decomposer import Decomposer
    from onnxexp._request.axis_spec import Axis
    from onnxexp._request.dynamic_shapes import DynamicSpec
    from onnxexp._request.module_and_forward import is_scripted, signature_of, unwrapped
    from onnxexp._request.pytree_leaves import RenamingKey, register_containers
    from onnxexp._request.tensor_list import TensorList

__all__ = [
    "fake_kernels",
    "Axis",
    "CapturedProgram",
    "Decomposer",
    "DynamicSpec",
    "RenamingKey",
    "TensorList",
    "call_preserved",
    "capture_mode",
    "resize_example",
    "is_scripted",
    "model_error",
    "model_mode",
    "redirected",
    "register_containers",
    "replace_attributes",
    "restored_state",
    "run_fitting",
    "signature_of",
    "ShapeEnvSnapshot",
    "SizeNames",
    "unwrapped",
    "warn_of_kept_tensors",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "_capture.captured_program": "CapturedProgram",
        "_capture.example_inputs": "resize_example",
        "_capture.fitting_examples": "run_fitting",
        "_capture.preserved_model": "call_preserved capture_mode",
        "_capture.restored_state": "restored_state",
        "_capture.exact_reshape_sizes": "fake_kernels",
        "_capture.shape_env_snapshot": "ShapeEnvSnapshot",
        "_capture.size_names": "SizeNames",
        "_capture.source_lines": "model_error",
        "_capture.redirect": "redirected",
        "_capture.torch_state": "model_mode replace_attributes",
        "_request.axis_spec": "Axis",
        "_request.dynamic_shapes": "DynamicSpec",
        "_request.module_and_forward": "is_scripted signature_of unwrapped",
        "_request.pytree_leaves": "RenamingKey register_containers",
        "_request.tensor_list": "TensorList",
        "_decompose.node_decomposer": "Decomposer",
        "_capture.kept_tensors": "warn_of_kept_tensors",
    },
)
