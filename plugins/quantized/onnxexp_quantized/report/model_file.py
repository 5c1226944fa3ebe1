"""Read an ONNX file, and load it into ONNX Runtime.

The nodes get names that ONNX Runtime keeps in the names of the nodes it derives.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass, ShapeInferencePass

from onnxexp import OnnxExporterError, OptionError
from onnxexp.commands import read_model

_MARK = re.compile(r"@(\d+)@")
_IN_ONE_FILE = 1 << 30
"""Bytes of weights above which they go beside a model, as protobuf has a limit of 2 GiB."""

_SHOWN = 300
_QUIET = 4
"""ONNX Runtime's log severity "fatal": errors are raised, not printed."""


@dataclasses.dataclass
class ModelFile:
    """An ONNX model, with functions inlined and types inferred.

    Attributes:
        title: The file's name, as the report shows it.
        model: The model. Its nodes have the names of `marked`.
        names: The nodes' own names.
    """

    title: str
    model: ir.Model
    names: list[str]

    @property
    def nodes(self) -> list[ir.Node]:
        """All nodes, those of inner graphs too; a node's index is in its name."""
        return list(self.model.graph.all_nodes())

    def name(self, node: ir.Node) -> str:
        """Return a node's own name; that of its output if it has none."""
        (index,) = original_nodes(node.name or "")
        return self.names[index] or node.outputs[0].name or f"{node.op_type} {index}"


def marked(index: int) -> str:
    """Return the marked name for the node of an index.

    ONNX Runtime keeps it in the names of the nodes that it derives.
    """
    return f"@{index}@"


def original_nodes(name: str) -> list[int]:
    """Return the indices in a name that ONNX Runtime derived from those of `marked`."""
    return [int(index) for index in _MARK.findall(name)]


def load(source: Path | ir.Model, title: str = "") -> ModelFile:
    """Read a file, or take a model of our own.

    Raises:
        OptionError: The file is missing or is not an ONNX model.
    """
    if isinstance(source, Path):
        model = read_model(source)
    else:
        model = source.clone()
    try:
        if model.functions:
            InlinePass()(model)
        ShapeInferencePass(check_type=False, strict_mode=False)(model)
    except Exception as error:  # onnx-ir's errors have no common class
        reason = str(error.__cause__ or error).partition("\n")[0][:_SHOWN]
        raise OptionError(f"{title or source} is not a valid model: {reason}; to fix this, export it again") from error
    nodes = list(model.graph.all_nodes())
    names = [node.name or "" for node in nodes]
    for index, node in enumerate(nodes):
        node.name = marked(index)
    return ModelFile(title or str(source), model, names)


def write(model: ir.Model, folder: Path) -> Path:
    """Write a model for ONNX Runtime to a folder of its own."""
    folder.mkdir()
    path = folder / "model.onnx"
    large = sum(_sizes(model)) > _IN_ONE_FILE
    ir.save(model, path, external_data="weights" if large else None)
    return path


def _sizes(model: ir.Model) -> Iterator[int]:
    for graph in model.graphs():
        yield from (each.const_value.nbytes for each in graph.initializers.values() if each.const_value is not None)


def runtime() -> ModuleType:
    """Import ONNX Runtime. Raises OnnxExporterError if it is not installed."""
    try:
        import onnxruntime
    except ImportError as error:
        raise OnnxExporterError(
            f"a report needs ONNX Runtime, which cannot be imported ({error}): `pip install onnxexp[runtime]`"
        ) from error
    return onnxruntime


def session(path: Path, title: str, threads: int = 0, *, optimized: Path | None = None, profile: Path | None = None) -> Any:
    """Load a file into ONNX Runtime on the CPU.

    Args:
        path: The file.
        title: The name of the user's file, for messages.
        threads: The number of threads; 0 leaves it to ONNX Runtime.
        optimized: Where to write the model that ONNX Runtime makes of it; without it, nothing is optimized.
        profile: The prefix of the profile's file, if one is wanted.

    Raises:
        OnnxExporterError: ONNX Runtime is not installed, or refuses the file.
    """
    library = runtime()
    options = library.SessionOptions()
    options.log_severity_level = _QUIET
    options.intra_op_num_threads = threads
    if optimized is None:
        options.graph_optimization_level = library.GraphOptimizationLevel.ORT_DISABLE_ALL
    else:
        options.optimized_model_filepath = str(optimized)
        if path.with_name("weights").exists():
            options.add_session_config_entry(
                "session.optimized_model_external_initializers_file_name", f"{optimized.name}.weights"
            )
    if profile is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(profile)
    try:
        return library.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's errors have no base of their own
        raise OnnxExporterError(f"ONNX Runtime {library.__version__} does not take {title}: {error}") from error
