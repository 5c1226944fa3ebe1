"""Warn of `dynamic_axes` that a model cannot have, as torch.onnx does."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from onnxexp import CaptureError, ONNXProgram, OptionError, warn
from onnxexp_torch_onnx.errors import OnnxExporterWarning

_FIXED = re.compile(
    r"axis (\d+) of input (\S+)(?: \([^)]*\))? was asked to be dynamic, but the model fixes it to (?:\d+|the size of)"
)
"""The reason in a CaptureError of the core or of the TorchScript frontend."""
_UNKNOWN = re.compile(r"dynamic_axes\['(.*)'\]: the model has no input or output of that name")
_NO_AXIS = re.compile(r"dynamic_axes\['(.*)'\]: there is no axis (-?\d+); the output's shape is")
"""Reasons in an OptionError of the core."""


def export_without_fixed_axes(run: Callable[[Any], ONNXProgram], axes: Any) -> ONNXProgram:
    """Export with `dynamic_axes`, except for those that the model cannot have.

    The model cannot have names of inputs that it lacks, axes that an input lacks, and axes that it fixes. Each of them causes a
    warning with the reason. Raises what `run` raises for any other reason.
    """
    reasons: list[str] = []
    while True:
        try:
            program = run(axes)
            break
        except CaptureError as error:
            found = {(name, int(axis)) for axis, name in _FIXED.findall(str(error))}
            remaining = _without(axes, found)
            if remaining == axes:
                raise
            named = ", ".join(f"axis {axis} of {name}" for name, axis in sorted(found))
            reasons.append(f"dynamic_axes: the model fixes {named}, so the file has a static size there: {error}")
            axes = remaining
        except OptionError as error:
            if unknown := _UNKNOWN.match(str(error)):
                axes = {key: given for key, given in axes.items() if key != unknown[1]}
            elif absent := _NO_AXIS.match(str(error)):
                axes = _without(axes, {(absent[1], int(absent[2]))})
            else:
                raise
            reasons.append(f"{error} The entry has no effect.")
    for reason in reasons:
        warn(reason, OnnxExporterWarning)
    return program


def _without(axes: Any, found: set[tuple[str, int]]) -> Any:
    """Copy `dynamic_axes` without these axes.

    Axes that are counted from the end are kept.
    """
    if not isinstance(axes, Mapping):
        return axes
    return {
        key: {axis: name for axis, name in given.items() if (key, axis) not in found}
        if isinstance(given, Mapping)
        else [axis for axis in given if (key, axis) not in found]
        for key, given in axes.items()
    }
