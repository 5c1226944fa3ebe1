"""Load a model from a checkpoint folder, or make one with random weights.

Anyone may have made the folder: a link in it may lead to a private file, and a name to a device or a pipe.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import os
import pickle
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import PreTrainedConfig, PreTrainedModel

import onnxexp
from onnxexp import OptionError
from onnxexp.commands import OutputFolder, read_json
from onnxexp_transformers.tasks import Task
from onnxexp_transformers.tasks.fitting import check_fit, loader_of, model_classes

_WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "*.bin", "*.bin.index.json")
_SHOWN = 5


@dataclasses.dataclass(frozen=True, eq=False)
class Loaded:
    """A model and its origin.

    Attributes:
        model: The model of transformers.
        folder: Its checkpoint folder, or None.
        tokenizer: The files of its tokenizer and its processor.
    """

    model: PreTrainedModel
    folder: Path | None = None
    tokenizer: Sequence[Path] = ()


def load(source: Any, task: Task, *, trust_remote_code: bool = False, dtype: torch.dtype | None = None) -> Loaded:
    """Load a model of transformers in evaluation mode.

    A given model stays as it is.

    Args:
        source: A model, a configuration (its weights are random), the path of a checkpoint folder, or of a ``config.json``.
        task: The task, with the names of transformers' classes that load its models.
        trust_remote_code: Whether Python files of the folder may run.
        dtype: The dtype of the weights; None leaves it to the checkpoint or the configuration.

    Raises:
        OptionError: The path is no checkpoint or configuration, its weights are missing or damaged, its model does not fit the
            task, or it needs remote code that is not trusted.
    """
    if isinstance(source, PreTrainedModel):
        if dtype not in (None, source.dtype):
            raise OptionError(
                f"dtype is {dtype}, and the given model is {source.dtype}; to fix this, convert it with model.to({dtype})"
            )
        check_fit(source, task)
        return Loaded(source)
    trust = {"trust_remote_code": trust_remote_code}
    if isinstance(source, PreTrainedConfig):
        return Loaded(_random(source, task, dtype, type(source).__name__, trust))
    if not isinstance(source, (str, os.PathLike)):
        raise OptionError(f"cannot export a {type(source).__name__}: give a model or a configuration of transformers, or a path")
    path = Path(source)
    config = _config(path, trust)
    if path.is_file():
        return Loaded(_random(config, task, dtype, str(path), trust))
    if not any(found for pattern in _WEIGHTS for found in path.glob(pattern)):
        raise OptionError(f"{path} has no weights (*.safetensors); for random weights, give {path / 'config.json'}")
    if any(path.glob("*.safetensors*")):
        onnxexp.read_checkpoint(path)  # its errors name the file that is missing or damaged
    with _explained(str(path)):
        factory = loader_of(config, task)
        model, loading = factory.from_pretrained(
            path, config=config, dtype=dtype or "auto", local_files_only=True, output_loading_info=True, **trust
        )
    lacking = sorted([*loading["missing_keys"], *(str(name) for name, *_ in loading["mismatched_keys"])])
    if lacking:
        shown = ", ".join(lacking[:_SHOWN]) + (f" and {len(lacking) - _SHOWN} more" if len(lacking) > _SHOWN else "")
        raise OptionError(
            f"{path} lacks weights of {type(model).__name__}, or has them in another shape: {shown}; "
            "to fix this, choose another checkpoint"
        )
    return Loaded(model.eval(), path, tokenizer_files(path))


def _config(path: Path, trust: dict[str, bool]) -> PreTrainedConfig:
    file = path / "config.json" if path.is_dir() else path
    if path.is_dir():
        check_files(path)
    if not file.is_file():
        problem = "has no config.json" if path.is_dir() else "does not exist"
        raise OptionError(f"{path} {problem}: give a checkpoint folder, or the path of a config.json for random weights")
    given = file.parent if path.is_dir() else file
    with _explained(str(file)):
        settings, _ = PreTrainedConfig.get_config_dict(given, local_files_only=True)
        check_names(settings, str(file))
        config: PreTrainedConfig = transformers.AutoConfig.from_pretrained(given, local_files_only=True, **trust)
        own_implementations(config, str(file))
    return config


def _random(config: PreTrainedConfig, task: Task, dtype: torch.dtype | None, what: str, trust: dict[str, bool]) -> Any:
    with _explained(what):
        factory = loader_of(config, task)
        listed = model_classes(factory.__name__, type(config))
        if not config.architectures and len(listed) > 1:  # transformers chooses by the name of the class
            config = copy.deepcopy(config)
            config.architectures = [listed[0].__name__]
        return factory.from_config(config, dtype=dtype or config.dtype or torch.float32, **trust).eval()


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """Turn errors of a load inside the `with` into OptionErrors with a fix."""
    try:
        yield
    except OptionError:
        raise
    except Exception as error:  # transformers and safetensors raise many kinds
        text = str(error).strip()
        reason = text.partition("\n")[0]
        if "trust_remote_code" in text:
            fix = "read its own code, which runs only with trust_remote_code=True (--trust-remote-code)"
        elif isinstance(error, pickle.UnpicklingError):
            fix = "take a checkpoint with safetensors: the pickled weights contain more than tensors, which could run code"
        else:
            fix = "check its files, or download it again"
        raise OptionError(f"{what} cannot be loaded: {type(error).__name__}: {reason}; to fix this, {fix}") from error


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


_EXPORTED: dict[str, tuple[Any, ...]] = {
    "_attn_implementation": ("eager", "sdpa"),
    "_experts_implementation": ("eager", "batched_mm", "grouped_mm"),
    "fusion_config": (),
}
"""The attributes that select an implementation, with those that are PyTorch's own. For None, transformers chooses one."""


def check_names(settings: Any, file: str) -> None:
    """Raise OptionError where a configuration names a model of the hub.

    transformers reads the configuration of such a backbone from the hub; timm takes ``hf-hub:…`` and ``local-dir:…`` as names.

    Args:
        settings: The contents of the file.
        file: The file's name.
    """
    for each in _tables(settings):
        for name in ("backbone", "architecture"):
            value = each.get(name)
            if isinstance(value, str) and (":" in value or (name == "backbone" and _is_of_the_hub(each, value))):
                raise OptionError(
                    f"{file} names a model outside of the checkpoint: {name} = {value!r}, and an export reads nothing else; "
                    "to fix this, load it with transformers and save it again, or give a plain name of timm"
                )


def _is_of_the_hub(settings: Mapping[str, Any], backbone: str) -> bool:
    if settings.get("backbone_config") is not None or settings.get("model_type") == "timm_backbone":
        return False
    return "/" in backbone or not settings.get("use_timm_backbone", True) or bool(settings.get("backbone_kwargs"))


def _tables(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield all tables in the contents of a JSON file."""
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _tables(each)


def own_implementations(config: PreTrainedConfig, file: str) -> None:
    """Let PyTorch's own code compute the attention and the experts.

    A file may select kernels that anyone has uploaded to the hub. They are loaded when the model is made.

    Args:
        config: The configuration that was read from the file. A selection of other code for the same computation is removed from
            it, with a warning.
        file: The file's name.

    Raises:
        OptionError: The file names code of the hub.
    """
    for each in _configs(config):
        for name, own in _EXPORTED.items():
            value = getattr(each, name, None)
            shown = f"{name.removeprefix('_')} = {value!r}"
            if value is None or value in own:
                continue
            if isinstance(value, str) and "/" in value:
                raise OptionError(
                    f"{file} selects code of the hub: {shown}, which cannot be exported; "
                    "to fix this, remove that entry, if PyTorch's "
                    "own implementation computes the same"
                )
            taken = "the export takes PyTorch's own implementation"
            onnxexp.warn(f"{file} selects {shown}: {taken}; to fix this, remove that entry, and the warning does not come again")
            setattr(each, name, None)


def _configs(config: PreTrainedConfig) -> Iterator[PreTrainedConfig]:
    """Yield a configuration and those inside it."""
    yield config
    for value in [*vars(config).values()]:
        if isinstance(value, PreTrainedConfig):
            yield from _configs(value)
