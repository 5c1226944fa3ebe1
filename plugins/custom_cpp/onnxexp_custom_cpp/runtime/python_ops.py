"""Call torch operators from Python, where no C++ compiler can build the bridge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from onnxexp_custom_cpp.runtime.errors import BridgeError
from onnxexp_custom_cpp.runtime.torch_call import DOMAIN, TorchCall

_TYPES = {1: "dt_float", 2: "dt_uint8", 3: "dt_int8", 4: "dt_uint16", 5: "dt_int16", 6: "dt_int32", 7: "dt_int64", 9: "dt_bool",
          10: "dt_float16", 11: "dt_double", 12: "dt_uint32", 13: "dt_uint64"}  # fmt: skip
"""The names of onnxruntime-extensions for ONNX element types."""


def register(calls: Mapping[str, TorchCall], options: Any) -> None:
    """Add operators that call torch from Python to the options of a session.

    Raises BridgeError without onnxruntime-extensions, or for a dtype that it lacks.
    """
    try:
        import onnxruntime_extensions as extensions
    except ImportError as error:
        raise BridgeError("bridge='python' needs the package: pip install onnxruntime-extensions") from error
    for name, call in calls.items():
        unknown = [each for each in (*call.inputs, *call.outputs) if each not in _TYPES]
        if unknown:
            raise BridgeError(f"{call.operator}: onnxruntime-extensions has no dtype for the ONNX element types {unknown}")
        inputs, outputs = (
            [getattr(extensions.PyCustomOpDef, _TYPES[each]) for each in types] for types in (call.inputs, call.outputs)
        )
        extensions.onnx_op(op_type=f"{DOMAIN}::{name}", inputs=inputs, outputs=outputs)(_function(call))
    options.register_custom_ops_library(extensions.get_library_path())


def _function(call: TorchCall) -> Callable[..., Any]:
    def run(*arrays: Any) -> Any:
        results = [each.contiguous().numpy() for each in call(*map(torch.from_numpy, arrays))]
        return results[0] if len(results) == 1 else tuple(results)

    return run
