"""A checkpoint's tensors as the weights of a model without weights."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch.export import ExportedProgram
from torch.nn.modules.module import register_module_parameter_registration_hook

from onnxexp._builder.torch_tensor_data import has_data
from onnxexp._errors import OptionError
from onnxexp._neutral_graph import TensorType
from onnxexp._request.checkpoint import read_checkpoint
from onnxexp._request.module_and_forward import is_scripted
from onnxexp._suggest import nearest

Weights: TypeAlias = "str | os.PathLike[str] | Mapping[str, torch.Tensor]"
"""The path of a safetensors checkpoint, as for `read_checkpoint`, or tensors by name."""
_SHOWN = 8
"""How many problems of one kind an error lists."""


def find_weights(model: torch.nn.Module | ExportedProgram, given: Weights | None) -> list[tuple[str, str, torch.Tensor]]:
    """Find the tensor for each parameter and buffer of the model's state dict.

    Returns the paths of modules, the names of their parameters and buffers, and the tensors. A tied parameter needs a tensor for
    one of its names.

    Raises OptionError for a checkpoint that cannot be read, and for names, dtypes and shapes that do not fit. The message lists
    all.
    """
    if given is None:
        return []
    if isinstance(model, ExportedProgram) or is_scripted(model):
        raise OptionError(f"weights are for an nn.Module, the model is a {type(model).__name__}; to fix this, give the nn.Module")
    if not isinstance(given, (str, os.PathLike, Mapping)):
        raise OptionError(f"weights is a {type(given).__name__}; to fix this, give the path of a checkpoint, or tensors by name")
    tensors = given if isinstance(given, Mapping) else read_checkpoint(given)
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise OptionError(f"weights has a {type(tensor).__name__} for {name!r}; to fix this, give a tensor")
    own = [(path, *each) for path, module in model.named_modules() for each in _named_tensors(module)]
    places = {id(tensor) for *_, tensor in own}
    state = {name: each for name, each in model.state_dict(keep_vars=True).items() if id(each) in places}  # not what hooks add
    problems = [*_problems(state, tensors), *_empty_buffers(model, state)]
    if problems:
        source = "the given weights" if isinstance(given, Mapping) else str(given)
        raise OptionError("\n  ".join([f"{source} and the model {type(model).__name__} do not fit:", *problems]))
    found = {id(state[name]): _like(state[name], tensor) for name, tensor in tensors.items()}
    return [(path, name, found[id(tensor)]) for path, name, tensor in own if id(tensor) in found]


def _named_tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from module.named_parameters(recurse=False, remove_duplicate=False)
    yield from module.named_buffers(recurse=False, remove_duplicate=False)


def _like(own: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    return torch.nn.Parameter(tensor, own.requires_grad) if isinstance(own, torch.nn.Parameter) else tensor


def _problems(state: Mapping[str, torch.Tensor], tensors: Mapping[str, torch.Tensor]) -> Iterator[str]:
    """List the differences between the model's state dict and the given tensors."""
    tied: dict[int, list[str]] = defaultdict(list)
    for name, own in state.items():
        tied[id(own)].append(name)
    missing = [names[0] for names in tied.values() if tensors.keys().isdisjoint(names)]
    unknown = [name for name in tensors if name not in state]
    yield from _listed(missing, lambda name: f"no weight for {name}: {_type(state[name])}{nearest(name, unknown)}")
    yield from _listed(unknown, lambda name: f"no {name} in the model{nearest(name, missing)}")
    if missing or unknown:
        yield "To fix this, pass weights={name: tensor} with the names of model.state_dict(), from onnxexp.read_checkpoint(path)"
    both = [name for name in tensors if name in state]
    other = [name for name in both if _type(tensors[name]) != _type(state[name])]
    yield from _listed(other, lambda name: f"{name} is {_type(tensors[name])}, and in the model {_type(state[name])}")
    if dtypes := {str(tensors[name].dtype) for name in other if tensors[name].dtype != state[name].dtype}:
        yield f"To fix this, call model.to({' or '.join(sorted(dtypes))}), or use a checkpoint of the model's dtype"
    yield from _listed([name for name in both if not has_data(tensors[name])], "{} is a fake or meta tensor, without data".format)
    given = [[name for name in names if name in tensors] for names in tied.values()]
    unequal = [" and ".join(names) for names in given if any(not _equal(tensors[names[0]], tensors[name]) for name in names[1:])]
    yield from _listed(
        unequal, "{} are one parameter of the model, and differ; to fix this, use a model that does not tie them".format
    )


def _empty_buffers(module: torch.nn.Module, state: Mapping[str, torch.Tensor]) -> Iterator[str]:
    """List the buffers without data that no checkpoint has."""
    saved = {id(own) for own in state.values()}
    empty = [name for name, buffer in module.named_buffers() if id(buffer) not in saved and not has_data(buffer)]
    yield from _listed(empty, "no data for {}, a buffer with persistent=False on the meta device".format)
    if empty:
        yield "To fix this, make it in `with onnxexp.meta_parameters():`, where buffers are computed"


def _listed(names: Sequence[str], text: Callable[[str], str]) -> Iterator[str]:
    yield from map(text, names[:_SHOWN])
    if len(names) > _SHOWN:
        yield f"and {len(names) - _SHOWN} more"


def _type(tensor: torch.Tensor) -> str:
    return str(TensorType(tensor.dtype, tuple(tensor.shape)))


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one is other or (_type(one) == _type(other) and torch.equal(one, other))


@contextlib.contextmanager
def with_weights(model: Any, weights: Sequence[tuple[str, str, torch.Tensor]]) -> Iterator[Any]:
    """Put tensors into their places in a model inside the `with`, and yield the model."""
    with contextlib.ExitStack() as restore:
        for path, name, tensor in weights:
            module = model.get_submodule(path)
            restore.callback(setattr, module, name, getattr(module, name))  # nn.Module has no other access to both kinds
            setattr(module, name, tensor)
        yield model


@contextlib.contextmanager
def meta_parameters() -> Iterator[None]:
    """Construct modules with parameters on the meta device, which take no memory.

    Buffers are computed: no checkpoint has those with ``persistent=False``, and under ``torch.device("meta")`` they have no data.
    Each parameter is moved when it is registered. Modules that other threads construct are left alone.

    ```python
    with onnxexp.meta_parameters():
        model = Model(config)
    onnxexp.export(model, args, "model.onnx", weights="checkpoint/")
    ```
    """
    thread = threading.get_ident()

    def move(module: torch.nn.Module, name: str, parameter: torch.nn.Parameter) -> None:
        if not parameter.is_meta and threading.get_ident() == thread:  # in place: the parameter may be tied
            empty = torch.nn.Parameter(parameter.to("meta"), parameter.requires_grad)
            torch.utils.swap_tensors(parameter, empty)  # type: ignore[no-untyped-call]  # torch's own

    hook = register_module_parameter_registration_hook(move)
    try:
        yield
    finally:
        hook.remove()
