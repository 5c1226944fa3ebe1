"""Run a program in eager, and a model in ONNX Runtime or ONNX's own evaluator."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.reference
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode


def eager(module: torch.nn.Module, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the results as tensors; a Python number becomes one as well."""
    checks = torch.nn.modules.module.register_module_forward_pre_hook(_check_features)
    try:
        with torch.no_grad():
            return leaves(module(*tensors))
    finally:
        checks.remove()


def accepts(module: torch.nn.Module, tensors: Sequence[torch.Tensor]) -> bool:
    """Whether eager runs the module on these inputs."""
    try:
        eager(module, tensors)
    except Exception:  # noqa: BLE001 - a module may refuse inputs by any exception
        return False
    return True


def _check_features(module: torch.nn.Module, args: tuple[Any, ...]) -> None:
    """Refuse a packed sequence with a wrong number of features.

    torch would read memory outside of the sequence.
    """
    if isinstance(module, torch.nn.RNNBase) and isinstance(args[0], torch.nn.utils.rnn.PackedSequence):
        assert args[0].data.shape[-1] == module.input_size


def is_undefined(module: torch.nn.Module, tensors: Sequence[torch.Tensor], scripted: bool) -> bool:
    """Return whether torch itself leaves the program undefined.

    Such a program writes one element twice at once, or does not run in TorchScript. torch's documentation warns of writes into
    expanded and unfolded tensors, whose elements share memory.
    """
    if scripted and not accepts(torch.jit.script(module), tensors):
        return True
    with torch.no_grad(), _Watch() as watch, contextlib.suppress(Exception):  # torch.cond may not run under a mode
        module(*tensors)
    return watch.overlap


def computes_empty(module: torch.nn.Module, tensors: Sequence[torch.Tensor]) -> bool:
    """Whether a tensor without elements occurs, which Reshape cannot make before opset 14."""
    with torch.no_grad(), _Watch() as watch, contextlib.suppress(Exception):  # torch.cond may not run under a mode
        module(*tensors)
    return watch.empty


def misreads(module: torch.nn.Module, tensors: Sequence[torch.Tensor]) -> bool:
    """Whether eager computes a median along an expanded axis, which is wrong in torch 2.13."""
    with torch.no_grad(), _Watch() as watch, contextlib.suppress(Exception):  # torch.cond may not run under a mode
        module(*tensors)
    return watch.median


class _Watch(TorchDispatchMode):
    """A mode that notes writes into overlapping tensors, their medians, and results without elements."""

    overlap = empty = median = False
    supports_higher_order_operators = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        schema = func._schema.arguments if isinstance(func, torch._ops.OpOverload) else ()  # torch.cond has none
        for argument, value in zip(schema, args, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write and isinstance(value, torch.Tensor):
                self.overlap |= _overlaps(value)
        self.median |= func in (torch.ops.aten.median.dim, torch.ops.aten.nanmedian.dim) and _overlaps(args[0])
        result = func(*args, **(kwargs or {}))
        self.empty |= any(isinstance(x, torch.Tensor) and not x.numel() for x in pytree.tree_leaves(result))
        return result


def _overlaps(x: torch.Tensor) -> bool:
    places = torch.zeros((), dtype=torch.int64)
    for size, step in zip(x.shape, x.stride(), strict=True):
        places = places.unsqueeze(-1) + torch.arange(size) * step
    return places.unique().numel() < places.numel()


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
