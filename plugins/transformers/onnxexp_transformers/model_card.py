"""The model card of an exported folder."""

from __future__ import annotations

import re
from collections.abc import Sequence

import onnx_ir as ir
import torch
import transformers

import onnxexp
from onnxexp.commands import one_line
from onnxexp_transformers.exported_parts import ExportedParts

_SPECIAL = re.compile(r"([\\`*_\[\]#<>&|$~])")


def model_card(name: str, exported: ExportedParts, command: str | None) -> str:
    """Return the text of README.md: the graphs, and how they were made."""
    task, loaded = exported.task, exported.loaded
    source = f" from the checkpoint {code(loaded.folder.name)}" if loaded.folder is not None else ""
    made = fenced(command, "sh") if command else fenced(_call(exported), "python")
    parts = [
        f"---\nlibrary_name: onnx\npipeline_tag: {task}\n---\n",
        f"# {plain(name)}\n",
        f"{code(type(loaded.model).__name__)}{source}, exported to ONNX by onnxexp {onnxexp.__version__} for {task}.\n",
        f"{made}\n",
        *(f"## {part}.onnx\n\n{_graph(program.model)}" for part, program in exported.programs.items()),
        f"Made with transformers {transformers.__version__} and torch {torch.__version__}.\n",
    ]
    return "\n".join(parts)


def _call(exported: ExportedParts) -> str:
    given = f", task_options={dict(exported.options)!r}" if exported.options else ""
    return f"onnxexp_transformers.export(model, task={exported.task!r}{given}, output=...)"


def _graph(model: ir.Model) -> str:
    rows = ["| | name | type |\n|---|---|---|\n"]
    rows += _rows("input", model.graph.inputs) + _rows("output", model.graph.outputs)
    return f"Opset {model.opset_imports.get('')}.\n\n{''.join(rows)}"


def _rows(kind: str, values: Sequence[ir.Value]) -> list[str]:
    return [f"| {kind} | {code(value.name or '')} | {code(_type(value))} |\n" for value in values]


def _type(value: ir.Value) -> str:
    sizes = ", ".join(str(size if isinstance(size, int) else size.value) for size in value.shape or ())
    return f"{value.dtype.name.lower() if value.dtype is not None else '?'}[{sizes}]"


def plain(text: str) -> str:
    """Return the text for a heading or a paragraph, without markup."""
    return _SPECIAL.sub(r"\\\1", one_line(text))


def code(text: str) -> str:
    """Return the text as inline code, in a table too."""
    line = one_line(text).replace("|", r"\|") or " "
    fence = "`" * (_longest_run(line) + 1)
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"


def fenced(text: str, language: str) -> str:
    """Return the text as a block of code."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
