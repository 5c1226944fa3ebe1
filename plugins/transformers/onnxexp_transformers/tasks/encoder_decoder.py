"""Text of an encoder-decoder: the parts "encoder" and "decoder".

The encoder takes the source, ``input_ids`` or features of a sound, and returns ``last_hidden_state`` and the keys and values of
the cross-attention, ``present.0.encoder.key``: they are computed once. The decoder takes ``input_ids``, the mask of the source as
``encoder_attention_mask``, and the caches of both attentions, and returns ``logits`` and the cache of its self-attention,
``present.0.decoder.key``. The first call has a cache of length 0.

An encoder that computes a mask of its frames, as Moonshine's, returns it as ``encoder_attention_mask``.

An encoder that cuts texts into blocks branches in Python on whether a text fills them, so the graph would be right only for texts
that do, or only for texts that do not. A padded text always fills its blocks. Results of tokens that the mask leaves out may
differ from transformers': LongT5's depend on its padding.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.nn.functional import pad
from transformers import EncoderDecoderCache

from onnxexp import OptionError
from onnxexp_transformers.adapted_module import AdaptedModule
from onnxexp_transformers.cache_nodes import cache_argument, cache_parameter, register_caches
from onnxexp_transformers.example_caches import PastCache, cache_axes
from onnxexp_transformers.tasks import Part
from onnxexp_transformers.tasks.example_inputs import Example, Sizes, parameters_of, setting, sizes_of
from onnxexp_transformers.tasks.one_graph import example_of
from onnxexp_transformers.tasks.probes import refusing_misfits, same

_PAST = 3  # tokens in the example's cache


def parts(model: Any, **sizes: int) -> Sequence[Part]:
    """Return the parts "encoder" and "decoder".

    Args:
        model: An encoder-decoder of transformers with a language modelling head.
        sizes: Sizes of the example; see `Sizes`.

    Raises OptionError for a model without these parts, and for other options.
    """
    accepted = parameters_of(model.forward)
    lacking = {"decoder_input_ids", "encoder_outputs"} - accepted.keys()
    if cache_parameter(model.forward) is None:
        lacking.add("past_key_values")
    if lacking:
        raise OptionError(
            f"{type(model).__name__} is no encoder-decoder: its forward has no parameter {', '.join(sorted(lacking))}; "
            "to fix this, choose another task"
        )
    register_caches()
    with refusing_misfits(model, "an encoder, and a decoder with caches"):
        return _parts(model, sizes_of(sizes))


def _parts(model: Any, sizes: Sizes) -> Sequence[Part]:
    source = example_of(model, sizes, decoder=True)
    start = source.inputs.pop("decoder_input_ids")
    del source.axes["decoder_input_ids"]
    encoder = _encoder(model, source)
    with torch.no_grad():
        encoded = model.get_encoder()(**source.inputs, return_dict=True)
    return [encoder, _decoder(model, source, encoded, start)]


def _encoder(model: Any, source: Example) -> Part:
    """Return the encoder, with the projections to keys and values.

    The projections are layers of the decoder that read only the encoder's result.
    """
    block = block_of(model, source.inputs)

    def forward(**inputs: Any) -> dict[str, Any]:
        encoded = run_on_blocks(model, inputs, block)
        hidden, own = encoded.last_hidden_state, encoded.get("attention_mask")
        cache = EncoderDecoderCache(_empty(model), _empty(model))
        start = torch.zeros(hidden.shape[0], 1, dtype=torch.int64, device=hidden.device)  # its results are not returned
        _decode(model, encoded, cache, start, inputs.get("attention_mask"))
        results = {"last_hidden_state": hidden, "present": EncoderDecoderCache(_empty(model), cache.cross_attention_cache)}
        return results if own is None else {**results, "encoder_attention_mask": own}

    return Part("encoder", AdaptedModule(model, forward, list(source.inputs)), source.inputs, source.axes)


def _decoder(model: Any, source: Example, encoded: Any, ids: torch.Tensor) -> Part:
    """Return the decoder.

    The decoder takes the encoder's result only if the model reads it in addition to the cache.
    """
    hidden, own = encoded.last_hidden_state, encoded.get("attention_mask")
    mask = source.inputs.get("attention_mask") if own is None else own
    inputs: dict[str, Any] = {"input_ids": ids, "past_key_values": _filled(model, encoded, ids, mask)}
    axes: dict[str, Any] = {"input_ids": {0: "batch", 1: "sequence"}}
    dynamic = any(label != "batch" for each in source.axes.values() for label in each.values())
    for name, each in cache_axes(inputs["past_key_values"], growing=True).items():
        length = "past" if name.split(".")[1] == "decoder" else "encoder_sequence" if dynamic else None
        axes[f"past_key_values.{name}"] = {0: "batch"} | {axis: length for axis in each if axis and length}
    if mask is not None:
        inputs["encoder_attention_mask"] = mask
        whole = own is not None or mask.shape[1] == hidden.shape[1]  # a mask of frames is longer than the encoder's result
        axes["encoder_attention_mask"] = (
            {0: "batch", 1: "encoder_sequence"} if whole and dynamic else source.axes["attention_mask"]
        )
    if not _reads_cache_only(model, encoded, inputs):
        inputs["encoder_hidden_states"] = hidden
        axes["encoder_hidden_states"] = {0: "batch", 1: "encoder_sequence"} if dynamic else {0: "batch"}

    def forward(
        *, input_ids: torch.Tensor, past_key_values: Any, encoder_attention_mask: Any = None, encoder_hidden_states: Any = None
    ) -> dict[str, Any]:
        if encoder_hidden_states is None:
            keys = past_key_values.cross_attention_cache.layers[0].keys
            encoder_hidden_states = keys.new_zeros(keys.shape[0], keys.shape[2], hidden.shape[2])  # only its sizes are read
        given = _with(encoded, encoder_hidden_states, encoder_attention_mask)
        logits = _decode(model, given, past_key_values, input_ids, encoder_attention_mask)
        return {"logits": logits, "past_key_values": EncoderDecoderCache(past_key_values.self_attention_cache, _empty(model))}

    return Part("decoder", AdaptedModule(model, forward, list(inputs)), inputs, axes)


def _reads_cache_only(model: Any, encoded: Any, inputs: Mapping[str, Any]) -> bool:
    """Return whether the decoder reads the encoder's result from the cache only.

    The decoder must compute the same with zeros and with ones in place of that result.
    """
    mask, results = inputs.get("encoder_attention_mask"), []
    for like in (torch.zeros_like, torch.ones_like):
        other = _with(encoded, like(encoded.last_hidden_state), mask)
        with torch.no_grad():
            results.append(_decode(model, other, copy.deepcopy(inputs["past_key_values"]), inputs["input_ids"], mask))
    return same(*results)


def _filled(model: Any, encoded: Any, ids: torch.Tensor, mask: torch.Tensor | None) -> EncoderDecoderCache:
    """Return a cache after some tokens."""
    cache = EncoderDecoderCache(_empty(model), _empty(model))
    with torch.no_grad():
        _decode(model, encoded, cache, ids[:, :1].expand(-1, _PAST), mask)
    return cache


def _empty(model: Any) -> PastCache:
    decoder = model.get_decoder()
    return PastCache(getattr(decoder, "config", model.config))  # a decoder that is a plain module has none


def _with(encoded: Any, hidden: torch.Tensor, mask: torch.Tensor | None) -> Any:
    """Return an encoder's result of the same class, with other tensors."""
    own = {} if encoded.get("attention_mask") is None else {"attention_mask": mask}
    return type(encoded)(last_hidden_state=hidden, **own)


def _decode(model: Any, encoded: Any, cache: Any, ids: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """Run the decoder, fill the cache, and return the logits.

    `encoded` is the encoder's result. Its own mask, where it has one, replaces `mask`.
    """
    own_mask = mask is None or encoded.get("attention_mask") is not None
    given = cache_argument(model.forward, cache) | ({} if own_mask else {"attention_mask": mask})
    result = model(encoder_outputs=encoded, decoder_input_ids=ids, use_cache=True, return_dict=True, **given)
    logits: torch.Tensor = result.logits
    return logits


_SETTINGS = {"attention_window": 0, "block_size": 0, "local_radius": 1}
"""The settings with the length of a block, and what to add: LED; PEGASUS-X and BigBird-Pegasus; LongT5."""


def block_of(model: Any, inputs: Mapping[str, torch.Tensor]) -> int:
    """Return the length of an encoder's blocks, or 1 where padding is no fix.

    Padding is a fix if the encoder computes the same with it for the tokens that the mask leaves in. `inputs` are those of the
    encoder, with a mask.
    """
    names = [name for name in _SETTINGS if setting(model.config, name) is not None]
    if not names or not {"input_ids", "attention_mask"} <= inputs.keys():
        return 1
    size = setting(model.config, names[0])
    block = (size if isinstance(size, int) else max(size)) + _SETTINGS[names[0]]
    length = inputs["input_ids"].shape[1]
    text = {name: tensor[:, 1:] for name, tensor in inputs.items()} if length % block == 0 else inputs
    real = text["attention_mask"].bool()
    with torch.no_grad():
        expected, padded = (run_on_blocks(model, text, each).last_hidden_state[real] for each in (1, block))
    return block if torch.allclose(expected, padded, rtol=1e-3, atol=1e-4) else 1


def run_on_blocks(model: Any, inputs: Mapping[str, Any], block: int) -> Any:
    """Run the encoder on texts padded to whole blocks, and cut off the padding."""
    encoder = model.get_encoder()
    if block == 1:
        return encoder(**inputs, return_dict=True)
    length = inputs["input_ids"].shape[1]
    more = block * ((length + block - 1) // block) - length
    fill = {"input_ids": model.config.pad_token_id or 0}
    padded = {name: pad(tensor, (0, more), value=fill.get(name, 0)) for name, tensor in inputs.items()}
    encoded = encoder(**padded, return_dict=True)
    encoded.last_hidden_state = encoded.last_hidden_state[:, :length]
    return encoded
