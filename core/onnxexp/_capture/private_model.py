"""Copy a model's modules for a run, as other threads may use the model meanwhile."""

from __future__ import annotations

import contextlib
import dis
import functools
import gc
import types
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from onnxexp._capture.torch_state import replace_attributes
from onnxexp._torch_compat import ScriptModule

_CONTAINERS = frozenset([list, tuple, dict, OrderedDict, set, frozenset])
_ENDS = (type, types.ModuleType, types.BuiltinFunctionType, types.CodeType, torch.fx.Graph)
"""Objects that are not followed; a graph refers to its GraphModule, which does not run through it."""
_NOT_RUN = ("torch.nn.utils.parametrize", "torch.ao.quantization.qconfig")
"""Modules of torch whose functions refer to a model's modules, and do not call them."""
_NOT_OF_RUNS = ("__init__", "__annotations__")
"""Attributes of a class that a run does not use."""
_MOST = 100_000
"""How many objects are followed, before a model counts as one that cannot be copied."""
_OWN = frozenset(vars(torch.nn.Module()))
"""The attributes of torch.nn.Module, such as its parameters and hooks."""


class _Inseparable(Exception):
    """An object outside of the model's modules refers to one of them."""


def private_model(model: Any) -> Any:
    """Copy a model's modules, so that a run changes nothing that another thread uses.

    All other objects are shared, such as the parameters and buffers. Attributes of a copy refer to copies, also in containers,
    bound methods, partial functions, and weak references. Where other objects or functions refer to the modules, the forward of a
    copy would call the originals. Then this function returns the model itself, as for a ScriptModule or an ExportedProgram. For
    BERT-base it takes 3 ms, 1 % of a trace.
    """
    if isinstance(model, ScriptModule) or not isinstance(model, torch.nn.Module):  # an ExportedProgram
        return model
    try:
        return _Copier(model).copy()
    except _Inseparable:
        return model


@contextlib.contextmanager
def private_tensors(model: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """Yield a copy of a model with lazy clones of its parameters and buffers.

    torch copies the memory of a lazy clone, or of its original, when one of them is written. At the end the clones get the
    originals' memory, so that later writes do not copy, and objects that the run keeps from the copy have the model's values.
    Yields the model itself where it cannot be copied, see `private_model`, also where other objects refer to its tensors or
    several tensors share memory.
    """
    clones: list[tuple[torch.Tensor, torch.Tensor]] = []
    try:
        if isinstance(model, ScriptModule):
            raise _Inseparable
        private = _Copier(model, clones).copy()
    except _Inseparable:
        private = model
    try:
        with replace_attributes(_addresses({_storage(tensor) for pair in clones for tensor in pair})):
            yield private
    finally:
        with torch.no_grad():
            for original, clone in clones:
                if clone.dtype != original.dtype:  # a cast in the forward
                    clone.data = original
                clone.set_(original.untyped_storage(), *_place(original))


class _Copier:
    """The copies of one model's modules and of the objects that refer to them."""

    def __init__(self, model: torch.nn.Module, clones: list[tuple[torch.Tensor, torch.Tensor]] | None = None) -> None:
        self._model = model
        modules = list(model.modules())
        self._originals = [module for module in modules if not isinstance(module, ScriptModule)]
        self._kinds = {type(module) for module in self._originals}
        if not all(map(_is_copyable, self._kinds)):
            raise _Inseparable
        self._copies: dict[int, Any] = {id(module): object.__new__(type(module)) for module in self._originals}
        self._storages: set[int] = set()
        self._seen: set[int] = set()
        self._open: set[int] = set()
        if clones is not None:
            if len(self._originals) < len(modules):  # scripted modules have their tensors in C++
                raise _Inseparable
            self._clone_tensors(clones)

    def copy(self) -> torch.nn.Module:
        """Fill the copies of the modules, and return that of the model."""
        for base in {base for kind in self._kinds for base in kind.__mro__}.difference(torch.nn.Module.__mro__):
            self._search(value for name, value in list(vars(base).items()) if name not in _NOT_OF_RUNS)
        for module in self._originals:
            attributes = vars(self._copies[id(module)])
            attributes.update(vars(module))
            for name, value in list(attributes.items()):
                if type(value) in _CONTAINERS and not value:  # most attributes of most modules
                    attributes[name] = value.copy() if name in _OWN else value
                elif gc.is_tracked(value):
                    new = value if "state_dict" in name else self._copied(value)  # hooks that a forward does not call
                    shared = new is value and name in _OWN and isinstance(value, (dict, set))
                    attributes[name] = value.copy() if shared else new
        return self._copies[id(self._model)]  # type: ignore[no-any-return]

    def _clone_tensors(self, clones: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        held = (each for module in self._originals for each in (*module._parameters.values(), *module._buffers.values()))
        for tensor in {id(each): each for each in held if each is not None}.values():
            if type(tensor) in (torch.Tensor, torch.nn.Parameter) and _is_plain(tensor):
                self._copies[id(tensor)] = clone = _lazy_clone(tensor)
                clones.append((tensor, clone))
                self._storages.add(tensor.untyped_storage()._cdata)
        if len(self._storages) + len(self._originals) < len(self._copies):  # a write into one shows in another
            raise _Inseparable

    def _copied(self, value: Any) -> Any:
        """Return a value that refers to the copies, or the value itself if it need not."""
        if not gc.is_tracked(value) or id(value) in self._copies:
            return self._copies.get(id(value), value)
        kind, new = type(value), value
        if kind in _CONTAINERS:
            new = self._container(value) if value else value
        elif kind is types.MethodType and id(value.__self__) in self._copies:
            self._search([value.__func__])
            return types.MethodType(value.__func__, self._copies[id(value.__self__)])
        elif kind is weakref.ref and id(value()) in self._copies:
            return weakref.ref(self._copies[id(value())])
        elif kind is functools.partial:
            parts = [value.func, value.args, value.keywords, vars(value)]
            function, args, keywords, attributes = map(self._copied, parts)
            if any(one is not other for one, other in zip(parts, (function, args, keywords, attributes), strict=True)):
                new = functools.partial(function, *args, **keywords)
                vars(new).update(attributes)
        else:
            self._search([value])
        self._copies[id(value)] = new
        return new

    def _container(self, value: Any) -> Any:
        """Copy a container if elements of it are copied."""
        if id(value) in self._open:  # it contains itself
            raise _Inseparable
        self._open.add(id(value))
        elements = [each for pair in list(value.items()) for each in pair] if isinstance(value, dict) else list(value)
        new = [self._copied(each) for each in elements]
        self._open.remove(id(value))
        if all(one is other for one, other in zip(elements, new, strict=True)):
            return value
        return type(value)(zip(new[::2], new[1::2], strict=True) if isinstance(value, dict) else new)

    def _search(self, values: Iterable[Any]) -> None:
        """Follow references, and raise _Inseparable where they lead to a copied object."""
        found = list(values)
        while found:
            each = found.pop()
            if issubclass(type(each), _ENDS) or not gc.is_tracked(each) or id(each) in self._seen:
                continue
            self._seen.add(id(each))
            if len(self._seen) > _MOST or self._is_copied(each) or isinstance(each, weakref.ProxyTypes):
                raise _Inseparable
            found += self._referents(each)

    def _is_copied(self, value: Any) -> bool:
        if self._storages and isinstance(value, torch.Tensor) and torch._C._has_storage(value):
            return value.untyped_storage()._cdata in self._storages
        return self._copies.get(id(value), value) is not value or id(value) in self._open

    def _referents(self, value: Any) -> list[Any]:
        if isinstance(value, types.FunctionType):
            if value.__module__ in _NOT_RUN:
                return []
            held = [each for each in (value.__closure__, value.__defaults__, value.__kwdefaults__, value.__dict__) if each]
            is_torchs = str(value.__globals__.get("__name__")).startswith("torch.")  # its globals are no module of a model
            return held if is_torchs else [*held, *self._globals(value, value.__code__)]
        if isinstance(value, torch.Tensor):
            return list(vars(value).values())
        if isinstance(value, weakref.ref):
            return [value()]
        return gc.get_referents(value)

    def _globals(self, function: types.FunctionType, code: types.CodeType) -> Iterator[Any]:
        """Yield the modules and functions among the globals of a function.

        Functions of other files are left out: very many can be reached through them.
        """
        known = function.__globals__
        used = [name for name in code.co_names if name in known]  # or attributes of these names
        if any(self._is_copied(known[name]) for name in used):
            loaded = {each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
            used = [name for name in used if name in loaded]
        for name in used:
            own = isinstance(known[name], types.FunctionType) and known[name].__globals__ is known
            if own or self._is_copied(known[name]):
                yield known[name]
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                yield from self._globals(function, constant)


def _addresses(storages: set[int | None]) -> list[tuple[Any, str, Any]]:
    """Return a replacement of `data_ptr`, by which a clone is where its original is.

    torch's own function copies the memory first, of the original too, and a model may look a parameter up by its address, or by
    that of a view of it.
    """
    read, copy = getattr(torch.Tensor, "const_data_ptr", None), torch.Tensor.data_ptr  # torch 2.11 lacks the first
    known = storages - {None}
    if read is None or not known:
        return []
    return [(torch.Tensor, "data_ptr", lambda tensor: (read if _storage(tensor) in known else copy)(tensor))]


def _storage(tensor: torch.Tensor) -> int | None:
    """Return what identifies the storage of a tensor, or None if it has none."""
    return tensor.untyped_storage()._cdata if torch._C._has_storage(tensor) else None


def _is_copyable(kind: type) -> bool:
    """Return whether a copy needs only the attributes of a class's objects.

    Classes with slots need more. `__del__` may close an object that the original uses.
    """
    return not (hasattr(kind, "__del__") or any(vars(base).get("__slots__") for base in kind.__mro__))


def _is_plain(tensor: torch.Tensor) -> bool:
    plain = tensor.layout is torch.strided and not (tensor.is_quantized or tensor.is_inference() or tensor.is_meta)
    return plain and torch._C._has_storage(tensor)


def _place(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.storage_offset(), tensor.shape, tensor.stride()


def _lazy_clone(tensor: torch.Tensor) -> torch.Tensor:
    """Clone a tensor lazily.

    Where torch cannot clone lazily, the clone shares the memory of a parameter, and copies a buffer at once.
    """
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    try:
        clone = torch._lazy_clone(tensor.detach())
    except RuntimeError:  # memory of another owner than torch, such as NumPy
        if not is_parameter:
            clone = tensor.detach().clone()
        else:  # a version counter of its own
            clone = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(tensor.untyped_storage(), *_place(tensor))
    made = torch.nn.Parameter(clone, tensor.requires_grad) if is_parameter else clone.requires_grad_(tensor.requires_grad)
    vars(made).update(vars(tensor))
    return made
