"""Source locations: the user's own line and module, for each kind of capture."""

from __future__ import annotations

import inspect
import os
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.fx.proxy import TracerBase

from onnxexp._capture.source_lines import metadata_location, record_user_lines
from onnxexp._capture.torch_state import torch_mode
from onnxexp._neutral_graph import Graph, SourceLocation
from onnxexp._request.dynamic_shapes import read_dynamic
from onnxexp._request.export_context import ExportContext
from onnxexp._request.module_and_forward import as_module
from onnxexp._request.options import Options
from onnxexp._torch_export import frontend

MESSAGES = """
if x > 3:
    raise ValueError
if (x > 3
    and y):
    message = f"{x}"
    raise ValueError(message)
if x > 3: raise ValueError
assert x > 3
torch._check(x > 3)
if x > 3:
    # a comment
    warnings.warn(
        "too large",
    )
if x > 3:
    logger.warning("too large")
    print(x)
"""
BRANCHES = """
if x > 3:
    y = 1
    raise ValueError if y else TypeError
elif x > 4:
    warnings.warn("too large")
    y = 2
if x > 5:
    warnings.warn("too large")
else:
    y = 3
if x > 6:
    warnings.warn("too large")
# less indented than what follows
    y = 4
z = 3 if x > 3 else 4
for i in range(x):
    raise ValueError
"""
HERE = str(Path(__file__).resolve())
X = torch.randn(3, 4)
CONTEXT = ExportContext(Options(opset=20))
STRATEGIES = pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])


def graph_of(model: Any, *args: Any, strict: bool = False, names: Any = None) -> Graph:
    module = as_module(model)
    spec = read_dynamic(module.forward, args or (X,), {}, dynamic_shapes=names or [{0: "batch"}])
    if not strict:
        program = frontend.export_program(module, args or (X,), {}, spec, CONTEXT)
        return frontend.from_exported(program, spec).graph
    with torch_mode():
        return frontend.from_exported(frontend._export(module, args or (X,), {}, spec, CONTEXT, True), spec).graph


def places(graph: Graph) -> dict[str, SourceLocation]:
    """Return the place of the last node of each operator."""
    return {node.op.partition(".")[0].removeprefix("aten::"): node.where for node in graph.walk()}


def line(owner: Any, text: str) -> int:
    """Find the number of the line with a text in an object of this file."""
    lines, start = inspect.getsourcelines(owner)
    (offset,) = (index for index, code in enumerate(lines) if text in code)
    return start + offset


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x) * 2  # inner


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), Inner())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layers(x)  # layers
        y = F.softplus(y)  # functional
        return helper(y)


def helper(y: torch.Tensor) -> torch.Tensor:
    return torch.tanh(y)  # helper


@STRATEGIES
def test_modules(strict: bool) -> None:
    found = places(graph_of(Model(), strict=strict))
    assert {place.file for place in found.values()} == {HERE}
    assert found["linear"].line == line(Model, "# layers")
    assert (found["linear"].scope, found["linear"].module) == ("layers.0", "Linear")
    assert found["linear"].code == "y = self.layers(x)  # layers"
    assert found["layer_norm"].line == found["mul"].line == line(Inner, "# inner")
    assert (found["layer_norm"].scope, found["layer_norm"].module) == ("layers.1.norm", "LayerNorm")
    assert (found["mul"].scope, found["mul"].module) == ("layers.1", "Inner")
    assert found["softplus"].line == line(Model, "# functional")
    assert found["softplus"].scope == ""


@STRATEGIES
def test_the_innermost_function_counts(strict: bool) -> None:
    assert places(graph_of(Model(), strict=strict))["tanh"].line == line(helper, "# helper")


def plain(x: torch.Tensor) -> torch.Tensor:
    y = x * 2  # of the function
    return helper(y)


@STRATEGIES
def test_functions(strict: bool) -> None:
    found = places(graph_of(plain, strict=strict))
    assert found["mul"] == SourceLocation("", "", HERE, line(plain, "# of the function"), "y = x * 2  # of the function")
    assert found["tanh"].line == line(helper, "# helper")


class Shaped(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.sin()
        rows = x.shape[0]
        return x.reshape(rows * 2, -1) + rows  # asks


@STRATEGIES
def test_sizes_are_where_they_are_asked_for(strict: bool) -> None:
    """torch computes the sizes at the beginning, under a line of its own."""
    found = places(graph_of(nn.Sequential(Shaped()), strict=strict))
    assert (found["sym_size"].file, found["sym_size"].line) == (HERE, line(Shaped, "# asks"))
    assert (found["sym_size"].scope, found["sym_size"].module) == ("0", "Shaped")


class Branching(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def then(x: torch.Tensor) -> torch.Tensor:
            return x.sin()

        return torch.cond(x.sum() > 0, then, lambda x: x.cos(), (x,))  # cond


@STRATEGIES
def test_branches(strict: bool) -> None:
    """Nodes have the branch's own line or the cond's, never one in torch's code."""
    found = places(graph_of(Branching(), strict=strict))
    assert {place.file for place in found.values()} == {HERE}
    assert found["prim::If"].line == found["cos"].line == line(Branching, "# cond")
    assert found["sin"].line == line(Branching, "return x.sin()" if strict else "# cond")
    assert {place.scope for place in found.values()} == {""}


@STRATEGIES
def test_models_of_torch_alone(strict: bool) -> None:
    """There is no line of the user's; a location, if any, belongs to the module."""
    found = places(graph_of(nn.Sequential(nn.Linear(4, 4), nn.Softplus()), strict=strict))
    assert found["linear"].scope == "0"
    assert found["softplus"].scope == "1"
    assert Path(found["linear"].file).name == ("" if strict else "linear.py")
    assert places(graph_of(torch.relu, names=[[{0: "batch"}]]))["relu"] == SourceLocation()


def test_given_programs() -> None:
    """Given programs have the frames that torch keeps, those called forward."""
    program = torch.export.export(Model(), (X,))
    spec = read_dynamic(Model().forward, (X,), {}, program=program)
    found = places(frontend.from_exported(program, spec).graph)
    assert found["linear"].line == line(Model, "# layers")
    assert found["tanh"].line == line(Model, "return helper(y)")


def test_decomposed_programs() -> None:
    program = torch.export.export(Model(), (X,)).run_decompositions()
    spec = read_dynamic(Model().forward, (X,), {}, program=program)
    found = places(frontend.from_exported(program, spec).graph)
    assert {place.file for place in found.values()} == {HERE}
    assert found["native_layer_norm"].line == line(Inner, "# inner")


def test_recording_is_for_captures_only() -> None:
    """Other tracing sees torch's own filter, inside and after."""
    original = TracerBase._filter_traceback_frames
    with record_user_lines():
        assert TracerBase._filter_traceback_frames is not original
        program = torch.export.export(Model(), (X,))
    assert TracerBase._filter_traceback_frames is original
    (linear,) = (node for node in program.graph.nodes if "linear" in node.name)
    assert str(linear.meta["stack_trace"]).count("in forward") > 1


STDLIB = os.path.join(sysconfig.get_path("stdlib"), "copy.py")
PACKAGE = os.path.join(sysconfig.get_path("purelib"), "theirs.py")


def frame(file: str, number: int, code: str = "code") -> str:
    return f'  File "{file}", line {number}, in forward\n    {code}\n'


@pytest.mark.parametrize(
    ("stack", "expected"),
    [
        ("", ("", 0)),
        ("nonsense", ("", 0)),
        (frame("/home/me/model.py", 3), ("/home/me/model.py", 3)),
        (frame("/home/me/model.py", 3) + frame("/home/me/layers.py", 7), ("/home/me/layers.py", 7)),
        (frame("/home/me/model.py", 3) + frame(str(torch.nn.modules.linear.__file__), 7), ("/home/me/model.py", 3)),
        (frame("/home/me/model.py", 3) + frame("<eval_with_key>.5", 7), ("/home/me/model.py", 3)),
        (frame("/home/me/model.py", 3) + frame(STDLIB, 7), ("/home/me/model.py", 3)),
        (frame(PACKAGE, 7), (PACKAGE, 7)),
        (frame(str(torch.nn.modules.linear.__file__), 7), (str(torch.nn.modules.linear.__file__), 7)),
        (frame(str(torch.nn.modules.module.__file__), 7), ("", 0)),
        (frame("torch/fx/passes/runtime_assert.py", 24), ("", 0)),
        (frame("<stdin>", 2), ("<stdin>", 2)),
        (frame(r"C:\me\model.py", 3), (r"C:\me\model.py", 3)),
    ],
)
def test_frames(stack: str, expected: tuple[str, int]) -> None:
    found = metadata_location({"stack_trace": stack})
    assert (found.file, found.line) == expected


@pytest.mark.parametrize("path", ["layer.0", "L['self'].layer.0", "L__self___layer.0", "_export_root.layer.0"])
def test_paths(path: str) -> None:
    assert (
        metadata_location({"nn_module_stack": {"a": ("", Model), "b": (path, "torch.nn.modules.linear.Linear")}}).scope
        == "layer.0"
    )
    assert metadata_location({"nn_module_stack": {"a": ("", Model)}}).module == "Model"
    assert metadata_location({"nn_module_stack": {"_empty_nn_module_stack_from_metadata_hook": ("", "")}}) == SourceLocation()


def test_conditions_that_only_raise_or_warn(tmp_path: Path) -> None:
    """Such a branch computes nothing, so the other one is right at all sizes there."""
    for name, text, expected in (("messages", MESSAGES, True), ("branches", BRANCHES.replace("raise", "return"), False)):
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        starts = ("if", "elif", "assert", "torch._check", "z =", "for", "    and", "    y =")
        lines = [number for number, line in enumerate(text.splitlines(), 1) if line.startswith(starts)]
        assert {line: SourceLocation.read(str(path), line).only_raises_or_warns for line in lines} == dict.fromkeys(
            lines, expected
        )
