"""The hooks `capture` and `lower_node`, implemented for TorchScript."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from onnxexp import Builder, CaptureError, ExportContext, Options, hookimpl
from onnxexp.frontends import CapturedProgram, Decomposer, DynamicSpec, capture_mode, is_scripted
from onnxexp.graph import Node
from onnxexp_torchscript.conversion.container_inputs import check_opset
from onnxexp_torchscript.jit_converter import Converted, convert
from onnxexp_torchscript.lists.sequence_ops import lower_sequence
from onnxexp_torchscript.script.script import script
from onnxexp_torchscript.trace.trace import Recording, trace


class TorchScript:
    """The frontend: traces and scripts modules, and reads scripted ones."""

    @hookimpl
    def capture(
        self,
        model: torch.nn.Module | ExportedProgram,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        spec: DynamicSpec,
        options: Options,
        context: ExportContext,
    ) -> CapturedProgram | None:
        """Capture a ScriptModule, or trace or script a model by `options.capture`.

        Returns None for any other call. Raises CaptureError where the capture fails.
        """
        if isinstance(model, ExportedProgram) or (options.capture not in ("trace", "script") and not is_scripted(model)):
            return None
        scripts = options.capture == "script" or is_scripted(model)
        with capture_mode(model, options.training, copy=not scripts) as private:
            record: Callable[..., Recording] = functools.partial(trace, model, private, args, kwargs, spec, context.redirections)
            if scripts:
                record = functools.partial(script, model, args, kwargs, spec)
            recording, (graph, sizes, changed, allowed, containers) = _converted(record, spec, options)
        return CapturedProgram(
            graph,
            recording.in_spec,
            recording.out_spec,
            decompose=Decomposer(lambda: sizes.mode, sizes.expressions, sizes.dim_of),
            written=changed,
            constants=recording.warnings,
            restrictions=allowed,
            containers=containers,
        )

    @hookimpl(namespaces=["prim"])
    def lower_node(self, op: Builder, node: Node) -> Any:
        """Lower a node on a list of unknown length."""
        return lower_sequence(op, node)


def _converted(record: Callable[..., Recording], spec: DynamicSpec, options: Options) -> tuple[Recording, Converted]:
    """Record a program and convert it.

    Where that fails, the program is recorded again with options that fix less.
    """
    recording = record()
    check_opset(recording.example, spec, options.opset)
    try:
        return recording, convert(recording, spec, options.opset, options.check_sizes)
    except CaptureError:
        for attempt in recording.attempts:
            with contextlib.suppress(CaptureError):  # the first error has the reason
                again = record(**attempt)
                return again, convert(again, spec, options.opset, options.check_sizes)
        raise
