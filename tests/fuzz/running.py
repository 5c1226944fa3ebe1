"""Run a program in eager, and a model in ONNX Runtime or in ONNX's reference evaluator."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.reference
import torch
from torch.utils import _pytree as pytree

__all__ = ["accepts", "eager", "leaves", "run_model", "run_reference"]


def eager(module: torch.nn.Module, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the results as tensors; a Python number becomes one as well."""
    with torch.no_grad():
        return leaves(module(*tensors))


def accepts(module: torch.nn.Module, tensors: Sequence[torch.Tensor]) -> bool:
    """Whether eager runs the module on these inputs."""
    try:
        eager(module, tensors)
    except Exception:  # noqa: BLE001 - a module may refuse inputs by any exception
        return False
    return True


def leaves(results: Any) -> list[torch.Tensor]:
    found = [leaf for leaf in pytree.tree_leaves(results) if leaf is not None]
    return [_parts(leaf.detach().clone()) if isinstance(leaf, torch.Tensor) else torch.tensor(leaf) for leaf in found]


def _parts(value: torch.Tensor) -> torch.Tensor:
    """Return complex numbers as ONNX has them: with a last axis of two reals."""
    return torch.view_as_real(value.resolve_conj()) if value.is_complex() else value


def run_model(model: onnx.ModelProto, inputs: Mapping[str, torch.Tensor], *, optimised: bool = True) -> list[torch.Tensor]:
    """Run a model in ONNX Runtime with one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {slot.name: _value(inputs[slot.name].contiguous()) for slot in session.get_inputs()}
    return [_tensor(value) for value in session.run_with_ort_values(None, feeds)]


def _value(x: torch.Tensor) -> Any:
    """Return ONNX Runtime's form of a tensor; numpy has no bfloat16."""
    from onnxruntime import OrtValue

    if x.dtype == torch.bfloat16:
        return OrtValue.ortvalue_from_numpy_with_onnx_type(x.view(torch.uint16).numpy(), onnx.TensorProto.BFLOAT16)
    return OrtValue.ortvalue_from_numpy(x.numpy())


def _tensor(value: Any) -> torch.Tensor:
    if value.element_type() != onnx.TensorProto.BFLOAT16:
        return torch.as_tensor(np.array(value.numpy()))
    tensor = torch.empty(tuple(value.shape()), dtype=torch.bfloat16)
    if tensor.numel():
        ctypes.memmove(tensor.data_ptr(), value.data_ptr(), tensor.nbytes)
    return tensor


def run_reference(model: onnx.ModelProto, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """Run a model in ONNX's reference evaluator."""
    feeds = {slot.name: inputs[slot.name].contiguous().numpy() for slot in model.graph.input}
    return _tensors(onnx.reference.ReferenceEvaluator(model).run(None, feeds))


def _tensors(results: Sequence[Any]) -> list[torch.Tensor]:
    flat = (part for result in results for part in (result if isinstance(result, list) else [result]))
    return [torch.as_tensor(np.array(part)) for part in flat]  # a copy: torch takes no negative strides
