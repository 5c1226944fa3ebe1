"""Tasks with one graph: the model's forward, with the inputs that it reads.

The main input is the class's `main_input_name`. Further inputs are the parameters of its kind: a mask, token types, boxes of
words, images of pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxexp import OptionError
from onnxexp_transformers.adapted_module import AdaptedModule
from onnxexp_transformers.tasks import Part
from onnxexp_transformers.tasks.example_inputs import (
    Example,
    Sizes,
    example_inputs,
    parameters_of,
    refuse_other_needs,
    setting,
    sizes_of,
)
from onnxexp_transformers.tasks.probes import keep_free_axes, unread

_COMPANIONS = {
    "input_ids": ("attention_mask", "token_type_ids", "bbox"),
    "pixel_values": ("pixel_mask",),
    "input_values": ("attention_mask",),
    "input_features": ("attention_mask",),
}
"""The parameters that belong to a main input."""
_ADDITIONAL = ("hidden_state", "attentions", "loss", "mems")
"""Parts of the names of outputs that are no result of a task."""


def parts(model: Any, **sizes: int) -> Sequence[Part]:
    """Return the model as the only part, "model", with the results of its task.

    Args:
        model: A model of transformers.
        sizes: Sizes of the example; see `Sizes`.

    Raises OptionError for a model whose inputs are of another kind, and for other options.
    """
    return [whole_model(model, sizes_of(sizes))]


def whole_model(model: Any, sizes: Sizes, *, additional: bool = False) -> Part:
    """Return the model as a part.

    With `additional`, the part also has the inputs of a decoder, and the hidden states.
    """
    example = example_of(model, sizes, decoder=additional)
    accepted = parameters_of(model.forward)
    settings = {name: value for name, value in {"return_dict": True, "use_cache": False}.items() if name in accepted}

    def forward(**inputs: Any) -> dict[str, Any]:
        results = model(**inputs, **settings)
        wanted = {
            name: value for name, value in results.items() if _is_tensor(value) and (additional or not _is_additional(name))
        }
        return wanted or dict(results)

    return Part("model", AdaptedModule(model, forward, list(example.inputs)), example.inputs, example.axes)


def example_of(model: Any, sizes: Sizes, *, decoder: bool = False) -> Example:
    """Build the example of a model's main input and of its further inputs."""
    accepted = parameters_of(model.forward)
    main = [model.main_input_name] if isinstance(model.main_input_name, str) else list(model.main_input_name)
    if not set(main) <= _COMPANIONS.keys() & accepted.keys():
        raise OptionError(
            f"{type(model).__name__} takes {', '.join(main)}; the tasks take {', '.join(_COMPANIONS)}: "
            "to fix this, export the model with onnxexp.export and your own inputs"
        )
    names = [*main, *(name for name in _companions(model, main[0]) if name in accepted)]
    if decoder and model.config.is_encoder_decoder and "decoder_input_ids" in accepted:
        names.append("decoder_input_ids")
    refuse_other_needs(model, names)
    example = example_inputs(model, names, sizes)
    for name in unread(model, example, [name for name in names if name in ("attention_mask", "pixel_mask")]):
        del example.inputs[name], example.axes[name]
    keep_free_axes(model, example)
    return example


def _companions(model: Any, main: str) -> Sequence[str]:
    names = [*_COMPANIONS[main]]
    if main == "input_ids":
        if (setting(model.config, "type_vocab_size") or 0) < 2:
            names.remove("token_type_ids")
        if setting(model.config, "visual_embed") or model.config.sub_configs.get("vision_config"):
            names.append("pixel_values")
    return names


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _is_additional(name: str) -> bool:
    return any(each in name for each in _ADDITIONAL)
