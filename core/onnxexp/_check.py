"""Check without writing a file which plugin lowers each operator of a model."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

from onnxexp._errors import LoweringError, OptionError
from onnxexp._model.notebook_table import notebook_table
from onnxexp._neutral_graph import Node
from onnxexp._pipeline import export
from onnxexp._request.config import load

_OUTPUT_OPTIONS = ("f", "external_data", "verify", "verbose")


@dataclasses.dataclass(frozen=True)
class CheckReport:
    """The result of a dry run.

    Attributes:
        opset: The target opset.
        lowered: The nodes of the captured graph, each with its origin: a plugin's name, "decomposed" (into operators that are
            lowered), "core" (control flow), or "" if the node cannot be lowered.
        message: The message of the exception that `export` would raise, with all unsupported operators; "" without one.
        error: The exception that `export` would raise; None without one.
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

    def _repr_html_(self) -> str:
        counted = Counter((node.op, origin or "no plugin") for node, origin in self.lowered)
        rows = [(op, origin, count) for (op, origin), count in sorted(counted.items(), key=lambda each: -each[1])]
        title = (
            f"{sum(bool(origin) for _, origin in self.lowered)} of {len(self.lowered)} nodes can be lowered at opset {self.opset}"
        )
        return notebook_table(title, ("operator", "lowered by", "count"), rows, self.message)


def check(model: Any, args: Any = (), **options: Any) -> CheckReport:
    """Run `export` without writing a file.

    Args:
        model, args, options: The arguments of `export`, except `f`, `external_data`, `verify` and `verbose`.

    Raises:
        OptionError, CaptureError, PluginError, PassError: As `export` raises them. A LoweringError is part of the report.
    """
    misplaced = next((name for name in _OUTPUT_OPTIONS if name in options), None)
    if misplaced is not None:
        raise OptionError(f"check writes and runs nothing: {misplaced} is an argument of export only")
    opset = load(opset=options.get("opset_version")).opset
    try:
        program = export(model, args, **options)
    except LoweringError as error:
        return CheckReport(opset, error.lowered, str(error), error)
    return CheckReport(opset, program.lowered, "")
