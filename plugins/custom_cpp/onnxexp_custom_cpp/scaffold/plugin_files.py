"""Write a plugin around one C++ operator."""

from __future__ import annotations

import keyword
import os
import sys
from importlib import resources
from pathlib import Path
from string import Template

from onnxexp import OptionError
from onnxexp.commands import write_new
from onnxexp_custom_cpp.scaffold.schema import OperatorSchema, read

_FILES = {
    "pyproject.toml": "pyproject.toml",
    "setup.py": "setup.py",
    "MANIFEST.in": "MANIFEST.in",
    "README.md": "README.md",
    "LICENSE": "LICENSE",
    "gitignore": ".gitignore",
    "workflow.yml": ".github/workflows/test.yml",
    "package.py": "{package}/__init__.py",
    "py.typed": "{package}/py.typed",
    "core.h": "csrc/{name}_core.h",
    "torch.cpp": "csrc/{name}_torch.cpp",
    "ort.cpp": "csrc/{name}_ort.cpp",
    "ort_abi.h": "csrc/ort_abi.h",
    "test.py": "tests/test_{name}.py",
}
"""The plugin's files by their templates."""


def create(
    name: str, schema: str, directory: str | os.PathLike[str], *, namespace: str | None = None, domain: str | None = None
) -> list[Path]:
    """Write the plugin: mathematics, both libraries, symbolic, build files, a test.

    Args:
        name: The operator's name.
        schema: Its torch schema.
        directory: The folder to write into; created if missing.
        namespace: torch's namespace and the Python package; by default ``NAME_ops``.
        domain: The ONNX domain; by default the namespace.

    Returns:
        The files written.

    Raises:
        OptionError: A name is invalid or taken, the schema cannot be read or has an argument of an unsupported kind,
            or a file exists already. Nothing is written.
    """
    package = namespace or f"{name}_ops"
    for what, text in (("NAME", name), ("--namespace", package)):
        if not text.isidentifier() or keyword.iskeyword(text):
            raise OptionError(f"{what} is {text!r}; it is an identifier of C++ and Python, such as fused_gate")
    if package in sys.stdlib_module_names or package in ("aten", "prim", "torch", "onnx"):
        raise OptionError(f"--namespace is {package!r}, which is taken; choose another one")
    operator = read(name, schema)
    values = _values(operator, package, domain or package)
    folder = resources.files("onnxexp_custom_cpp.scaffold") / "templates"
    root = Path(directory)
    texts = {
        root / path.format(name=name, package=package): _Template((folder / f"{template}.txt").read_text("utf-8")).substitute(
            values
        )
        for template, path in _FILES.items()
    }
    write_new(root, texts, name)
    return list(texts)


class _Template(Template):
    """Placeholders are ``@name@``-like: C++ and Python have no such words."""

    delimiter = "@"


def _values(operator: OperatorSchema, package: str, domain: str) -> dict[str, str]:
    """Return the texts of the placeholders."""
    arguments = operator.arguments
    tensors = [each for each in arguments if each.is_tensor]
    numbers = [each for each in arguments if not each.is_tensor]
    first = tensors[0].name

    def lines(texts: list[str], indent: int) -> str:
        return "".join(" " * indent + text + "\n" for text in texts if text).rstrip("\n")

    outputs = operator.outputs
    return {
        "name": operator.name,
        "package": package,
        "domain": domain,
        "distribution": package.replace("_", "-"),
        "onnx_name": operator.onnx_name,
        "schema": operator.schema,
        "first": first,
        "outputs": str(outputs),
        "fields": lines([f"{each.kind.field} {each.name}{each.kind.initial};" for each in arguments], 2),
        "shapes": lines([f"{each.kind.shape} {each.name};" for each in tensors], 2),
        "shapes_of_arrays": lines([each.kind.shape_of.format(n=each.name) for each in tensors], 2),
        "factor": lines([each.kind.add_to_factor.format(n=each.name) for each in numbers], 2),
        "addends": lines([each.kind.add_array.format(n=each.name) for each in tensors[1:]], 2),
        "parameters": ", ".join(f"{each.kind.parameter} {each.name}" for each in arguments),
        "hold": lines([each.kind.hold.format(n=each.name) for each in tensors], 2),
        "fill": lines([each.kind.fill.format(n=each.name) for each in arguments], 2),
        "fill_shapes": lines([each.kind.fill_shape.format(n=each.name) for each in tensors], 2),
        "returns": "at::Tensor" if outputs == 1 else f"std::tuple<{', '.join(['at::Tensor'] * outputs)}>",
        "results": "results[0]" if outputs == 1 else "{" + ", ".join(f"results[{index}]" for index in range(outputs)) + "}",
        "attributes": lines([each.kind.read.format(n=each.name) for each in numbers], 4),
        "inputs": lines([each.kind.read.format(n=each.name) for each in tensors], 4),
        "input_kinds": ", ".join(each.kind.characteristic for each in tensors),
        "attrs": "{" + ", ".join(f'"{each.name}": "{each.kind.letter}"' for each in numbers) + "}",
        "python_arguments": ", ".join(each.name for each in arguments),
        "examples": lines([f'"{each.name}": {each.kind.example},' for each in arguments], 8),
        "numpy_factor": lines([each.kind.numpy_factor.format(n=each.name) for each in numbers], 4),
        "numpy_addends": lines([each.kind.numpy_addend.format(n=each.name) for each in tensors[1:]], 4),
        "tensor_names": repr([each.name for each in tensors]),
        "several": "True" if outputs > 1 else "False",
    }
