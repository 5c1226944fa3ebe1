"""Read a checkpoint's files by threads and by processes: `python -m benchmarks.shard_reading`.

As an export reads them: a file is mapped, and the pages of one weight after the other are mapped in one call, and unmapped. It
prints GB (10^9 bytes) in a second, from the disk and from the system's cache.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

import onnxexp
from onnxexp.serialize.mapped_files import MappedFiles

from .large_models import write_checkpoint

_WEIGHT = 64 << 20
"""Elements of a weight, in float16."""
_BLOCK = 8 << 20
_POOLS: dict[str, Callable[[int], Executor]] = {"threads": ThreadPoolExecutor, "processes": ProcessPoolExecutor}


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shard_reading", description=__doc__)
    parser.add_argument("--gigabytes", type=int, default=8, help="the checkpoint, in files of 2 GB (default: %(default)s)")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4], help="threads and processes (default: 1 2 4)")
    parser.add_argument("--repeats", type=int, default=3, help="the figure is the median of so many (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=Path(), help="a folder on the disk to measure (default: the current one)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        count = options.gigabytes * 10**9 // (2 * _WEIGHT)
        state = {f"weight{number}": torch.empty(_WEIGHT, dtype=torch.float16, device="meta") for number in range(count)}
        write_checkpoint(state, Path(name))
        os.sync()
        files = sorted(Path(name).glob("*.safetensors"))
        print(json.dumps(measure(files, options.workers, options.repeats), indent=2))


def measure(files: Sequence[Path], workers: Sequence[int], repeats: int) -> dict[str, Any]:
    """Return GB in a second by the kind of reading and the number of workers."""
    figures: dict[str, Any] = {"files": len(files), "gigabytes": sum(file.stat().st_size for file in files) / 1e9}
    for source in ("disk", "cache"):
        for kind, pool in _POOLS.items():
            figures[f"{kind}, from the {source}"] = {
                count: _speed(files, pool, count, repeats, cold=source == "disk") for count in workers
            }
    return figures


def _speed(files: Sequence[Path], pool: Callable[[int], Executor], count: int, repeats: int, *, cold: bool) -> float:
    speeds = []
    with pool(count) as executor:
        list(executor.map(_ready, range(4 * count)))  # processes start, and import torch
        for _ in range(repeats):
            for file in files:
                _forget(file) if cold else _cache(file)
            start = time.perf_counter()
            total = sum(executor.map(_read, files))
            speeds.append(total / (time.perf_counter() - start) / 1e9)
    print(f"{pool.__name__}, {count}: {speeds}", file=sys.stderr)
    return round(statistics.median(speeds), 2)


def _ready(number: int) -> None:
    time.sleep(0.1)


def _read(file: Path) -> int:
    """Map and unmap each weight of a file, as `onnxexp.serialize` does."""
    weights = onnxexp.read_checkpoint(str(file))
    mapped = MappedFiles()
    for name, weight in weights.items():
        mapped.map_pages(weight, name)()
    return sum(weight.nbytes for weight in weights.values())


def _forget(file: Path) -> None:
    with file.open("rb") as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _cache(file: Path) -> None:
    with file.open("rb") as opened:
        while opened.read(_BLOCK):
            pass


if __name__ == "__main__":
    main()
