"""Names of folders and axes are text in the model card, and begin nothing else."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token
from transformers import BertConfig

import onnxexp_transformers
from onnxexp._model.printable_text import one_line
from onnxexp_transformers.export_model import ExportedModel
from onnxexp_transformers.folder import model_card
from tests.transformers.test_export_folder import BERT

HOSTILE = [
    "a\n---\nlicense: evil\n---\n# Injected",
    "a``` `b` ```",
    "`",
    "<script>alert(1)</script><!-- <img src=x onerror=y>",
    "a | b |\n| c | d |",
    "[text](javascript:x) ![](x) **bold** $x$ &lt; \\",
    "\x1b[2J\r\x85\u2028\u202e",
    "ends with \\",
    "",
]


@pytest.fixture(scope="module")
def exported() -> ExportedModel:
    return onnxexp_transformers.export(BertConfig(**BERT), "fill-mask", opset_version=20)


def parsed(card: str) -> list[Token]:
    """Parse the page below the front matter as Markdown with tables."""
    front = "---\nlibrary_name: onnx\npipeline_tag: fill-mask\n---\n"
    assert card.startswith(f"{front}\n# ")
    return MarkdownIt("commonmark").enable("table").parse(card.removeprefix(front))


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("command", [None, "onnxexp export hf:x -o 'a\n```\n# Injected'"], ids=["call", "command"])
def test_any_text_stays_in_its_place(text: str, command: str | None, exported: ExportedModel) -> None:
    before = parsed(model_card("plain", exported, command))
    value = exported.program.model.graph.inputs[0]
    shape, name = value.shape, value.name
    try:
        value.shape, value.name = ir.Shape([text, text]), text or " "
        tokens = parsed(model_card(text, exported, command))
    finally:
        value.shape, value.name = shape, name
    assert [each.type for each in tokens] == [each.type for each in before]
    inline = [child for each in tokens for child in each.children or ()]
    assert {each.type for each in inline} <= {"text", "code_inline", "text_special"}
    codes = [each.content for each in inline if each.type == "code_inline"]
    assert (one_line(text) or " ") in codes and f"int64[{one_line(text)}, {one_line(text)}]" in codes
    heading = tokens[1].children
    assert heading is not None and "".join(each.content for each in heading).strip() == one_line(text).strip()
