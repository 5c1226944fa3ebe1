"""The progress of a sweep: what runs where, what failed, the remaining time."""

from __future__ import annotations

import collections
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

_FAILURES = 8
"""The failures that stay visible."""
_LINES = 20
"""The most lines of running cells."""
_LONGEST = 300
"""The longest short reason."""
_EVERY = 30.0
"""Seconds between two lines about the progress where there is no terminal."""


class SweepProgress:
    """A display on standard error.

    If that is no terminal: a line for each failure, and one about the progress every half minute.

    Args:
        total: The number of cells to run.
        skipped: The number of cells that an earlier run has finished.
    """

    def __init__(self, total: int, skipped: int) -> None:
        self._total, self._skipped = total, skipped
        self._begin = self._reported = time.monotonic()
        self._lock = threading.Lock()
        self._running: dict[str, tuple[str, str, float]] = {}
        self._failures: collections.deque[str] = collections.deque(maxlen=_FAILURES)
        self.counts: collections.Counter[str] = collections.Counter()
        self._console = Console(stderr=True)
        self._live = Live(self, console=self._console, refresh_per_second=4, transient=True) if sys.stderr.isatty() else None

    def __enter__(self) -> SweepProgress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._live is not None:
            self._live.stop()

    def started(self, event: Mapping[str, Any]) -> None:
        """Show a cell that a worker has begun."""
        with self._lock:
            self._running[event["key"]] = (event["name"], event["place"], time.monotonic())

    def ended(self, key: str, name: str, outcome: Mapping[str, Any]) -> None:
        """Count a cell that has ended, and show why it failed."""
        with self._lock:
            self._running.pop(key, None)
            self.counts[outcome["status"]] += 1
            lines = [] if outcome["status"] == "ok" else [f"{outcome['status']}: {name}: {short_reason(outcome)}"]
            self._failures += lines
        if self._live is not None:
            return
        now = time.monotonic()
        if now - self._reported >= _EVERY:
            self._reported = now
            lines.append(", ".join(filter(None, self._figures())))
        sys.stderr.writelines(f"{line}\n" for line in lines)
        sys.stderr.flush()

    @property
    def remaining(self) -> float | None:
        """The seconds that the rest takes at this pace; None before a cell has ended."""
        ended = sum(self.counts.values())
        return None if ended == 0 else (self._total - ended) * (time.monotonic() - self._begin) / ended

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        with self._lock:
            yield Group(
                self._summary(),
                self._table(),
                *(Text(line, style="red", overflow="crop", no_wrap=True) for line in self._failures),
            )

    def _figures(self) -> list[str]:
        """Return the texts of a line: cells by status, the time, an estimate."""
        return [
            f"{sum(self.counts.values())} of {self._total} cells",
            ", ".join(f"{number} {status}" for status, number in sorted(self.counts.items())),
            f"{self._skipped} done before" if self._skipped else "",
            _duration(time.monotonic() - self._begin),
            "" if self.remaining is None else f"{_duration(self.remaining)} left",
        ]

    def _summary(self) -> Table:
        line = Table.grid(padding=(0, 2))
        ended, *others = self._figures()
        bar = ProgressBar(total=max(self._total, 1), completed=sum(self.counts.values()), width=30)
        line.add_row(ended, bar, *others)
        return line

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        now = time.monotonic()
        for name, worker, began in list(self._running.values())[:_LINES]:
            table.add_row(Text(worker, style="dim"), Text(name), _duration(now - began))
        if len(self._running) > _LINES:
            table.add_row("", f"and {len(self._running) - _LINES} more", "")
        return table


def short_reason(outcome: Mapping[str, Any]) -> str:
    """Return the first line of why a cell failed, with its step.

    The next one too where the first ends with a colon; without the middle of a long text.
    """
    first, *others = str(outcome.get("reason") or "no reason").strip().splitlines()
    text = f"{first} {others[0].strip()}" if first.endswith(":") and others else first
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"
    return f"{outcome.get('step') or 'start'}: {text}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
