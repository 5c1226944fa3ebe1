"""The examples of torch.onnx's documentation, from `documented_examples.txt`."""

from __future__ import annotations

import runpy
import sys
import types
from pathlib import Path
from typing import Any

import onnx
import onnxruntime.backend
import pytest
import torch

import onnxexp_torch_onnx
from tests.docs.blocks import Block, blocks
from tests.torch_onnx.test_documentation import AlexNet

PAGE = Path(__file__).with_name("documented_examples.txt")
TODAY = {
    "torch.onnx": "onnxexp_torch_onnx",
    ".cuda()": "",
    "device='cuda'": "device='cpu'",
    'device="cuda"': 'device="cpu"',
    "CUDA:0": "CPU",
    "import onnx_caffe2.backend": "import tests.torch_onnx.test_documented_texts",
    "import caffe2.python.onnx.backend": "import tests.torch_onnx.test_documented_texts",
    "FooModule": "FooModel",
}
"""What a reader changes in the quotations; the last one is a slip."""


def prepare(model: onnx.ModelProto, device: str = "CPU") -> Any:
    """Prepare a model as Caffe2's backend did, whose `run` took a tuple."""
    prepared = onnxruntime.backend.prepare(model, device)
    return types.SimpleNamespace(run=lambda inputs: prepared.run(list(inputs) if isinstance(inputs, tuple) else inputs))


def sections() -> dict[str, list[Block]]:
    """Read the blocks of each section of the page, by its heading."""
    texts = [section.partition("\n") for section in PAGE.read_text("utf-8").split("\n## ")[1:]]
    return {heading: blocks(text) for heading, _, text in texts}


def as_today(block: Block) -> str:
    text = block.text
    for then, now in () if block.title else TODAY.items():
        text = text.replace(then, now)
    return text


@pytest.mark.parametrize(("heading", "found"), sections().items(), ids=sections())
@pytest.mark.filterwarnings("ignore")
def test_a_documented_example(heading: str, found: list[Block], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quoted = [block.text for block in found if not block.title]
    assert quoted and found[-1].title == "check", heading
    models = types.SimpleNamespace(alexnet=lambda pretrained: AlexNet())
    monkeypatch.setitem(sys.modules, "torchvision", types.SimpleNamespace(models=models))  # type: ignore[misc]
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "example.py"
    script.write_text("\n".join(map(as_today, found)), "utf-8")
    runpy.run_path(str(script), {"torch": torch, "onnxexp_torch_onnx": onnxexp_torch_onnx, "documented": quoted})
