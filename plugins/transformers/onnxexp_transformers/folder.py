"""Write an exported folder: graphs, configuration, tokenizer, model card."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx_ir as ir
import torch
import transformers

import onnxexp
from onnxexp import OptionError
from onnxexp.commands import OutputFolder, one_line
from onnxexp_transformers.loading import Loaded

_CARD = "README.md"


def check_folder(folder: Path, task: str, parts: Collection[str], loaded: Loaded) -> None:
    """Check before an export that its folder can be written.

    Args:
        folder: The folder to write.
        task: The name of the task.
        parts: The names of the graphs.
        loaded: The model.

    Raises:
        OptionError: It is no folder that an export may replace, or files of the user are in the way.
        SerializeError: The system does not allow to write there.
    """
    names = {f"{part}{suffix}" for part in parts for suffix in (".onnx", ".onnx.data")} | {_CARD, "config.json"}
    names |= {"generation_config.json"} if loaded.model.can_generate() else set()
    names |= {"genai_config.json"} if task == "text-generation" else set()
    OutputFolder(folder).check(names | {file.name for file in loaded.tokenizer})


def write_folder(folder: Path, parts: ExportedParts, command: str | None) -> Path:
    """Write a folder, as `ExportedModel.save` describes."""
    folder, model = folder.absolute(), parts.loaded.model
    graphs = [f"{name}.onnx" for name in parts.programs]
    description = {"task": parts.task, "options": dict(parts.options), "graphs": graphs}
    with OutputFolder(folder).replaced(description) as hidden:
        place = Path(hidden)
        for name, program in parts.programs.items():
            program.save(place / f"{name}.onnx")
        for file in parts.loaded.tokenizer:
            shutil.copyfile(file, place / file.name)
        model.config.save_pretrained(place)
        if model.can_generate():
            model.generation_config.save_pretrained(place)
        if parts.task == "text-generation":
            _write_genai_config(place, parts.program, model)
        (place / _CARD).write_text(model_card(folder.name, parts, command), "utf-8", "backslashreplace")
    return folder


def _write_genai_config(place: Path, program: onnxexp.ONNXProgram, model: Any) -> None:
    """Write the configuration of onnxruntime-genai if it supports the model's cache."""
    described = genai_config(program.model.graph, model.config, model.generation_config)
    if described is not None:
        (place / "genai_config.json").write_text(json.dumps(described, indent=2) + "\n", "utf-8")


_SPECIAL = re.compile(r"([\\`*_\[\]#<>&|$~])")


def model_card(name: str, exported: ExportedParts, command: str | None) -> str:
    """Return the text of README.md: the graphs, and how they were made."""
    task, loaded = exported.task, exported.loaded
    source = f" from the checkpoint {code(loaded.folder.name)}" if loaded.folder is not None else ""
    made = fenced(command, "sh") if command else fenced(_call(exported), "python")
    parts = [
        f"---\nlibrary_name: onnx\npipeline_tag: {task}\n---\n",
        f"# {plain(name)}\n",
        f"{code(type(loaded.model).__name__)}{source}, exported to ONNX by onnxexp {onnxexp.__version__} for {task}.\n",
        f"{made}\n",
        *(f"## {part}.onnx\n\n{_graph(program.model)}" for part, program in exported.programs.items()),
        f"Made with transformers {transformers.__version__} and torch {torch.__version__}.\n",
    ]
    return "\n".join(parts)


def _call(exported: ExportedParts) -> str:
    given = f", task_options={dict(exported.options)!r}" if exported.options else ""
    return f"onnxexp_transformers.export(model, task={exported.task!r}{given}, output=...)"


def _graph(model: ir.Model) -> str:
    rows = ["| | name | type |\n|---|---|---|\n"]
    rows += _rows("input", model.graph.inputs) + _rows("output", model.graph.outputs)
    return f"Opset {model.opset_imports.get('')}.\n\n{''.join(rows)}"


def _rows(kind: str, values: Sequence[ir.Value]) -> list[str]:
    return [f"| {kind} | {code(value.name or '')} | {code(_type(value))} |\n" for value in values]


def _type(value: ir.Value) -> str:
    sizes = ", ".join(str(size if isinstance(size, int) else size.value) for size in value.shape or ())
    return f"{value.dtype.name.lower() if value.dtype is not None else '?'}[{sizes}]"


def plain(text: str) -> str:
    """Return the text for a heading or a paragraph, without markup."""
    return _SPECIAL.sub(r"\\\1", one_line(text))


def code(text: str) -> str:
    """Return the text as inline code, in a table too."""
    line = one_line(text).replace("|", r"\|") or " "
    fence = "`" * (_longest_run(line) + 1)
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"


def fenced(text: str, language: str) -> str:
    """Return the text as a block of code."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


_STATE = re.compile(r"past_key_values\.(\d+)\.(\w+)")


def genai_config(graph: ir.Graph, config: Any, generation: Any) -> dict[str, Any] | None:
    """Describe an exported decoder as ``genai_config.json`` does.

    Args:
        graph: The decoder with a cache that grows.
        config: The model's configuration.
        generation: Its generation configuration.

    Returns None for a cache that onnxruntime-genai does not support: it needs keys and values of one shape in every layer.
    """
    states = {match.groups(): value for value in graph.inputs if (match := _STATE.fullmatch(value.name or ""))}
    layers = {layer for layer, _ in states}
    shapes = {tuple(map(str, value.shape or ())) for value in states.values()}
    plain = {(layer, part) for layer in layers for part in ("key", "value")}
    if not states or set(states) != plain or len(shapes) != 1 or layers != set(map(str, range(len(layers)))):
        return None
    _, heads, past, size = next(iter(states.values())).shape or (None, None, None, None)
    if not isinstance(heads, int) or not isinstance(size, int) or isinstance(past, int):
        return None
    text = config.get_text_config()
    length = getattr(text, "max_position_embeddings", None) or 32768  # configurations without positions have no limit
    return {
        "model": {
            "type": "decoder",
            "bos_token_id": generation.bos_token_id,
            "eos_token_id": generation.eos_token_id,
            "pad_token_id": _pad(generation),
            "context_length": length,
            "vocab_size": text.vocab_size,
            "decoder": {
                "filename": "model.onnx",
                "head_size": size,
                "hidden_size": text.hidden_size,
                "num_attention_heads": text.num_attention_heads,
                "num_hidden_layers": len(layers),
                "num_key_value_heads": heads,
                "inputs": _inputs(graph),
                "outputs": {
                    "logits": "logits",
                    "present_key_names": "present.%d.key",
                    "present_value_names": "present.%d.value",
                },
                "session_options": {"provider_options": []},
            },
        },
        "search": {"do_sample": False, "max_length": length, "num_beams": 1, "past_present_share_buffer": False},
    }


def _inputs(graph: ir.Graph) -> dict[str, str]:
    names = {value.name or "" for value in graph.inputs}
    past = {"past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value"}
    return {name: name for name in ("input_ids", "attention_mask", "position_ids") if name in names} | past


def _pad(generation: Any) -> Any:
    ends = generation.eos_token_id
    first = ends[0] if isinstance(ends, list) else ends
    return generation.pad_token_id if generation.pad_token_id is not None else first


@dataclasses.dataclass(frozen=True, eq=False)
class ExportedParts:
    """The programs of a model for a task, and their origin.

    Attributes:
        task: The name of the task.
        programs: The program of each part, by the name of its file without ``.onnx``.
        loaded: The original model, and the folder that it comes from.
        options: The options of the task, such as ``cache``.
    """

    task: str
    programs: Mapping[str, onnxexp.ONNXProgram]
    loaded: Loaded
    options: Mapping[str, Any]

    @property
    def program(self) -> onnxexp.ONNXProgram:
        """The only program.

        Raises OptionError if the model has several parts.
        """
        if len(self.programs) != 1:
            raise OptionError(f"the model has several parts: choose one of programs: {', '.join(self.programs)}")
        return next(iter(self.programs.values()))
