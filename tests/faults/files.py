"""Damaged files of all kinds: our error or a result, in bounded time and memory."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import torch
from onnx import TensorProto, helper

import onnxexp
from onnxexp._cli.pt2_archive import load_archive
from onnxexp._model.onnxruntime_session import Session
from onnxexp._request import config
from onnxexp._serialize.atomic_folder import OutputFolder
from onnxexp._serialize.model_reader import read_model

from .damaged import Kind, command, outcomes
from .fault import Fault, Row

COUNT = 2000


class _Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)
        self.register_buffer("scale", torch.full((4,), 2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, (self.inner(x) * self.scale,))


def _exported(folder: Path, external: bool = False) -> Path:
    path = folder / "model.onnx"
    options: dict[str, Any] = {"dynamic_shapes": ({0: "n"},)}
    onnxexp.export(_Model().eval(), (torch.ones(3, 4),), **options).save(path, external_data=external)
    if external:  # small ones stay inline
        model = onnx.load(path)
        onnx.save(model, path, save_as_external_data=True, location="data", size_threshold=0)
    (folder / "good.onnx").write_bytes(path.read_bytes())
    return path


def _with_functions(folder: Path) -> Path:
    """Write a model with a function, all kinds of attributes, and torch metadata."""
    tensor = helper.make_tensor("t", TensorProto.FLOAT, [2, 2], [1.0, 2.0, 3.0, 4.0])
    body = [helper.make_node("Constant", [], ["c"], value=tensor), helper.make_node("Add", ["a", "c"], ["b"])]
    own = helper.make_function("own", "Own", ["a"], ["b"], body, [helper.make_opsetid("", 20)])
    nodes = [
        helper.make_node("Own", ["x"], ["y"], domain="own"),
        helper.make_node("Sin", ["y"], ["z"], domain="mapped", alpha=1.5, axes=[1, 2], name="node", words=["a", "b"]),
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n + 1", 2]) for name in "xz"]
    graph = helper.make_graph(
        nodes, "graph", values[:1], values[1:], [helper.make_tensor("w", TensorProto.INT64, [3], [1, 2, 3])]
    )
    imports = [helper.make_opsetid(domain, version) for domain, version in (("", 20), ("own", 1), ("mapped", 1))]
    model = helper.make_model(graph, functions=[own], opset_imports=imports, ir_version=10)
    mapped = {"mapped::Sin": {"torch": "aten::sin", "attributes": {}}}
    helper.set_model_props(model, {"onnxexp.torch_operators": json.dumps(mapped)})
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    (folder / "good.onnx").write_bytes(path.read_bytes())
    return path


def _diff(path: Path) -> None:
    command("diff", str(path), str(path.with_name("good.onnx")))
    command("diff", str(path), str(path))


def _explain(path: Path) -> None:
    command("explain", str(path), "--json")


def _run(path: Path) -> None:
    session = Session(read_model(path))
    session.run({"x": torch.ones(3, 4)})


def _run_with_torch(path: Path) -> None:
    from onnxexp_custom_cpp import runtime

    runtime.session(path, bridge="python")


def _report(path: Path) -> None:
    from onnxexp_quantization_report.model_file import load

    load(path)


def _program(folder: Path) -> Path:
    path = folder / "model.pt2"
    program = torch.export.export(_Model().eval(), (torch.ones(3, 4),), dynamic_shapes=({0: torch.export.Dim("n", max=64)},))
    torch.export.save(program, path)
    return path


def _checkpoint(folder: Path) -> Path:
    from safetensors.torch import save_file

    path = folder / "model.safetensors"
    save_file({"a.weight": torch.ones(4, 5), "b": torch.arange(6), "c": torch.ones(3, dtype=torch.bfloat16)}, path)
    return path


def _index(folder: Path) -> Path:
    _checkpoint(folder)
    names = ("a.weight", "b", "c")
    path = folder / "other.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {"total_size": 134}, "weight_map": dict.fromkeys(names, "model.safetensors")}))
    return path


def _read_checkpoint(path: Path) -> None:
    for tensor in onnxexp.read_checkpoint(path).values():
        tensor.to(torch.float32).sum()


def _settings(name: str, header: str, folder: Path) -> Path:
    path = folder / name
    path.write_text(
        f'{header}plugins = ["aten", "..."]\ndisable = ["report"]\nopset = 17\ntarget = "onnx"\ndebug = false\n'
        'allow = ["onnxexp-plugin-aten@sha256:' + "0" * 64 + '"]\n' + ("[tool.onnxexp.prefer]" if header else "[prefer]")
        + '\n"aten::gelu" = "aten"\n'
    )  # fmt: skip
    return path


def _read_settings(path: Path) -> None:
    before = os.getcwd()
    os.chdir(path.parent)
    try:
        config.load()
    finally:
        os.chdir(before)


def _configuration(folder: Path) -> Path:
    path = folder / "config.json"
    path.write_text(
        json.dumps(
            {
                "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 16, "intermediate_size": 16,
                "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 32,
                "hidden_act": "silu", "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
                "torch_dtype": "float32", "tie_word_embeddings": False, "_attn_implementation": "sdpa",
            }
        )
    )  # fmt: skip
    return path


def _load_configuration(path: Path) -> None:
    from onnxexp_transformers.loading import load
    from onnxexp_transformers.tasks import task_of

    with torch.device("meta"):  # a file may describe a model of any size: its random weights are not what is tested
        load(path, task_of("text-generation"))


def _manifest(folder: Path) -> Path:
    from .folder_kills import write

    write(folder / "out", "tag")
    return folder / "out" / "onnxexp.json"


def _results(folder: Path) -> Path:
    from onnxexp_sweep.results import Results, row_of
    from onnxexp_sweep.versions import PACKAGES

    job: dict[str, Any] = {name: name for name in ("key", "model", "target", "frontend", "variant", "name")}
    job |= {"opset": 20, "options": {"a": 1}, "versions": dict.fromkeys(PACKAGES, "1")}
    with Results(folder) as results:
        results.append(row_of(job, {"status": "ok"}))
    return folder / "cells.parquet"


def _read_results(path: Path) -> None:
    from onnxexp_sweep.results import read, rows

    rows(read(path.parent))


KINDS = (
    Kind("ONNX, diff", _exported, _diff),
    Kind("ONNX, explain", _exported, _explain),
    Kind("ONNX, run", _exported, _run),
    Kind("ONNX with external data", functools.partial(_exported, external=True), _diff),
    Kind("ONNX with functions and metadata", _with_functions, _diff),
    Kind("ONNX with torch operators, run", _with_functions, _run_with_torch),
    Kind("ONNX with functions, report", _with_functions, _report),
    Kind("pt2", _program, load_archive),
    Kind("safetensors", _checkpoint, _read_checkpoint),
    Kind("index.json", _index, _read_checkpoint),
    Kind("config.json", _configuration, _load_configuration),
    Kind("onnxexp.toml", functools.partial(_settings, "onnxexp.toml", ""), _read_settings),
    Kind("pyproject.toml", functools.partial(_settings, "pyproject.toml", "[tool.onnxexp]\n"), _read_settings),
    Kind("onnxexp.json of a folder", _manifest, lambda path: OutputFolder(path.parent).written_files()),
    Kind("results of a sweep", _results, _read_results),
)


def _damage(kind: Kind) -> Callable[[Row, Path], None]:
    def cause(row: Row, folder: Path) -> None:
        """Read variants of a good file whose bits are flipped."""
        counts, problems = outcomes(kind, folder, COUNT)
        row.tries, row.counts = COUNT, dict(counts)
        row.bad.extend(problems)

    return cause


FAULTS = tuple(Fault(kind.name, _damage(kind)) for kind in KINDS)
