"""Read a checkpoint's files by threads and by processes.

The command is `python -m benchmarks.shard_reading`. It reads in the two ways of an export: past the system's cache, a weight at
a time; or mapped, the pages of a weight in one call. It prints GB (10^9 bytes) in a second, as medians.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import mmap
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from .large_models import write_checkpoint

_WEIGHT = 128 << 20
"""Bytes of a weight."""
_UNMAP, _MAP = 4, 22
"""MADV_DONTNEED and MADV_POPULATE_READ, see madvise(2)."""
_POOLS: dict[str, Callable[[int], Executor]] = {"threads": ThreadPoolExecutor, "processes": ProcessPoolExecutor}


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shard_reading", description=__doc__)
    parser.add_argument("--gigabytes", type=int, default=4, help="the checkpoint, in files of 1 GB (default: %(default)s)")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4], help="threads and processes (default: 1 2 4)")
    parser.add_argument("--repeats", type=int, default=3, help="reads of the whole checkpoint (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=Path(), help="a folder on the disk to measure (default: the current one)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        count = options.gigabytes * 10**9 // _WEIGHT
        weight = torch.empty(_WEIGHT // 2, dtype=torch.float16, device="meta")
        for number in range(max(count // 8, 1)):
            folder = Path(name, str(number))
            folder.mkdir()
            write_checkpoint({f"weight{each}": weight for each in range(8)}, folder)
        os.sync()
        files = sorted(Path(name).glob("*/*.safetensors"))
        print(json.dumps(measure(files, options.workers, options.repeats), indent=2))


def measure(files: Sequence[Path], workers: Sequence[int], repeats: int) -> dict[str, dict[str, float]]:
    """Measure GB in a second for each way, by kind and number of workers.

    The ways are measured in turn, so that a cache below this system favours none.
    """
    speeds: dict[str, dict[str, list[float]]] = {}
    for _ in range(repeats):
        for way, read in (("past the cache", past_cache), ("mapped", mapped)):
            for kind, pool in _POOLS.items():
                for count in workers:
                    found = speeds.setdefault(way, {}).setdefault(f"{count} {kind}", [])
                    found.append(_speed(files, pool, count, read))
    return {way: {name: round(statistics.median(each), 2) for name, each in found.items()} for way, found in speeds.items()}


def _speed(files: Sequence[Path], pool: Callable[[int], Executor], count: int, read: Callable[[Path], int]) -> float:
    with pool(count) as executor:
        list(executor.map(time.sleep, [0.1] * 4 * count))  # processes start
        for file in files:
            _forget(file)
        start = time.perf_counter()
        total = sum(executor.map(read, files))
        return total / (time.perf_counter() - start) / 1e9


def past_cache(file: Path) -> int:
    """Read a file past the system's cache, and count its bytes."""
    descriptor = os.open(file, os.O_RDONLY | os.O_DIRECT)
    total = 0
    with mmap.mmap(-1, _WEIGHT) as memory:  # begins with a page, as O_DIRECT needs it
        while got := os.preadv(descriptor, [memory], total):
            total += got
    os.close(descriptor)
    return total


def mapped(file: Path) -> int:
    """Map the pages of a file and unmap them, and count its bytes."""
    memory = np.memmap(file, np.uint8, "r")
    madvise = ctypes.CDLL(None).madvise
    for start in range(0, len(memory), _WEIGHT):
        place = ctypes.c_void_p(memory.ctypes.data + start), ctypes.c_size_t(min(_WEIGHT, len(memory) - start))
        if madvise(*place, _MAP) or madvise(*place, _UNMAP):
            raise OSError(f"{file} cannot be mapped in one call: that needs Linux 5.14")
    return len(memory)


def _forget(file: Path) -> None:
    with file.open("rb") as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


if __name__ == "__main__":
    main()
