"""The fake mode and the ShapeEnv of an ExportedProgram."""

from __future__ import annotations

from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import ShapeEnv


def fake_mode(program: ExportedProgram) -> FakeTensorMode:
    """Return the mode of a program's fake tensors, else a new one."""
    return detect_fake_mode([node.meta.get("val") for node in program.graph.find_nodes(op="placeholder")]) or FakeTensorMode()


def shape_env(program: ExportedProgram) -> ShapeEnv:
    """Return the ShapeEnv of a program's symbolic sizes, else an empty one."""
    return fake_mode(program).shape_env or ShapeEnv()
