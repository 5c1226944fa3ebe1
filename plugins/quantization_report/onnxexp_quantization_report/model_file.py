"""Read an ONNX file, and load it into ONNX Runtime.

The nodes get names that ONNX Runtime keeps in the names of the nodes it derives.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass, ShapeInferencePass

from onnxexp import OnnxExporterError, OptionError
from onnxexp.checking import Session
from onnxexp.commands import read_model

_MARK = re.compile(r"@(\d+)@")
_SHOWN = 300
OPTIMIZED = "optimized.onnx"
"""The file with the model that ONNX Runtime makes of another one."""


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


def session(file: ModelFile, threads: int, *, measured_in: Path | None = None) -> Session:
    """Load a model into ONNX Runtime on the CPU.

    Args:
        file: The model.
        threads: The number of threads; 0 leaves it to ONNX Runtime.
        measured_in: The folder for `OPTIMIZED`, the model that ONNX Runtime makes of it, and for the profile, which is complete
            when the session is deleted. Without it nothing is optimized.

    Raises:
        OnnxExporterError: ONNX Runtime is not installed, or refuses the model.
    """

    def prepare(model: ir.Model, options: Any) -> ir.Model:
        options.intra_op_num_threads = threads
        if measured_in is None:
            options.graph_optimization_level = type(options.graph_optimization_level).ORT_DISABLE_ALL
        else:
            options.optimized_model_filepath = str(measured_in / OPTIMIZED)
            options.add_session_config_entry("session.optimized_model_external_initializers_file_name", f"{OPTIMIZED}.weights")
            options.enable_profiling = True
            options.profile_file_prefix = str(measured_in / "profile")
        return model

    try:
        return Session(file.model, prepare)
    except OnnxExporterError as error:
        raise OnnxExporterError(f"{file.title}: {error}") from error
