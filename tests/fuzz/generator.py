"""Write random programs, with shapes and dtypes that eager computed."""

from __future__ import annotations

import ast
import dataclasses
import math
import random
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo import config as dynamo_config

from .complex_numbers import complex_made, complex_used
from .elementwise import binary, chosen, converted, promoted_scalar, size_arithmetic, unary
from .functions import called
from .indexing import indexed, indexed_write
from .low_precision import halved
from .masks import filled, selected, written_where
from .memory import chained_writes, strided
from .networks import branch, layer, loop, mutated_buffer, resampled
from .parts import distinct, parted
from .program import FRONTENDS, Input, Program, Statement, load
from .rearranging import contracted, rearranged_axes
from .reducing import created, joined, multiplied, rearranged, reduced
from .regions import chosen_region, repeated_region
from .running import accepts
from .scope import Scope, Unfit
from .sequences import packed
from .views import view, write, write_through

_FAMILIES: Mapping[Callable[[Scope], str], int] = {
    unary: 6, binary: 9, promoted_scalar: 5, converted: 4, size_arithmetic: 4, chosen: 2, view: 14, write: 6, write_through: 6,
    indexed: 8, indexed_write: 8, reduced: 10, rearranged: 6, joined: 6, multiplied: 5, created: 5, resampled: 6, layer: 4,
    mutated_buffer: 3, branch: 4, loop: 3, called: 8, rearranged_axes: 6, contracted: 4, filled: 6, selected: 5, written_where: 5,
    parted: 8, distinct: 4, strided: 4, chained_writes: 6, chosen_region: 3, repeated_region: 2, packed: 3, complex_made: 4,
    complex_used: 12, halved: 5,
}  # fmt: skip
"""The families of statements with their weights."""

_OPSETS = (*range(9, 27), 13, 17, 18, 18, 20, 20, 20, 21)
_LARGEST, _MOST_ELEMENTS = 1e4, 600
_DTYPES = {
    "normal": ("float32", "float32", "float32", "float64"),
    "positive": ("float32",),
    "integers": ("int64", "int32", "int64"),
    "counts": ("int64", "uint8"),
    "bools": ("bool",),
    "indices": ("int64",),
}
_RARE_DTYPES = ("float16", "int8", "int16")


def generate(seed: int, frontend: str | None = None, opset: int | None = None) -> Program:
    """Return the program of a seed; `frontend` and `opset` replace the drawn ones."""
    rng = random.Random(seed)
    dynamo_config.recompile_limit = 1000  # eager compiles each region at each set of sizes
    drawn, drawn_opset = rng.choices(FRONTENDS, (50, 35, 15))[0], rng.choice(_OPSETS)
    writer = _Writer(rng, frontend or drawn, opset or drawn_opset, seed)
    return writer.write(min(3 + int(rng.expovariate(1 / 6)), 25))


class _Writer:
    """Adds statements that eager runs, one after another."""

    def __init__(self, rng: random.Random, frontend: str, opset: int, seed: int) -> None:
        self.rng, self.scope = rng, Scope(rng, frontend)
        self.program = Program(seed, _inputs(rng), (), (), frontend=frontend, opset=opset)
        self._begin()
        self.scope.values = {given.name: self.names[given.name] for given in self.program.inputs}

    def write(self, count: int) -> Program:
        families = random.Random(self.rng.random()).choices([*_FAMILIES], [*_FAMILIES.values()], k=20 * count)
        for family in families:
            if len(self.program.statements) == count:
                break
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                self._add(family)
        outputs = self._outputs()
        form = self.rng.choices(("tuple", "dict", "nested"), (85, 10, 5))[0]
        self.program = dataclasses.replace(
            self.program, outputs=outputs, form=form if self.program.frontend != "script" else "tuple"
        )
        return _with_axes(self.program, self.rng)

    def _add(self, family: Callable[[Scope], str]) -> None:
        """Add a statement, unless eager refuses it or its values are useless."""
        self.scope.setup = []
        try:
            text = family(self.scope)
            for line in self.scope.setup:
                exec(line, self.names)
            self.module.eval()
            exec(text, self.names)
        except Unfit:
            return
        except Exception:  # noqa: BLE001 - eager may refuse a random statement by any exception
            self._recompute()
            return
        statement = Statement(text, tuple(self.scope.setup))
        extended = dataclasses.replace(self.program, statements=(*self.program.statements, statement))
        fine = all(_useful(value) for name, value in self._tensors(text)) and (
            extended.frontend != "script" or _scripts(dataclasses.replace(extended, outputs=("x0",)))
        )
        if fine:
            self.program = extended
            made = dict(self._tensors(text))
            self.scope.ragged |= _ragged(text, made, self.scope)
            self.scope.values.update(made)
        else:
            self._recompute()

    def _tensors(self, text: str) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield the tensor variables that a statement assigns, or that existed before."""
        assigned = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
        for name, value in self.names.items():
            if isinstance(value, torch.Tensor) and (name in assigned or name in self.scope.values) and name[0] in "vx":
                yield name, value

    def _begin(self) -> None:
        """Make an empty module, and the names that statements may use."""
        torch.manual_seed(0)
        self.module = nn.Module().eval()
        self.names: dict[str, Any] = {"self": self.module, "torch": torch, "F": F, "nn": nn, "math": math}
        self.names.update(zip((given.name for given in self.program.inputs), self.program.tensors(), strict=True))

    def _recompute(self) -> None:
        """Run the program anew, since a refused statement may have changed a variable."""
        self._begin()
        for line in dict.fromkeys(line for statement in self.program.statements for line in statement.setup):
            exec(line, self.names)
        self.module.eval()
        for statement in self.program.statements:
            exec(statement.text, self.names)
        self.scope.values = {name: self.names[name] for name in self.scope.values}

    def _outputs(self) -> tuple[str, ...]:
        """Choose the last variables and some others; seldom a view, a size or one twice."""
        rng, made = self.rng, [name for name in self.scope.values if not name.startswith("x")]
        names = [*self.scope.values]
        chosen_names = dict.fromkeys(made[-rng.randint(1, 2) :] + rng.sample(names, min(len(names), rng.randint(0, 2))))
        outputs = [*chosen_names] or names[:1]
        if rng.random() < 0.12:
            outputs.append(rng.choice(outputs))
        if rng.random() < 0.08 and self.scope.values[outputs[0]].dim():
            outputs.append(
                outputs[0] + rng.choice(["[0:]", ".T", ".detach()", ".unsqueeze(0)", "[0]", ".view_as(" + outputs[0] + ")"])
            )
        if rng.random() < 0.08:
            outputs.append(self.program.inputs[0].name)
        if rng.random() < 0.02 and self.scope.values[outputs[0]].dim():
            outputs.append(f"{outputs[0]}.shape[0]")
        return tuple(outputs)


def _inputs(rng: random.Random) -> tuple[Input, ...]:
    made: list[Input] = []
    sizes = [rng.choice((2, 3, 4, 5, 6, 3, 4)) for _ in range(3)] + [rng.choice((1, 2, 8))]
    for number in range(rng.choice((1, 1, 2, 2, 3))):
        kind = rng.choices([*_DTYPES], (10, 2, 4, 2, 2, 1))[0] if number else rng.choice(("normal", "normal", "integers"))
        dtype = rng.choice(_RARE_DTYPES) if kind in ("normal", "integers") and rng.random() < 0.04 else rng.choice(_DTYPES[kind])
        if kind == "normal" and dtype.startswith("int"):
            dtype = "float16"
        shape = tuple(rng.choice(sizes) for _ in range(rng.choices((0, 1, 2, 3, 4), (1, 3, 6, 5, 4))[0]))
        while math.prod(shape) > _MOST_ELEMENTS // 2:
            shape = shape[1:]
        given = Input(f"x{number}", shape or ((3,) if number == 0 else ()), dtype, kind, rng.randint(0, 999))
        if number and rng.random() < 0.25:
            given = dataclasses.replace(given, shape=made[0].shape)
        if number and rng.random() < 0.06:
            given = dataclasses.replace(made[0], name=given.name, same_as=made[0].name)
        made.append(given)
    return tuple(made)


_RAGGED = re.compile(
    r"nonzero|\w\[\(|argwhere|masked_select|unique|bincount|where\([^,()]*\)|\[[^]]*( [<>=!]=? |~)|pad_packed_sequence"
)
"""Operators whose results have sizes that depend on values."""


def _ragged(text: str, made: Mapping[str, torch.Tensor], scope: Scope) -> set[str]:
    """Return the new variables whose sizes may depend on values."""
    mentions = _RAGGED.search(text) or any(re.search(rf"\b{name}\b", text) for name in scope.ragged)
    return {name for name, value in made.items() if mentions and name not in scope.values and value.dim()}


def _useful(value: torch.Tensor) -> bool:
    """Return whether values are finite and small, so that no difference is rounding."""
    if value.layout != torch.strided or not 0 < value.numel() <= _MOST_ELEMENTS:
        return value.layout == torch.strided and value.numel() == 0
    return bool(value.isfinite().all()) and float(value.abs().max() if value.dtype != torch.bool else 1) <= _LARGEST


def _scripts(program: Program) -> bool:
    try:
        torch.jit.script(load(program)())
    except Exception:  # noqa: BLE001 - the compiler's errors have no common base
        return False
    return True


def _with_axes(program: Program, rng: random.Random) -> Program:
    """Make random axes dynamic; nearly always, eager accepts other sizes of them."""
    if rng.random() < 0.25:
        return program
    axes: dict[str, dict[int, str]] = {}
    sizes: dict[int, str] = {}
    unchecked, shared = rng.random() < 0.05, rng.random() < 0.4
    module = load(program)
    for given in program.inputs:
        for axis, size in enumerate(given.shape):
            if size < 2 or given.same_as or rng.random() < 0.4:
                continue
            name = sizes.setdefault(size, f"n{len(sizes)}") if shared else f"{given.name}_{axis}"
            same = [each.name for each in program.inputs if given.name in (each.name, each.same_as)]
            tried = {**axes, **{each: {**axes.get(each, {}), axis: name} for each in same}}
            candidate = dataclasses.replace(program, axes=tried)
            if unchecked or all(accepts(module().eval(), candidate.tensors({name: other})) for other in (size + 1, 2 * size)):
                axes = tried
    return dataclasses.replace(program, axes=axes)


_EMPTY_IN_EAGER = re.compile(r"\bpixel_unshuffle\b")
"""Functions that return another shape in eager PyTorch than under torch.export where a size is 0."""

_EMPTY_IN_RUNTIME = re.compile(r"\bConvTranspose\dd\b")
"""Modules whose operator ONNX Runtime and ONNX's reference evaluator refuse where a size is 0."""

_FIRST_WITH_ATTENTION = 23
"""The first opset with Attention, which they refuse as well where a size is 0."""


def other_sizes(program: Program) -> Iterator[dict[str, int]]:
    """Yield sizes to compare at, also with 1 and, where they are promised, 0."""
    example = program.sizes
    if not example:
        return
    rng = random.Random(program.seed)
    yield {name: size + 1 + number for number, (name, size) in enumerate(example.items())}
    yield {name: 2 * size for name, size in example.items()}
    yield {name: rng.randint(2, 9) for name in example}
    for name in example if len(example) > 1 else ():
        yield {**example, name: example[name] + rng.choice((1, 3))}
    yield dict.fromkeys(example, 1)
    yield {**example, rng.choice([*example]): 1}
    refused = _EMPTY_IN_EAGER.search(program.source) or _EMPTY_IN_RUNTIME.search(program.source)
    refused = refused or (program.opset >= _FIRST_WITH_ATTENTION and "scaled_dot_product_attention" in program.source)
    if program.opset >= 14 and not refused:  # Reshape has allowzero from opset 14 on
        yield {**example, rng.choice([*example]): 0}
        yield dict.fromkeys(example, 0)
