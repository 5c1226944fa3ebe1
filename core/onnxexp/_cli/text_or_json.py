"""Print a command's results as text or, with --json, as one document."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from onnxexp._cli.standard_streams import discard
from onnxexp._errors import OnnxExporterError
from onnxexp._model.printable_text import one_line, printable

if TYPE_CHECKING:
    from rich.text import Text

_REPLACED = {"×": "x", "–": "-", "—": "-", "…": "...", "→": "->", "✓": "ok", "✗": "x"}
_STYLES = {
    "ok": "green", "on": "green", "loaded": "green",
    "broken": "red", "refused": "red", "no": "red", "problem": "red",
    "off": "dim", "warning": "yellow",
}  # fmt: skip
"""The colours of table cells that consist of one of these words."""


def readable(text: str, stream: TextIO) -> str:
    """Replace characters that the encoding lacks or that control a terminal."""
    text = printable(text)
    encoding = stream.encoding or "ascii"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        for original, plain in _REPLACED.items():
            text = text.replace(original, plain)
        return text.encode(encoding, "backslashreplace").decode(encoding)
    return text


def styled(stream: TextIO) -> bool:
    """Return whether the stream is a terminal with colours."""
    return stream.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")


class Output:
    """The results of a command on standard output.

    Args:
        as_json: Print only the JSON document, see `document`.
        stream: The stream to print to.
    """

    def __init__(self, as_json: bool, stream: TextIO | None = None) -> None:
        self.as_json = as_json
        self._stream = sys.stdout if stream is None else stream

    def document(self, value: Any) -> None:
        """Print the result as JSON, if --json is given."""
        if self.as_json:
            self._write(json.dumps(value, indent=2, ensure_ascii=True, default=str))

    def line(self, text: str = "", style: str = "") -> None:
        """Print one or more lines of text, unless --json is given."""
        if self.as_json:
            return
        if style and styled(self._stream):
            self._console().print(readable(text, self._stream), style=style, markup=False, highlight=False, soft_wrap=True)
            return
        self._write(readable(text, self._stream))

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text + "\n")
            self._stream.flush()
        except OSError as error:
            discard(self._stream)
            if isinstance(error, BrokenPipeError):
                raise
            raise OnnxExporterError(
                f"standard output cannot be written: {error.strerror}; "
                "to fix this, send it to a file or a terminal that can be written"
            ) from error

    def pairs(self, values: Mapping[str, str]) -> None:
        """Print lines with a name and a value."""
        width = max(map(len, values), default=0)
        for name, value in values.items():
            self.line(f"{name:<{width}}  {one_line(value)}")

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table without its empty columns."""
        used = [index for index in range(len(columns)) if any(row[index] for row in rows)]
        heads, cells = [columns[index] for index in used], [[one_line(row[index]) for index in used] for row in rows]
        if self.as_json or not rows:
            return
        if styled(self._stream):
            self._rich_table(heads, cells)
            return
        widths = [max(len(line[index]) for line in [heads, *cells]) for index in range(len(heads))]
        for row in [heads, ["-" * width for width in widths], *cells]:
            self.line("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())

    def _rich_table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        from rich.box import ASCII, ROUNDED
        from rich.table import Table
        from rich.text import Text

        table = Table(box=ROUNDED if _utf(self._stream) else ASCII, header_style="bold")
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*(Text(readable(cell, self._stream), style=_STYLES.get(cell, "")) for cell in row))
        self._console().print(table)

    def _console(self) -> Any:
        from rich.console import Console

        return Console(file=self._stream)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Redirect all other output, from C++ too, to standard error if --json is given."""
        if not self.as_json:
            yield
            return
        descriptor = _descriptor(self._stream)
        if descriptor is None:
            with contextlib.redirect_stdout(sys.stderr):
                yield
            return
        self._stream.flush()
        duplicate = os.dup(descriptor)
        document = open(duplicate, "w", encoding="ascii", closefd=True)  # noqa: SIM115 - closed below, after the document
        original, self._stream = self._stream, document
        os.dup2(2, descriptor)
        try:
            yield
        finally:
            original.flush()
            document.flush()
            os.dup2(duplicate, descriptor)
            self._stream = original
            document.close()


def _descriptor(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (io.UnsupportedOperation, AttributeError, ValueError):  # a stream in memory, as in tests and notebooks
        return None


class Progress:
    """The current stage, shown on standard error if that is a terminal."""

    def __init__(self) -> None:
        self._status: Any = None
        self._started = time.perf_counter()
        self._text = ""

    @property
    def shown(self) -> bool:
        """Whether the stage is shown."""
        return self._status is not None

    def __enter__(self) -> Progress:
        if styled(sys.stderr):
            from rich.console import Console
            from rich.status import Status

            self._status = Status(self, console=Console(file=sys.stderr), spinner="dots" if _utf(sys.stderr) else "line")
            self._status.start()
        return self

    def stage(self, text: str) -> None:
        """Show the current stage."""
        self._text = readable(text, sys.stderr)

    def __rich__(self) -> Text:
        """Build the line beside the spinner for one of its frames."""
        from rich.text import Text

        return Text(f"{time.perf_counter() - self._started:.0f} s  {self._text}")

    def __exit__(self, *exc: object) -> None:
        if self._status is not None:
            self._status.stop()


def _utf(stream: TextIO) -> bool:
    return "utf" in (stream.encoding or "").lower()
