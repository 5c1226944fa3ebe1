"""A random program: a module as source text, its inputs, and how it is exported."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import sys
import tempfile
import textwrap
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

FRONTENDS = ("export", "trace", "script")

KINDS = {
    "normal": "torch.randn({shape}, generator=seeded({seed}), dtype={dtype})",
    "positive": "torch.rand({shape}, generator=seeded({seed}), dtype={dtype}) + 0.5",
    "integers": "torch.randint(-4, 5, {shape}, generator=seeded({seed})).to({dtype})",
    "counts": "torch.randint(0, 5, {shape}, generator=seeded({seed})).to({dtype})",
    "bools": "torch.randint(0, 2, {shape}, generator=seeded({seed})) > 0",
    "indices": "torch.randint(0, 2, {shape}, generator=seeded({seed}))",
}
"""The expressions of an input's values, by kind. Indices fit every axis of two or more elements."""

_HEAD = """\
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def seeded(seed: int):
    return torch.Generator().manual_seed(seed)


class Program(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
"""


@dataclasses.dataclass(frozen=True)
class Input:
    """An input at the example's shape; the values depend on its seed and shape only."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    kind: str
    seed: int
    same_as: str = ""
    """An earlier input whose tensor this one is, too."""

    def expression(self, shape: tuple[int, ...] | None = None) -> str:
        """Return the Python text of the values; it needs the function `seeded`."""
        size = self.shape if shape is None else shape
        return KINDS[self.kind].format(shape=tuple(size), seed=self.seed, dtype=f"torch.{self.dtype}")

    def tensor(self, shape: tuple[int, ...] | None = None) -> torch.Tensor:
        names = {"torch": torch, "seeded": lambda seed: torch.Generator().manual_seed(seed)}
        tensor: torch.Tensor = eval(self.expression(shape), names)
        return tensor


@dataclasses.dataclass(frozen=True)
class Statement:
    """A statement of the forward, of one or more lines, and the attributes it needs."""

    text: str
    setup: tuple[str, ...] = ()

    @property
    def needed(self) -> list[str]:
        """The lines of the setup whose attributes the text mentions."""
        names = [re.findall(r'^self\.register_buffer\("(\w+)|^self\.(\w+) =', line)[0] for line in self.setup]
        return [line for line, found in zip(self.setup, names, strict=True) if re.search(rf"self\.{''.join(found)}\b", self.text)]


@dataclasses.dataclass(frozen=True)
class Program:
    """A program, and the options of its export.

    `axes` has the name of each dynamic axis by input; axes of one name have equal sizes.
    """

    seed: int
    inputs: tuple[Input, ...]
    statements: tuple[Statement, ...]
    outputs: tuple[str, ...]
    form: str = "tuple"
    """The structure of the result: "tuple", "dict" or "nested"."""
    axes: Mapping[str, Mapping[int, str]] = dataclasses.field(default_factory=dict)
    frontend: str = "export"
    opset: int = 20

    @cached_property
    def source(self) -> str:
        """The module's Python text."""
        setup = dict.fromkeys(line for statement in self.statements for line in statement.needed)
        parameters = "".join(f", {each.name}: Tensor" for each in self.inputs)
        body = [*(statement.text for statement in self.statements), f"return {self._result()}"]
        return "".join(
            [
                _HEAD,
                *(f"        {line}\n" for line in setup),
                f"\n    def forward(self{parameters}):\n",
                *(textwrap.indent(text, " " * 8) + "\n" for text in body),
            ]
        )

    @property
    def has_bfloat16(self) -> bool:
        """Whether a value is bfloat16, for which ONNX Runtime has few kernels on a CPU."""
        return "bfloat16" in self.source or any(each.dtype == "bfloat16" for each in self.inputs)

    def _result(self) -> str:
        if self.form == "dict":
            return "{" + ", ".join(f'"r{number}": {name}' for number, name in enumerate(self.outputs)) + "}"
        if self.form == "nested":
            return f"{self.outputs[0]}, [{', '.join(self.outputs[1:])}]"
        return ", ".join(self.outputs)

    @property
    def sizes(self) -> dict[str, int]:
        """The example's size of each dynamic axis by its name."""
        shapes = {each.name: each.shape for each in self.inputs}
        return {name: shapes[given][axis] for given, axes in self.axes.items() for axis, name in axes.items()}

    def tensors(self, sizes: Mapping[str, int] | None = None) -> tuple[torch.Tensor, ...]:
        """Return fresh inputs, the dynamic axes with these sizes."""
        made: dict[str, torch.Tensor] = {}
        for each in self.inputs:
            made[each.name] = made[each.same_as] if each.same_as else each.tensor(self._shape(each, sizes or {}))
        return tuple(made.values())

    def _shape(self, given: Input, sizes: Mapping[str, int]) -> tuple[int, ...]:
        names = self.axes.get(given.name, {})
        return tuple(sizes.get(names.get(axis, ""), size) for axis, size in enumerate(given.shape))

    @property
    def reproduction(self) -> str:
        """A script that exports the program."""
        call = ", ".join(each.same_as or f"({each.name} := {each.expression()})" for each in self.inputs)
        shapes = {name: dict(axes) for name, axes in self.axes.items() if axes}
        options = f"dynamic_shapes={shapes}, " if shapes else ""
        if self.has_bfloat16:
            options += "plugins=[onnxexp_ort.Bfloat16OnCpu(), ...], "
        return (
            f"{self.source}\n\nimport onnxexp\nimport onnxexp_ort\n\nargs = ({call},)\n"
            f'program = onnxexp.export(Program(), args, {options}capture="{self.frontend}", opset_version={self.opset})\n'
        )


def loaded_module(source: str) -> Any:
    """Import a source text from a file, which torch.jit.script and errors read."""
    with tempfile.NamedTemporaryFile("w", prefix="program_", suffix=".py", delete=False) as file:
        file.write(source)
    spec = importlib.util.spec_from_file_location(Path(file.name).stem, file.name)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def load(program: Program) -> type[torch.nn.Module]:
    """Return the program's class."""
    found: type[torch.nn.Module] = loaded_module(program.source).Program
    return found
