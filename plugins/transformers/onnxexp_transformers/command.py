"""`onnxexp export hf:...`: export a checkpoint or a configuration."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import time
from pathlib import Path
from typing import Any

from onnxexp import OptionError
from onnxexp.commands import Output, PluginSelection, Progress

SUMMARY = "export a model of Hugging Face transformers into a folder"


EXAMPLES = (
    ("onnxexp export hf:checkpoint --task text-generation -o folder", "a language model with a cache that grows"),
    (
        "onnxexp export hf:checkpoint --task text-generation --cache static --max-length 2048 -o folder",
        "with a cache of a fixed length",
    ),
    (
        "onnxexp export hf:config.json --task feature-extraction -o folder --verify",
        "with random weights, compared with the model",
    ),
)
"""Command lines, and what they do, for `--help`."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("target", metavar="hf:PATH", help="a checkpoint folder, or a config.json for random weights")
    parser.add_argument("--task", required=True, metavar="TASK", help="what the model does: text-generation, ...")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", required=True, help="the folder to write")
    parser.add_argument("--cache", choices=["past", "static"], help="the kind of cache (default: past, which grows)")
    parser.add_argument("--max-length", type=int, metavar="N", help="the number of tokens in a static cache")
    parser.add_argument("--towers", action="store_true", default=None, help="write the towers of images and texts as two files")
    parser.add_argument("--dtype", metavar="DTYPE", help="the dtype of the weights, such as float16 (default: the checkpoint's)")
    parser.add_argument("--trust-remote-code", action="store_true", help="let Python files of the checkpoint run")
    parser.add_argument("--target", dest="runs_in", metavar="WHAT", help="what runs the files, such as onnxruntime-contrib")
    parser.add_argument("--verify", action="store_true", help="compare with the model in ONNX Runtime before DIR is written")
    PluginSelection.add_arguments(parser)


def run(options: argparse.Namespace, output: Output) -> int:
    """Export a model, write its folder, and print a summary."""
    started = time.perf_counter()
    with Progress() as progress:
        progress.stage("loading torch and transformers")
        from onnxexp.commands import OutputFolder
        from onnxexp_transformers.export_model import export

        progress.stage(f"exporting {options.target}")
        given = {"cache": options.cache, "max_length": options.max_length, "towers": options.towers}
        exported = export(
            options.target.partition(":")[2],
            options.task,
            options.output,
            dtype=_dtype(options.dtype),
            trust_remote_code=options.trust_remote_code,
            task_options={name: value for name, value in given.items() if value is not None},
            target=options.runs_in,
            verify=options.verify,
            command=_command(options),
            **dataclasses.asdict(PluginSelection.read(options)),
        )
    folder = options.output.absolute()
    files = OutputFolder(folder).written_files()
    seconds = time.perf_counter() - started
    nodes = {name: len(program.model.graph) for name, program in exported.programs.items()}
    output.pairs(
        {
            "wrote": f"{options.output}: {', '.join(files)}",
            "nodes": ", ".join(f"{name} {count}" for name, count in nodes.items()),
            "seconds": f"{seconds:.2f}",
        }
    )
    output.document({"folder": str(folder), "files": files, "task": options.task, "nodes": nodes, "seconds": seconds})
    return 0


def _command(options: argparse.Namespace) -> str:
    """Build the command line with these options."""
    words = ["onnxexp", "export", options.target, "--task", options.task, "-o", str(options.output)]
    for name in ("cache", "max_length", "dtype", "opset"):
        if vars(options)[name] is not None:
            words += [f"--{name.replace('_', '-')}", str(vars(options)[name])]
    for name in ("plugins", "without", "prefer"):
        for value in vars(options)[name] or ():
            words += [f"--{name}", value]
    words += [f"--{name.replace('_', '-')}" for name in ("towers", "trust_remote_code", "verify") if vars(options)[name]]
    return shlex.join(words)


def _dtype(name: str | None) -> Any:
    import torch

    found = vars(torch).get(name) if name is not None else None
    if name is not None and not isinstance(found, torch.dtype):
        raise OptionError(f"--dtype {name}: torch has no such dtype; give float32, float16 or bfloat16")
    return found
