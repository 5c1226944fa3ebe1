"""Warn of tensors that a model keeps between calls: an ONNX graph keeps none."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Sequence

import torch

from onnxexp.capture.source_lines import code_line
from onnxexp.neutral_graph import Where
from onnxexp.user_warnings import warn

__all__ = ["warn_of_kept_tensors"]

_ASSIGNED = re.compile(r"The tensor attributes? (.*) (?:was|were) assigned during export")  # torch.export restores them


def warn_of_kept_tensors(model: torch.nn.Module, caught: Sequence[warnings.WarningMessage]) -> None:
    """Turn torch.export's warnings about attributes into one that names their lines."""
    texts = [found[1] for each in caught if (found := _ASSIGNED.match(str(each.message)))]
    kept = sorted({f"{name} ({_line(model, name)})" for text in texts for name in text.split(", ")})
    if kept:
        warn(
            f"the forward keeps tensors between calls: {'; '.join(kept)}; an ONNX graph keeps none: its outputs are right for "
            "the values at the export, and new ones are lost; cure: make them inputs and outputs"
        )


def _line(model: torch.nn.Module, name: str) -> Where:
    """Return the line that changes ``self.block.state``, first in the forward."""
    path, _, attribute = name.partition("[")[0].removeprefix("self.").rpartition(".")
    owner = type(model.get_submodule(path))
    for source in (owner.forward, owner):
        lines, start = inspect.getsourcelines(source)
        changes = [line for line, text in enumerate(lines) if re.search(rf"\.{attribute}\b.*((?<![=!<>])=(?!=)|\.\w+\()", text)]
        if changes:
            return code_line(inspect.getsourcefile(source) or "", start + changes[-1])
    return Where(file=str(inspect.getsourcefile(owner)))
