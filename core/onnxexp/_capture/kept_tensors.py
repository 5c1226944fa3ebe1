"""Warn of tensors that a model keeps between calls, unlike an ONNX graph."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxexp._capture.preserved_model import call_preserved, preserved_model
from onnxexp._capture.torch_state import assigned_data_lines
from onnxexp._source_location import SourceLocation
from onnxexp._user_warnings import warn

_ASSIGNED = re.compile(r"The tensor attributes? (.*) (?:was|were) assigned during export")  # torch.export restores them


def assigned_attributes(caught: Sequence[warnings.WarningMessage]) -> set[str]:
    """Collect the attributes from torch.export's warnings of assigned tensors."""
    texts = [match[1] for each in caught if (match := _ASSIGNED.match(str(each.message)))]
    return {name for text in texts for name in text.split(", ")}


def warn_of_kept_tensors(
    model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], assigned: Collection[str]
) -> None:
    """Warn of assigned tensors and ``.data`` that a later call reads, with lines.

    Args:
        model: The model after its capture.
        args, kwargs: The example. The model is run on a copy of it once if a tensor may be kept.
        assigned: The attributes, ``self.block.state[0]``, that the forward has assigned tensors to.
    """
    if assigned_data_lines():
        _warn_of_kept_data(model, args, kwargs)
    if not assigned:
        return
    own = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}
    names = {name for name in assigned if not _is_of(own, _value(model, name))}
    kept = sorted(f"{name} ({_line(model, name)})" for name in _read_first(model, names, args, kwargs))
    if kept:
        warn(
            f"the forward keeps tensors between calls: {'; '.join(kept)}; an ONNX graph keeps none: its outputs are right for "
            "the values at the export, and new ones are lost; "
            "to fix this, make them inputs and outputs, or compute in __init__ what no "
            "input changes"
        )


def _warn_of_kept_data(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Warn of assignments to ``.data`` of parameters that a later call reads."""
    try:
        with preserved_model(model) as private:
            first, second = (_leaves_of_run(private, args, kwargs) for _ in range(2))
        keeps = not all(map(_are_equal, first, second))
    except Exception:  # noqa: BLE001 - a model on the meta device may raise anything; each tensor may be kept then
        keeps = True
    if keeps:
        warn(
            f"the forward keeps what it assigns to .data ({'; '.join(sorted(map(str, assigned_data_lines())))}); an ONNX graph "
            "keeps nothing: its outputs are right for the values at the export; to fix this, compute it in __init__"
        )


def _leaves_of_run(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Run a model on a copy of the example, with the same random numbers at each call."""
    args, kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, (tuple(args), dict(kwargs)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return pytree.tree_leaves(pytree.tree_map_only(torch.Tensor, torch.clone, model(*args, **kwargs)))


def _are_equal(one: Any, other: Any) -> bool:
    if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
        return bool(one == other)
    return one.shape == other.shape and bool(torch.all((one == other) | ((one != one) & (other != other))))


def _read_first(model: torch.nn.Module, names: set[str], args: Sequence[Any], kwargs: Mapping[str, Any]) -> set[str]:
    """Return the names of attributes that a call reads before it writes them.

    Other attributes have no value of an earlier call, for example the weight that `torch.nn.utils.weight_norm` computes in each
    call.
    """
    if not names:
        return names
    watched: dict[torch.nn.Module, dict[str, list[str]]] = {}
    for name in names:
        owner, attribute = _owner(model, name)
        watched.setdefault(owner, {}).setdefault(attribute, []).append(name)
    owners = {owner: type(owner) for owner in watched}
    first: dict[str, str] = {}
    arguments = pytree.tree_map_only(torch.Tensor, torch.clone, (tuple(args), dict(kwargs)))
    try:
        for owner, own_class in owners.items():
            owner.__class__ = _watched(own_class, watched[owner], first)
        call_preserved(model, *arguments)
    except Exception:  # noqa: BLE001 - a model on the meta device may raise anything; each name may be kept then
        return names
    finally:
        for owner, own_class in owners.items():
            owner.__class__ = own_class
    return {name for name in names if first.get(name) != "written"}


def _watched(own_class: Any, attributes: Mapping[str, list[str]], first: dict[str, str]) -> Any:
    """Derive a class that records whether an attribute is first read or written.

    Args:
        own_class: The class of one module.
        attributes: The names of the attributes' values in the whole model.
        first: Receives "read" or "written" by these names.
    """

    class Watched(own_class):  # type: ignore[misc] # a class of the user's
        def __getattribute__(self, name: str) -> Any:
            for place in attributes.get(name, ()):
                first.setdefault(place, "read")
            return super().__getattribute__(name)

        def __setattr__(self, name: str, value: Any) -> None:
            for place in attributes.get(name, ()):
                first.setdefault(place, "written")
            super().__setattr__(name, value)

    return Watched


def _owner(model: torch.nn.Module, name: str) -> tuple[torch.nn.Module, str]:
    """Return the module of ``self.block.state[0]``, and its attribute."""
    path, _, attribute = name.partition("[")[0].removeprefix("self.").rpartition(".")
    return model.get_submodule(path), attribute


def _value(model: torch.nn.Module, name: str) -> Any:
    owner, attribute = _owner(model, name)
    return vars(owner).get(attribute)


def _is_of(own: Collection[int], value: Any) -> bool:
    """Return whether all tensors of an attribute are parameters or buffers.

    The tensors in `torch.nn.LSTM._flat_weights` are parameters, for example.
    """
    tensors = [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
    return bool(tensors) and all(id(tensor) in own for tensor in tensors)


def _line(model: torch.nn.Module, name: str) -> SourceLocation:
    """Return the line that changes ``self.block.state``, first in the forward."""
    module, attribute = _owner(model, name)
    owner = type(module)
    for source in (owner.forward, owner):
        try:
            lines, start = inspect.getsourcelines(source)
        except OSError:  # a class made by exec has no source
            return SourceLocation(scope="forward", module=owner.__name__)
        changes = [line for line, text in enumerate(lines) if re.search(rf"\.{attribute}\b.*((?<![=!<>])=(?!=)|\.\w+\()", text)]
        if changes:
            return SourceLocation.read(inspect.getsourcefile(source) or "", start + changes[-1])
    return SourceLocation(scope="forward", module=owner.__name__)  # written elsewhere, by a hook
