"""Rebuild the call of a torch operator from an ONNX node.

Two kinds of nodes are known: those of an export with ``fallback="torch"``, whose attribute `torch_arguments` describes the call,
and those of registered operators, which the model's metadata describe.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch

from onnxexp.rewriting import torch_dtype
from onnxexp.torch_ops import TYPE_CODES, overload
from onnxexp_custom_cpp.argument_mapping import type_name
from onnxexp_custom_cpp.runtime.errors import BridgeError

DOMAIN = "onnxexp.torch_bridge"
"""The ONNX domain of the operators that call torch."""
_WORDS = "torch_arguments"
_FILES = ("aten::from_file", "aten::save")
"""Operators of torch that read or write the file of a name."""
_CONSTANTS = ("constant", "number")
_ATEN = "org.pytorch.aten"
_INPUT_KINDS = {
    "Tensor": "tensor", "int": "integer", "SymInt": "integer", "bool": "boolean", "float": "float",
    "List[int]": "integers", "List[SymInt]": "integers", "List[float]": "floats",
}  # fmt: skip
"""What the bridge makes of one input, by the type of the argument."""


@dataclasses.dataclass(frozen=True)
class Argument:
    """One argument of the call.

    Attributes:
        kind: "constant", "number" (a constant in place of a tensor), or what is made of inputs: "tensor", "complex" (of real
            pairs), "tensors", "optionals", "integer", "integers", "float", "floats", "boolean".
        value: The constant.
        pattern: Of a list: 1 for each element that is an input, 0 for each that is None.
    """

    kind: str
    value: Any = None
    pattern: str = ""


@dataclasses.dataclass(frozen=True)
class TorchCall:
    """A call of a torch operator.

    Attributes:
        operator: The operator.
        arguments: Its arguments, in the order of the schema.
        inputs, outputs: The ONNX element types of the tensors.
    """

    operator: torch._ops.OpOverload
    arguments: tuple[Argument, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def repeatable(self) -> bool:
        """Whether equal calls have equal results; only torch's own operators tell."""
        return self.operator.namespace == "aten" and torch.Tag.nondeterministic_seeded not in self.operator.tags

    def declaration(self, name: str) -> str:
        """Return the call as the bridge reads it."""
        schema = self.operator._schema
        lines = [
            f"operator {name} {schema.name} {schema.overload_name or '-'}",
            " ".join(["inputs", *map(str, self.inputs)]),
            " ".join(["outputs", *map(str, self.outputs)]),
            *(
                f"{each.kind} {_constant(each.value)}" if each.kind in _CONSTANTS else f"{each.kind} {each.pattern}".rstrip()
                for each in self.arguments
            ),
        ]
        return "\n".join(lines) + "\n"

    def __call__(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        """Call the operator. Returns its results as one list of tensors."""
        given = iter(tensors)
        with torch.no_grad():
            names = [formal.name for formal in self.operator._schema.arguments]
            results = self.operator(**{name: _value(each, given) for name, each in zip(names, self.arguments, strict=True)})
        flat: list[Any] = []
        for each in results if isinstance(results, (tuple, list)) else [results]:
            flat += each if isinstance(each, (tuple, list)) else [each]
        made = map(torch.as_tensor, flat)
        return [torch.view_as_real(each) if each.is_complex() else each for each in made]


def call_of(node: ir.Node, mapped: Mapping[str, Any] | None) -> TorchCall | None:
    """Return the call that a node stands for; None for a node of another kind.

    Args:
        node: The node.
        mapped: The metadata of its operator: ``{"torch": ..., "attributes": {...}}``; None where there are none.

    Raises BridgeError where torch lacks the operator, the file lacks a type, or what it has does not describe a call.
    """
    words = node.attributes.get(_WORDS)
    if words is None and mapped is None:
        return None
    try:
        return _described_call(node, words, mapped)
    except (LookupError, ValueError, TypeError, AttributeError) as error:  # anyone may have written the file
        raise BridgeError(
            f"{node.name!a} does not describe a call of a torch operator ({error}); to fix this, export it again"
        ) from error


def _described_call(node: ir.Node, words: ir.Attr | None, mapped: Mapping[str, Any] | None) -> TorchCall:
    operator = _operator(node, mapped)
    if words is not None:
        described: Sequence[str] = words.as_string().split()
    else:
        assert mapped is not None
        described = list(_described(operator, mapped["attributes"], node))
    formals = operator._schema.arguments
    if len(described) != len(formals):
        raise BridgeError(f"{node.name}: the file has {len(described)} arguments for {operator._schema}")
    inputs = list(node.inputs)
    onnx_dtypes = words is None
    arguments = [_argument(formal, each, inputs, node, onnx_dtypes) for formal, each in zip(formals, described, strict=True)]
    given = [value for value in node.inputs if value is not None]
    return TorchCall(operator, tuple(arguments), tuple(map(_type, given)), tuple(map(_type, node.outputs)))


def _operator(node: ir.Node, mapped: Mapping[str, Any] | None) -> torch._ops.OpOverload:
    if mapped is not None:
        name = str(mapped["torch"])
    else:
        base = node.attributes.get_string("operator", "") if node.domain == _ATEN else node.op_type
        suffix = node.attributes.get_string("overload_name", "")
        name = f"{'aten' if node.domain == _ATEN else node.domain}::{base}" + (f".{suffix}" if suffix else "")
    found = overload(name)
    if found is None:
        places = [*(mapped or {}).get("libraries", ()), *(mapped or {}).get("modules", ())]
        named = f". The file names {', '.join(map(repr, places))}, which trusted=True loads" if places else ""
        raise BridgeError(
            f"{node.domain}::{node.op_type} is torch's operator {name}, which this process does not have: load its library "
            f"(libraries=[...]), or import the Python module that defines it{named}"
        )
    if name.partition(".")[0] in _FILES:
        raise BridgeError(
            f"{node.domain}::{node.op_type} calls {name}, which opens any file; to fix this, remove it from the model"
        )
    return found


def _described(operator: torch._ops.OpOverload, attributes: Mapping[str, str], node: ir.Node) -> Iterator[str]:
    """Yield the words for a registered operator, as in `torch_arguments`."""
    formals = operator._schema.arguments
    others = sum(each.name not in attributes for each in formals) - 1
    for formal in formals:
        if formal.name in attributes:
            name = attributes[formal.name]
            yield f"={name}" if name in node.attributes else "none"
        elif type_name(formal) in ("List[Tensor]", "List[Optional[Tensor]]"):
            yield f"inputs:{max(len(node.inputs) - others, 0)}"
        else:
            yield "input"


def _argument(formal: Any, word: str, inputs: list[ir.Value | None], node: ir.Node, onnx_dtypes: bool) -> Argument:
    """One argument; takes its inputs off the list."""
    kind = type_name(formal)
    if word.startswith("="):
        value = _of_attribute(node.attributes[word[1:]], kind, onnx_dtypes)
        return Argument("number" if kind == "Tensor" else "constant", value)
    if word == "none":
        return Argument("constant", None if isinstance(formal.real_type, torch.OptionalType) else formal.default_value)
    if word.startswith("inputs:"):
        taken = [inputs.pop(0) for _ in range(int(word.removeprefix("inputs:")))]
        pattern = "".join("0" if value is None else "1" for value in taken)
        return Argument("optionals" if kind == "List[Optional[Tensor]]" else "tensors", pattern=pattern)
    value = inputs.pop(0) if inputs else None
    if word == "complex":
        return Argument("complex")
    if value is None:
        return Argument("constant", None)
    if kind == "number":
        return Argument("float" if torch_dtype(_type(value)).is_floating_point else "integer")
    return Argument(_INPUT_KINDS[kind])


def _of_attribute(attribute: ir.Attr, kind: str, onnx_dtypes: bool) -> Any:
    """Return the Python value of an attribute, for an argument of a type."""
    value = attribute.value
    if isinstance(value, (list, tuple)):
        return [bool(each) if kind == "List[bool]" else each for each in value]
    if kind == "bool":
        return bool(value)
    if kind == "float":
        return float(value)
    if kind == "ScalarType" and onnx_dtypes:
        return TYPE_CODES.code(torch_dtype(int(value)))
    return _Device(value) if kind == "Device" else value


class _Device(str):
    """The name of a device."""

    __slots__ = ()


def _type(value: ir.Value) -> int:
    if value.dtype is None:
        raise BridgeError(f"the file does not have the dtype of {value.name}, which the torch bridge needs")
    return int(value.dtype)


def _constant(value: Any) -> str:
    """Return a constant as the bridge reads it."""
    if value is None:
        return "none"
    if isinstance(value, (list, tuple)):
        letter = "is" if not value else _letter(value[0]) + "s"
        return " ".join([letter, *map(_text, value)])
    return f"{_letter(value)} {_text(value)}"


def _letter(value: Any) -> str:
    kinds = (_Device, "device"), (bool, "b"), (int, "i"), (float, "f"), (str, "s")
    for type_, letter in kinds:
        if isinstance(value, type_):
            return letter
    raise BridgeError(f"the torch bridge has no form for the constant {value!r}")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, str) and not isinstance(value, _Device):
        return "x" + value.encode().hex()
    return repr(value) if isinstance(value, float) else str(value)


def _value(argument: Argument, given: Iterator[torch.Tensor]) -> Any:
    """Return the Python value of an argument."""
    if argument.kind in _CONSTANTS:
        return torch.device(argument.value) if isinstance(argument.value, _Device) else argument.value
    if argument.kind in ("tensors", "optionals"):
        return [next(given) if each == "1" else None for each in argument.pattern]
    tensor = next(given)
    if argument.kind == "complex":
        return torch.view_as_complex(tensor)
    return tensor if argument.kind == "tensor" else tensor.tolist()
