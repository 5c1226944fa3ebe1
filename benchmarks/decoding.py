"""Tokens per second of greedy decoding with a key-value cache.

The model is a Llama of 110 million parameters. The contenders decode the same tokens after the same prompt, one token each in
turn, with the cache kept in the runtime. Their tokens must agree. Ratios are medians over the tokens, so that a busy machine
slows both sides. With one thread, processor time counts. ONNX Runtime's own profile has the share of each operator in the time
of all nodes: that of MatMul, mostly products with the weights, bounds what other operators can gain.
"""

from __future__ import annotations

import collections
import json
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir
import onnxruntime
import torch
from transformers import DynamicCache, StaticCache

import onnxexp_transformers
from onnxexp_transformers import TextGenerator, cache_parameter
from onnxexp_transformers.tasks import task_of
from tests.transformers.exporters import free_axes

from . import pretrained

EAGER, DYNAMO = "eager", "dynamo"
COMPOSED, CONTRIB = "onnxexp", "contrib"
NEWER, NEWER_CONTRIB = "onnxexp, opset 24", "contrib, opset 24"
CACHES: Mapping[str, Mapping[str, Any]] = {"past": {}, "static": {"cache": "static", "max_length": 1152}}
"""The options of the task for each kind of cache."""
RATIOS = {
    "contrib ÷ onnxexp": (CONTRIB, COMPOSED),
    "contrib, opset 24 ÷ onnxexp": (NEWER_CONTRIB, COMPOSED),
    "onnxexp ÷ eager": (COMPOSED, EAGER),
    "onnxexp ÷ dynamo": (COMPOSED, DYNAMO),
}
SHARED = "contrib ÷ onnxexp, past"
"""The ratio of `CONTRIB` with any cache to `COMPOSED` with one that grows."""
GOAL = 1.3
"""The smallest wanted ratio of `CONTRIB` to `COMPOSED`."""
OTHERS = "others"

THREADS = (1, 2)
CONTEXTS = (128, 1024)
"""Tokens before the measured ones."""
TOKENS = 32
_WARM = 2
_LISTED = 7
"""Operators whose share is listed."""
_EXPORTS: Mapping[str, Mapping[str, Any]] = {
    COMPOSED: {"opset_version": 20},
    CONTRIB: {"opset_version": 20, "target": "onnxruntime-contrib"},
    NEWER: {"opset_version": 24},
    NEWER_CONTRIB: {"opset_version": 24, "target": "onnxruntime-contrib"},
}

Contender: TypeAlias = "tuple[str, str]"
"""The kind of cache, and the exporter."""
Figures: TypeAlias = dict[str, dict[str, float]]
Streams: TypeAlias = Mapping[Contender, Iterator[Any]]


def measure(progress: Callable[[str], None]) -> tuple[Figures, Figures]:
    """Return tokens per second with ratios, and the shares of operators, by setting."""
    torch.manual_seed(0)
    model = pretrained.llama().eval()
    found: Figures = {}
    parts: Figures = {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        files = _export(model, Path(folder), progress)
        for threads in THREADS:
            torch.set_num_threads(threads)
            generators = {name: TextGenerator(file, _options(threads)) for name, file in files.items()}
            for context in CONTEXTS:
                setting = f"{threads} thread{'s' * (threads > 1)}, after {context} tokens"
                progress(f"decoding: {setting}")
                prompt = np.random.default_rng(0).integers(model.config.vocab_size, size=(1, context))
                streams: dict[Contender, Iterator[Any]] = {(kind, EAGER): _eager(model, kind, prompt) for kind in CACHES}
                streams |= {name: each.stream(prompt, max_new_tokens=_WARM + TOKENS) for name, each in generators.items()}
                found |= _compare(streams, setting, time.process_time if threads == 1 else time.perf_counter)
                for (kind, name), file in files.items() if threads == 1 else ():
                    parts[f"{setting}, {kind}: {name}"] = _profile(file, prompt)
    torch.set_num_threads(1)
    return found, parts


def _export(model: Any, folder: Path, progress: Callable[[str], None]) -> dict[Contender, Path]:
    files = {}
    for kind, task_options in CACHES.items():
        for name, options in _EXPORTS.items():
            progress(f"decoding: export, {kind} cache, {name}")
            files[kind, name] = folder / f"{kind}, {name}"
            onnxexp_transformers.export(model, "text-generation", files[kind, name], task_options=task_options, **options)
    try:
        progress(f"decoding: export, {DYNAMO}")
        files["past", DYNAMO] = _dynamo(model, folder, files["past", COMPOSED] / "model.onnx")
    except Exception as error:  # noqa: BLE001 - the peer may fail in any way; then it has no figure
        progress(f"decoding: {DYNAMO} fails: {type(error).__name__}: {str(error).splitlines()[0]}")
    return files


def _dynamo(model: Any, folder: Path, like: Path) -> Path:
    """Export with torch.onnx, and name inputs, outputs and axes as in another file."""
    (part,) = task_of("text-generation").parts(model)
    graph, exported, named = ir.load(like).graph, folder / "exported.onnx", folder / "dynamo.onnx"
    names = [[value.name or "" for value in values] for values in (graph.inputs, graph.outputs)]
    torch.onnx.export(
        part.module, (), exported, kwargs=dict(part.inputs), dynamo=True, dynamic_shapes=free_axes(part), opset_version=20,
        input_names=names[0], output_names=names[1], verbose=False,
    )  # fmt: skip
    made = ir.load(exported)
    for value, known in zip(made.graph.inputs, graph.inputs, strict=True):
        value.shape = known.shape
    ir.save(made, named, external_data="dynamo.data")
    TextGenerator(named)
    return named


def _options(threads: int, profile: Path | None = None) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    if profile is not None:
        options.enable_profiling, options.profile_file_prefix = True, str(profile)
    return options


def _eager(model: Any, kind: str, prompt: Any) -> Iterator[Any]:
    """Yield the tokens that torch decodes."""
    size = CACHES[kind].get("max_length")
    cache = DynamicCache(config=model.config) if size is None else StaticCache(config=model.config, max_cache_len=size)
    given = {cache_parameter(model.forward): cache, "use_cache": True}
    tokens = torch.from_numpy(prompt)
    while True:
        tokens = model(tokens, **given, logits_to_keep=1).logits[:, -1].argmax(-1, keepdim=True)
        yield tokens[0].numpy()


def _compare(streams: Streams, setting: str, clock: Callable[[], float]) -> Figures:
    """Measure tokens per second, and ratios, by cache.

    Raises SystemExit where tokens differ.
    """
    seconds: dict[Contender, list[float]] = {name: [] for name in streams}
    for step in range(_WARM + TOKENS):
        tokens = {}
        for name, stream in streams.items():
            start = clock()
            tokens[name] = int(next(stream)[0])
            seconds[name].append(clock() - start)
        if len(set(tokens.values())) > 1:
            raise SystemExit(f"decoding: the contenders disagree about token {step}: {tokens}")
    counted = {name: values[_WARM:] for name, values in seconds.items()}
    rows = {}
    for kind in dict.fromkeys(kind for kind, _ in streams):
        speeds = {name: 1 / statistics.median(values) for (own, name), values in counted.items() if own == kind}
        pairs = {ratio: ((kind, one), (kind, other)) for ratio, (one, other) in RATIOS.items()}
        pairs[SHARED] = (kind, CONTRIB), ("past", COMPOSED)
        ratios = {
            ratio: statistics.median(slow / fast for fast, slow in zip(counted[one], counted[other], strict=True))
            for ratio, (one, other) in pairs.items()
            if one in counted and other in counted
        }
        rows[f"{setting}, {kind}"] = speeds | ratios
    return rows


def _profile(file: Path, prompt: Any) -> dict[str, float]:
    """Measure the shares of operators in the decoding of tokens after a prompt."""
    with tempfile.TemporaryDirectory() as folder:
        prefix = Path(folder, "profile")
        generator = TextGenerator(file, _options(1, prefix))
        for _ in generator.stream(prompt, max_new_tokens=1 + TOKENS):
            pass
        del generator  # the session writes its profile when it ends
        (written,) = Path(folder).iterdir()
        return shares(json.loads(written.read_text()))


def shares(events: list[Any]) -> dict[str, float]:
    """Compute the shares of the largest operators, and of the others, in a profile.

    The first run, of the prompt, does not count, and neither do If nodes, which contain others.
    """
    starts = sorted(event["ts"] for event in events if event.get("name") == "model_run")
    second = starts[1] if len(starts) > 1 else 0
    spent: collections.Counter[str] = collections.Counter()
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("kernel_time") and event["ts"] >= second:
            spent[event["args"]["op_name"]] += event["dur"]
    del spent["If"]
    total = sum(spent.values())
    listed = {name: amount / total for name, amount in spent.most_common(_LISTED)}
    return listed | {OTHERS: 1 - sum(listed.values())}
