"""Tokens per second of greedy decoding with a key-value cache: a Llama of 110 million parameters.

The contenders decode the same tokens after the same context, one token each in turn, with the cache kept in the runtime. Their
tokens must agree. Ratios are medians over the tokens, so that a busy machine slows both sides.
The share of MatMul in ONNX Runtime's own profile, mostly products with the weights, bounds what other operators can gain.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from transformers import DynamicCache

import onnxexp

from . import pretrained

__all__ = ["COMPOSED", "CONTRIB", "EAGER", "GOAL", "RATIOS", "SHARE", "TOKENS", "measure"]

EAGER, DYNAMO = "eager", "dynamo"
COMPOSED, CONTRIB = "onnxexp", "onnxexp, contrib"
NEWER, NEWER_CONTRIB = "onnxexp, opset 23", "contrib, opset 23"
SHARE = "share of MatMul"
"""The part of the time of onnxexp's nodes at opset 20 that its MatMul nodes take."""
RATIOS = {"contrib ÷ onnxexp": (CONTRIB, COMPOSED), "onnxexp ÷ eager": (COMPOSED, EAGER), "onnxexp ÷ dynamo": (COMPOSED, DYNAMO)}
GOAL = 1.3
"""The smallest wanted ratio of `CONTRIB` to `COMPOSED`."""

CONTEXTS = (64, 900)
"""Tokens before the measured ones."""
TOKENS = 32
_WARM = 2
_EXPORTS: dict[str, dict[str, Any]] = {
    COMPOSED: {"opset_version": 20},
    CONTRIB: {"opset_version": 20, "target": "onnxruntime-contrib"},
    NEWER: {"opset_version": 23},
    NEWER_CONTRIB: {"opset_version": 23, "target": "onnxruntime-contrib"},
}


def measure(progress: Callable[[str], None]) -> dict[str, dict[str, float]]:
    """Return tokens per second, `RATIOS` and `SHARE`, by threads and context."""
    torch.manual_seed(0)
    model = Cached(pretrained.llama().eval())
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        files = _export(model, Path(folder), progress)
        for threads in (1, 2):
            torch.set_num_threads(threads)
            contenders: dict[str, _Eager | _Session] = {EAGER: _Eager(model)}
            contenders |= {name: _Session(file, threads) for name, file in files.items()}
            for context in CONTEXTS:
                row = f"{threads} thread{'s' * (threads > 1)}, after {context} tokens"
                progress(f"decoding: {row}")
                past = _past(model, 1, context)
                found[row] = _compare(contenders, past) | {SHARE: _share(files[COMPOSED], threads, past)}
    torch.set_num_threads(1)
    return found


class Cached(torch.nn.Module):
    """A language model whose cache is a tuple of tensors: the keys and values of each layer."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, past: Any) -> Any:
        cache = DynamicCache()
        for layer, (key, value) in enumerate(past):
            cache.update(key, value, layer)
        result = self.model(input_ids, attention_mask, None, cache, use_cache=True)  # the cache's name depends on the version
        return result.logits, tuple((layer.keys, layer.values) for layer in cache.layers)


def _past(model: Cached, batch: int, length: int) -> Any:
    """Make a random cache of so many tokens."""
    config = model.model.config
    shape = batch, config.num_key_value_heads, length, config.hidden_size // config.num_attention_heads
    return tuple((torch.randn(shape), torch.randn(shape)) for _ in range(config.num_hidden_layers))


def _export(model: Cached, folder: Path, progress: Callable[[str], None]) -> dict[str, Path]:
    example = torch.randint(1000, (2, 3)), torch.ones(2, 7, dtype=torch.int64), _past(model, 2, 4)
    cache = {0: "batch", 2: "past"}
    axes = {0: "batch", 1: "sequence"}, {0: "batch", 1: "total"}, ((cache, cache),) * len(example[2])
    files = {}
    for name, options in _EXPORTS.items():
        progress(f"decoding: export, {name}")
        files[name] = folder / f"{name}.onnx"
        onnxexp.export(model, example, files[name], dynamic_shapes=axes, **options)
    try:
        progress(f"decoding: export, {DYNAMO}")
        file = folder / f"{DYNAMO}.onnx"
        torch.onnx.export(model, example, file, dynamo=True, dynamic_shapes=axes, opset_version=20, verbose=False)
        _Session(file, 1)
        files[DYNAMO] = file
    except Exception as error:  # noqa: BLE001 - the peer may fail in any way; then it has no figure
        progress(f"decoding: {DYNAMO} fails: {type(error).__name__}: {str(error).splitlines()[0]}")
    return files


class _Eager:
    """The model in torch, with a DynamicCache."""

    def __init__(self, model: Cached) -> None:
        self._model = model.model

    def decode(self, token: int, past: Any) -> Iterator[int]:
        cache = DynamicCache()
        for layer, (key, value) in enumerate(past):
            cache.update(key, value, layer)
        while True:
            result = self._model(torch.tensor([[token]]), None, None, cache, use_cache=True)
            yield (token := int(result.logits[0, -1].argmax()))


class _Session:
    """An exported model in ONNX Runtime: the presents of a step are bound as the past of the next."""

    def __init__(self, file: Path, threads: int, profile: str = "") -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 3
        if profile:
            options.enable_profiling, options.profile_file_prefix = True, profile
        self.session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        self._inputs = [each.name for each in self.session.get_inputs()]
        self._outputs = [each.name for each in self.session.get_outputs()]

    def decode(self, token: int, past: Any) -> Iterator[int]:
        length = past[0][0].shape[2]
        cache = [onnxruntime.OrtValue.ortvalue_from_numpy(tensor.numpy()) for pair in past for tensor in pair]
        while True:
            length += 1
            binding = self.session.io_binding()
            for name, array in zip(self._inputs, (np.array([[token]]), np.ones((1, length), np.int64)), strict=False):
                binding.bind_cpu_input(name, array)
            for name, value in zip(self._inputs[2:], cache, strict=True):
                binding.bind_ortvalue_input(name, value)
            for name in self._outputs:
                binding.bind_output(name, "cpu")
            self.session.run_with_iobinding(binding)
            logits, *cache = binding.get_outputs()
            yield (token := int(logits.numpy()[0, -1].argmax()))


def _compare(contenders: dict[str, _Eager | _Session], past: Any) -> dict[str, float]:
    """Return the tokens per second, and ratios. Raises SystemExit where tokens differ."""
    streams = {name: each.decode(7, past) for name, each in contenders.items()}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for step in range(_WARM + TOKENS):
        tokens = {}
        for name, stream in streams.items():
            start = time.perf_counter()
            tokens[name] = next(stream)
            seconds[name].append(time.perf_counter() - start)
        if len(set(tokens.values())) > 1:
            raise SystemExit(f"decoding: the contenders disagree about token {step}: {tokens}")
    counted = {name: values[_WARM:] for name, values in seconds.items()}
    speeds = {name: 1 / statistics.median(values) for name, values in counted.items()}
    ratios = {
        name: statistics.median(slow / fast for fast, slow in zip(counted[one], counted[other], strict=True))
        for name, (one, other) in RATIOS.items()
        if other in counted
    }
    return speeds | ratios


def _share(file: Path, threads: int, past: Any) -> float:
    """The share of MatMul in the time of all nodes, by ONNX Runtime's profiler."""
    with tempfile.TemporaryDirectory() as folder:
        runner = _Session(file, threads, f"{folder}/profile")
        for _ in zip(range(TOKENS), runner.decode(7, past)):  # noqa: B905 - the stream has no end
            pass
        events = json.loads(Path(runner.session.end_profiling()).read_text())
    nodes = [event for event in events if event.get("cat") == "Node" and event["name"].endswith("kernel_time")]
    products = sum(event["dur"] for event in nodes if event["args"]["op_name"] == "MatMul")
    return products / sum(event["dur"] for event in nodes)
