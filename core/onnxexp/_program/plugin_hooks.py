"""The hooks of a finished program: write it, report on it, prepare it to run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx_ir as ir

from onnxexp._checking.mismatch_report import MismatchReport
from onnxexp._errors import OnnxExporterError, PluginError, SerializeError
from onnxexp._plugins import loading
from onnxexp._plugins.foreign_code import calling
from onnxexp._plugins.loading import Plugins
from onnxexp._program.program import ONNXProgram, Target
from onnxexp._request import config
from onnxexp._request.export_context import ExportContext
from onnxexp._serialize import SavedFile, WriteOptions, save


def write_program(
    plugins: Plugins, context: ExportContext, program: ONNXProgram, target: Target, options: WriteOptions
) -> SavedFile:
    """Write a program; the plugins' hooks come first where the target is a path.

    Raises SerializeError, with the plugin's name where its hook fails.
    """
    implementations = plugins.implementations("serialize") if isinstance(target, (str, os.PathLike)) else ()
    for implementation in implementations:
        path = Path(target)  # type: ignore[arg-type] # no file object
        with calling(implementation.plugin, f"{implementation}, called for {path},", SerializeError):
            written = implementation(program=program, path=path, options=options, context=context)
        if written:
            if not path.exists():
                raise SerializeError(f"{implementation} returned True for {path}, and there is no such file")
            plugins.used.add(implementation.plugin.name)
            return SavedFile((path,), path.stat().st_size)
    return save(program.model, target, options)


def prepare_session(plugins: Plugins, context: ExportContext | None, model: ir.Model, options: Any) -> ir.Model:
    """Return the model that ONNX Runtime loads. Raises PluginError."""
    for implementation in plugins.implementations("prepare_session"):
        with calling(implementation.plugin, implementation, PluginError, (OnnxExporterError,)):
            changed = implementation(model=model, options=options, context=context)
        if changed is not None and not isinstance(changed, ir.Model):
            raise PluginError(
                f"{implementation} returned {changed!r}, which is no onnx_ir.Model; to fix this, return a model or None"
            )
        model = model if changed is None else changed
    return model


def report_program(
    plugins: Plugins,
    context: ExportContext,
    program: ONNXProgram,
    path: Path,
    mismatch: MismatchReport | None,
    profile: bool,
    **texts: Sequence[str],
) -> None:
    """Write a report, see `ONNXProgram.report`.

    An installed plugin does it where the program's own have no such hook.

    Raises PluginError where there is none, or its hook fails.
    """
    own = plugins.implementations("write_report")
    for implementation in own or loading.load(config.load()).implementations("write_report"):
        with calling(implementation.plugin, f"{implementation}, called for {path},", PluginError, (OnnxExporterError,)):
            written = implementation(program=program, path=path, mismatch=mismatch, profile=profile, context=context, **texts)
        if written:
            return
    raise PluginError(f"no plugin writes a report to {path}: `pip install onnxexp-plugin-report` for a page (.html)")
