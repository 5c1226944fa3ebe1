"""What a notebook shows of a program and of reports."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
import torch

import onnxexp
from onnxexp._model.notebook_table import notebook_table


def cells(text: str) -> list[list[str]]:
    """Return the rows of the table, which must be well-formed."""
    root = ElementTree.fromstring(f"<div>{text}</div>")
    return [["".join(cell.itertext()) for cell in row] for row in root.iter("tr")]


def title(text: str) -> str:
    caption = ElementTree.fromstring(f"<div>{text}</div>").find("table/caption")
    assert caption is not None
    return caption.text or ""


@pytest.fixture(scope="module")
def program() -> onnxexp.ONNXProgram:
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
    return onnxexp.export(model, (torch.randn(2, 4),), dynamic_shapes=({0: "n"},))


def test_text_is_no_markup() -> None:
    text = notebook_table("a < b", ["<i>"], [["x & y"], [3]], "<b>")
    assert cells(text) == [["<i>"], ["x & y"], ["3"]] and title(text) == "a < b" and "<b>" not in text


def test_a_program(program: onnxexp.ONNXProgram) -> None:
    text = program._repr_html_()
    assert title(text) == "ONNXProgram: 2 nodes, opset 20, 60 bytes of weights"
    assert cells(text)[1:] == [["input", "input", "float32[n, 4]"], ["output", "output", "float32[n, 3]"]]


def test_a_verification(program: onnxexp.ONNXProgram) -> None:
    text = program.verify()._repr_html_()
    assert title(text) == "1 of 1 outputs agree with the original"
    assert cells(text)[1][1:4] == ["output", "float32[2, 3]", "agrees"]


def test_a_mismatch_report(program: onnxexp.ONNXProgram) -> None:
    text = program.find_mismatch()._repr_html_()
    assert title(text) == "0 of 2 captured nodes differ; the largest errors:"
    assert {row[1] for row in cells(text)[1:]} <= {"aten::linear", "aten::relu"}
    assert "no node differs" in text


def test_a_check() -> None:
    report = onnxexp.check(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.ReLU(), torch.nn.GELU()), (torch.randn(2),))
    text = report._repr_html_()
    assert title(text) == "3 of 3 nodes can be lowered at opset 20"
    assert cells(text)[1:] == [["aten::relu", "aten", "2"], ["aten::gelu", "aten", "1"]]
