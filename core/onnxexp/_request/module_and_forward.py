"""The exported model as a module, and the parameters of its forward."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.parallel import DataParallel, DistributedDataParallel

from onnxexp._errors import CaptureError
from onnxexp._torch_compat import ScriptFunction, ScriptMethod, ScriptModule


class _Function(torch.nn.Module):
    """A callable as a module with the callable's own signature."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        vars(self)["forward"] = function


def unwrapped(model: Any) -> Any:
    """Return the model inside torch.compile, DataParallel or DistributedDataParallel."""
    if isinstance(model, (DataParallel, DistributedDataParallel)):
        return unwrapped(model.module)
    held = getattr(model, "__dict__", {})  # an object with slots has none
    inner = dict(held.get("_modules", {}).items()).get("_orig_mod") or held.get("_torchdynamo_orig_callable")
    return model if inner is None else unwrapped(inner)


def as_module(model: Any) -> torch.nn.Module:
    """Return the model as a module, without torch's wrappers.

    Raises CaptureError for an object that is neither a module nor callable.
    """
    model = unwrapped(model)
    if isinstance(model, torch.nn.Module):
        return model
    if isinstance(model, ScriptFunction):
        wrapped = _Function(lambda *args, **kwargs: model(*args, **kwargs))
        vars(wrapped.forward)["__signature__"] = signature_of(model)
        vars(wrapped)["scripted"] = model
        return wrapped
    if isinstance(model, type):
        raise CaptureError(f"{model.__name__} is a class: give an instance, {model.__name__}(...)")
    if not callable(model):
        raise CaptureError(f"cannot export {model!r}: it is neither an nn.Module, nor a function, nor an ExportedProgram")
    owner = model if not hasattr(model, "__self__") else model.__self__
    if isinstance(owner, torch.nn.Module):  # a bound method: keep its module, so that parameters are found
        wrapped = _Function(model)
        wrapped.add_module("self", owner)
        return wrapped
    with contextlib.suppress(ValueError):  # torch.relu and other functions in C have no signature
        inspect.signature(model)
        return _Function(model)
    return _Function(lambda *args: model(*args))


def forward_of(model: Any) -> Callable[..., Any]:
    """Return a model's forward, with a signature also for a scripted one.

    Raises CaptureError for an object that is neither a module nor callable, and for a scripted module without a forward.
    """
    module = as_module(model)
    if not isinstance(module, ScriptModule):
        return module.forward
    if not module._c._has_method("forward"):
        methods = ", ".join(module._c._method_names())
        raise CaptureError(f"the scripted module has no forward, only {methods}; call it in the forward of a module of your own")

    def forward(*args: Any, **kwargs: Any) -> Any:
        return module(*args, **kwargs)

    vars(forward)["__signature__"] = signature_of(module._c._get_method("forward"))
    return forward


def is_scripted(model: Any) -> bool:
    """Return whether a model, also as `as_module` makes it a module, is TorchScript."""
    return isinstance(model, (ScriptModule, ScriptFunction)) or (isinstance(model, _Function) and "scripted" in vars(model))


def signature_of(model: Any) -> inspect.Signature:
    """Return the parameters of a model's forward, or of a scripted method.

    Raises CaptureError as `forward_of` does.
    """
    if not isinstance(model, (ScriptFunction, ScriptMethod)):
        return inspect.signature(forward_of(model))
    schema: Any = model.schema  # torch declares it as a method
    kinds = inspect.Parameter
    return inspect.Signature(
        [
            kinds(
                argument.name,
                kinds.KEYWORD_ONLY if argument.kwarg_only else kinds.POSITIONAL_OR_KEYWORD,
                default=argument.default_value if argument.has_default_value() else kinds.empty,
                annotation=argument.type,
            )
            for argument in schema.arguments[isinstance(model, ScriptMethod) :]
        ]
    )
