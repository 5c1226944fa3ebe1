"""Load a model from a checkpoint folder, or make one with random weights."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import os
import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import PreTrainedConfig, PreTrainedModel

import onnxexp
from onnxexp import OptionError
from onnxexp_transformers.checkpoint_files import check_files, tokenizer_files
from onnxexp_transformers.config_settings import check_names, own_implementations
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
