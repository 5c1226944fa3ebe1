"""The files of a checkpoint folder that may be read and copied into an export.

Anyone may have made the folder: a link in it may lead to a private file, and a name to a device or a pipe.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import onnxexp
from onnxexp import OptionError
from onnxexp.commands import OutputFolder, read_json

_READ = (".json", ".safetensors", ".bin", ".py")
"""The suffixes of what transformers reads: configurations, weights, and trusted code."""
_COPIED = (".json", ".txt", ".model", ".jinja", ".tiktoken")
"""The suffixes of the files of tokenizers and processors."""
_WRITTEN = ("config.json", "generation_config.json", "genai_config.json", OutputFolder.MANIFEST)
"""The files of a checkpoint that an export writes itself."""
_LARGEST = 1 << 28
"""Bytes of a file to copy: those of tokenizers have some 40 MB, and a sparse one of a terabyte fills the disk."""


def check_files(folder: Path) -> None:
    """Raise OptionError for an irregular file that a load would read.

    A read of a pipe or a device may never end. The weights that an index lists must be in the folder.
    """
    for file in sorted(folder.iterdir()):
        if file.suffix in _READ and file.exists() and not file.is_dir() and not file.is_file():
            raise OptionError(f"{file} is no regular file, and may have no end: choose another checkpoint")
    for index in sorted(folder.glob("*.index.json")):
        if outside := sorted({name for name in _shards(index) if Path(name).name != name}):
            raise OptionError(f"{index} refers to files outside of its folder: {', '.join(outside)}; choose another checkpoint")


def tokenizer_files(folder: Path) -> list[Path]:
    """Return the files of the tokenizer and the processor.

    Files that are left out cause a warning: a link that leads out of the checkpoint, a file that is not regular, and a huge one.
    """
    found = []
    for file in sorted(folder.iterdir()):
        if file.suffix in _COPIED and file.name not in _WRITTEN and not file.name.endswith(".index.json"):
            problem = _problem(file)
            if problem:
                onnxexp.warn(
                    f"{file.name!r} of the checkpoint is not copied: {problem}; "
                    "to fix this, copy it yourself, if the tokenizer needs it"
                )
            elif problem is not None:
                found.append(file)
    return found


def _problem(file: Path) -> str | None:
    """Return why a file must not be copied, or "" if it may be copied.

    Returns None for a folder.
    """
    try:
        place = file.resolve(strict=True)
        status = place.stat()
    except (OSError, RuntimeError):  # a link to nothing, or to itself
        return "it is a link to nothing"
    if stat.S_ISDIR(status.st_mode):
        return None
    if not any(place.is_relative_to(root) for root in _roots(file.parent)):
        return "it is a link that leads out of the checkpoint"
    if not stat.S_ISREG(status.st_mode):
        return "it is no regular file"
    return "" if status.st_size <= _LARGEST else f"it has {status.st_size:,} bytes"


def _roots(folder: Path) -> Iterator[Path]:
    """Yield the folders in which the files of a checkpoint may be.

    In the cache of huggingface_hub, the files of a snapshot are links into ``blobs`` of the same model, or of the whole cache.
    """
    folder = folder.resolve()
    yield folder
    model = folder.parent.parent
    if folder.parent.name == "snapshots" and model.name.startswith("models--"):
        yield model / "blobs"
        yield model.parent / "blobs"


def _shards(index: Path) -> list[str]:
    """Return the names of the files in an index, or no names if it is damaged."""
    try:
        names = read_json(index)["weight_map"].values()
        return [name for name in names if isinstance(name, str)]
    except (OptionError, TypeError, LookupError, AttributeError):
        return []
