"""Run a model, and leave its parameters, buffers and attributes as they were."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from onnxexp._capture.model_weights import with_weights
from onnxexp._capture.private_model import private_model, private_tensors
from onnxexp._capture.restored_state import restored_state
from onnxexp._capture.torch_state import model_mode, torch_mode
from onnxexp._request.example_call import ExampleCall
from onnxexp._request.export_context import ExportContext
from onnxexp._request.pytree_leaves import register_containers
from onnxexp._request.training_mode import TrainingMode


class _RestoredParameters(TorchDispatchMode):
    """A mode that undoes the writes of a run into the model's parameters.

    Parameters without writes are not copied. The mode does not suit a trace: under a dispatch mode, torch's tracer records the
    result of a convolution as a constant.
    """

    supports_higher_order_operators = True  # their branches and bodies write to nothing, and they have no schema

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own
        self._written: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._unwritten: dict[int, list[torch.Tensor]] = {}
        self._before = [(parameter, parameter.detach()) for parameter in filter(torch._C._has_storage, model.parameters())]
        for _, data in self._before:
            self._unwritten.setdefault(data.untyped_storage()._cdata, []).append(data)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        writes = isinstance(func, torch._ops.OpOverload) and func._schema.is_mutable
        for tensor in pytree.tree_leaves((args, kwargs)) if writes else ():
            if isinstance(tensor, torch.Tensor) and torch._C._has_storage(tensor):
                unwritten = self._unwritten.pop(tensor.untyped_storage()._cdata, ())
                self._written += [(data, data.clone()) for data in unwritten]
        return func(*args, **(kwargs or {}))

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)  # type: ignore[no-untyped-call]  # torch's own
        for data, old in self._written:
            data.copy_(old)
        for parameter, data in self._before:
            if not torch._C._is_alias_of(parameter, data):  # type: ignore[attr-defined]  # in C++; an assignment to `.data`
                parameter.data = data


@contextlib.contextmanager
def preserved_model(model: torch.nn.Module, mode: TrainingMode = TrainingMode.PRESERVE) -> Iterator[torch.nn.Module]:
    """Yield a model to run in place of another, which stays as it is.

    The model is a copy, whose parameters and buffers are empty at the end. Where the other model cannot be copied, it is yielded
    itself, and the changes of the run are undone at the end.
    """
    with (
        private_tensors(model) as private,
        model_mode(private.modules(), mode),
        restored_state(private),
        # a copy's parameters need no mode, under which the first `torch.cond` of a process would fail in all later calls
        _RestoredParameters(private) if private is model else contextlib.nullcontext(),
    ):
        yield private


def call_preserved(
    module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], mode: TrainingMode = TrainingMode.PRESERVE
) -> Any:
    """Call a module, and leave it as it was.

    New dataclasses in the result are registered, as by `register_containers`.
    """
    with preserved_model(module, mode) as private:
        result = private(*args, **kwargs)
        register_containers(result)
        return pytree.tree_map_only(torch.Tensor, torch.clone, result)  # it may share memory with the state


@contextlib.contextmanager
def capture_mode(model: torch.nn.Module, mode: TrainingMode, *, copy: bool) -> Iterator[torch.nn.Module]:
    """Put torch and a model into the state of a capture inside the `with`.

    Gradients are off, as are the fused kernels of torch.nn. Yields the model, or with `copy` a copy to capture, which shares no
    tensor with it that the capture writes into. Where the model cannot be copied, it is yielded itself.
    """
    with (
        torch_mode(),
        model_mode(model.modules(), mode),
        private_tensors(model) if copy else contextlib.nullcontext(model) as private,
    ):
        yield private


def run_original(call: ExampleCall, context: ExportContext, /, *args: Any, **kwargs: Any) -> Any:
    """Run the original model in the mode of the export, to compare a program with it."""
    mode = TrainingMode.PRESERVE if isinstance(call.model, ExportedProgram) else context.options.training
    with with_weights(private_model(call.module), call.weights) as private:
        return pytree.tree_map_only(torch.Tensor, context.dense, call_preserved(private, args, kwargs, mode))
