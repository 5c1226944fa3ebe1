"""Text about images: the parts "vision", "embeddings" and "text".

The vision part computes ``image_features`` of ``pixel_values``, one row for each image token. The embeddings part takes
``input_ids`` and these features, and returns ``inputs_embeds``: the features replace the image tokens, in order; a text without
images has features of length 0. The text part is a decoder with a cache, as of text-generation, which takes ``inputs_embeds``.

A model that splits the features by image in Python, as LLaVA, computes one image at a time. So does a model whose images are
sequences of patches, as Qwen2-VL: ``pixel_values`` are the patches, ``image_position_ids`` their rows and columns, and
``image_cu_seqlens`` is 0 and their number.

Where the model sees some tokens in both directions, as PaliGemma the prompt, the text part takes ``token_type_ids``. They count
in the first call; later tokens have the type of generated text.

The example also has the tensors that the vision tower would compute in Python.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from transformers.vision_utils import get_vision_cu_seqlens, get_vision_position_ids

from onnxexp import OptionError
from onnxexp_transformers.adapted_module import AdaptedModule
from onnxexp_transformers.cache_nodes import cache_argument, cache_parameter, register_caches
from onnxexp_transformers.example_caches import PastCache, cache_axes
from onnxexp_transformers.tasks import Part
from onnxexp_transformers.tasks.example_inputs import Example, Sizes, example_inputs, parameters_of, setting, sizes_of, waves
from onnxexp_transformers.tasks.probes import keep_free_axes, refusing_misfits, same

_PAST = 3  # tokens in the example's cache


def parts(model: Any, **sizes: int) -> Sequence[Part]:
    """Return the parts "vision", "embeddings" and "text".

    Args:
        model: A model of transformers for images and text.
        sizes: Sizes of the example; see `Sizes`.

    Raises OptionError for a model that has no such parts, and where the parts do not compute what the model computes.
    """
    token = setting(model.config, "image_token_id", setting(model.config, "image_token_index"))
    if not hasattr(model, "get_image_features") or token is None:  # both are optional for classes of transformers
        raise OptionError(
            f"{type(model).__name__} does not fit image-text-to-text: it has no image features that replace image "
            "tokens; to fix this, export it with onnxexp.export"
        )
    register_caches()
    with torch.no_grad(), refusing_misfits(model, "a vision part, embeddings and a text part"):
        return _parts(model, sizes_of(sizes), token)


def _parts(model: Any, sizes: Sizes, token: int) -> Sequence[Part]:
    vision = _vision(model, sizes)
    embeddings = _embeddings(model, vision.module(**vision.inputs)["image_features"], sizes, token)
    embeds = embeddings.module(**embeddings.inputs)["inputs_embeds"]
    ids = embeddings.inputs["input_ids"]
    text = _text(model, embeds, (ids == token).long())
    _check_agreement(model, vision, ids, text)
    return [vision, embeddings, text]


def _vision(model: Any, sizes: Sizes) -> Part:
    grids = "image_grid_thw" in parameters_of(model.get_image_features)
    example = patch_sequence(model, sizes) if grids else example_inputs(model, ["pixel_values"], sizes)

    def forward(**inputs: Any) -> dict[str, Any]:
        found = _features(model, **inputs)
        features = torch.cat(list(found)) if isinstance(found, (list, tuple)) else found
        return {"image_features": features.reshape(-1, features.shape[-1])}

    if not grids:
        images = example.inputs["pixel_values"]
        split = isinstance(_features(model, pixel_values=images), (list, tuple))
        example.inputs["pixel_values"] = images[:1] if split else images
        sizes_of_images = {axis: label for axis, label in example.axes["pixel_values"].items() if axis}
        example.axes["pixel_values"] = sizes_of_images if split else {0: "images", **sizes_of_images}
        keep_free_axes(forward, example)
    return Part("vision", AdaptedModule(model, forward, list(example.inputs)), example.inputs, example.axes)


def _features(model: Any, *, pixel_values: torch.Tensor, **patches: Any) -> Any:
    if not patches:
        return model.get_image_features(pixel_values=pixel_values, return_dict=True).pooler_output
    given = {name.removeprefix("image_"): value for name, value in patches.items()}
    return model.get_encoder("image")(pixel_values, grid_thw=None, return_dict=True, **given).pooler_output


def _embeddings(model: Any, features: torch.Tensor, sizes: Sizes, token: int) -> Part:
    table = model.get_input_embeddings()
    ids = example_inputs(model, ["input_ids"], sizes).inputs["input_ids"]
    ids = ids.where(ids != token, 0)
    images = len(features) // len(ids)  # the first text may have a few more
    rows = [[token] * (images if row else len(features) - images * (len(ids) - 1)) for row in range(len(ids))]
    longest = max(map(len, rows))
    ids = torch.cat([ids, ids[:, :1].expand(-1, longest)], dim=1)
    for row, tokens in enumerate(rows):
        ids[row, 1 : 1 + len(tokens)] = torch.tensor(tokens)

    def forward(*, input_ids: torch.Tensor, image_features: torch.Tensor) -> dict[str, Any]:
        image = input_ids.eq(token)
        embeds = table(input_ids.masked_fill(image, 0))  # an image token may be beyond the vocabulary
        return {"inputs_embeds": embeds.masked_scatter(image.unsqueeze(-1), image_features.to(embeds.dtype))}

    inputs = {"input_ids": ids, "image_features": features}
    axes = {"input_ids": {0: "batch", 1: "sequence"}, "image_features": {0: "image_tokens"}}
    return Part("embeddings", AdaptedModule(model, forward, list(inputs)), inputs, axes)


class _FirstCallCache(PastCache):
    """A cache with which each call counts as the first one.

    The model applies token types in the first call only.
    """

    is_initialized = False


def _text(model: Any, embeds: torch.Tensor, types: torch.Tensor) -> Part:
    language = model if cache_parameter(model.forward) else model.language_model
    accepted = parameters_of(language.forward)
    example = Example({"inputs_embeds": embeds}, {"inputs_embeds": {0: "batch", 1: "sequence"}})
    run = functools.partial(language, use_cache=True, return_dict=True)
    if "token_type_ids" in accepted and not same(run(inputs_embeds=embeds), run(inputs_embeds=embeds, token_type_ids=types)):
        example.inputs["token_type_ids"], example.axes["token_type_ids"] = types, {0: "batch", 1: "sequence"}
    cache = (_FirstCallCache if "token_type_ids" in example.inputs else PastCache)(language.config)
    run(inputs_embeds=embeds[:, :_PAST], **cache_argument(language.forward, cache))
    mask = torch.ones(len(embeds), _PAST + embeds.shape[1], dtype=torch.int64)
    mask[0, 0] = 0
    example.inputs["attention_mask"], example.axes["attention_mask"] = mask, {0: "batch", 1: "past + sequence"}
    if "position_ids" in accepted:
        _add_positions(example, language, mask)
    example.inputs["past_key_values"] = cache
    example.axes.update({f"past_key_values.{leaf}": axes for leaf, axes in cache_axes(cache, growing=True).items()})

    def forward(*, past_key_values: Any, **inputs: Any) -> dict[str, Any]:
        result = run(**inputs, **cache_argument(language.forward, past_key_values))
        return {"logits": result.logits, "past_key_values": past_key_values}

    return Part("text", AdaptedModule(model, forward, list(example.inputs)), example.inputs, example.axes)


def _add_positions(example: Example, language: Any, mask: torch.Tensor) -> None:
    """Add ``position_ids``, int64[batch, sequence].

    For positions in time, height and width, the shape is [3, batch, sequence].
    """
    positions = (mask.cumsum(1) - 1).clamp(min=0)[:, _PAST:]
    rope = setting(language.config.get_text_config(), "rope_parameters") or {}
    if "mrope_section" in rope:
        example.inputs["position_ids"] = positions.expand(3, -1, -1) + torch.arange(3)[:, None, None]
        example.axes["position_ids"] = {1: "batch", 2: "sequence"}
    else:
        example.inputs["position_ids"], example.axes["position_ids"] = positions, {0: "batch", 1: "sequence"}


def _check_agreement(model: Any, vision: Part, ids: torch.Tensor, text: Part) -> None:
    """Raise OptionError where the parts compute other logits than the model.

    The comparison runs the model on texts with images.
    """
    inputs = {name: value for name, value in text.inputs.items() if name not in ("inputs_embeds", "past_key_values")}
    inputs["attention_mask"] = inputs["attention_mask"][:, _PAST:]
    cache = type(text.inputs["past_key_values"])(model.config)
    actual = text.module(inputs_embeds=text.inputs["inputs_embeds"], past_key_values=cache, **inputs)["logits"]
    images = {"pixel_values": vision.inputs["pixel_values"]}
    if "image_position_ids" in vision.inputs:
        images["image_grid_thw"] = grid_of(vision.inputs["image_position_ids"])
    expected = model(input_ids=ids, use_cache=False, return_dict=True, **images, **inputs).logits
    if not torch.allclose(actual.float(), expected.float(), rtol=1e-2, atol=1e-2 * float(expected.float().std())):
        raise OptionError(
            f"{type(model).__name__} does not fit image-text-to-text: its text model reads more of an image than features at the "
            "image tokens; to fix this, export it with onnxexp.export and your own inputs"
        )


_GRID = (4, 6)  # rows and columns of patches, for the usual blocks of two times two


def patch_sequence(model: Any, sizes: Sizes) -> Example:
    """Return the patches of one image, and their positions.

    The shape of the patches is [patches, values of a patch].
    """
    config = model.config.vision_config
    height, width = (
        size // config.patch_size if size else default for size, default in zip((sizes.height, sizes.width), _GRID, strict=True)
    )
    values = config.in_channels * config.temporal_patch_size * config.patch_size**2
    grid = torch.tensor([[1, height, width]])
    inputs = {
        "pixel_values": waves((height * width, values)).to(model.dtype),
        "image_position_ids": get_vision_position_ids(grid, config.spatial_merge_size),
        "image_cu_seqlens": get_vision_cu_seqlens(grid),
    }
    return Example(inputs, {"pixel_values": {0: "patches"}, "image_position_ids": {0: "patches"}, "image_cu_seqlens": {}})


def grid_of(positions: torch.Tensor) -> torch.Tensor:
    """Return the frames, rows and columns of one image, int64[1, 3].

    The numbers follow from the positions of the image's patches.
    """
    return torch.cat([torch.ones(1, dtype=torch.int64), positions.amax(0) + 1])[None]
