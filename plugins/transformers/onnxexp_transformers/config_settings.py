"""Settings by which transformers contacts the hub, or runs code from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from transformers import PreTrainedConfig

import onnxexp
from onnxexp import OptionError

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
