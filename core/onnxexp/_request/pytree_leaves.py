"""The leaves of a model's arguments and results: paths, default names, values.

The default names follow the rule of `onnxexp._request.io_names`.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.export import register_dataclass
from torch.utils import _pytree as pytree

from onnxexp._errors import OptionError
from onnxexp._request.unique_names import unique_names
from onnxexp._suggest import nearest

_registration = threading.Lock()


@dataclasses.dataclass(slots=True, eq=False)
class Leaf:
    """A leaf of arguments or results, with its path, default name and value."""

    path: tuple[str, ...]
    name: str
    value: Any


@dataclasses.dataclass(frozen=True)
class RenamingKey(pytree.MappingKey[str, Any]):
    """A key in a container that has names of its own, for `register_pytree_node`.

    Attributes:
        key: The name of the entry.
        renamed: The container's name in a graph, by that of the parameter or field that has it. Others stay.
    """

    renamed: Mapping[str, str]


def register_containers(tree: Any) -> bool:
    """Register dataclasses and subclasses of dict with torch's pytree.

    torch exports registered classes only. A registration counts for the whole process, like one that the user makes by
    `torch.export.register_dataclass`. A dict with attributes of its own is not registered, since a copy by its items would lose
    them.

    Returns whether one was found.
    """
    found = False
    for leaf in () if type(tree) is torch.Tensor else pytree.tree_leaves(tree):
        kind = type(leaf)
        is_dataclass = dataclasses.is_dataclass(kind)
        if is_dataclass or (isinstance(leaf, dict) and not vars(leaf)):
            with _registration:
                if kind not in pytree.SUPPORTED_NODES:
                    register_dataclass(kind) if is_dataclass else _register_dict(kind)
            register_containers(leaf)
            found = True
    return found


def _register_dict(kind: type[dict[Any, Any]]) -> None:
    def made(values: Iterable[Any], keys: list[Any]) -> dict[Any, Any]:
        new = kind.__new__(kind)  # the constructor may have parameters of its own
        for key, value in zip(keys, values, strict=True):
            new[key] = value
        return new

    pytree.register_pytree_node(
        kind,
        lambda given: ([*given.values()], [*given]),
        made,
        serialized_type_name=f"{kind.__module__}.{kind.__qualname__}",
        flatten_with_keys_fn=lambda given: ([(pytree.MappingKey(key), value) for key, value in given.items()], [*given]),
    )


def children(value: Any) -> list[tuple[str, Any]] | None:
    """Return the keys and values below a pytree node, or None for a leaf."""
    below = _entries(value)
    return None if below is None else [(_key_text(key), child) for key, child in below]


def _entries(value: Any) -> list[tuple[Any, Any]] | None:
    kind = pytree._get_node_type(value) if isinstance(value, tuple) else type(value)
    definition = pytree.SUPPORTED_NODES.get(kind)
    if definition is None:
        return None
    if definition.flatten_with_keys_fn is None:
        return [(pytree.SequenceKey(index), child) for index, child in enumerate(definition.flatten_fn(value)[0])]
    return [*definition.flatten_with_keys_fn(value)[0]]


def bind(forward: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
    """Bind the example's arguments to the parameters of a forward.

    Raises OptionError where they do not fit.
    """
    signature = inspect.signature(forward)
    unknown = [name for name in kwargs if name not in signature.parameters]
    if unknown and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values()):
        near = nearest(str(unknown[0]), list(signature.parameters))
        fix = "; to pass a dict as an argument, append an empty one: args=(..., {})" if len(unknown) == len(kwargs) else ""
        raise OptionError(f"the model's forward has no parameter {unknown[0]!r}{near}; it takes {signature}{fix}")
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        raise OptionError(
            f"the example arguments do not fit the model's forward{signature}: {error}. "
            "Give one example for each parameter without a default."
        ) from None


def flatten_inputs(bound: inspect.BoundArguments, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Leaf]:
    """Flatten ``(args, kwargs)`` in torch's pytree order, with default names.

    The list has every leaf: tensors, numbers, None, strings. New dataclasses are registered, as by `register_containers`. `bound`
    has the same arguments by parameter.
    """
    register_containers((tuple(args), dict(kwargs)))
    return _leaves(_roots(list(bound.signature.parameters.values()), args, kwargs))


def flatten_outputs(tree: Any) -> list[Leaf]:
    """Flatten a model's result, with default names, to leaves with None and constants."""
    register_containers(tree)
    top = children(tree)
    if top is None:
        return [Leaf(("output",), "output", tree)]
    numbered = all(key.isdigit() for key, _ in top)
    return _leaves(((f"output_{key}" if numbered else key,), value) for key, value in top)


def flatten_output_spec(spec: pytree.TreeSpec) -> list[Leaf]:
    """Flatten a result's structure, with the position of each leaf as its value."""
    return flatten_outputs(_rebuild(spec, itertools.count()))


def _leaves(roots: Iterable[tuple[tuple[str, ...], Any]]) -> list[Leaf]:
    leaves = [leaf for root, value in roots for leaf in _walk(value, root, ".".join(root))]
    for leaf, name in zip(leaves, unique_names([leaf.name for leaf in leaves]), strict=True):
        leaf.name = name
    return leaves


def _roots(
    parameters: Sequence[inspect.Parameter], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    kind = inspect.Parameter.VAR_POSITIONAL
    star = next((index for index, parameter in enumerate(parameters) if parameter.kind is kind), len(parameters))
    for position, value in enumerate(args):
        name = parameters[min(position, star)].name
        yield ((name,) if position < star else (name, str(position - star))), value
    for key, value in kwargs.items():
        yield (key,), value


def _walk(value: Any, path: tuple[str, ...], name: str) -> Iterator[Leaf]:
    below = None if type(value) is torch.Tensor else _entries(value)
    if below is None:
        yield Leaf(path, name, value)
        return
    for key, child in below:
        own = key.renamed.get(name, name) if isinstance(key, RenamingKey) else name
        text = _key_text(key)
        yield from _walk(child, (*path, text), f"{own}.{text}")


def _key_text(key: Any) -> str:
    if isinstance(key, pytree.SequenceKey):
        return str(key.idx)
    if isinstance(key, pytree.MappingKey):
        return str(key.key)
    return key.name if isinstance(key, pytree.GetAttrKey) else str(key).strip(".[]'")


def _rebuild(spec: pytree.TreeSpec, positions: Iterator[int]) -> Any:
    """Rebuild a structure with positions as its leaves.

    A class that refuses numbers becomes a list.
    """
    if spec.is_leaf():
        return next(positions)
    below = [_rebuild(child, positions) for child in spec.children()]
    try:
        return pytree.SUPPORTED_NODES[spec.type].unflatten_fn(below, spec.context)
    except Exception:  # noqa: BLE001 - a user's constructor may raise anything when it gets numbers
        return below
