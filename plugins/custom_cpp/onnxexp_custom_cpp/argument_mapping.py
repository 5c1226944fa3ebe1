"""Map the arguments of a torch operator to ONNX inputs and attributes.

Tensors, optional tensors and one list of tensors are inputs, in the order of the schema. Of the other arguments, those that are
named in `attrs` are attributes; the rest are inputs too, numbers as 0-d tensors and lists of numbers as 1-D tensors.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from onnxexp import Builder, OptionError, Tensor
from onnxexp.rewriting import onnx_dtype

LETTERS = {
    "float": ("f",),
    "int": ("i",),
    "SymInt": ("i",),
    "bool": ("i",),
    "ScalarType": ("i",),
    "number": ("f", "i"),
    "Scalar": ("f", "i"),
    "str": ("s",),
    "List[float]": ("fs",),
    "List[int]": ("is",),
    "List[SymInt]": ("is",),
    "List[bool]": ("is",),
    "List[str]": ("ss",),
}
"""The kinds of attribute that a schema's type allows, as torch.onnx writes them after ``alpha_``: f, i, s, and fs, is, ss."""
_NUMBERS = frozenset({"float", "int", "SymInt", "bool", "number", "Scalar", "List[float]", "List[int]", "List[SymInt]"})
_TENSORS = frozenset({"Tensor", "List[Tensor]", "List[Optional[Tensor]]"})


@dataclasses.dataclass(frozen=True)
class ArgumentMapping:
    """A mapping from the arguments of a torch operator to those of an ONNX operator.

    Attributes:
        schema: The torch operator's schema.
        attributes: The ONNX attribute of each argument that becomes one, by the argument's name.
        letters: The kind of each attribute.
    """

    schema: torch.FunctionSchema
    attributes: Mapping[str, str]
    letters: Mapping[str, str]

    @property
    def name(self) -> str:
        """The operator's full name: ``custom_ops::foo``, ``custom_ops::foo.Scalar``."""
        overload = self.schema.overload_name
        return f"{self.schema.name}.{overload}" if overload else self.schema.name

    @classmethod
    def of(cls, schema: torch.FunctionSchema, attrs: Mapping[str, str] | None) -> ArgumentMapping:
        """Match the attributes with the schema.

        An attribute belongs to the argument of its name. Where the schema has no such names (``m.def("foo", &foo)`` calls them
        ``_0``, ``_1``, …), the attributes belong to the arguments that are no tensors, in order.

        Raises OptionError where schema and attributes disagree; the message lists every problem.
        """
        types = {argument.name: type_name(argument) for argument in schema.arguments}
        others = {name: kind for name, kind in types.items() if kind not in _TENSORS}
        if attrs is None:
            attrs = {name: LETTERS[kind][0] for name, kind in others.items() if kind in LETTERS}
        unnamed = all(name.startswith("_") for name in types)
        attribute_of = dict(zip(others, attrs, strict=False)) if unnamed else {name: name for name in attrs}
        problems = [f"{name} is a {kind}, which ONNX has no form of" for name, kind in others.items() if kind not in LETTERS]
        if unnamed and len(attrs) > len(others):
            problems.append(f"there are {len(attrs)} attributes and {len(others)} arguments that are no tensors")
        problems += _attribute_problems(others, attribute_of, attrs)
        if sum(kind.startswith("List[") and kind in _TENSORS for kind in types.values()) > 1:
            problems.append("it takes two lists of tensors, and an ONNX operator has one: give a symbolic")
        if problems:
            raise OptionError(f"{schema}: {'; '.join(problems)}")
        return cls(schema, attribute_of, attrs)

    def split(self, op: Builder, args: Sequence[Any]) -> tuple[list[Tensor | None], dict[str, Any]]:
        """Split the arguments of a call into inputs and attributes.

        Raises LoweringError for an attribute that is computed when the model runs.
        """
        inputs: list[Tensor | None] = []
        attributes: dict[str, Any] = {}
        for argument, arg in zip(self.schema.arguments, args, strict=True):
            name = self.attributes.get(argument.name)
            if name is None:
                inputs += _inputs(op, arg, type_name(argument) in _TENSORS)
            elif arg is not None:
                attributes[name] = _attribute(op, arg, name, self.letters[name])
        while inputs and inputs[-1] is None:
            del inputs[-1]
        return inputs, attributes


def _attribute_problems(others: Mapping[str, str], attribute_of: Mapping[str, str], attrs: Mapping[str, str]) -> Iterator[str]:
    """Describe attributes that do not fit the arguments, and arguments that need one.

    `others` are the types of the arguments that are no tensors.
    """
    for argument, attribute in attribute_of.items():
        kind, letter = others.get(argument), attrs[attribute]
        if kind is None:
            yield f"the attribute {attribute!r} is no argument of the operator, or a tensor"
        elif letter not in LETTERS.get(kind, (letter,)):
            yield f"{attribute!r} is {letter!r}, and a {kind} is {' or '.join(map(repr, LETTERS[kind]))}"
    for name, kind in others.items():
        if name not in attribute_of and kind in LETTERS and kind not in _NUMBERS:
            yield f"{name} is a {kind}, which can only be an attribute: add it to attrs"


def type_name(argument: Any) -> str:
    """Return a schema argument's type without Optional: ``List[int]``, ``ScalarType``."""
    kind = argument.real_type  # `type` shows a ScalarType as an int
    return str(kind.getElementType() if isinstance(kind, torch.OptionalType) else kind)


def _inputs(op: Builder, arg: Any, tensors: bool) -> Iterator[Tensor | None]:
    """Yield the ONNX inputs for one argument; `tensors` if its type is of tensors."""
    if arg is None or isinstance(arg, Tensor):
        yield arg
    elif tensors:
        yield from arg
    elif isinstance(arg, (list, tuple)):
        yield op.constant(list(arg), torch.float32 if any(map(_is_float, arg)) else torch.int64)
    else:
        yield op.constant(arg)


def _is_float(number: Any) -> bool:
    """Return whether a number is a float, or a tensor of another dtype than int64."""
    return isinstance(number, float) or (isinstance(number, Tensor) and number.dtype is not torch.int64)


def _attribute(op: Builder, arg: Any, name: str, letter: str) -> Any:
    """Return the value of an attribute, of the kind `letter`."""
    if not op.is_static(arg):
        raise op.error(
            f"the attribute {name} is computed when the model runs ({arg!r}): leave {name} out of attrs, so that it is an input"
        )
    value = op.static(arg, name)
    if isinstance(value, torch.dtype):
        return int(onnx_dtype(value))
    if letter in ("f", "fs"):
        return [float(each) for each in value] if letter == "fs" else float(value)
    if letter in ("i", "is"):
        return [int(each) for each in value] if letter == "is" else int(value)
    return value
