"""Generate text with an exported model in ONNX Runtime, for tries and tests.

The cache stays in ONNX Runtime: the outputs of a step are bound as the inputs of the next one, without a copy. The model writes a
static cache in place where it can: one buffer is input and output.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnxruntime
import torch
import torch.utils.dlpack

import onnxexp
from onnxexp import OnnxExporterError, OptionError
from onnxexp.commands import read_json, read_model, temporary_folder
from onnxexp_transformers.shared_buffers import SHARED_BUFFERS, present_of

Tokens: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


class TextGenerator:
    """An exported causal language model, loaded into ONNX Runtime on the CPU."""

    def __init__(
        self,
        source: str | os.PathLike[str] | onnxexp.ONNXProgram,
        session_options: onnxruntime.SessionOptions | None = None,
    ) -> None:
        """Load a model.

        Args:
            source: An exported folder, an ONNX file, or a program of the task text-generation.
            session_options: ONNX Runtime's options, such as the number of threads; None for its defaults.

        Raises:
            OptionError: The path has no model, or the model has no cache.
            OnnxExporterError: ONNX Runtime does not take the model.
        """
        self._settings: Mapping[str, Any] = {}
        if isinstance(source, onnxexp.ONNXProgram):
            self._session = _loaded(source, session_options)
        else:
            path = Path(source)
            file = path / "model.onnx" if path.is_dir() else path
            if not file.is_file():
                raise OptionError(f"there is no file {file}: give a folder or a file of an export for text-generation")
            read_model(file)  # its errors name the tensor; ONNX Runtime waits for a pipe
            self._session = _session(file, session_options)
            settings = file.with_name("generation_config.json")
            self._settings = read_json(settings) if settings.is_file() else {}
            if not isinstance(self._settings, dict):
                raise OptionError(f"{settings} is no table of settings; to fix this, export the model again")
        self._inputs = {each.name: each for each in self._session.get_inputs()}
        self._outputs = [each.name for each in self._session.get_outputs()]
        shared = self._session.get_modelmeta().custom_metadata_map.get(SHARED_BUFFERS, "").split()
        self._in_place = {present_of(name): name for name in shared}
        if not {"input_ids", "attention_mask"} <= self._inputs.keys() or self._outputs[0] != "logits":
            raise OptionError(
                f"the model takes {', '.join(self._inputs)} and returns {', '.join(self._outputs)}: give an export for "
                "text-generation, which takes input_ids, attention_mask and a cache, and returns logits"
            )

    def generate(self, inputs: Any, *, on_tokens: Callable[[Tokens], None] | None = None, **options: Any) -> Tokens:
        """Generate text, and return the prompts with the new tokens, int64[batch, length].

        Args:
            inputs: The prompts; see `stream`.
            on_tokens: Called with the new tokens of each step, int64[batch].
            options: See `stream`.

        Raises:
            OptionError: The prompts or the options do not fit the model.
        """
        ids, _ = _prompts(inputs)
        steps = [ids]
        for tokens in self.stream(inputs, **options):
            steps.append(tokens[:, None])
            if on_tokens is not None:
                on_tokens(tokens)
        return np.concatenate(steps, axis=1)

    def stream(
        self,
        inputs: Any,
        *,
        max_new_tokens: int = 32,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        eos_token_id: int | Sequence[int] | None = None,
        pad_token_id: int | None = None,
    ) -> Iterator[Tokens]:
        """Yield the new tokens of each step, int64[batch].

        Args:
            inputs: The token ids of the prompts, int64[batch, length], or a mapping with ``input_ids`` and ``attention_mask``, as
                a tokenizer returns it. Prompts of different lengths are padded on the left.
            max_new_tokens: The number of steps, unless every text ends before.
            temperature: 0 takes the most probable token; otherwise the logits are divided by it, and a token is drawn.
            top_k: Draw from the k most probable tokens only.
            top_p: Draw from the most probable tokens that have this probability together.
            seed: The seed of the draws.
            eos_token_id: Tokens that end a text; None takes those of the folder's generation_config.json.
            pad_token_id: The token after the end of a text; None takes the folder's, or the first that ends one.

        Raises:
            OptionError: The prompts or the options do not fit the model.
        """
        ids, mask = _prompts(inputs)
        sampler = Sampler(temperature, top_k, top_p, seed)
        ends = self._settings.get("eos_token_id") if eos_token_id is None else eos_token_id
        stops = [] if ends is None else [ends] if isinstance(ends, int) else list(ends)
        padding = self._settings.get("pad_token_id") if pad_token_id is None else pad_token_id
        padding = padding if padding is not None else stops[0] if stops else 0
        state, done = self._empty_cache(len(ids)), np.zeros(len(ids), bool)
        for step in range(max_new_tokens):
            logits, state = self._advance(ids, mask, state)
            tokens = np.where(done, padding, sampler.draw(logits)).astype(np.int64)
            yield tokens
            done |= np.isin(tokens, stops)
            if (done.all() and stops) or step + 1 == max_new_tokens:
                return
            ids, mask = tokens[:, None], np.concatenate([mask, np.ones_like(tokens[:, None])], axis=1)

    def _advance(self, ids: Tokens, mask: Tokens, state: dict[str, Any]) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
        """Run the model on new tokens, one by one where it takes one at a time."""
        fixed, new = self._inputs["input_ids"].shape[1], ids.shape[1]
        size = fixed if isinstance(fixed, int) else new
        for end in range(size, new + 1, size):
            logits, state = self._step(ids[:, end - size : end], mask[:, : mask.shape[1] - new + end], state)
        return logits, state

    def _step(self, ids: Tokens, mask: Tokens, state: dict[str, Any]) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
        """Run the model once, and return the logits of the last token and the cache."""
        positions = np.maximum(np.cumsum(mask, axis=1) - 1, 0)[:, -ids.shape[1] :]
        feeds = {"input_ids": ids, "attention_mask": self._whole(mask), "position_ids": positions}
        feeds = {name: np.ascontiguousarray(feeds[name]) for name in self._inputs.keys() & feeds.keys()}
        values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in feeds.items()} | state
        run = self._run_in_place if self._in_place else self._session.run_with_ort_values
        results = dict(zip(self._outputs, run(self._outputs, values), strict=True))
        results |= {output: state[name] for output, name in self._in_place.items()}  # only `state` keeps their memory alive
        return _logits(results["logits"]), {name: results.get(present_of(name), value) for name, value in state.items()}

    def _run_in_place(self, outputs: Sequence[str], values: Mapping[str, Any]) -> Sequence[Any]:
        """Run the model with outputs in the memory of their inputs.

        Without such outputs, bindings are not needed, and ONNX Runtime 1.20 computes other numbers with them.
        """
        binding = self._session.io_binding()
        for name, value in values.items():
            binding.bind_ortvalue_input(name, value)
        for name in outputs:
            if name in self._in_place:
                binding.bind_ortvalue_output(name, values[self._in_place[name]])
            else:
                binding.bind_output(name, "cpu")
        self._session.run_with_iobinding(binding)
        bound: Sequence[Any] = binding.get_outputs()
        return bound

    def _whole(self, mask: Tokens) -> Tokens:
        """Fit the mask to the model: to a static cache, or to the last token."""
        size = self._inputs["attention_mask"].shape[1]
        if not isinstance(size, int):
            return mask
        if size == 1:  # a model without attention
            return mask[:, -1:]
        if mask.shape[1] > size:
            raise OptionError(
                f"the text has {mask.shape[1]} tokens, and the static cache is for {size}; to fix this, export a larger one"
            )
        return np.pad(mask, ((0, 0), (0, size - mask.shape[1])))

    def _empty_cache(self, batch: int) -> dict[str, Any]:
        """Make the cache before the first token: zeros, and length 0 where it grows."""
        empty = {}
        for name, slot in self._inputs.items():
            if name.startswith("past_"):
                sizes = [size if isinstance(size, int) else batch if size == "batch" else 0 for size in slot.shape]
                empty[name] = _zeros(sizes, slot.type.removeprefix("tensor(").removesuffix(")"))
        return empty


def generate(source: str | os.PathLike[str] | onnxexp.ONNXProgram, inputs: Any, **options: Any) -> Tokens:
    """Generate text with an exported model, and return prompts and new tokens.

    The result is int64[batch, length]. For several calls, `TextGenerator` loads the model once.

    Args:
        source: An exported folder, an ONNX file, or a program of the task text-generation.
        inputs: The prompts, as for `TextGenerator.stream`.
        options: The options of `TextGenerator.stream`, and `on_tokens` of `TextGenerator.generate`.

    Raises:
        OptionError: There is no such model, or the prompts or the options do not fit it.
        OnnxExporterError: ONNX Runtime does not take the model.
    """
    return TextGenerator(source).generate(inputs, **options)


def _loaded(program: onnxexp.ONNXProgram, options: onnxruntime.SessionOptions | None) -> onnxruntime.InferenceSession:
    with temporary_folder() as folder:  # ONNX Runtime may map the file
        path = Path(folder, "model.onnx")
        program.save(path)
        return _session(path, options)


def _session(path: Path, options: onnxruntime.SessionOptions | None) -> onnxruntime.InferenceSession:
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's errors have no base of their own
        reason = str(error).partition("\n")[0]
        fix = "export it in float32 or float16 (dtype=)" if "NOT_IMPLEMENTED" in reason else "export it again"
        version = onnxruntime.__version__
        raise OnnxExporterError(f"ONNX Runtime {version} does not take {path.name}: {reason}; to fix this, {fix}") from error


def _prompts(inputs: Any) -> tuple[Tokens, Tokens]:
    """Return the token ids and the mask of the prompts.

    Raises OptionError where they are no integers [batch, length], or padded on the right.
    """
    given = inputs if isinstance(inputs, Mapping) else {"input_ids": inputs}
    if "input_ids" not in given:
        raise OptionError(f"the inputs have no input_ids, only {', '.join(map(str, given)) or 'nothing'}: give token ids")
    ids = np.asarray(given["input_ids"])
    if ids.ndim != 2 or not np.issubdtype(ids.dtype, np.integer) or 0 in ids.shape:
        raise OptionError(f"input_ids is {ids.dtype}{list(ids.shape)}: give token ids, int64[batch, length], one at least")
    mask = np.asarray(given.get("attention_mask", np.ones_like(ids)))
    if mask.shape != ids.shape:
        raise OptionError(
            f"attention_mask has the shape {list(mask.shape)}, input_ids has {list(ids.shape)}: give both one shape"
        )
    if not mask[:, -1].all():
        raise OptionError("a prompt ends with padding; to fix this, pad on the left (tokenizer.padding_side = 'left')")
    return ids.astype(np.int64), mask.astype(np.int64)


def _zeros(sizes: Sequence[int], kind: str) -> Any:
    """Make a tensor of zeros for ONNX Runtime.

    `kind` is ONNX's name of the dtype.
    """
    if kind == "bfloat16":  # numpy has none
        raw, type_ = np.zeros(sizes, np.uint16), onnx.TensorProto.BFLOAT16
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(raw, type_)
    dtype = {"float": "float32", "double": "float64"}.get(kind, kind)
    return onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(sizes, dtype))


def _logits(value: Any) -> np.ndarray[Any, Any]:
    """Return the logits of the last token, float32[batch, vocabulary]."""
    if hasattr(value, "__dlpack__"):
        return torch.utils.dlpack.from_dlpack(value)[:, -1].float().numpy()
    if value.data_type() == "tensor(bfloat16)":  # numpy has none; ONNX Runtime 1.23 and older share memory with numpy only
        raise OptionError(
            f"onnxruntime {onnxruntime.__version__} hands out no bfloat16; to fix this, run pip install --upgrade onnxruntime"
        )
    last: np.ndarray[Any, Any] = value.numpy()[:, -1].astype(np.float32)
    return last


class Sampler:
    """Choose the most probable token, or draw one."""

    def __init__(self, temperature: float, top_k: int | None, top_p: float | None, seed: int | None) -> None:
        """Take the options of `TextGenerator.stream`.

        Raises OptionError where they do not fit.
        """
        if temperature < 0:
            raise OptionError(f"temperature is {temperature}; give 0 for the most probable token, or a positive number")
        if temperature == 0 and (top_k, top_p, seed) != (None, None, None):
            raise OptionError("top_k, top_p and seed have no effect at temperature 0: give a temperature, such as 1.0")
        if top_k is not None and top_k < 1:
            raise OptionError(f"top_k is {top_k}; give a number of tokens, at least 1")
        if top_p is not None and not 0 < top_p <= 1:
            raise OptionError(f"top_p is {top_p}; give a probability above 0, at most 1")
        self._temperature, self._top_k, self._top_p = temperature, top_k, top_p
        self._random = np.random.default_rng(seed)

    def draw(self, logits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return a token for each row of logits, int64[batch]."""
        if self._temperature == 0:
            return np.asarray(np.argmax(logits, axis=-1))
        scaled = logits.astype(np.float64) / self._temperature
        order = np.argsort(-scaled, axis=-1, kind="stable")
        ranked = np.take_along_axis(scaled, order, axis=-1)
        if self._top_k is not None:
            ranked[:, self._top_k :] = -np.inf
        weights = np.exp(ranked - ranked[:, :1])
        weights /= weights.sum(axis=-1, keepdims=True)
        if self._top_p is not None:
            before = np.cumsum(weights, axis=-1) - weights
            weights[before >= self._top_p] = 0  # the first one stays
        reached = np.cumsum(weights, axis=-1)
        drawn = self._random.random((len(logits), 1)) * reached[:, -1:]
        return np.take_along_axis(order, (reached <= drawn).sum(axis=-1, keepdims=True), axis=-1)[:, 0]
