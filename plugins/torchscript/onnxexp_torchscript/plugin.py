"""The hooks `capture` and `lower_node`, implemented for TorchScript."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from onnxexp import Builder, CaptureError, Node, Options, hookimpl
from onnxexp.capture.captured_program import CapturedProgram, make_functional
from onnxexp.capture.private_model import private_tensors
from onnxexp.capture.torch_export.decompose.node_decomposer import Decomposer
from onnxexp.capture.torch_state import model_mode, torch_mode
from onnxexp.request.dynamic_shapes import DynamicSpec
from onnxexp.request.module_and_forward import is_scripted
from onnxexp_torchscript.container_inputs import check_opset
from onnxexp_torchscript.jit_converter import Converted, convert
from onnxexp_torchscript.script import script
from onnxexp_torchscript.sequence_ops import lower_sequence
from onnxexp_torchscript.trace import Recording, trace

__all__ = ["TorchScript"]


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
    ) -> CapturedProgram | None:
        """Capture a ScriptModule, or trace or script a model by `options.capture`.

        Returns None for any other call. Raises CaptureError where the capture fails.
        """
        if isinstance(model, ExportedProgram) or (options.capture not in ("trace", "script") and not is_scripted(model)):
            return None
        with torch_mode(), model_mode(model.modules(), options.training), contextlib.ExitStack() as stack:
            if options.capture == "script" or is_scripted(model):
                record: Callable[..., Recording] = functools.partial(script, model, args, kwargs, spec)
            else:
                private = stack.enter_context(private_tensors(model))
                record = functools.partial(trace, model, private, args, kwargs, spec)
            recording, (graph, sizes, changed, allowed, containers) = _converted(record, spec, options)
        make_functional(graph, changed, spec.leaves)
        decomposer = Decomposer(lambda: sizes.mode, sizes.texts, sizes.text)
        return CapturedProgram(
            graph, decomposer, recording.in_spec, recording.out_spec, recording.warnings, allowed, containers
        )  # fmt: skip

    @hookimpl
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
