"""List the cells of a sweep: every model with every opset, frontend and variant."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onnxexp_sweep.zoo import Model, Zoo

_SOURCES = 64
"""The most files of a checkpoint folder that a cell's key contains by size and time of change."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """One export of a sweep.

    Attributes:
        model: The model.
        opset: The target opset.
        frontend: The argument `capture` of `onnxexp.export`.
        variant: The name of a set of further options; "" if the zoo file has none.
        options: Arguments of `onnxexp.export`, those of the variant and of the model.
        folder: The folder that the cell runs in.
        source: A digest of the model's source, as far as it is known without running it.
        time, memory: The limits, in seconds and bytes; None: no limit of time, the limit of the dask worker's memory.
    """

    model: Model
    opset: int
    frontend: str
    variant: str
    options: Mapping[str, Any]
    folder: str
    source: str
    time: float | None
    memory: int | None

    @property
    def name(self) -> str:
        """The name of the cell, without versions, by which two sweeps are compared."""
        return "/".join([self.model.name, str(self.opset), self.frontend, *([self.variant] if self.variant else [])])

    def key(self, versions: Mapping[str, str]) -> str:
        """Return a hash of the model, the options and the versions.

        The limits are no part of it, so that a change of a limit repeats no cell.
        """
        return _digest([self._definition(), self.source, sorted(versions.items())])

    def job(self, versions: Mapping[str, str]) -> dict[str, Any]:
        """Return the job for a worker, in types of JSON."""
        return {
            **self._definition(),
            "name": self.name,
            "key": self.key(versions),
            "folder": self.folder,
            "time": self.time,
            "memory": self.memory,
            "versions": dict(versions),
        }

    def _definition(self) -> dict[str, Any]:
        model = self.model
        return {
            "model": model.name, "target": model.target, "opset": self.opset, "frontend": self.frontend, "variant": self.variant,
            "options": dict(self.options), "verify": model.verify, "sizes": [dict(each) for each in model.sizes],
            "rtol": model.rtol, "atol": model.atol, "task": model.task, "task_options": dict(model.task_options),
        }  # fmt: skip


def cells_of(
    zoo: Zoo, opsets: Sequence[int], frontends: Sequence[str], *, time: float | None = None, memory: int | None = None
) -> list[Cell]:
    """List the cells, a model's one after the other.

    Args:
        zoo: The models.
        opsets, frontends: Those of the sweep; a model may be restricted to some of them.
        time, memory: The limits of a cell whose model has none.
    """
    cells = []
    for model in zoo.models:
        source = _source(zoo.folder, model.target)
        for opset in dict.fromkeys(opsets):
            for frontend in dict.fromkeys(frontends):
                if (model.opsets and opset not in model.opsets) or (model.frontends and frontend not in model.frontends):
                    continue
                for variant, options in zoo.variants.items():
                    cell = Cell(
                        model,
                        opset,
                        frontend,
                        variant,
                        options={**model.options, **options},
                        folder=str(zoo.folder),
                        source=source,
                        time=model.time or time,
                        memory=model.memory or memory,
                    )
                    cells.append(cell)
    return cells


def _source(folder: Path, target: str) -> str:
    """Return a digest of the file or folder that a target names; "" if there is none.

    A module counts if its file lies below the zoo's folder. A checkpoint's files count by name, size and time of change.
    """
    if target.startswith("hf:"):
        place = folder / target.removeprefix("hf:")
        files = sorted(place.iterdir())[:_SOURCES] if place.is_dir() else [place]
        return _digest([(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files])
    module = target.rpartition(":")[0] or target
    candidates = [folder / module, folder / f"{module.replace('.', '/')}.py", folder / module.replace(".", "/") / "__init__.py"]
    for file in candidates:
        if file.is_file():
            return hashlib.sha256(file.read_bytes()).hexdigest()
    return ""


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:24]
