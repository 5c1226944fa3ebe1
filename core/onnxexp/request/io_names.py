"""Names of the graph's inputs and outputs, from the structure of what the model takes and returns.

API:
    bind(forward, args, kwargs) -> inspect.BoundArguments    the arguments by parameter
    flatten_inputs(bound, args, kwargs) -> list[Leaf]        leaves in the order of torch.export's placeholders
    flatten_outputs(tree) / flatten_output_spec(treespec)    leaves of a returned value, or of torch's `TreeSpec` of it
    assign_names(defaults, given, what=..., taken=...)       the user's names over the default ones, made unique
    register_dataclasses(tree)                               register dataclasses with torch's pytree
    children(value)                                          the keys and values below a pytree node

The rule:
    * an input is called after the parameter it is bound to; what lies inside a tuple, list, dict, dataclass, NamedTuple or
      other pytree node adds its index, key or field after a dot: ``past.0.key``. An element of ``*xs`` is ``xs.0``, an entry
      of ``**options`` goes by its own key;
    * a lone tensor that is returned is ``output``; the elements of a returned tuple or list are ``output_0``, ``output_1``
      (deeper ones ``output_1.0.key``; None keeps its number); a returned dict, dataclass, NamedTuple or ModelOutput gives
      its keys or fields as they are: ``logits``, ``past.0.key``;
    * an output that would be called like an input gets ``_out`` after it; any name that is still taken gets ``_1``, ``_2``…;
    * names given by the user win, in order; the rest keep their default names, and give way where they collide.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.export import register_dataclass
from torch.utils import _pytree as pytree

from onnxexp.errors import OptionError
from onnxexp.suggest import nearest

__all__ = [
    "Leaf",
    "assign_names",
    "assign_output_names",
    "bind",
    "children",
    "flatten_inputs",
    "flatten_output_spec",
    "flatten_outputs",
    "register_dataclasses",
]

_registration = threading.Lock()
_LONE = ("output",), "output"


@dataclasses.dataclass(slots=True, eq=False)
class Leaf:
    """A leaf of what the model takes or returns: where it is, its default name, and its value."""

    path: tuple[str, ...]
    name: str
    value: Any


def register_dataclasses(tree: Any) -> bool:
    """Register every dataclass in `tree` that torch's pytree does not know; True if there was one.

    torch can export a dataclass only where it is registered. The registration is process-wide, made once per class and
    never changed: the same as the user calling `torch.export.register_dataclass`.
    """
    found = False
    for leaf in () if type(tree) is torch.Tensor else pytree.tree_leaves(tree):
        if _register(leaf):
            register_dataclasses(leaf)
            found = True
    return found


def _register(leaf: Any) -> bool:
    kind = type(leaf)
    if not dataclasses.is_dataclass(kind):
        return False
    with _registration:
        if kind not in pytree.SUPPORTED_NODES:
            register_dataclass(kind)
    return True


def children(value: Any) -> list[tuple[str, Any]] | None:
    """The keys and values right below a pytree node, in torch's order; None for a leaf."""
    kind = pytree._get_node_type(value) if isinstance(value, tuple) else type(value)
    definition = pytree.SUPPORTED_NODES.get(kind)
    if definition is None:
        return None
    if definition.flatten_with_keys_fn is None:
        return [(str(index), child) for index, child in enumerate(definition.flatten_fn(value)[0])]
    return [(_key_text(key), child) for key, child in definition.flatten_with_keys_fn(value)[0]]


def bind(forward: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
    """Bind example arguments to a model's forward; OptionError where the call would not work."""
    signature = inspect.signature(forward)
    unknown = [name for name in kwargs if name not in signature.parameters]
    if unknown and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values()):
        near = nearest(unknown[0], list(signature.parameters))
        raise OptionError(f"the model's forward has no parameter {unknown[0]!r}{near}; it takes {signature}")
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        raise OptionError(
            f"the example arguments do not fit the model's forward{signature}: {error}. "
            "Give one example for each parameter without a default."
        ) from None


def flatten_inputs(bound: inspect.BoundArguments, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Leaf]:
    """Flatten ``(args, kwargs)`` in torch's pytree order, with default names; `bound` are the same arguments by parameter.

    Every leaf is listed: tensors, numbers, None, strings. Unknown dataclasses are registered, as `register_dataclasses` does.
    """
    parameters = list(bound.signature.parameters.values())
    leaves = [leaf for root, value in _roots(parameters, args, kwargs) for leaf in _walk(value, root)]
    names = _unique([".".join(path) for path, _ in leaves])
    return [Leaf(path, name, value) for (path, value), name in zip(leaves, names, strict=True)]


def flatten_outputs(tree: Any) -> list[Leaf]:
    """The leaves of what the model returned, with their default names; None and constants are listed too."""
    top = _parts(tree)
    if top is None:
        return [Leaf(*_LONE, tree)]
    numbered = all(key.isdigit() for key, _ in top)
    roots = [(f"output_{key}" if numbered else key, value) for key, value in top]
    leaves = [leaf for root, value in roots for leaf in _walk(value, (root,))]
    names = _unique([".".join(path) for path, _ in leaves])
    return [Leaf(path, name, value) for (path, value), name in zip(leaves, names, strict=True)]


def flatten_output_spec(spec: pytree.TreeSpec) -> list[Leaf]:
    """As `flatten_outputs`, from the structure alone: the value of each leaf is its position."""
    return [Leaf(*_LONE, 0)] if spec.is_leaf() else flatten_outputs(_rebuild(spec, itertools.count()))


def assign_names(defaults: Sequence[str], given: Sequence[str] | None, *, what: str, taken: Collection[str] = ()) -> list[str]:
    """`given` over the first of `defaults`, the rest as they are; unique, and none of `taken`.

    Args:
        defaults: The default name of each input or output, in order.
        given: The user's names; there may be fewer than there are defaults.
        what: ``"input"`` or ``"output"``, for messages.
        taken: Names that something else in the graph already has.

    Raises:
        OptionError: too many names, one twice, an empty one, one that is taken, or something that is no name.
    """
    given = [] if given is None else _checked(given, defaults, what, taken)
    return given if len(given) == len(defaults) else [*given, *_unique(defaults[len(given) :], {*given, *taken})]


def assign_output_names(
    leaves: Sequence[Leaf], given: Sequence[str] | None, inputs: Collection[str], passed: Mapping[int, str] | None = None
) -> list[str]:
    """The names of the outputs `leaves` (only those that become graph outputs).

    Args:
        leaves: The outputs, in order.
        given: The user's `output_names`.
        inputs: The names of the graph's inputs.
        passed: For an output (by position) that is an input passed straight through, that input's name: it keeps it.
    """
    defaults = [f"{leaf.name}_out" if leaf.name in inputs else leaf.name for leaf in leaves]
    if not passed:
        return assign_names(defaults, given, what="output", taken=inputs)
    kept: dict[int, str] = {}
    for position, name in passed.items():
        if name not in kept.values() and position >= len(given or ()):
            kept[position] = name
    free = [position for position in range(len(leaves)) if position not in kept]
    names = assign_names([defaults[position] for position in free], given, what="output", taken=inputs)
    return [name for _, name in sorted([*zip(free, names, strict=True), *kept.items()])]


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


def _parts(value: Any) -> list[tuple[str, Any]] | None:
    """As `children`; a dataclass that torch's pytree does not know is registered."""
    below = children(value)
    return children(value) if below is None and _register(value) else below


def _walk(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    below = None if type(value) is torch.Tensor else _parts(value)
    if below is None:
        yield path, value
        return
    for key, child in below:
        yield from _walk(child, (*path, key))


def _key_text(key: Any) -> str:
    if isinstance(key, pytree.SequenceKey):
        return str(key.idx)
    if isinstance(key, pytree.MappingKey):
        return str(key.key)
    return key.name if isinstance(key, pytree.GetAttrKey) else str(key).strip(".[]'")


def _rebuild(spec: pytree.TreeSpec, positions: Iterator[int]) -> Any:
    """The structure with positions for leaves; a class that refuses numbers in place of tensors becomes a list."""
    if spec.is_leaf():
        return next(positions)
    below = [_rebuild(child, positions) for child in spec.children()]
    try:
        return pytree.SUPPORTED_NODES[spec.type].unflatten_fn(below, spec.context)
    except Exception:  # noqa: BLE001 - the constructor is the user's: whatever it raises, the structure is still known by index
        return below


def _unique(names: Sequence[str], taken: Collection[str] = ()) -> list[str]:
    if not taken and len(set(names)) == len(names):
        return list(names)
    result: list[str] = []
    used = set(taken)
    for name in names:
        if name in used:
            blocked = used.union(names)
            name = next(other for other in (f"{name}_{n}" for n in itertools.count(1)) if other not in blocked)
        used.add(name)
        result.append(name)
    return result


def _checked(given: Sequence[str], defaults: Sequence[str], what: str, taken: Collection[str]) -> list[str]:
    names: object = given
    if not isinstance(names, (list, tuple)) or [name for name in names if not isinstance(name, str) or not name]:
        raise OptionError(
            f"{what}_names must be a list of names (non-empty strings), not {given!r}; {_there_are(defaults, what)}."
        )
    if len(given) > len(defaults):
        raise OptionError(
            f"{what}_names gives {len(given)} names ({', '.join(given)}), but {_there_are(defaults, what)}. "
            "Give at most that many."
        )
    for index, name in enumerate(given):
        if name in given[:index]:
            raise OptionError(
                f"{what}_names gives {name!r} more than once. Every {what} needs a name of its own; {_there_are(defaults, what)}."
            )
        if name in taken:
            raise OptionError(
                f"{what}_names: {name!r} is already the name of an input. Choose another; {_there_are(defaults, what)}."
            )
    return list(given)


def _there_are(defaults: Sequence[str], what: str) -> str:
    return f"the model has {len(defaults)} {what}{'s' if len(defaults) != 1 else ''}: {', '.join(defaults) or 'none'}"
