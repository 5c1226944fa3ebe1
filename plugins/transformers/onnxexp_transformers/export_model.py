"""`export`: a model of transformers for a task, as one or several graphs.

transformers' layers of experts loop over ``(…).nonzero()``, the experts that a token of the batch has chosen. An expert without
tokens adds nothing to the result, so that the loop over all of them computes the same.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedConfig

import onnxexp
from onnxexp import CaptureError, is_in_onnx_export
from onnxexp.commands import OutputFolder
from onnxexp.frontends import replace_attributes
from onnxexp_transformers.folder import ExportedParts, check_folder, write_folder
from onnxexp_transformers.loading import load
from onnxexp_transformers.shared_buffers import SHARED_BUFFERS, shareable
from onnxexp_transformers.tasks import Part, task_of

_NAME = "onnx_export"


class ExportedModel(ExportedParts):
    """The graphs of an exported model.

    Attributes:
        task: The name of the task.
        programs: The `onnxexp.ONNXProgram` of each part, by the name of its file without ``.onnx``.
        program: The only program; raises OptionError if the model has several parts.
        loaded: The original model, and the folder that it comes from.
        options: The options of the task, such as ``cache``.
    """

    def save(self, folder: str | os.PathLike[str], *, command: str | None = None) -> Path:
        """Write the graphs, the configuration, the tokenizer's files and a model card.

        The folder appears, or replaces an earlier export, when it is complete. In the folder of an earlier export, files that no
        export wrote stay, and so do those that were changed since, unless this export writes a file of that name.

        Args:
            folder: The folder to write.
            command: The command for the model card; None describes the call in Python.

        Raises:
            OptionError: The folder has files and is no earlier export, or files that are not an export's are in the way.
            SerializeError: The files could not be written. An earlier folder is unharmed.
        """
        return write_folder(Path(folder), self, command)


def export(
    model: Any,
    task: str,
    output: str | os.PathLike[str] | None = None,
    *,
    dtype: torch.dtype | None = None,
    trust_remote_code: bool = False,
    task_options: Mapping[str, Any] | None = None,
    command: str | None = None,
    **options: Any,
) -> ExportedModel:
    """Export a model of transformers for a task.

    Args:
        model: A model, a configuration (its weights are random), the path of a checkpoint folder, or of a ``config.json``.
        task: The name of the task, such as ``text-generation``; `onnxexp_transformers.tasks.TASKS` lists them.
        output: A folder to write, as `ExportedModel.save` does; None only returns the programs.
        dtype: The dtype of the weights to load; None keeps the checkpoint's.
        trust_remote_code: Whether Python files of the checkpoint may run.
        task_options: Options of the task: ``{"cache": "static", "max_length": 512}``.
        command: The command for the model card of `output`; None describes the call in Python.
        options: Options of `onnxexp.export`: `opset_version`, `target`, `plugins`, `verify`, ….

    Raises:
        OptionError: There is no such task, the model does not fit it, or cannot be loaded, or `output` cannot be replaced.
        OnnxExporterError: What `onnxexp.export` raises.
    """
    chosen = task_of(task)
    if output is not None:
        OutputFolder(output).check()  # before the weights are read
    loaded = load(model, chosen, trust_remote_code=trust_remote_code, dtype=dtype)
    given = dict(task_options or {})
    parts = chosen.parts(loaded.model, **given)
    if output is not None:
        check_folder(Path(output), task, [part.name for part in parts], loaded)
    with export_switch(loaded.model), all_experts(loaded.model):
        programs = {part.name: _program(part, options) for part in parts}
    for program in programs.values():
        if inputs := shareable(program.model.graph):
            program.model.metadata_props[SHARED_BUFFERS] = " ".join(inputs)
    exported = ExportedModel(task, programs, loaded, given)
    if output is not None:
        exported.save(output, command=command)
    return exported


def _program(part: Part, options: Mapping[str, Any]) -> onnxexp.ONNXProgram:
    """Export a part.

    If the model fixes the size of images in Python, the size in the graph is static.
    """
    exported = functools.partial(onnxexp.export, part.module, kwargs=dict(part.inputs), **options)
    shapes = dict(part.dynamic_shapes)
    try:
        return exported(dynamic_shapes=shapes)
    except CaptureError as error:
        fixed = {name: _without(axes, ("height", "width")) for name, axes in shapes.items()}
        if fixed == shapes:
            raise
        program = exported(dynamic_shapes=fixed)
        reason = str(error).strip().splitlines()
        height, width = part.inputs["pixel_values"].shape[-2:]
        onnxexp.warn(
            f"{part.name}.onnx takes images of {height} × {width} pixels only; for another size, give "
            f"task_options={{'height': …, 'width': …}}. The capture with a dynamic size failed: "
            f"{reason[min(1, len(reason) - 1)].strip()}"
        )
        return program


def _without(axes: Any, labels: Sequence[str]) -> Any:
    """Return the axes of an input without those labels.

    The axes of a container stay as they are.
    """
    return {axis: label for axis, label in axes.items() if label not in labels} if isinstance(axes, dict) else axes


@contextlib.contextmanager
def export_switch(model: torch.nn.Module) -> Iterator[None]:
    """Set ``onnx_export`` in the configurations of a model inside the `with`.

    Models with windows, as Longformer and LED, then cut them by `unfold`. Otherwise they compute strides of memory, which a
    trace has as the example's numbers. Most configurations have no such field, which is removed again.
    """
    found = {id(config): vars(config) for module in model.modules() if isinstance(config := _config(module), PreTrainedConfig)}
    before = [(fields, fields.get(_NAME)) for fields in found.values()]
    for fields, _ in before:
        fields[_NAME] = True
    try:
        yield
    finally:
        for fields, value in before:
            fields.pop(_NAME)
            if value is not None:
                fields[_NAME] = value


def _config(module: torch.nn.Module) -> Any:
    return vars(module).get("config")


@contextlib.contextmanager
def all_experts(model: torch.nn.Module) -> Iterator[None]:
    """Let a model's layers of experts loop over all experts inside the `with`."""
    layers = [module for module in model.modules() if _loops(module)]
    with replace_attributes((layer, "forward", _over_all(layer, layer.forward)) for layer in layers):
        yield


def _loops(module: torch.nn.Module) -> bool:
    """Return whether a module is a dict of experts.

    Other layers have one tensor for all experts.
    """
    return isinstance(module, torch.nn.ModuleDict) and "num_experts" in vars(module)


def _over_all(layer: Any, forward: Callable[..., Any]) -> Callable[..., Any]:
    nonzero = torch.Tensor.nonzero

    def listed(self: torch.Tensor, **options: Any) -> Any:
        every = self.dim() == 1 and self.shape[0] == layer.num_experts and not options
        return [[index] for index in range(layer.num_experts)] if every else nonzero(self, **options)

    @functools.wraps(forward)
    def call(*args: Any, **options: Any) -> Any:
        if not is_in_onnx_export():
            return forward(*args, **options)
        with replace_attributes([(torch.Tensor, "nonzero", listed)]):
            return forward(*args, **options)

    return call
