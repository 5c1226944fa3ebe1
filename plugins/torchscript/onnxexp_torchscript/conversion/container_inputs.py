"""Parameters of a script that take a list of any length, or a tensor or None.

Such parameters are inputs of ONNX's types Sequence and Optional.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
import torch

from onnxexp import OpsetError, OptionError
from onnxexp.frontends import DynamicSpec, TensorList
from onnxexp.graph import TensorType, Value
from onnxexp.rewriting import onnx_dtype
from onnxexp_torchscript.conversion import python_numbers
from onnxexp_torchscript.conversion.export_time_values import Items, Maybe
from onnxexp_torchscript.conversion.interpreter import Interpreter
from onnxexp_torchscript.types.abstract_tensor import UNKNOWN, AbstractTensor
from onnxexp_torchscript.types.type_inference import TypeInference

_NESTED: Any = (torch._C.ListType, torch._C.TupleType, torch._C.DictType)
_FIRST_WITH_SEQUENCES = 11
FIRST_WITH_OPTIONALS = 15
"""The first opset whose OptionalHasElement reads an input."""


def check_opset(example: Sequence[Any], spec: DynamicSpec, opset: int) -> None:
    """Raise OpsetError for a list among the inputs before ONNX has sequences."""
    names = [leaf.name for leaf, value in zip(spec.leaves, example, strict=True) if isinstance(value, TensorList)]
    if names and opset < _FIRST_WITH_SEQUENCES:
        raise OpsetError(
            f"the input {names[0]} is a list of any length, an ONNX sequence, there from opset {_FIRST_WITH_SEQUENCES} on; the "
            f"target is opset {opset}; "
            "to fix this, use a later opset, or one entry for each element in dynamic_shapes, which makes each an "
            f"input: {{'{names[0]}': [None, None]}}",
            _FIRST_WITH_SEQUENCES,
        )


class ContainerInputs:
    """The sequences and optionals among the inputs of one graph.

    Args:
        sizes: The type inference of the graph.
        optional: Whether arguments for optional parameters are optional inputs; else they must be given.
    """

    def __init__(self, sizes: TypeInference, optional: bool) -> None:
        self._sizes = sizes
        self._accepts_none = optional
        self._elements: dict[Value, AbstractTensor] = {}
        self._optional: dict[Value, None] = {}

    def list_input(self, leaf: TensorList, index: int, spec: DynamicSpec) -> Value:
        """Create the input for a list; raise OptionError where it is no ONNX sequence."""
        name = spec.leaves[index].name
        _check(name, leaf)
        dynamic = {axis for axis, wanted in spec.axes[index].items() if wanted.required}
        sizes = [
            next(iter(found)) if len(found) == 1 and axis not in dynamic else None
            for axis, found in enumerate(map(set, zip(*(tensor.shape for tensor in leaf), strict=True)))
        ]
        value = Value(name, TensorType(None, None))
        self._elements[value] = self._sizes.unbacked.tensor(leaf[0].dtype, sizes)
        return value

    def read(self, interpreter: Interpreter, argument: Any, type_: Any = None) -> Any:
        """Convert an argument to the interpreter's representation, by its declared type."""
        if isinstance(type_, torch._C.OptionalType):
            return self._optional_thing(interpreter, argument, type_.getElementType())
        inner: list[Any] = type_.containedTypes() if isinstance(type_, _NESTED) else []  # not of Any and Union
        if isinstance(argument, list):
            return interpreter.items(self.read(interpreter, element, *inner[:1]) for element in argument)
        if isinstance(argument, tuple):
            pairs = itertools.zip_longest(argument, inner)
            return tuple(self.read(interpreter, element, of) for element, of in pairs)
        if isinstance(argument, dict):
            return {key: self.read(interpreter, element, *inner[1:]) for key, element in argument.items()}
        return self._list(interpreter, argument, argument) if argument in self._elements else argument

    def _list(self, interpreter: Interpreter, argument: Value, sequence: Value) -> Items:
        return interpreter.items((), sequence, self._elements[argument])

    def _optional_thing(self, interpreter: Interpreter, argument: Any, inner: Any) -> Any:
        """Convert an argument for an optional parameter; None in the example stays None."""
        if not isinstance(argument, Value) or not self._accepts_none:
            return self.read(interpreter, argument, inner)
        fake = self._elements.get(argument) or self._sizes.of(argument)
        if not isinstance(fake, AbstractTensor) or fake.dtype.is_complex:  # a number, or an input of pairs of real numbers
            return argument
        self._optional[argument] = None
        present = interpreter.value("prim::OptionalHasElement", self._sizes.unbacked.any_number(bool))
        interpreter.append("prim::OptionalHasElement", [argument], [present])
        listed = argument in self._elements
        value = interpreter.value("prim::OptionalGetElement", UNKNOWN if listed else fake)
        interpreter.append("prim::OptionalGetElement", [argument, present, fake.dtype], [value])
        absent = python_numbers.compute(interpreter, "aten::__not__", [present])
        return Maybe(absent, self._list(interpreter, argument, value) if listed else value)

    def types(self) -> dict[Value, tuple[ir.TypeProtocol, ir.Shape]]:
        """Return the ONNX types of the inputs, after all sizes have their names."""
        found: dict[Value, tuple[ir.TypeProtocol, ir.Shape]] = {}
        for value, element in self._elements.items():
            # One name is one size in a file, and each element of a sequence has its own.
            sizes = [size if isinstance(size, int) else None for size in element.shape]
            found[value] = ir.SequenceType(ir.TensorType(onnx_dtype(element.dtype))), ir.Shape(sizes)
        for value in self._optional:
            inner, shape = found[value] if value in found else _tensor(value.type)
            found[value] = ir.OptionalType(inner), shape
            value.type = TensorType(None, None)
        return found


def _tensor(type_: Any) -> tuple[ir.TypeProtocol, ir.Shape]:
    sizes = [size if isinstance(size, int) else size.text for size in type_.sizes]
    return ir.TensorType(onnx_dtype(type_.dtype)), ir.Shape(sizes)


def _check(name: str, value: TensorList) -> None:
    kinds = sorted({f"{element.dtype} with {element.dim()} axes" for element in value})
    if len(kinds) != 1 or value[0].is_complex():
        what = f"has tensors of {' and '.join(kinds)}" if kinds else "is empty"
        raise OptionError(
            f"{name} {what} in the example, and the tensors of an ONNX sequence have one real dtype and rank; give such, or "
            f"describe each element in dynamic_shapes, which makes each an input: {{'{name}': [None, None]}}"
        )
