"""Names from files end no line of a text, and control no terminal."""

from __future__ import annotations

import io
from pathlib import Path

import onnx_ir as ir
import pytest
import torch

from onnxexp._cli.text_or_json import Output, readable
from onnxexp._model.printable_text import one_line, printable
from onnxexp._serialize import save
from tests.core.commanding import run
from tests.core.tensor_models import model_of

HOSTILE = "\x1b[2Ja\nverified: all\r\x9b1m\u202e\u2028\ttail"
SHOWN = r"\x1b[2Ja\nverified: all\r\x9b1m\u202e\u2028\ttail"
Capsys = pytest.CaptureFixture[str]


def test_what_is_escaped() -> None:
    assert one_line(HOSTILE) == SHOWN
    assert printable("a\n\tb\x1b\0\x7f\ud800") == "a\n\tb\\x1b\\x00\\x7f\\ud800"
    assert one_line("Überprüft: 模型 × – 🙂") == printable("Überprüft: 模型 × – 🙂") == "Überprüft: 模型 × – 🙂"


def test_no_control_reaches_a_terminal() -> None:
    stream = io.StringIO()
    output = Output(False, stream)
    output.line(HOSTILE)
    output.pairs({"name": HOSTILE})
    output.table(["name", "state"], [[HOSTILE, "ok"]])
    lines = stream.getvalue().split("\n")
    assert len(lines) == 7 and all(line.replace("\t", "").isprintable() for line in lines)
    assert lines[2] == f"name  {SHOWN}" and lines[5] == f"{SHOWN}  ok"
    assert readable("\x1b]0;title\x07", io.StringIO()) == r"\x1b]0;title\x07"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Provide a model with the hostile text as each of its names."""
    model = model_of(weight=torch.ones(2, 3))
    (node,) = model.graph
    (value,) = node.outputs
    value.name, value.shape, node.name = f"%{HOSTILE}", ir.Shape([HOSTILE, 3]), HOSTILE
    node.metadata_props.update(dict.fromkeys(("onnxexp.scope", "onnxexp.source", "onnxexp.op", "onnxexp.symbolic"), HOSTILE))
    model.metadata_props[HOSTILE] = HOSTILE
    model.graph.name = HOSTILE
    save(model, tmp_path / "hostile.onnx")
    return tmp_path / "hostile.onnx"


def test_commands_print_such_names_in_their_lines(file: Path, tmp_path: Path, capsys: Capsys) -> None:
    save(model_of(weight=torch.ones(2, 3)), tmp_path / "other.onnx")
    for arguments, count in (
        (["explain", file], 3),
        (["explain", file, HOSTILE], 7),
        (["diff", file, tmp_path / "other.onnx"], 6),
    ):
        ran = run(capsys, *map(str, arguments))
        lines = ran.out.rstrip("\n").split("\n")
        assert SHOWN in ran.out and len(lines) == count and all(map(str.isprintable, lines)), ran.out


def test_a_printed_model_has_one_line_for_each_node(file: Path) -> None:
    from onnxexp._model.model_text import render

    assert all(map(str.isprintable, render(ir.load(file)).split("\n")))
    assert len(render(ir.load(file)).split("\n")) == 9
