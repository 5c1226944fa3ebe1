"""Several writers of one path."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import onnx
import onnxruntime
import torch

import onnxexp
from onnxexp import ONNXProgram

from .fault import Fault, Row

__all__ = ["FAULTS"]

ROUNDS, SAVES = 50, 10


def _programs() -> list[ONNXProgram]:
    """Two models of different structure with the same input, whose outputs are 1 and 2 everywhere."""
    found = []
    for value, layers in ((1.0, 1), (2.0, 2)):
        linears = [torch.nn.Linear(32, 32) for _ in range(layers)]
        for linear in linears:
            torch.nn.init.zeros_(linear.weight)
            torch.nn.init.constant_(linear.bias, value)
        found.append(onnxexp.export(torch.nn.Sequential(*linears), (torch.ones(1, 32),)))
    return found


def _save(program: ONNXProgram, path: Path, saves: int = SAVES) -> None:
    for _ in range(saves):
        program.save(path, external_data=True)


def _check(row: Row, path: Path) -> None:
    layers = {1: 1.0, 2: 2.0}
    try:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        (output,) = session.run(None, {session.get_inputs()[0].name: torch.ones(1, 32).numpy()})
    except Exception as error:  # noqa: BLE001 - any failure to load is the fault
        row.check(False, f"does not load: {error}")
        return
    gemms = sum(node.op_type == "Gemm" for node in onnx.load(path, load_external_data=False).graph.node)
    hidden = [name for name in os.listdir(path.parent) if name.startswith(".onnxexp")]
    row.check(bool((output == layers[gemms]).all()), f"{gemms} layers give {output.ravel()[0]}")
    row.check(not hidden, f"left {hidden}")


def _processes(row: Row, folder: Path) -> None:
    programs, path = _programs(), folder / "model.onnx"
    for _ in range(ROUNDS):
        children = []
        for program in programs:
            child = os.fork()
            if child == 0:
                _save(program, path)
                os._exit(0)
            children.append(child)
        statuses = [os.waitpid(child, 0)[1] for child in children]
        row.check(not any(statuses), f"a writer failed: {statuses}")
        _check(row, path)


def _threads(row: Row, folder: Path) -> None:
    programs, path = _programs(), folder / "model.onnx"
    for _ in range(ROUNDS):
        threads = [threading.Thread(target=_save, args=(programs[index % 2], path, 3)) for index in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        _check(row, path)


FAULTS = (Fault("two processes save a pair to one path", _processes), Fault("eight threads save a pair to one path", _threads))
