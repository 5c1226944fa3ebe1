"""Each case exports alike in a fresh process and after many exports (full tier)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .__main__ import modules_with_cases

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("aten", "core", "quantized")


@pytest.mark.full
@pytest.mark.parametrize(
    "module",
    [path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in modules_with_cases(ROOT / "tests" / folder)],
)
def test_same_as_in_a_used_process(module: str) -> None:
    command = [sys.executable, "-m", "tests.fresh", module]
    found = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=1800)
    result = json.loads(found.stdout or f'"{found.stderr[-2000:]}"')
    assert result["files"], result
    assert not result["differing"], json.dumps(result["differing"], indent=1)


PACKED = """
import sys
import torch, onnxexp

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = torch.nn.LSTM(5, 3, batch_first=True)

    def forward(self, x, lengths):
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, True)
        return torch.nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], True)[0]

example = torch.randn(4, 6, 5), torch.tensor([6, 4, 3, 1])
onnxexp.export(Model().eval(), example, capture="trace").verify()
"""


def test_packed_sequence_by_a_trace_alone() -> None:
    subprocess.run([sys.executable, "-c", PACKED], cwd=ROOT, check=True, timeout=300)
