"""Undo the changes that a run makes to a model's buffers and attributes."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxexp._torch_compat import ScriptModule

_ATOMS = frozenset([torch.nn.Parameter, bool, int, float, str, type(None)])
"""Attributes of these types contain no tensors other than parameters."""
_LEAVES = (torch.nn.Module, torch.Tensor, type, ModuleType, FunctionType)
_CONTAINERS = frozenset([dict, list, OrderedDict])
_DEPTH = 4
"""The levels of nested containers and objects that are restored."""


@contextlib.contextmanager
def restored_state(model: torch.nn.Module, *, buffers: bool = True) -> Iterator[None]:
    """Undo, at the end of the `with`, the changes that a run makes to the model.

    Attributes get their values back, lists, dicts and objects among them their elements, and tensors other than parameters their
    contents, shapes and versions. Only changed tensors are written, because a tensor may lie in read-only memory. `buffers` is
    False for torch.export, which runs the model on fake buffers: another thread may write into the real ones.
    """
    modules = list(model.modules())
    containers: dict[int, Any] = {}
    for module in modules:
        _find_containers(module, containers)
    saved = [(container, container.copy()) for container in containers.values()]
    scripted = [attribute for module in modules for attribute in _scripted_attributes(module)]
    attributes = [
        value
        for _, old in saved
        for value in (old if isinstance(old, list) else old.values())
        if type(value) not in _ATOMS and id(value) not in containers and not _has_no_tensors(value)
    ]
    model_buffers = {id(buffer): buffer for buffer in model.buffers()}
    leaves = pytree.tree_leaves([list(model_buffers.values()), attributes, [old for *_, old in scripted]])
    tensors = {id(leaf): leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and not isinstance(leaf, torch.nn.Parameter)}
    contents = [
        (tensor, _layout(tensor), _version(tensor), tensor.detach().clone())
        for key, tensor in tensors.items()
        if buffers or key not in model_buffers
    ]
    try:
        yield
    finally:
        for container, old in saved:
            if old or container:  # most attributes of most modules are empty
                _restore_container(container, old)
        for owner, name, old in scripted:
            owner.setattr(name, old)
        for tensor, layout, version, old in contents:
            _restore_tensor(tensor, layout, version, old)


def _has_no_tensors(value: Any) -> bool:
    """Return whether a value is a module or a tuple of numbers."""
    return isinstance(value, torch.nn.Module) or (type(value) is tuple and all(type(each) in _ATOMS for each in value))


def _restore_container(container: Any, old: Any) -> None:
    """Give a list or a dict its old elements."""
    if isinstance(container, list):
        container[:] = old
    else:
        for key in container.keys() - old.keys():
            del container[key]
        container.update(old)


def _restore_tensor(tensor: torch.Tensor, layout: Any, version: int | None, old: torch.Tensor) -> None:
    """Give a tensor its old shape, contents and version, where they differ."""
    with torch.inference_mode(tensor.is_inference()), torch.no_grad():
        if _layout(tensor) != layout:  # unsqueeze_
            tensor.as_strided_(*layout)
        # An expanded tensor is not written.
        if tensor.shape == old.shape and torch._debug_has_internal_overlap(tensor) != 1 and not _same(tensor, old):
            tensor.copy_(old)
    if version is not None and _version(tensor) != version:  # else a backward that needs the tensor is refused
        torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors of one shape have the same contents, NaN included."""
    if one.device.type == "meta":
        return True
    if one.layout is not torch.strided or one.is_quantized:
        return False
    return torch.equal(one, other) or bool(torch.all((one == other) | ((one != one) & (other != other))))


def _version(tensor: torch.Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version


def _layout(tensor: torch.Tensor) -> Any:
    """Return the arguments of as_strided for a tensor, where it has strides."""
    return (tensor.shape, tensor.stride(), tensor.storage_offset()) if tensor.layout is torch.strided else ()


def _find_containers(value: Any, found: dict[int, Any], depth: int = _DEPTH) -> None:
    """Collect a module's attributes and the containers in them, by their ids.

    Scripted modules have none.
    """
    if depth == 0 or isinstance(value, ScriptModule if depth == _DEPTH else _LEAVES):
        return
    container: Any = value if type(value) in _CONTAINERS else getattr(value, "__dict__", None)  # numbers have none
    if type(container) in _CONTAINERS and id(container) not in found:
        found[id(container)] = container
        for element in list(container if isinstance(container, list) else container.values()):
            if type(element) in _CONTAINERS and not element:  # most attributes of most modules
                found.setdefault(id(element), element)
            elif type(element) not in _ATOMS:
                _find_containers(element, found, depth - 1)


def _scripted_attributes(module: Any) -> Iterator[tuple[Any, str, Any]]:
    """Yield the owner, name and value of a scripted module's attributes."""
    if isinstance(module, ScriptModule) and (concrete := vars(module).get("_concrete_type")) is not None:
        for name in concrete.get_attributes():
            value = module._c.getattr(name)
            if not isinstance(value, torch.ScriptObject):
                yield module._c, name, value
