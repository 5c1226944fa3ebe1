"""Independent exports: equal bytes in any thread, order or process."""

from __future__ import annotations

import gc
import hashlib
import io
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from onnxexp import Builder, CaptureError, SymbolicTable, Tensor, UnsupportedOperators
from tests.core.tiny import export

ROOT = Path(__file__).parents[2]


class Block(nn.Module):
    """Shared and tied weights, views, constants, control flow, a dynamic axis."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.tied = nn.Linear(4, 4)
        self.tied.weight = self.linear.weight
        self.register_buffer("shift", torch.arange(4.0))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        x = torch.relu(self.linear(x)) + self.shift
        x = torch.cond(x.sum() > 0, lambda x: self.tied(x), lambda x: x @ self.linear.weight, (x,))
        return {"joined": torch.cat([x, y], 1), "rows": x.shape[0], "again": (x * 2).view(-1, 2)}


def model() -> nn.Module:
    """Build a block with fixed weights, although threads share torch's generator."""
    block = Block().eval()
    with torch.no_grad():
        for number, parameter in enumerate(block.parameters()):
            parameter.copy_(torch.linspace(-1, 1, parameter.numel()).reshape(parameter.shape) * (number + 1))
    return block


def digest(module: nn.Module | None = None) -> str:
    file = io.BytesIO()
    x = torch.ones(2, 4)
    export(module or model(), (x, x), file, dynamic_shapes={"x": {0: "batch"}, "y": {0: "batch"}})
    return hashlib.sha256(file.getvalue()).hexdigest()


def in_threads(function: Any, count: int, rounds: int) -> list[Any]:
    """Collect the results of `rounds` calls in each of `count` threads.

    Raises the first error of a thread.
    """
    results: list[Any] = []
    errors: list[BaseException] = []
    start = threading.Barrier(count)

    def work() -> None:
        try:
            start.wait()
            results.extend(function() for _ in range(rounds))
        except BaseException as error:  # noqa: BLE001 - raised in the main thread
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


@pytest.mark.parametrize(("threads", "rounds"), [(4, 3), pytest.param(8, 25, marks=pytest.mark.full)])
def test_threads_with_models_of_their_own(threads: int, rounds: int) -> None:
    assert set(in_threads(digest, threads, rounds)) == {digest()}


@pytest.mark.parametrize(("threads", "rounds"), [(4, 3), pytest.param(8, 25, marks=pytest.mark.full)])
def test_threads_with_one_model(threads: int, rounds: int) -> None:
    shared = model()
    modes = {module: module.training for module in shared.modules()}
    assert set(in_threads(lambda: digest(shared), threads, rounds)) == {digest()}
    assert {module: module.training for module in shared.modules()} == modes


def test_a_failing_export_in_another_thread_disturbs_nobody() -> None:
    turn = iter(range(1000))

    def work() -> str | None:
        kind = next(turn) % 3
        if kind == 0:
            with pytest.raises(UnsupportedOperators):
                export(lambda x: torch.erfinv(x), (torch.ones(2),))
            return None
        if kind == 1:
            with pytest.raises(CaptureError):
                export(lambda x: x if x.sum() > 0 else -x, (torch.ones(2),), capture="export")
            return None
        return digest()

    assert set(in_threads(work, 6, 4)) - {None} == {digest()}


def test_torch_is_left_as_it_was() -> None:
    before = (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.backends.mha.get_fastpath_enabled())
    in_threads(digest, 4, 1)
    assert (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.backends.mha.get_fastpath_enabled()) == before
    assert not torch.onnx.is_in_onnx_export()


@pytest.mark.parametrize("capture", ["export", "auto"])
def test_a_failed_capture_leaves_no_transform_behind(capture: str) -> None:
    """torch's tracer enters torch.func.grad and fails; eager must not stay inside it."""
    x = torch.ones(2)

    def gradient(x: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(lambda y: (y**2 * 3).sum())(x)

    with pytest.raises(CaptureError):
        export(gradient, (x,), capture=capture)
    assert torch.equal(gradient(x), 6 * x)


def test_the_order_of_exports_makes_no_difference() -> None:
    first = digest()
    export(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), (torch.ones(5, 3),), dynamic_shapes=({0: "rows"},))
    with pytest.raises(UnsupportedOperators):
        export(lambda x: torch.erfinv(x), (torch.ones(2),))
    torch.manual_seed(123)
    torch.export.export(model(), (torch.ones(2, 4), torch.ones(2, 4)))
    assert digest() == first


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run Python in a process of its own, with this repository's packages."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "core")]), "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, env=env, cwd=ROOT, timeout=300, check=False)


@pytest.mark.parametrize("seed", [pytest.param("0", marks=pytest.mark.full), "1"])
def test_another_process_gives_the_same_bytes(seed: str) -> None:
    """The bytes depend neither on the hash seed nor on earlier exports.

    The export writes nothing to the terminal.
    """
    code = (
        "import torch\n"
        "from tests.core.tiny import export\n"
        "from tests.core.test_reentrancy import digest\n"
        f"if {seed}: export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))\n"
        "print(digest())"
    )
    finished = run_python(code, PYTHONHASHSEED=seed)
    assert (finished.returncode, finished.stderr.decode()) == (0, "")
    assert finished.stdout.decode().strip() == digest()


@pytest.mark.full
def test_the_first_run_of_a_branch_leaves_dynamo_as_it_was() -> None:
    """Under a dispatch mode, torch's first `torch.cond` of a process would make all later calls fail."""
    code = (
        "import torch, onnxexp\n"
        "def forward(x): return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x,))\n"
        "onnxexp.export(forward, (torch.ones(2),)).verify()\n"
        "print(forward(torch.ones(2)).tolist(), forward(-torch.ones(2)).tolist())"
    )
    finished = run_python(code)
    assert (finished.returncode, finished.stdout.decode().strip()) == (0, "[2.0, 2.0] [-2.0, -2.0]"), finished.stderr.decode()


@pytest.mark.parametrize("encoding", [pytest.param("cp1252", marks=pytest.mark.full), "ascii"])
def test_a_terminal_that_knows_few_characters(encoding: str) -> None:
    code = (
        "import torch\n"
        "from tests.core.tiny import export\n"
        "def forward(größe): return größe.relu()\n"
        "program = export(forward, (torch.ones(2, 3),), verbose=True, output_names=['naïve→']); repr(program); print(program)\n"
        "try: export(lambda größe: torch.erfinv(größe), (torch.ones(2),))\n"
        "except Exception as error: print(str(error).encode('ascii', 'replace').decode())"
    )
    finished = run_python(code, PYTHONIOENCODING=encoding, PYTHONUTF8="0")
    assert finished.returncode == 0, finished.stderr.decode(errors="replace")
    assert b"Relu" in finished.stdout


@pytest.mark.full
def test_nothing_is_written_to_the_terminal() -> None:
    finished = run_python("from tests.core.test_reentrancy import digest\ndigest()")
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, b"", b"")


def test_torch_notes_no_traces_that_nobody_asked_for() -> None:
    """torch's TORCH_TRACE handler must leave at its first record, or torch is slow."""
    code = (
        "import torch\n"
        "from torch._logging._internal import trace_log\n"
        "from tests.core.tiny import export\n"
        "export(torch.nn.ReLU(), (torch.ones(2, 3),), dynamic_shapes=({0: 'b'},))\n"
        "print(trace_log.handlers)"
    )
    finished = run_python(code)
    assert (finished.returncode, finished.stdout.strip(), finished.stderr) == (0, b"[]", b"")


def test_what_an_export_built_with_is_gone_when_it_is_done() -> None:
    built: list[weakref.ref[Builder]] = []

    def hold(op: Builder, self: Tensor) -> Tensor:
        built.append(weakref.ref(op))
        op.context.plugin_data["last"] = self
        return op.Erf(self)  # type: ignore[no-any-return]

    class Erf(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.erf(super().forward(x))

    table = SymbolicTable("aten")
    table("erf")(hold)
    gc.disable()
    try:
        program = export(Erf(4, 4), (torch.randn(2, 4),), plugins=[table], capture="export")
        assert [ref() for ref in built] == [None]
    finally:
        gc.enable()
    program.verify()
