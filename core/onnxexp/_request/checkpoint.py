"""Read safetensors checkpoints by mapping their files into memory."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from onnxexp._errors import OptionError
from onnxexp._request.untrusted_files import open_regular, read_json

_FILE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_AGAIN = "download or save the checkpoint again"


def read_checkpoint(path: str | os.PathLike[str]) -> dict[str, torch.Tensor]:
    """Map the tensors of a safetensors checkpoint into memory, by name.

    Their elements are read from the files at their first use. A change of such a tensor does not change the file. Do not truncate
    a file while it is mapped; its replacement by another file is harmless.

    Args:
        path: A file, an index of several (``.json``), or a folder with ``model.safetensors`` or ``model.safetensors.index.json``.

    Raises:
        OptionError: There is no such checkpoint, a file of it is missing or corrupt, or the package safetensors is not installed.
    """
    given = Path(path)
    if given.is_dir():
        given = _in_folder(given)
    if given.suffix != ".json":
        return _mapped(given)
    shards = _shards(given)
    missing = sorted({shard for shard in shards.values() if not (given.parent / shard).is_file()})
    if missing:
        raise OptionError(f"{given} refers to files that are missing: {', '.join(missing)}; to fix this, {_AGAIN}")
    tensors: dict[str, torch.Tensor] = {}
    for shard in dict.fromkeys(shards.values()):
        tensors |= {name: each for name, each in _mapped(given.parent / shard).items() if shards.get(name, shard) == shard}
    lost = [f"{name} in {shard}" for name, shard in shards.items() if name not in tensors]
    if lost:
        more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
        raise OptionError(f"{given} refers to tensors that are missing: {', '.join(lost[:3])}{more}; to fix this, {_AGAIN}")
    return tensors


def _in_folder(folder: Path) -> Path:
    found = next((folder / name for name in (_FILE, _INDEX) if (folder / name).is_file()), None)
    if found is None:
        others = sorted(each.name for each in folder.iterdir() if each.suffix in (".safetensors", ".bin", ".pt", ".pth"))
        listed = f" (it has {', '.join(others)})" if others else ""
        raise OptionError(
            f"the folder {folder} has neither {_FILE} nor {_INDEX}{listed}; to fix this, give the path of a safetensors file, "
            "or save one with safetensors.torch.save_model"
        )
    return found


def _shards(index: Path) -> dict[str, str]:
    """Read the file of each tensor from an index.

    Raises OptionError where the index is malformed, or refers to files outside of its folder.
    """
    try:
        shards = read_json(index)["weight_map"]
    except (KeyError, TypeError) as error:
        raise OptionError(f"{index} is no safetensors index ({type(error).__name__}: {error}); to fix this, {_AGAIN}") from error
    if not isinstance(shards, dict) or not all(isinstance(shard, str) for shard in shards.values()):
        raise OptionError(f"{index} is no safetensors index: its weight_map is not a table of file names; to fix this, {_AGAIN}")
    if outside := sorted({shard for shard in shards.values() if Path(shard).name != shard or "\0" in shard}):
        raise OptionError(
            f"{index} refers to files outside of its folder: {', '.join(map(ascii, outside[:3]))}; to fix this, {_AGAIN}"
        )
    return shards


def _mapped(file: Path) -> dict[str, torch.Tensor]:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise OptionError(
            f"{file} needs the package safetensors, which is not installed; to fix this, run\n  pip install safetensors"
        ) from None
    open_regular(file).close()  # safetensors waits for a pipe
    try:
        with safe_open(file, framework="pt") as opened:
            return {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - it is no mapping
    except (OSError, SafetensorError, RuntimeError) as error:  # RuntimeError: torch refuses the sizes
        raise OptionError(f"{file} is no complete safetensors file: {error}; to fix this, {_AGAIN}") from error
