"""`check`: an export that writes nothing and reports the lowering of each operator."""

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
    """The result of `check`.

    Attributes:
        opset: The target opset.
        lowered: Each node of the captured graph with its lowering: a plugin's name, "decomposed" (by torch, into operators that
            are lowered), "core" (control flow), or "" for none.
        message: The message of the error that `export` would raise, with every operator that cannot be lowered; "" for none.
        error: The error that `export` would raise, or None.
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
    """Run `export` without writing, with its arguments except those about writing and verifying.

    Raises OptionError, CaptureError, PluginError and PassError as `export` does. Operators that cannot be lowered are in the
    report instead.
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
