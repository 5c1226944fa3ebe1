"""Read the operator's schema; the text of each kind of argument in the plugin."""

from __future__ import annotations

import dataclasses
import keyword

import torch

from onnxexp import OptionError


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of argument; ``{n}`` is its name.

    Attributes:
        parameter: The type of the torch kernel's parameter.
        field: The type of its field in the struct of arguments, and `initial` value.
        fill: Fills the field from the torch parameter.
        read: Fills it in ONNX Runtime's kernel, from an input or attribute.
        letter: The kind of attribute, "" for tensors.
        shape, shape_of, fill_shape: The type of the shapes of a tensor, and how they are filled from arrays and torch tensors.
        hold: Keeps a contiguous tensor.
        characteristic: ONNX Runtime's number: 0 required, 1 optional, 2 variadic.
        add_to_factor, add_array: What the example computation does with it in C++.
        example, numpy_factor, numpy_addend: Its value in the test, and the example computation in NumPy.
    """

    parameter: str
    field: str
    fill: str
    read: str
    example: str
    initial: str = ""
    letter: str = ""
    shape: str = ""
    shape_of: str = ""
    fill_shape: str = ""
    hold: str = ""
    characteristic: str = ""
    add_to_factor: str = ""
    add_array: str = ""
    numpy_factor: str = ""
    numpy_addend: str = ""


def _number(parameter: str, field: str, letter: str, example: str, *, optional: bool = False) -> Kind:
    return Kind(
        f"std::optional<{parameter}>" if optional else parameter, field,
        "given.{n} = {n}.value_or(0);" if optional else "given.{n} = {n};",
        'attribute(info, "{n}", given.{n});', example, " = 0", letter,
        add_to_factor="factor += static_cast<float>(given.{n});", numpy_factor="factor += np.float32({n})",
    )  # fmt: skip


def _list(parameter: str, element: str, letter: str, example: str) -> Kind:
    return Kind(
        parameter, f"std::vector<{element}>", "given.{n} = {n}.vec();", 'attribute(info, "{n}", given.{n});', example,
        letter=letter, add_to_factor="for (auto each : given.{n}) factor += static_cast<float>(each);",
        numpy_factor="factor += np.float32(sum({n}))",
    )  # fmt: skip


KINDS = {
    "Tensor": Kind(
        "const at::Tensor&", "Array", 'given.{n} = array({n}_, "{n}");', "given.{n} = input(context, next++);",
        "torch.randn(ROWS, 4)", shape="std::vector<Size>", shape_of="shapes.{n} = given.{n}.sizes;",
        fill_shape="shapes.{n} = {n}.sym_sizes().vec();", hold="at::Tensor {n}_ = {n}.contiguous();", characteristic="0",
        add_array="addends.push_back(&given.{n});", numpy_addend="result = result + np.resize({n}, x.shape)",
    ),
    "Optional[Tensor]": Kind(
        "const std::optional<at::Tensor>&", "std::optional<Array>", 'if ({n}_) given.{n} = array(*{n}_, "{n}");',
        "if (next < count && has_input(context, next)) given.{n} = input(context, next);\n    ++next;", "torch.randn(4)",
        shape="std::optional<std::vector<Size>>", shape_of="if (given.{n}) shapes.{n} = given.{n}->sizes;",
        fill_shape="if ({n}) shapes.{n} = {n}->sym_sizes().vec();",
        hold="std::optional<at::Tensor> {n}_;\n  if ({n}) {n}_ = {n}->contiguous();", characteristic="1",
        add_array="if (given.{n}) addends.push_back(&*given.{n});",
        numpy_addend="result = result if {n} is None else result + np.resize({n}, x.shape)",
    ),
    "List[Tensor]": Kind(
        "at::TensorList", "std::vector<Array>", 'for (const at::Tensor& each : {n}_) given.{n}.push_back(array(each, "{n}"));',
        "while (next < count) given.{n}.push_back(input(context, next++));", "[torch.randn(ROWS, 4), torch.randn(4)]",
        shape="std::vector<std::vector<Size>>", shape_of="for (const Array& each : given.{n}) shapes.{n}.push_back(each.sizes);",
        fill_shape="for (const at::Tensor& each : {n}) shapes.{n}.push_back(each.sym_sizes().vec());",
        hold="std::vector<at::Tensor> {n}_;\n  for (const at::Tensor& each : {n}) {n}_.push_back(each.contiguous());",
        characteristic="2", add_array="for (const Array& each : given.{n}) addends.push_back(&each);",
        numpy_addend="for each in {n}:\n        result = result + np.resize(each, x.shape)",
    ),
    "float": _number("double", "double", "f", "0.5"),
    "int": _number("int64_t", "int64_t", "i", "3"),
    "bool": _number("bool", "int64_t", "i", "True"),
    "Optional[float]": _number("double", "double", "f", "0.25", optional=True),
    "Optional[int]": _number("int64_t", "int64_t", "i", "2", optional=True),
    "Optional[bool]": _number("bool", "int64_t", "i", "True", optional=True),
    "str": Kind(
        "c10::string_view", "std::string", "given.{n} = std::string({n});", 'attribute(info, "{n}", given.{n});', '"abc"',
        letter="s",
        add_to_factor="factor += static_cast<float>(given.{n}.size());", numpy_factor="factor += np.float32(len({n}))",
    ),
    "List[int]": _list("at::IntArrayRef", "int64_t", "is", "[1, 2]"),
    "List[float]": _list("at::ArrayRef<double>", "double", "fs", "[0.5, 1.5]"),
    "ScalarType": Kind(
        "at::ScalarType", "int64_t", "given.{n} = onnx_type({n});", 'attribute(info, "{n}", given.{n});', "torch.float32", " = 0",
        "i", add_to_factor="factor += static_cast<float>(given.{n});",
        numpy_factor="factor += np.float32({{torch.float32: 1, torch.float64: 11}}[{n}])",
    ),
}  # fmt: skip
"""The kinds of arguments, by their types in a schema."""


@dataclasses.dataclass(frozen=True)
class Argument:
    """An argument of the operator, and its kind."""

    name: str
    kind: Kind

    @property
    def is_tensor(self) -> bool:
        return bool(self.kind.characteristic)


@dataclasses.dataclass(frozen=True)
class OperatorSchema:
    """The operator to write.

    Attributes:
        name: Its name, in torch.
        schema: Its schema, without the namespace.
        arguments: Its arguments, in order.
        outputs: The number of tensors that it returns.
    """

    name: str
    schema: str
    arguments: tuple[Argument, ...]
    outputs: int

    @property
    def onnx_name(self) -> str:
        """The name in ONNX: ``FusedGate``."""
        return "".join(part.capitalize() for part in self.name.split("_"))


def read(name: str, text: str) -> OperatorSchema:
    """Parse a schema.

    Raises OptionError where the plugin has no form of it; the message lists every problem.
    """
    try:
        parsed = torch._C.parse_schema(text)
    except RuntimeError as error:
        raise OptionError(
            f'--schema {text!r} is no schema of torch: {error}; write it as "{name}(Tensor a, float s) -> Tensor"'
        ) from None
    problems = []
    if parsed.name != name:
        problems.append(f"it is called {parsed.name}, and NAME is {name}: use one name")
    arguments = []
    for each in parsed.arguments:
        kind = str(each.real_type)
        if kind not in KINDS:
            problems.append(f"{each.name} is a {kind}; there are {', '.join(KINDS)}")
        elif keyword.iskeyword(each.name) or each.name in _TAKEN.split():
            problems.append(f"{each.name} is a word of Python or C++, or of the plugin: choose another name")
        elif each.alias_info is not None:
            problems.append(f"{each.name} is written to, and an ONNX operator has no such inputs")
        else:
            arguments.append(Argument(each.name, KINDS[kind]))
    tensors = [each for each in arguments if each.is_tensor]
    if not problems and (not tensors or tensors[0].kind is not KINDS["Tensor"]):
        problems.append("its first tensor must be a Tensor that is always given: the example's result has its shape")
    if any(each.kind is KINDS["List[Tensor]"] for each in tensors[:-1]):
        problems.append("a list of tensors must be its last tensor argument: ONNX's variadic input is the last one")
    if not parsed.returns or any(str(each.type) != "Tensor" for each in parsed.returns):
        problems.append("it must return one or several Tensors")
    if problems:
        raise OptionError(f"--schema {text!r}: {'; '.join(problems)}")
    return OperatorSchema(name, text, tuple(arguments), len(parsed.returns))


_TAKEN = """
given outputs results context info next count kernel shapes result factor x double float int bool
"""
"""Names that the generated files use."""
