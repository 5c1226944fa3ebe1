"""The mapping of a call of the original to the graph's inputs and outputs."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from onnxexp._errors import OnnxExporterError


class InputSlot(NamedTuple):
    """An input of the graph and the index of its leaf in the flattened arguments.

    Where the original takes a tensor that ONNX lacks, `form` makes the tensor of a call dense.
    """

    name: str
    leaf: int
    form: Callable[[Any], Any] | None = None


class OutputSlot(NamedTuple):
    """The origin of one leaf of the original's result.

    Attributes:
        output: The position of the graph's output, where the leaf is one.
        leaf: Else the input leaf that the original returns unchanged.
        constant: Else this object, the same at every call (None, a number, a string).
        scalar: bool, int or float where the original returns a Python number and the graph a tensor.
        paired: Whether the original returns complex numbers and the graph pairs of real ones.
    """

    output: int | None = None
    leaf: int | None = None
    constant: Any = None
    scalar: type[bool] | type[int] | type[float] | None = None
    paired: bool = False


@dataclasses.dataclass(frozen=True)
class Signature:
    """The original's calling convention.

    Attributes:
        inputs: The graph's inputs that a call feeds. Leaves that no slot names are constants or unused.
        outputs: One slot per leaf of the original's result.
        in_spec: torch's pytree spec of the example's ``(args, kwargs)``.
        out_spec: torch's pytree spec of the original's result.
        constants: The values of the leaves that the export fixed; every call must have the same.
        parameters: The signature of the original's forward (without self), where it has one. With it a call may pass
            by keyword what was positional in the example, and leave out arguments with defaults.
        restrictions: The conditions under which the program is right, each with a test of a call's leaves.
    """

    inputs: Sequence[InputSlot]
    outputs: Sequence[OutputSlot]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec
    constants: Mapping[int, Any] = dataclasses.field(default_factory=dict)
    parameters: inspect.Signature | None = None
    restrictions: Mapping[str, Callable[[Sequence[Any]], bool]] = dataclasses.field(default_factory=dict)

    def flatten(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Flatten a call's arguments in the example's order.

        Raises OnnxExporterError where the call does not fit the original's parameters, is built differently than the example, has
        another value for a fixed leaf, or sizes outside of the program's restrictions.
        """
        args, kwargs = self._like_example(tuple(args), dict(kwargs))
        try:
            leaves: list[Any] = self.in_spec.flatten_up_to((args, kwargs))
        except ValueError as error:
            raise OnnxExporterError(f"the arguments are not built like the example that was exported: {error}") from None
        for index, fixed in self.constants.items():
            if not _same(leaves[index], fixed):
                raise OnnxExporterError(
                    f"{self._path(index)} is fixed to {fixed!r} in this program, the call gives {_short(leaves[index])}; "
                    "export again with the other value"
                )
        broken = [text for text, allows in self.restrictions.items() if not allows(leaves)]
        if broken:
            fix = "export again with an example of these sizes, or mend the line that the export's warning names"
            raise OnnxExporterError(f"this program is right only where {' and '.join(broken)}; the call has other sizes; {fix}")
        return leaves

    def feeds(self, leaves: Sequence[Any]) -> dict[str, Any]:
        """Return the values of the graph's inputs, by name."""
        given = ((slot, leaves[slot.leaf]) for slot in self.inputs)
        return {slot.name: leaf if slot.form is None else slot.form(leaf) for slot, leaf in given}

    def unflatten(self, results: Sequence[Any], leaves: Sequence[Any]) -> Any:
        """Build the original's result from the graph's outputs and the call's leaves."""
        return pytree.tree_unflatten([_pick(slot, results, leaves) for slot in self.outputs], self.out_spec)

    def output_names(self, names: Sequence[str], results: Sequence[Any]) -> list[str]:
        """Name each leaf of the result, by the graph's output or else by its index."""
        found: list[str] = []
        for index, slot in enumerate(self.outputs):
            name, held = (names[slot.output], results[slot.output]) if slot.output is not None else (f"result {index}", None)
            found += [f"{name}[{place}]" for place in range(len(held))] if isinstance(held, list) else [name]
        return found

    def _like_example(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Rearrange a call, so that the example's positional arguments stay positional."""
        positional, named = self.in_spec.child(0).num_children, list(self.in_spec.child(1).context)
        if len(args) == positional and set(kwargs) == set(named):
            return args, kwargs
        if self.parameters is None:
            raise OnnxExporterError(
                f"the call gives {_form(len(args), kwargs)}, the program was exported with {_form(positional, named)}"
            )
        try:
            bound = self.parameters.bind(*args, **kwargs)
        except TypeError as error:
            raise OnnxExporterError(f"{error}; the exported model takes {self.parameters}") from None
        return _rearranged(bound, positional, named)

    def _path(self, index: int) -> str:
        """Write the path of a leaf in a call, such as ``args[0]['mask']``."""
        numbered = pytree.tree_unflatten(range(self.in_spec.num_leaves), self.in_spec)
        path, _ = pytree.tree_flatten_with_path(numbered)[0][index]
        root = "args" if path[0] == pytree.SequenceKey(0) else "kwargs"
        return root + pytree.keystr(path[1:])


def _rearranged(bound: inspect.BoundArguments, positional: int, named: Sequence[str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Rearrange bound arguments as in the example, and require defaults for others."""
    bound.apply_defaults()
    values: list[tuple[str, Any]] = []
    rest: dict[str, Any] = {}
    for name, parameter in bound.signature.parameters.items():
        value = bound.arguments[name]
        if parameter.kind is parameter.VAR_KEYWORD:
            rest.update(value)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            values += [(f"{name}[{index}]", element) for index, element in enumerate(value)]
        elif parameter.kind is parameter.KEYWORD_ONLY or len(values) >= positional:
            rest[name] = value
        else:
            values.append((name, value))
    kwargs = {name: rest.pop(name) for name in named if name in rest}
    missing = [name for name in named if name not in kwargs]
    surplus = [name for name, _ in values[positional:]]
    for name, value in rest.items():
        declared = bound.signature.parameters.get(name)
        if declared is None or not _same(value, declared.default):
            surplus.append(name)
    if missing or len(values) < positional:
        needed = ", ".join(missing) or f"{positional} positional arguments"
        raise OnnxExporterError(f"the program was exported with {needed}, which the call lacks")
    if surplus:
        raise OnnxExporterError(f"the program was exported without {', '.join(surplus)}; export again with an example for it")
    return tuple(value for _, value in values), kwargs


def _pick(slot: OutputSlot, results: Sequence[Any], leaves: Sequence[Any]) -> Any:
    if slot.output is not None:
        result = results[slot.output]
        if slot.paired and isinstance(result, torch.Tensor) and not result.is_complex():
            return torch.view_as_complex(result)
        return slot.scalar(result.item()) if slot.scalar is not None else result
    return leaves[slot.leaf] if slot.leaf is not None else slot.constant


def _same(given: Any, fixed: Any) -> bool:
    """Return whether a constant is the exported one, for a tensor the same object."""
    if given is fixed:
        return True
    if isinstance(given, torch.Tensor) or type(given) is not type(fixed):
        return False
    equal = given == fixed
    return equal if isinstance(equal, bool) else False


def _form(positional: int, named: Sequence[str] | Mapping[str, Any]) -> str:
    names = f" and {', '.join(f'{name}=' for name in named)}" if named else ""
    return f"{positional} positional argument{'' if positional == 1 else 's'}{names}"


def _short(value: Any) -> str:
    return f"a tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)
