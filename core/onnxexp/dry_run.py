"""`check`: who would lower each operator of a model, and what stands in the way, without writing anything."""

from __future__ import annotations

import dataclasses
from typing import Any

from onnxexp.errors import LoweringError, OptionError
from onnxexp.graph import Node
from onnxexp.pipeline import export
from onnxexp.request.config import load

__all__ = ["CheckReport", "check"]

_WRITING = ("f", "external_data", "verify", "verbose")


@dataclasses.dataclass(frozen=True)
class CheckReport:
    """What a dry run found.

    Attributes:
        opset: The target opset.
        lowered: Each node of the captured graph with who lowers it: a plugin's name, "decomposed" (by torch, into operators that
            are lowered), "core" (control flow); "" where nobody does.
        message: What `export` would raise with, every operator that stands in the way in it; "" where nothing does.
        error: The exception that it would raise; None where nothing stands in the way.
    """

    opset: int
    lowered: list[tuple[Node, str]]
    message: str
    error: LoweringError | None = dataclasses.field(default=None, repr=False)

    @property
    def ok(self) -> bool:
        return self.error is None

    def __str__(self) -> str:
        return self.message or f"all {len(self.lowered)} nodes can be lowered at opset {self.opset}"


def check(model: Any, args: Any = (), **options: Any) -> CheckReport:
    """A dry run of `export`, with its arguments but for those about writing and verifying.

    Raises what `export` raises for other reasons than operators: OptionError, CaptureError, PluginError, PassError.
    """
    misplaced = next((name for name in _WRITING if name in options), None)
    if misplaced is not None:
        raise OptionError(f"check writes and runs nothing: {misplaced} is an argument of export only")
    opset = load(opset=options.get("opset_version")).opset
    try:
        program = export(model, args, **options)
    except LoweringError as error:
        return CheckReport(opset, error.lowered, str(error), error)
    return CheckReport(opset, program.lowered, "")
