"""Run a program in eager, and a model in ONNX Runtime or in ONNX's reference evaluator."""

from __future__ import annotations

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
    return [leaf.detach().clone() if isinstance(leaf, torch.Tensor) else torch.tensor(leaf) for leaf in found]


def run_model(model: onnx.ModelProto, inputs: Mapping[str, torch.Tensor], *, optimised: bool = True) -> list[torch.Tensor]:
    """Run a model in ONNX Runtime with one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {slot.name: inputs[slot.name].contiguous().numpy() for slot in session.get_inputs()}
    return _tensors(session.run(None, feeds))


def run_reference(model: onnx.ModelProto, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """Run a model in ONNX's reference evaluator."""
    feeds = {slot.name: inputs[slot.name].contiguous().numpy() for slot in model.graph.input}
    return _tensors(onnx.reference.ReferenceEvaluator(model).run(None, feeds))


def _tensors(results: Sequence[Any]) -> list[torch.Tensor]:
    flat = (part for result in results for part in (result if isinstance(result, list) else [result]))
    return [torch.as_tensor(np.array(part)) for part in flat]  # a copy: torch takes no negative strides
