"""Export an architecture by onnxexp or by torch.onnx, and compare with eager."""

from __future__ import annotations

import copy
import dataclasses
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnxruntime
import torch
from torch.utils import _pytree as pytree

import onnxexp
from onnxexp._checking.comparison import compare
from onnxexp_transformers.tasks import Part, task_of

from .architecture import Architecture

OPSET = 20


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of an exporter on an architecture.

    Attributes:
        row: The architecture's id.
        exporter: A name of `EXPORTERS`.
        status: "pass", "fixed" (right at the example's sizes only), "wrong", "error" or "time".
        message: The reason of another status than "pass", in one line.
        frontend: "export", "trace", or both.
        seconds: The time of all exports.
    """

    row: str
    exporter: str
    status: str
    message: str = ""
    frontend: str = ""
    seconds: float = 0.0


Runner = Callable[[Mapping[str, Any]], Sequence[torch.Tensor]]
"""Runs a file on the inputs of a part; returns its outputs."""


def run(row: Architecture, exporter: str) -> Result:
    """Export all parts, and compare them on the example and at the row's sizes."""
    model = row.model()
    find = task_of(row.task).parts
    try:
        start = time.perf_counter()
        with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
            warnings.simplefilter("ignore")
            runners, frontend = EXPORTERS[exporter](row, model, Path(folder))
            seconds = time.perf_counter() - start
            for sizes in ({}, *row.sizes):
                problem = _difference(find(model, **{**row.example, **sizes}), runners)
                if problem:
                    return Result(row.id, exporter, "fixed" if sizes else "wrong", problem, frontend, seconds)
    except Exception as error:  # noqa: BLE001 - every error of an exporter is a result
        return Result(row.id, exporter, "error", f"{type(error).__name__}: {_reason(error)}")
    return Result(row.id, exporter, "pass", "", frontend, seconds)


def _difference(parts: Sequence[Part], runners: Mapping[str, Runner]) -> str:
    """Return the first difference from eager, or ""."""
    for part in parts:
        with torch.no_grad():
            expected = pytree.tree_leaves(part.module(**copy.deepcopy(dict(part.inputs))))  # caches are written in place
        try:
            actual = runners[part.name](part.inputs)
        except Exception as error:  # noqa: BLE001 - ONNX Runtime's errors have no common base
            return f"{part.name}: {_reason(error)}"
        report = compare(expected, list(actual), [str(index) for index in range(len(actual))])
        if not report.ok:
            return f"{part.name}: {next(output for output in report.outputs if output.problem).problem}"
    return ""


def _reason(error: BaseException) -> str:
    """Return the line of an error that names its cause."""
    while error.__cause__ is not None and not isinstance(error, onnxexp.OnnxExporterError):
        error = error.__cause__
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    return (lines[1] if len(lines) > 1 and lines[0].endswith(":") else lines[0] if lines else "")[:300]


def _onnxexp(row: Architecture, model: Any, folder: Path) -> tuple[Mapping[str, Runner], str]:
    exported = row.export(model, opset_version=OPSET)
    used = [program.model.metadata_props["onnxexp.plugins"] for program in exported.programs.values()]
    traced = {"trace" if "torchscript" in each else "export" for each in used}
    return {name: _program_runner(program) for name, program in exported.programs.items()}, " and ".join(sorted(traced))


def _program_runner(program: onnxexp.ONNXProgram) -> Runner:
    return lambda inputs: [leaf for leaf in pytree.tree_leaves(program(**inputs)) if isinstance(leaf, torch.Tensor)]


def _dynamo(row: Architecture, model: Any, folder: Path) -> tuple[Mapping[str, Runner], str]:
    """Export the same parts by torch.onnx, with the same dynamic axes.

    torch.onnx may choose the relations of the axes.
    """
    runners = {}
    for part in task_of(row.task).parts(model, **row.example):
        file, inputs = folder / f"{part.name}.onnx", dict(part.inputs)
        torch.onnx.export(
            part.module,
            (),
            file,
            kwargs=inputs,
            dynamo=True,
            opset_version=OPSET,
            verbose=False,
            dynamic_shapes=free_axes(part),
        )
        runners[part.name] = _file_runner(file)
    return runners, "export"


def free_axes(part: Part) -> Any:
    """Return torch.export's form of the axes: each of them is free."""
    shapes = torch.export.ShapesCollection()
    for path, leaf in pytree.tree_leaves_with_path(dict(part.inputs)):
        root, *rest = [key.key for key in path if isinstance(key, pytree.MappingKey)]
        axes = part.dynamic_shapes.get(".".join([root, *map(str, rest)]), {})
        shapes[leaf] = dict.fromkeys(axes, torch.export.Dim.DYNAMIC)
    return shapes.dynamic_shapes(part.module, (), dict(part.inputs))


def _file_runner(file: Path) -> Runner:
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]

    def run(inputs: Mapping[str, Any]) -> Sequence[torch.Tensor]:
        leaves = pytree.tree_leaves(dict(inputs))
        if len(leaves) != len(names):
            raise ValueError(f"the file takes {len(names)} inputs, the model {len(leaves)}")
        results = session.run(None, {name: leaf.numpy() for name, leaf in zip(names, leaves, strict=True)})
        return [torch.from_numpy(result) for result in results]

    return run


EXPORTERS: Mapping[str, Callable[[Architecture, Any, Path], tuple[Mapping[str, Runner], str]]] = {
    "onnxexp": _onnxexp,
    "dynamo": _dynamo,
}
