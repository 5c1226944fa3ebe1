"""passes/unname_sizes.py: no size names that make ONNX Runtime fuse slow kernels."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import onnxexp


class Block(nn.Module):
    """Embeddings, and a layer that normalizes its residual sum, before or after it."""

    def __init__(self, after: bool) -> None:
        super().__init__()
        self.positions, self.words = nn.Embedding(32, 8), nn.Embedding(50, 8)
        self.linear, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)
        self.register_buffer("ids", torch.arange(32)[None])
        self.after = after

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.positions(self.ids[:, : tokens.shape[1]])
        if self.after:
            return self.linear(self.norm(x + self.linear(x)))
        return x + self.linear(self.norm(x))


TOKENS = torch.randint(0, 50, (2, 5))


def exported(after: bool = True, **options: object) -> onnxexp.ONNXProgram:
    return onnxexp.export(Block(after), (TOKENS,), dynamic_shapes=({0: "batch", 1: "sequence"},), opset_version=20, **options)


def names(program: onnxexp.ONNXProgram) -> set[str]:
    """Return the names of sizes inside the graph."""
    inside = [value.shape for node in program.model.graph for value in node.outputs if not value.is_graph_output()]
    return {str(size) for shape in inside if shape is not None for size in shape if not isinstance(size, int) and size.value}


def test_the_names_are_gone_and_the_model_is_right() -> None:
    program = exported()
    assert names(program) == set()
    assert [str(size) for size in program.model.graph.outputs[0].shape] == ["batch", "sequence", "8"]
    shapes = [value.shape for node in program.model.graph for value in node.outputs if value.name == "add"]
    assert [size if isinstance(size, int) else None for size in shapes[0]] == [None, None, 8]
    onnx.checker.check_model(program.model_proto, full_check=True)
    program.verify_sizes()


def test_onnxruntime_fuses_with_the_names_only(tmp_path: Path) -> None:
    """Where this test fails, ONNX Runtime no longer needs the pass."""
    fused = []
    for skip in ((), ("aten/unname-sizes",)):
        settings = onnxruntime.SessionOptions()
        settings.optimized_model_filepath = str(tmp_path / "optimized.onnx")
        settings.log_severity_level = 4
        onnxruntime.InferenceSession(exported(skip_passes=skip).model_proto.SerializeToString(), settings)
        fused.append("SkipLayerNormalization" in {node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node})
    assert fused == [False, True]


@pytest.mark.parametrize(
    ("after", "options"),
    [(False, {}), (True, {"target": "onnx"}), (True, {"skip_passes": ["aten/unname-sizes"]})],
    ids=["sum used again", "target onnx", "skipped"],
)
def test_names_stay(after: bool, options: dict[str, object]) -> None:
    assert {"batch", "sequence"} <= names(exported(after, **options))
