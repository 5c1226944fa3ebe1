"""Uses of a model while it is exported, or before and after."""

from __future__ import annotations

import copy
import functools
import io
import logging
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import torch

import onnxexp

from .fault import ONNXEXP, TORCH_ONNX, Fault, Row

EXPORTS = {"export": 5, "trace": 40}
"""How often a model is exported for each fault; tracing is fast."""


class _Model(torch.nn.Module):
    """Layers whose state a step of training changes: weights, running statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.attention = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.last = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(8, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(x))).flatten(2).transpose(1, 2)
        return self.last(self.attention(x).mean(1))


def _example(*, training: bool) -> tuple[torch.nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    return _Model().train(training), torch.randn(4, 3, 6, 6)


def _close(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Return whether two tensors differ by rounding at most.

    torch.export switches oneDNN off for the process, which changes the rounding.
    """
    return torch.allclose(found, expected, rtol=1.3e-6, atol=1e-5)


def _export(exporter: str, capture: str, model: torch.nn.Module, x: torch.Tensor) -> None:
    logging.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if exporter == ONNXEXP:
                onnxexp.export(model, (x,), capture=capture)
            elif capture == "export":
                torch.onnx.export(model, (x,), dynamo=True, verbose=False)
            else:
                torch.onnx.export(model, (x,), io.BytesIO(), dynamo=False)
    finally:
        logging.disable(logging.NOTSET)


class _Training:
    """Training of a model, and the same steps of a copy of it that nothing else uses."""

    def __init__(self) -> None:
        self.model, self.x = _example(training=True)
        self._twin = copy.deepcopy(self.model)
        self._both = [(each, torch.optim.SGD(each.parameters(), 1e-3, momentum=0.9)) for each in (self.model, self._twin)]

    def step(self, between: Callable[[], None] = lambda: None) -> str:
        """Train one step, and return what differs from the same step of the copy.

        `between` runs between forward and backward.
        """
        try:
            for model, optimizer in self._both:
                optimizer.zero_grad()
                loss = model(self.x).square().mean()
                if model is self.model:
                    between()
                loss.backward()
                optimizer.step()
            found = self.model.state_dict()
            wrong = [name for name, value in self._twin.state_dict().items() if not _close(found[name], value)]
            return f"wrong after a step: {', '.join(wrong)}" if wrong else ""
        finally:
            (_, own), (_, other) = self._both
            self._twin.load_state_dict(self.model.state_dict())
            other.load_state_dict(copy.deepcopy(own.state_dict()))


def _problem(use: Callable[[], str]) -> str:
    try:
        return use()
    except Exception as error:  # noqa: BLE001 - any failure of the user is the fault
        return f"{type(error).__name__}: {error}"


def _beside_exports(row: Row, exports: int, export: Callable[[], None], use: Callable[[], str]) -> None:
    """Use a model in a thread while it is exported; `use` returns the problem."""
    done = threading.Event()

    def repeat() -> None:
        while not done.is_set():
            problem = _problem(use)
            row.check(not problem, problem)

    user = threading.Thread(target=repeat)
    user.start()
    try:
        for _ in range(exports):
            problem = _problem(lambda: export() or "")  # type: ignore[func-returns-value]  # always ""
            row.check(not problem, f"the export: {problem}")
    finally:
        done.set()
        user.join()


def _train(row: Row, _: Path, capture: str) -> None:
    training = _Training()
    _beside_exports(
        row, EXPORTS[capture], functools.partial(_export, row.exporter, capture, training.model, training.x), training.step
    )


def _compute(row: Row, _: Path, capture: str) -> None:
    model, x = _example(training=False)
    with torch.no_grad():
        expected = model(x)

    def compute() -> str:
        with torch.no_grad():
            found = model(x)
        return "" if _close(found, expected) else f"differs by {(found - expected).abs().max():.1e}"

    _beside_exports(row, EXPORTS[capture], functools.partial(_export, row.exporter, capture, model, x), compute)


def _between(row: Row, _: Path, capture: str) -> None:
    training = _Training()
    export = functools.partial(_export, row.exporter, capture, training.model, training.x)
    for _ in range(EXPORTS[capture]):
        problem = _problem(functools.partial(training.step, export))
        row.check(not problem, problem)


_READ_ONLY = """
import sys
import numpy
import torch
from tests.faults import threads

numpy.ones(8, numpy.float32).tofile(sys.argv[3])
model = torch.nn.BatchNorm1d(8).eval()
model.running_var = torch.from_numpy(numpy.memmap(sys.argv[3], numpy.float32, "r"))
threads._export(sys.argv[1], sys.argv[2], model, torch.randn(4, 8))
"""


def _read_only(row: Row, folder: Path, capture: str) -> None:
    call = [sys.executable, "-W", "ignore", "-c", _READ_ONLY, row.exporter, capture, str(folder / "buffer")]
    done = subprocess.run(call, check=False, capture_output=True, text=True, timeout=600)
    row.check(done.returncode == 0, f"status {done.returncode}: {done.stderr.strip()[-200:]}")


_KINDS = {
    "a step of training in another thread": _train,
    "a computation in another thread": _compute,
    "an export between forward and backward": _between,
    "a buffer in read-only memory": _read_only,
}
_BOTH = (ONNXEXP, TORCH_ONNX)
FAULTS = tuple(
    Fault(f"{name}, {kind}", functools.partial(cause, capture=capture), _BOTH)
    for name, cause in _KINDS.items()
    for capture, kind in (("export", "torch.export"), ("trace", "TorchScript"))
)
