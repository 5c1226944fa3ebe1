"""Example inputs of a model, by the names of its forward's parameters.

The values of a parameter follow from its name and from the model's configuration: vocabulary, image size, channels, features.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from onnxexp import OptionError


@dataclasses.dataclass(frozen=True)
class Sizes:
    """The sizes of an example.

    Attributes:
        batch, sequence, target: Texts, tokens of each, and tokens of a decoder.
        height, width: The images' pixels; None takes the configuration's size.
        frames: Samples of a waveform, or frames of its features; None takes a size that the model accepts.
    """

    batch: int = 2
    sequence: int = 12
    target: int = 5
    height: int | None = None
    width: int | None = None
    frames: int | None = None


def sizes_of(options: Mapping[str, Any]) -> Sizes:
    """Read the sizes of an example from the options of a task.

    Raises OptionError for other options, and for sizes that are no positive integers.
    """
    names = [field.name for field in dataclasses.fields(Sizes)]
    for name, value in options.items():
        if name not in names:
            raise OptionError(f"the task has no option {name}; there are the sizes of its example: {', '.join(names)}")
        if not isinstance(value, int) or value < 1:
            raise OptionError(f"{name} is {value!r}; give a positive integer")
    return Sizes(**options)


@dataclasses.dataclass(frozen=True, eq=False)
class Example:
    """Inputs by name, and the dynamic axes of each."""

    inputs: dict[str, Any]
    axes: dict[str, Any]


def parameters_of(forward: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a forward, those of its decorators included."""
    return inspect.signature(forward).parameters


def setting(config: Any, name: str, default: Any = None) -> Any:
    """Return a setting of a configuration, or of the configurations inside it."""
    inner = [getattr(config, f"{part}_config", None) for part in ("text", "vision", "audio", "encoder")]  # few classes have them
    for part_config in (config, *inner):
        value = getattr(part_config, name, None)  # each architecture has settings of its own
        if value is not None:
            return value
    return default


def example_inputs(model: Any, names: Sequence[str], sizes: Sizes) -> Example:
    """Build an example for the parameters with these names."""
    example = Example({}, {})
    for name in names:
        _MAKERS[name](example, model, sizes)
    return example


def refuse_other_needs(model: Any, names: Sequence[str]) -> None:
    """Raise OptionError where the model's forward needs parameters beside `names`."""
    needed = [
        name
        for name, parameter in parameters_of(model.forward).items()
        if parameter.default is parameter.empty and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    missing = [name for name in needed if name not in names]
    if missing:
        raise OptionError(
            f"{type(model).__name__} needs {', '.join(missing)}, and this task has no example of it: "
            "to fix this, export the model with onnxexp.export and your own inputs"
        )


def _tokens(vocabulary: int, batch: int, length: int) -> torch.Tensor:
    """Return token ids, int64[batch, length].

    The first few ids are left out, since they are special.
    """
    first = min(4, vocabulary - 1)
    return first + torch.arange(batch * length).reshape(batch, length) * 7 % (vocabulary - first)


def _input_ids(example: Example, model: Any, sizes: Sizes) -> None:
    texts = getattr(model.config, "text_config", None)  # of models of images and text; their own vocab_size may be another
    vocabulary = setting(model.config if texts is None else texts, "vocab_size")
    example.inputs["input_ids"] = _tokens(vocabulary, sizes.batch, sizes.sequence)
    example.axes["input_ids"] = {0: "batch", 1: "sequence"}


def _decoder_input_ids(example: Example, model: Any, sizes: Sizes) -> None:
    vocabulary = setting(model.config.get_text_config(decoder=True), "vocab_size")
    example.inputs["decoder_input_ids"] = _tokens(vocabulary, sizes.batch, sizes.target)
    example.axes["decoder_input_ids"] = {0: "batch", 1: "decoder_sequence"}


def _attention_mask(example: Example, model: Any, sizes: Sizes) -> None:
    """Add the mask of the texts, or of the waveforms.

    The first text or waveform is padded on the right.
    """
    text = example.inputs.get("input_ids")
    name = "input_ids" if text is not None else model.main_input_name
    axis = 1 if name != "input_features" else _frames_axis(model)
    mask = torch.ones(sizes.batch, example.inputs[name].shape[axis], dtype=torch.int64)
    mask[0, -1 if text is not None else -(mask.shape[1] // 4) :] = 0
    example.inputs["attention_mask"] = mask
    dynamic = example.axes[name].get(axis)
    example.axes["attention_mask"] = {0: "batch"} | ({1: dynamic} if dynamic else {})


def _token_type_ids(example: Example, model: Any, sizes: Sizes) -> None:
    types = torch.zeros(sizes.batch, sizes.sequence, dtype=torch.int64)
    types[:, sizes.sequence // 2 :] = 1
    example.inputs["token_type_ids"], example.axes["token_type_ids"] = types, {0: "batch", 1: "sequence"}


def _bbox(example: Example, model: Any, sizes: Sizes) -> None:
    """Add the boxes of words on a page, int64[batch, sequence, 4].

    The four numbers are left, top, right and bottom.
    """
    largest = model.config.max_2d_position_embeddings - 1
    starts = torch.arange(sizes.batch * sizes.sequence).reshape(sizes.batch, sizes.sequence, 1) % (largest // 2)
    left_top = starts.expand(-1, -1, 2)
    example.inputs["bbox"] = torch.cat([left_top, left_top + torch.tensor([largest // 3, largest // 4])], dim=-1)
    example.axes["bbox"] = {0: "batch", 1: "sequence"}


def _pixel_values(example: Example, model: Any, sizes: Sizes) -> None:
    """Add images, [batch, channels, height, width]."""
    config = model.config
    size = setting(config, "image_size", setting(config, "input_size", (128, 192)))  # without a setting, any size will do
    configured = tuple(size) if isinstance(size, (list, tuple)) else (size, size)
    channels = setting(config, "num_channels", setting(config, "in_channels", 3))
    shape = (sizes.batch, channels, sizes.height or configured[-2], sizes.width or configured[-1])
    example.inputs["pixel_values"] = waves(shape).to(model.dtype)
    example.axes["pixel_values"] = {0: "batch", 2: "height", 3: "width"}


def _pixel_mask(example: Example, model: Any, sizes: Sizes) -> None:
    """Add the mask of the images, int64[batch, height, width].

    The first image is padded.
    """
    batch, _, height, width = example.inputs["pixel_values"].shape
    mask = torch.ones(batch, height, width, dtype=torch.int64)
    mask[0, :, -width // 3 :] = 0
    example.inputs["pixel_mask"], example.axes["pixel_mask"] = mask, {0: "batch", 1: "height", 2: "width"}


def _input_values(example: Example, model: Any, sizes: Sizes) -> None:
    """Add waveforms, [batch, samples]."""
    example.inputs["input_values"] = waves((sizes.batch, sizes.frames or 4000)).to(model.dtype)
    example.axes["input_values"] = {0: "batch", 1: "samples"}


def _input_features(example: Example, model: Any, sizes: Sizes) -> None:
    """Add features of waveforms.

    The shape is [batch, frames, features], or [batch, features, frames].
    """
    config, axis = model.config, _frames_axis(model)
    features = setting(
        config, "num_mel_bins", setting(config, "input_feat_per_channel", setting(config, "feature_projection_input_dim"))
    )
    # A model with a table of positions takes one number of frames: two for each position.
    frames = sizes.frames or (2 * setting(config, "max_source_positions", 100) if axis == 2 else 100)
    shape = (sizes.batch, frames, features) if axis == 1 else (sizes.batch, features, frames)
    example.inputs["input_features"] = waves(shape).to(model.dtype)
    example.axes["input_features"] = {0: "batch", axis: "frames"}


def _frames_axis(model: Any) -> int:
    """Return the axis of time in ``input_features``: 2 for spectrograms of mel bins."""
    return 2 if setting(model.config, "num_mel_bins") is not None else 1


def waves(shape: Sequence[int]) -> torch.Tensor:
    """Return numbers between -1 and 1 that differ from each other, float32."""
    positions = torch.arange(torch.Size(shape).numel(), dtype=torch.float64)
    return torch.sin(positions * 0.37 + positions.sqrt()).float().reshape(*shape)


_MAKERS: Mapping[str, Callable[[Example, Any, Sizes], None]] = {
    "input_ids": _input_ids,
    "pixel_values": _pixel_values,
    "input_values": _input_values,
    "input_features": _input_features,
    "attention_mask": _attention_mask,
    "token_type_ids": _token_type_ids,
    "bbox": _bbox,
    "pixel_mask": _pixel_mask,
    "decoder_input_ids": _decoder_input_ids,
}
