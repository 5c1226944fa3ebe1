"""Tools for frontends and for plugins that prepare a capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxexp._lazy_names import lazy_names

if TYPE_CHECKING:
    from onnxexp._capture.captured_program import CapturedProgram, CaptureRefused
    from onnxexp._capture.example_inputs import derivation, grow
    from onnxexp._capture.fitting_examples import run_fitting
    from onnxexp._capture.kept_tensors import warn_of_kept_tensors
    from onnxexp._capture.model_tensors import call_unharmed, restored_state, unharmed
    from onnxexp._capture.private_model import private_tensors
    from onnxexp._capture.reshape_sizes import exact_reshape_sizes
    from onnxexp._capture.shape_env_snapshot import restore, snapshot
    from onnxexp._capture.size_text import condition_text, dim_text
    from onnxexp._capture.source_lines import code_line, is_torch_nn, is_user_code, model_error, only_raises_or_warns
    from onnxexp._capture.torch_state import (
        is_exporting,
        model_mode,
        replace_attributes,
        replace_functions,
        silence_torch_loggers,
        silence_warnings,
        torch_mode,
    )
    from onnxexp._decompose.node_decomposer import Decomposer
    from onnxexp._request.dynamic_shapes import Axis, DynamicSpec
    from onnxexp._request.module_and_forward import as_module, forward_of, is_scripted, signature_of, unwrapped
    from onnxexp._request.pytree_leaves import RenamingKey, register_containers
    from onnxexp._request.tensor_list import TensorList, whole_lists
    from onnxexp._request.training_mode import enum_member
    from onnxexp._request.unique_names import name_of_size
    from onnxexp._torch_compat import NO_TORCHSCRIPT, RANGES_TRUNCATE_BOUNDS, ScriptFunction, ScriptModule

__all__ = [
    "Axis",
    "CaptureRefused",
    "CapturedProgram",
    "Decomposer",
    "DynamicSpec",
    "NO_TORCHSCRIPT",
    "RANGES_TRUNCATE_BOUNDS",
    "RenamingKey",
    "ScriptFunction",
    "ScriptModule",
    "TensorList",
    "as_module",
    "call_unharmed",
    "code_line",
    "condition_text",
    "derivation",
    "dim_text",
    "enum_member",
    "exact_reshape_sizes",
    "forward_of",
    "grow",
    "is_exporting",
    "is_scripted",
    "is_torch_nn",
    "is_user_code",
    "model_error",
    "model_mode",
    "name_of_size",
    "only_raises_or_warns",
    "private_tensors",
    "register_containers",
    "replace_attributes",
    "replace_functions",
    "restore",
    "restored_state",
    "run_fitting",
    "signature_of",
    "silence_torch_loggers",
    "silence_warnings",
    "snapshot",
    "torch_mode",
    "unharmed",
    "unwrapped",
    "warn_of_kept_tensors",
    "whole_lists",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "_capture.captured_program": "CaptureRefused CapturedProgram",
        "_capture.example_inputs": "derivation grow",
        "_capture.fitting_examples": "run_fitting",
        "_capture.model_tensors": "call_unharmed restored_state unharmed",
        "_capture.private_model": "private_tensors",
        "_capture.reshape_sizes": "exact_reshape_sizes",
        "_capture.shape_env_snapshot": "restore snapshot",
        "_capture.size_text": "condition_text dim_text",
        "_capture.source_lines": "code_line is_torch_nn is_user_code model_error only_raises_or_warns",
        "_capture.torch_state": (
            "is_exporting model_mode replace_attributes replace_functions silence_torch_loggers silence_warnings torch_mode"
        ),
        "_request.dynamic_shapes": "Axis DynamicSpec",
        "_request.module_and_forward": "as_module forward_of is_scripted signature_of unwrapped",
        "_request.pytree_leaves": "RenamingKey register_containers",
        "_request.tensor_list": "TensorList whole_lists",
        "_request.training_mode": "enum_member",
        "_request.unique_names": "name_of_size",
        "_torch_compat": "NO_TORCHSCRIPT RANGES_TRUNCATE_BOUNDS ScriptFunction ScriptModule",
        "_decompose.node_decomposer": "Decomposer",
        "_capture.kept_tensors": "warn_of_kept_tensors",
    },
)
