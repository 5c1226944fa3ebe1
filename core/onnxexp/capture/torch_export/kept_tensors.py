"""Warn of tensors that a model keeps between calls: an ONNX graph keeps none."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxexp.capture.source_lines import code_line
from onnxexp.neutral_graph import Where
from onnxexp.user_warnings import warn

__all__ = ["warn_of_kept_tensors"]

_ASSIGNED = re.compile(r"The tensor attributes? (.*) (?:was|were) assigned during export")  # torch.export restores them


def warn_of_kept_tensors(model: torch.nn.Module, caught: Sequence[warnings.WarningMessage]) -> list[warnings.WarningMessage]:
    """Turn torch's warnings about attributes into one that names their lines.

    Args:
        model: The model after its capture.
        caught: The warnings of the capture, those of torch's `_detect_attribute_assignment` among them.

    Returns the other warnings.
    """
    found = {index: match[1] for index, each in enumerate(caught) if (match := _ASSIGNED.match(str(each.message)))}
    own = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}
    names = {name for text in found.values() for name in text.split(", ") if not _is_of(own, _value(model, name))}
    kept = sorted(f"{name} ({_line(model, name)})" for name in names)
    if kept:
        warn(
            f"the forward keeps tensors between calls: {'; '.join(kept)}; an ONNX graph keeps none: its outputs are right for "
            "the values at the export, and new ones are lost; cure: make them inputs and outputs"
        )
    return [each for index, each in enumerate(caught) if index not in found]


def _owner(model: torch.nn.Module, name: str) -> tuple[torch.nn.Module, str]:
    """Return the module of ``self.block.state[0]``, and its attribute."""
    path, _, attribute = name.partition("[")[0].removeprefix("self.").rpartition(".")
    return model.get_submodule(path), attribute


def _value(model: torch.nn.Module, name: str) -> Any:
    owner, attribute = _owner(model, name)
    return vars(owner).get(attribute)


def _is_of(own: Collection[int], value: Any) -> bool:
    """Whether all tensors of an attribute are parameters.

    Those in `torch.nn.LSTM._flat_weights` are.
    """
    tensors = [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
    return bool(tensors) and all(id(tensor) in own for tensor in tensors)


def _line(model: torch.nn.Module, name: str) -> Where:
    """Return the line that changes ``self.block.state``, first in the forward."""
    module, attribute = _owner(model, name)
    owner = type(module)
    for source in (owner.forward, owner):
        try:
            lines, start = inspect.getsourcelines(source)
        except OSError:  # a class made by exec has no source
            return Where(scope="forward", module=owner.__name__)
        changes = [line for line, text in enumerate(lines) if re.search(rf"\.{attribute}\b.*((?<![=!<>])=(?!=)|\.\w+\()", text)]
        if changes:
            return code_line(inspect.getsourcefile(source) or "", start + changes[-1])
    return Where(file=str(inspect.getsourcefile(owner)))
