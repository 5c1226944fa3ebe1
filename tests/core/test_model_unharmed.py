"""An export leaves the model as it was, for its other users too."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
import torch

import onnxexp


def trained() -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))


def export(model: torch.nn.Module, capture: str, training: bool = False) -> None:
    mode = onnxexp.TrainingMode.TRAINING if training else onnxexp.TrainingMode.EVAL
    onnxexp.export(model, (torch.randn(8, 4),), capture=capture, training=mode, plugins=None)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("capture", ["export", "trace"])
def test_backward_after_export(capture: str, training: bool) -> None:
    torch.manual_seed(0)
    model, x = trained(), torch.randn(8, 4)
    model.train(training)
    expected = torch.autograd.grad(model(x).sum(), list(model.parameters()))
    loss = model(x).sum()
    before = {name: (buffer.clone(), buffer._version) for name, buffer in model.named_buffers()}
    export(model, capture, training)
    assert all(torch.equal(buffer, before[name][0]) for name, buffer in model.named_buffers())
    assert {name: buffer._version for name, buffer in model.named_buffers()} == {name: each[1] for name, each in before.items()}
    found = torch.autograd.grad(loss, list(model.parameters()))
    torch.testing.assert_close(found, expected)


class Counting(torch.nn.Module):
    """torch.export assumes a size that depends on values, which a run of the example checks."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x[x > 0] >= self.count


def test_a_checked_program_leaves_the_buffers() -> None:
    model = Counting()
    onnxexp.export(model, (torch.tensor([1.0, -1.0, 2.0, 3.0]),), capture="export")
    assert torch.equal(model.count, torch.zeros(3))


READ_ONLY = """
import sys, tempfile, numpy as np, torch, onnxexp

class Model(torch.nn.Module):
    def __init__(self, table):
        super().__init__()
        self.register_buffer("table", table)

    def forward(self, x):
        return x + self.table

with tempfile.TemporaryDirectory() as folder:
    np.arange(4, dtype=np.float32).tofile(folder + "/table")
    table = torch.from_numpy(np.memmap(folder + "/table", np.float32, "r"))
    program = onnxexp.export(Model(table), (torch.ones(4),), capture=sys.argv[1])
    assert program(torch.ones(4)).tolist() == [1, 2, 3, 4]
"""


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_buffer_in_read_only_memory(capture: str) -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", READ_ONLY, capture], check=True, timeout=300)


def test_training_thread_keeps_its_steps() -> None:
    torch.manual_seed(0)
    norm, stop, steps = torch.nn.BatchNorm1d(4), threading.Event(), 0
    user = torch.nn.BatchNorm1d(4)
    user.running_mean, user.running_var, user.num_batches_tracked = norm.running_mean, norm.running_var, norm.num_batches_tracked

    def train() -> None:
        nonlocal steps
        x = torch.randn(8, 4)
        while not stop.is_set():
            user(x)
            steps += 1

    thread = threading.Thread(target=train)
    thread.start()
    try:
        for _ in range(3):
            export(torch.nn.Sequential(torch.nn.Linear(4, 4), norm).eval(), "export")
    finally:
        stop.set()
        thread.join()
    assert steps > 10
    assert int(norm.num_batches_tracked) >= 0.99 * steps
