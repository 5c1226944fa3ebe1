"""The warnings and errors of one export, and their file in SARIF 2.1.0.

SARIF is the JSON format in which editors and code review tools show results of analyses.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from onnxexp import OnnxExporterError, OptionError, UnsupportedOperators, __version__
from onnxexp.commands import OutputFile

__all__ = ["Diagnostic", "DiagnosticContext"]

_PLACE = re.compile(r'File "([^"]+)", line (\d+)')
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


@dataclasses.dataclass(frozen=True)
class Diagnostic:
    """One warning or error.

    Attributes:
        rule: The name of its class.
        level: SARIF's level.
        message: The text.
        file, line: The user's line, None if it is unknown.
    """

    rule: str
    level: Literal["warning", "error"]
    message: str
    file: str | None = None
    line: int | None = None

    def sarif(self) -> dict[str, Any]:
        """Convert the diagnostic to a result of SARIF."""
        made: dict[str, Any] = {"ruleId": self.rule, "level": self.level, "message": {"text": self.message}}
        if self.file is not None:
            uri = Path(self.file).as_uri() if os.path.isabs(self.file) else self.file
            place = {"artifactLocation": {"uri": uri}, "region": {"startLine": self.line}}
            made["locations"] = [{"physicalLocation": place}]
        return made


@dataclasses.dataclass
class DiagnosticContext:
    """The diagnostics of one export, in order."""

    diagnostics: list[Diagnostic] = dataclasses.field(default_factory=list)

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record the warnings and the error raised inside the `with`.

        Both reach the caller, too.
        """
        caught: list[warnings.WarningMessage] = []
        try:
            with warnings.catch_warnings(record=True) as caught:
                yield
        except OnnxExporterError as error:
            self._add_warnings(caught)
            self.diagnostics += _of_error(error)
            raise
        else:
            self._add_warnings(caught)
        finally:
            for each in caught:
                warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)

    def _add_warnings(self, caught: list[warnings.WarningMessage]) -> None:
        for each in caught:
            file, line = _place(str(each.message)) or (each.filename, each.lineno)
            self.diagnostics.append(Diagnostic(each.category.__name__, "warning", str(each.message), file, line))

    def sarif(self) -> dict[str, Any]:
        """Build the log as SARIF's JSON."""
        rules = [{"id": rule} for rule in dict.fromkeys(each.rule for each in self.diagnostics)]
        failed = any(each.level == "error" for each in self.diagnostics)
        run = {
            "tool": {"driver": {"name": "onnxexp", "version": __version__, "rules": rules}},
            "invocations": [{"executionSuccessful": not failed}],
            "results": [each.sarif() for each in self.diagnostics],
        }
        return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}

    def dump(self, file_path: str | os.PathLike[str]) -> None:
        """Write the log.

        Raises OptionError for a path that does not end in ``.sarif``, and SerializeError if the file cannot be written.
        """
        path = Path(file_path)
        if path.suffix != ".sarif":
            raise OptionError(f"a SARIF log cannot be written to {path}; choose a name that ends in .sarif")
        OutputFile(path).write(json.dumps(self.sarif(), indent=2) + "\n")


def _of_error(error: OnnxExporterError) -> list[Diagnostic]:
    """Convert an error to diagnostics, one for each operator that is not supported."""
    rule, text = type(error).__name__, str(error)
    if not isinstance(error, UnsupportedOperators):
        return [Diagnostic(rule, "error", text, *(_place(text) or ()))]
    found = []
    for operator, count in error.counts.items():
        _, _, rest = text.partition(f"{operator} (")
        found.append(Diagnostic(rule, "error", f"{operator} ({count}x) cannot be lowered", *(_place(rest) or ())))
    return found


def _place(text: str) -> tuple[str, int] | None:
    match = _PLACE.search(text)
    return None if match is None else (match[1], int(match[2]))
