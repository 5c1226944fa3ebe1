"""Read and check `dynamic_shapes` and `dynamic_axes`, before the capture.

Accepted are:
    * `dynamic_shapes` as torch.export takes it (by parameter name or by position, nested as the inputs are; Dim, derived
      dims, Dim.AUTO/DYNAMIC/STATIC, ints, None, ShapesCollection), and beyond that: strings, negative axes, missing keys
      (static), dicts for dataclasses, keys that are `input_names` or leaf names (``past.0.key``), patterns of leaf names for all
      tensors that fit (``past.*.key``), ``**kwargs`` by key;
    * `dynamic_axes` as ``{name: [axis, ...]}``, ``{name: {axis: "name"}}`` or a mix. Keys are `input_names`, leaf names,
      or names of outputs.
A Dim goes to torch as it is: torch proves it over its whole range. Strings and `dynamic_axes` become Dim.DYNAMIC: tracing
may relate such axes to each other, but never fix one. An axis without a name of its own is called ``{input}_dim_{axis}``.
An int, float or bool is dynamic by ``{"n": Dim.DYNAMIC}`` or ``{"n": "name"}``.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.export import Dim, ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from onnxexp._errors import OptionError
from onnxexp._request.axis_spec import Axis, read_axis, read_scalar
from onnxexp._request.io_names import assign_names
from onnxexp._request.pytree_leaves import Leaf, bind, children, flatten_inputs
from onnxexp._request.tensor_list import TensorList
from onnxexp._suggest import nearest

_WITH_AXES = (torch.Tensor, TensorList)  # the axes of a list are those of its tensors


@dataclasses.dataclass(eq=False)
class DynamicSpec:
    """The dynamic axes and numbers, by leaf of the flattened ``(args, kwargs)``.

    Attributes:
        leaves: Every leaf, in the order of torch.export's placeholders; graph inputs have their final names.
        axes: The dynamic axes of each leaf.
        scalars: The dynamic numbers, by the index of their leaf.
        inputs: The indices of the leaves that become graph inputs: tensors, lists of a script, and dynamic numbers.
        bound: The path and the value of each parameter of the example.
        outputs: The axes' names by each key of `dynamic_axes` that is no input.
    """

    leaves: tuple[Leaf, ...]
    axes: tuple[dict[int, Axis], ...]
    scalars: dict[int, Axis]
    inputs: tuple[int, ...]
    bound: dict[str, tuple[tuple[str, ...], Any]]
    outputs: dict[str, dict[int, str | None]]

    @functools.cached_property
    def shapes(self) -> dict[str, Any] | None:
        """The `dynamic_shapes` for torch.export, or None."""
        if not self.scalars and not any(self.axes):
            return None
        index = {leaf.path: index for index, leaf in enumerate(self.leaves)}
        named = {name: (path, value) for name, (path, value) in self.bound.items() if path}
        named |= {key: ((key,), inner) for path, value in self.bound.values() if not path for key, inner in value.items()}
        return {name: self._mirror(value, path, index) for name, (path, value) in named.items()}

    def _mirror(self, value: Any, path: tuple[str, ...], index: Mapping[tuple[str, ...], int]) -> Any:
        """Replace each leaf of `value` by torch.export's description of it.

        A user's class becomes the list of its parts.
        """
        below = children(value)
        if below is None:
            place = index[path]
            if place in self.scalars:
                return self.scalars[place].dim if type(value) is int else None
            axes = self.axes[place]
            return {axis: wanted.dim for axis, wanted in axes.items()} if axes else None
        parts = [self._mirror(child, (*path, key), index) for key, child in below]
        kind = pytree._get_node_type(value)
        definition = pytree.SUPPORTED_NODES[kind]
        flat, context = definition.flatten_fn(value)
        if kind in pytree.BUILTIN_TYPES:
            return definition.unflatten_fn(parts, context)
        return parts if type(flat) is list else tuple(parts)  # torch annotates `flat` as a list

    @property
    def input_names(self) -> list[str]:
        """The names of the graph's inputs, in order."""
        return [self.leaves[index].name for index in self.inputs]


def read_dynamic(
    forward: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any = None,
    dynamic_axes: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    program: ExportedProgram | None = None,
) -> DynamicSpec:
    """Read the user's arguments against the example inputs.

    The dynamic numbers of an ExportedProgram come from `program`.

    Raises OptionError, with the key, known names and the fix, for arguments that do not fit `forward`, unknown names, wrong
    nesting, axes out of range, sizes that contradict the example, both options at once, and `input_names` that do not fit.
    """
    bound = bind(forward, args, kwargs)
    reader = _Reader(forward, args, kwargs, bound)
    if dynamic_shapes is not None:
        reader.read_shapes(dynamic_shapes, input_names)
    if dynamic_axes is not None and any(reader.axes):
        raise OptionError("dynamic_shapes and dynamic_axes both describe axes: give one. Only numbers may be in the other.")
    for index, value in enumerate(user_inputs(program) if program is not None else ()):
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            reader.scalars[index] = Axis(Dim.AUTO, None, False)
    names = reader.name_inputs(input_names)
    outputs = reader.read_axes(dynamic_axes, names, output_names or ()) if dynamic_axes is not None else {}
    for index, name in names.items():
        reader.leaves[index].name = name
    return DynamicSpec(tuple(reader.leaves), tuple(reader.axes), reader.scalars, tuple(sorted(names)), reader.bound, outputs)


def user_inputs(program: ExportedProgram) -> list[Any]:
    """Return the fake tensor, number or constant of each leaf of a program's inputs."""
    values = {node.name: node.meta.get("val") for node in program.graph.find_nodes(op="placeholder")}
    return [values[spec.arg.name] for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]


class _Reader:
    """Collect the options for each leaf."""

    def __init__(
        self, forward: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], arguments: inspect.BoundArguments
    ) -> None:
        self.call = (forward, tuple(args), dict(kwargs))
        self.leaves = flatten_inputs(arguments, args, kwargs)
        self.index = {leaf.path: index for index, leaf in enumerate(self.leaves)}
        kinds = arguments.signature.parameters
        self.bound: dict[str, tuple[tuple[str, ...], Any]] = {
            name: (() if kinds[name].kind is kinds[name].VAR_KEYWORD else (name,), value)
            for name, value in arguments.arguments.items()
        }
        self.star = next((name for name in self.bound if kinds[name].kind is kinds[name].VAR_POSITIONAL), None)
        self.axes: list[dict[int, Axis]] = [{} for _ in self.leaves]
        self.scalars: dict[int, Axis] = {}
        self.described: dict[int, str] = {}

    def name_inputs(self, given: Sequence[str] | None) -> dict[int, str]:
        """Name the leaves that become graph inputs, by their indices."""
        inputs = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf.value, _WITH_AXES) or i in self.scalars]
        names = assign_names([self.leaves[index].name for index in inputs], given, what="input")
        return dict(zip(inputs, names, strict=True))

    # dynamic_shapes

    def read_shapes(self, shapes: Any, input_names: Sequence[str] | None) -> None:
        if isinstance(shapes, (torch.export.ShapesCollection, torch.export.AdditionalInputs)):
            shapes = shapes.dynamic_shapes(*self.call)  # type: ignore[no-untyped-call]
        if isinstance(shapes, Mapping):
            late = [(key, given) for key, given in shapes.items() if not self._read_key(key, given)]
            renamed = {name: index for index, name in self.name_inputs(input_names).items()} if late else {}
            for key, given in late:
                if key not in renamed:
                    known = list(dict.fromkeys([*self.bound, *renamed, *(leaf.name for leaf in self.leaves)]))
                    raise OptionError(
                        f"dynamic_shapes names {key!r}, which is no input of the model{nearest(str(key), known)}. "
                        f"There are: {', '.join(known)}."
                    )
                self._leaf(renamed[key], given, f"dynamic_shapes[{key!r}]")
        elif isinstance(shapes, (list, tuple)):
            for position, (given, (path, value)) in enumerate(zip(shapes, self._positions(shapes), strict=True)):
                self._descend(value, path, given, f"dynamic_shapes[{position}]")
        else:
            raise OptionError(f"dynamic_shapes must be a dict by parameter name, or a tuple or list by position, not {shapes!r}.")

    def _positions(self, shapes: Sequence[Any]) -> list[tuple[tuple[str, ...], Any]]:
        """Match the entries to parameters, or to the arguments of a star parameter."""
        parameters = list(self.bound.values())
        arguments = [
            each
            for name, (path, value) in self.bound.items()
            for each in ([((name, str(i)), one) for i, one in enumerate(value)] if name == self.star else [(path, value)])
        ]
        given = dict(zip(self.bound, shapes, strict=False)).get(self.star or "")
        if len(shapes) == len(arguments) and (len(shapes) != len(parameters) or isinstance(given, Mapping)):
            return arguments
        if len(shapes) != len(parameters):
            raise OptionError(
                f"dynamic_shapes has {len(shapes)} entries, but the model is called with {len(self.bound)} parameters: "
                f"{', '.join(self.bound)}. Give one entry for each (None where nothing is dynamic), or a dict by name."
            )
        return parameters

    def _read_key(self, key: Any, given: Any) -> bool:
        """Read one key, and return whether it is a parameter, ``**kwargs`` entry or leaf."""
        where = f"dynamic_shapes[{key!r}]"
        if key in self.bound:
            path, value = self.bound[key]
            self._descend(value, path, given, where)
            return True
        for path, value in self.bound.values():
            if not path and key in value:
                self._descend(value[key], (key,), given, where)
                return True
        found = _found(self.leaves, key)
        for index in found:
            self._leaf(index, given, where)
        return bool(found)

    def _descend(self, value: Any, path: tuple[str, ...], given: Any, where: str) -> None:
        below = children(value)
        if given is None or below is None:
            if below is None:
                self._leaf(self.index[path], given, where)
            return
        own = children(given) if type(given) is type(value) and not isinstance(given, (list, tuple, dict)) else None
        entries: Any = dict(own) if own is not None else given
        kind = (
            f"{where} is for a {type(value).__name__} with {len(below)} entries ({', '.join(key for key, _ in below) or 'none'})"
        )
        if isinstance(entries, Mapping):
            known = dict(below)
            for key, inner in entries.items():
                if str(key) not in known:
                    raise OptionError(f"{kind}; {key!r} is none of them{nearest(str(key), known)}.")
                self._descend(known[str(key)], (*path, str(key)), inner, f"{where}[{key!r}]")
        elif isinstance(entries, (list, tuple)):
            if len(entries) != len(below):
                raise OptionError(f"{kind}, but it has {len(entries)}. Give one for each, None where nothing is dynamic.")
            for (key, child), inner in zip(below, entries, strict=True):
                self._descend(child, (*path, key), inner, f"{where}[{key}]")
        else:
            raise OptionError(
                f"{kind}, but it is {given!r}. Nest it as the input is nested, or give None where nothing is dynamic."
            )

    def _leaf(self, index: int, given: Any, where: str) -> None:
        value, name = self.leaves[index].value, self.leaves[index].name
        if given is None:
            return
        if index in self.described:
            raise OptionError(f"{where} and {self.described[index]} are about the same input, {name}. Keep one.")
        self.described[index] = where
        if not isinstance(value, _WITH_AXES):
            wanted = read_scalar(value, given, f"{where} (input {name})")
            if wanted is not None:
                self.scalars[index] = wanted
            return
        shape = tuple(value.shape)
        if isinstance(given, (list, tuple)) and len(given) != len(shape):
            raise OptionError(f"{where} has {len(given)} entries, but {name} has {len(shape)} axes: its shape is {shape}.")
        if not isinstance(given, (list, tuple, Mapping)):
            raise OptionError(
                f"{where} is {given!r}, but {name} is a tensor of shape {shape}. "
                f'Name the axes: {{0: "batch"}}, or give one entry for each of its {len(shape)} axes.'
            )
        entries = given.items() if isinstance(given, Mapping) else enumerate(given)
        for axis, dim in entries:
            self._axis(index, axis, read_axis(dim, shape, axis, f"{where} (input {name})"), where)

    def _axis(self, index: int, axis: int, wanted: Axis | None, where: str) -> None:
        axis %= max(len(self.leaves[index].value.shape), 1)
        if axis in self.axes[index]:
            raise OptionError(f"{where} describes axis {axis} of {self.leaves[index].name} twice. Keep one.")
        if wanted is not None:
            self.axes[index][axis] = wanted

    # dynamic_axes

    def read_axes(self, given: Any, names: dict[int, str], output_names: Sequence[str]) -> dict[str, dict[int, str | None]]:
        """Read `dynamic_axes` into the inputs, and return the entries for outputs."""
        if not isinstance(given, Mapping):
            raise OptionError(f'dynamic_axes must be a dict such as {{"x": {{0: "batch"}}}} or {{"x": [0]}}, not {given!r}.')
        known = {".".join(leaf.path): index for index, leaf in enumerate(self.leaves)}
        known |= {leaf.name: index for index, leaf in enumerate(self.leaves)} | {name: index for index, name in names.items()}
        outputs: dict[str, dict[int, str | None]] = {}
        for key, axes in given.items():
            where = f"dynamic_axes[{key!r}]"
            inside = [leaf.name for leaf in self.leaves if leaf.path[0] == key]
            if key in known:
                index, value = known[key], self.leaves[known[key]].value
                if not isinstance(value, _WITH_AXES):
                    fix = f'dynamic_shapes={{"{key}": Dim.DYNAMIC}} makes a number a graph input.'
                    raise OptionError(f"{where} is about {value!r}, which is no tensor and has no axes. {fix}")
                for axis, name in _named_axes(axes, where).items():
                    dim = Dim.DYNAMIC if name is None else name
                    self._axis(index, axis, read_axis(dim, tuple(value.shape), axis, f"{where} (input {key})"), where)
            elif inside and key not in output_names:
                raise OptionError(f"{where}: {key!r} is not one tensor. Name the ones inside: {', '.join(inside)}.")
            else:
                outputs[key] = _named_axes(axes, where)
        return outputs


def _found(leaves: Sequence[Leaf], key: Any) -> list[int]:
    """Find the leaves that have a name, or else a path.

    A pattern is for tensors only.
    """
    for names in ([leaf.name for leaf in leaves], [".".join(leaf.path) for leaf in leaves]):
        found = [index for index, name in enumerate(names) if name == key or _fits(leaves[index], name, str(key))]
        if found:
            return found
    return []


def _fits(leaf: Leaf, name: str, pattern: str) -> bool:
    return "*" in pattern and isinstance(leaf.value, _WITH_AXES) and fnmatch.fnmatchcase(name, pattern)


def _named_axes(axes: Any, where: str) -> dict[int, str | None]:
    """Normalize an entry of `dynamic_axes` to {axis: name or None}."""
    pairs: list[tuple[Any, Any]] | None = None
    if isinstance(axes, Mapping):
        pairs = list(axes.items())
    elif isinstance(axes, (list, tuple)):
        pairs = [(axis, None) for axis in axes]
    if pairs is None or not all(type(a) is int and (n is None or (isinstance(n, str) and n)) for a, n in pairs):
        raise OptionError(f'{where} is {axes!r}; it must be a list of axes such as [0, 2], or a dict such as {{0: "batch"}}.')
    if len({axis for axis, _ in pairs}) != len(pairs):
        raise OptionError(f"{where} names an axis twice: {axes!r}.")
    return dict(pairs)
