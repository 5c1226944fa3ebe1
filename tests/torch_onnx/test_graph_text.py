"""The printed graph, in torch.onnx's form."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
import torch

import onnxexp_torch_onnx as onnx_exporter


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(5, 4)
        self.inner = torch.nn.Sequential(torch.nn.Conv1d(2, 3, 2), torch.nn.Softmax(1))
        self.decoder = torch.nn.Linear(4, 5)
        self.decoder.weight = self.embedding.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(self.decoder(self.embedding(x))) + torch.arange(3)[:, None]


NAMES = ["tokens", *(f"learned_{number}" for number in range(4))]
INDICES = torch.tensor([[1, 2]])


def printed(capture: str, capsys: Any, **options: Any) -> tuple[Any, list[str]]:
    program = onnx_exporter.export(Tied(), INDICES, capture=capture, input_names=NAMES, verbose=True, **options)
    return program, capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("capture", ["auto", "trace"])
def test_inputs_parameters_and_nodes(capture: str, capsys: pytest.CaptureFixture[str]) -> None:
    program, lines = printed(capture, capsys, dynamic_axes={"tokens": {0: "batch"}}, output_names=["result"])
    assert lines[:5] == [
        "graph(%tokens : Long(batch, 2),",
        "      %learned_0 : Float(5, 4),",
        "      %learned_1 : Float(3, 2, 2),",
        "      %learned_2 : Float(3),",
        "      %learned_3 : Float(5)) {",
    ]
    assert lines[-2:] == ["  return (%result)", "}"]
    (conv,) = (line for line in lines if "onnx::Conv" in line)
    form = r"  %\S+ : Float\(batch, 3, 4\) = onnx::Conv\[auto_pad=\"NOTSET\", group=1\]\(%\w+, %learned_1, %learned_2\)"
    assert re.match(form + r", scope: Tied/Sequential\[inner\]/Conv1d\[0\] # \w+\.py:\d+$", conv)
    assert any("onnx::Constant[value=[ 0 1 2 ]]()" in line for line in lines)
    assert all(node.doc_string == node.metadata_props["onnxexp.source"] for node in program.model.graph)
    program.verify((torch.tensor([[0, 4], [3, 1], [2, 2]]),))


def test_blocks() -> None:
    class Loop(torch.nn.Module):
        def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
            for i in range(n):
                x = x + i
            return x

    names = ["input_data", "loop_range"]
    text = onnx_exporter.export_to_pretty_string(torch.jit.script(Loop()), (torch.ones(2, 3), 3), input_names=names)
    assert text.startswith("graph(%input_data : Float(2, 3),\n      %loop_range : Long()) {\n")
    assert re.search(r"= onnx::Loop\(%loop_range, %none, %input_data\), scope: Loop # ", text)
    assert re.search(r"\n    block0\(%\w+ : Long\(\), %\w+ : Bool\(\), %\w+ : Float\(2, 3\)\):\n", text)
    assert re.search(r"\n      -> \(%\w+, %\w+\)\n", text)


def test_an_export_without_verbose_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    program = onnx_exporter.export(Tied(), INDICES)
    onnx_exporter.export_to_pretty_string(Tied(), INDICES, verbose=True)
    assert capsys.readouterr().out == "" and not any(node.doc_string for node in program.model.graph)


def test_the_log_goes_to_stdout_where_nobody_handles_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = logging.getLogger("onnxexp")
    monkeypatch.setattr(logger, "propagate", False)
    level, handlers = logger.level, list(logger.handlers)
    printed("auto", capsys)
    onnx_exporter.export(Tied(), INDICES, verbose=True)
    assert "capture: " in capsys.readouterr().out
    assert (logger.level, logger.handlers) == (level, handlers)
    onnx_exporter.enable_log()
    onnx_exporter.enable_log()
    onnx_exporter.export(Tied(), INDICES)
    assert capsys.readouterr().out.count("capture: ") == 1
    onnx_exporter.disable_log()
    onnx_exporter.export(Tied(), INDICES)
    assert capsys.readouterr().out == "" and logger.handlers == handlers
    logger.setLevel(level)


def test_tied_weights_have_one_name() -> None:
    program = onnx_exporter.export(Tied(), INDICES, input_names=NAMES, export_params=False)
    assert {"learned_0", "learned_1", "learned_2", "learned_3"} <= {value.name for value in program.model.graph.inputs}
    with pytest.warns(UserWarning, match=r"more input_names than inputs and parameters: \['learned_4'\]"):
        onnx_exporter.export(Tied(), INDICES, input_names=[*NAMES, "learned_4"])
