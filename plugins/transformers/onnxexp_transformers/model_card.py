"""The model card of an exported folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch
import transformers

import onnxexp
from onnxexp_transformers.loading import Loaded

__all__ = ["model_card"]


def model_card(
    name: str,
    programs: Mapping[str, onnxexp.ONNXProgram],
    task: str,
    options: Mapping[str, Any],
    loaded: Loaded,
    command: str | None,
) -> str:
    """Return the text of README.md: the graphs, and how they were made."""
    model = loaded.model
    source = f" from the checkpoint `{loaded.folder.name}`" if loaded.folder is not None else ""
    made = command or _call(task, options)
    parts = [
        f"---\nlibrary_name: onnx\npipeline_tag: {task}\n---\n",
        f"# {name}\n",
        f"`{type(model).__name__}`{source}, exported to ONNX by onnxexp {onnxexp.__version__} for {task}.\n",
        f"```{'sh' if command else 'python'}\n{made}\n```\n",
        *(f"## {part}.onnx\n\n{_graph(program.model)}" for part, program in programs.items()),
        f"Made with transformers {transformers.__version__} and torch {torch.__version__}.\n",
    ]
    return "\n".join(parts)


def _call(task: str, options: Mapping[str, Any]) -> str:
    given = f", task_options={dict(options)!r}" if options else ""
    return f"onnxexp_transformers.export(model, task={task!r}{given}, output=...)"


def _graph(model: ir.Model) -> str:
    rows = ["| | name | type |\n|---|---|---|\n"]
    rows += _rows("input", model.graph.inputs) + _rows("output", model.graph.outputs)
    return f"Opset {model.opset_imports.get('')}.\n\n{''.join(rows)}"


def _rows(kind: str, values: Sequence[ir.Value]) -> list[str]:
    return [f"| {kind} | `{value.name}` | {_type(value)} |\n" for value in values]


def _type(value: ir.Value) -> str:
    sizes = ", ".join(str(size if isinstance(size, int) else size.value) for size in value.shape or ())
    return f"{value.dtype.name.lower() if value.dtype is not None else '?'}[{sizes}]"
