"""`ONNXProgram`: an exported model, ready to be run, checked, printed and saved."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

import onnx
import onnx_ir as ir
import torch

from onnxexp.errors import OnnxExporterError
from onnxexp.plugins.write_hook import save_plugged
from onnxexp.program.model_text import ascii_text, render, type_text
from onnxexp.program.signature import InputSlot, OutputSlot, Signature
from onnxexp.serialize import SavedFile, WriteOptions, save, to_proto

if TYPE_CHECKING:
    from onnxexp.graph import Node
    from onnxexp.plugins.loading import Plugin, Plugins
    from onnxexp.program.comparison import VerificationReport
    from onnxexp.program.onnxruntime_session import Session
    from onnxexp.request.export_context import ExportContext

__all__ = ["InputSlot", "ONNXProgram", "OutputSlot", "Signature"]


class ONNXProgram:
    """An exported model.

    Calling it runs it in ONNX Runtime, with torch tensors in the original's input and output structure. ``print(program)``
    shows the graph.

    Attributes:
        signature: How a call of the original maps to the graph's inputs and outputs.
        eager: The original, for `verify`; None where there is none.
        example: The ``(args, kwargs)`` that the export was made with.
        weights: Parameters that the graph takes as inputs (``export_params=False``), by input; calls feed them.
        timings: Seconds by stage of the export, in order.
        pass_timings: Seconds by pass, as ``plugin/pass``.
        lowered: The nodes of the captured graph, each with who lowered it: a plugin's name, "decomposed", or "core".
    """

    def __init__(
        self,
        model: ir.Model,
        *,
        signature: Signature,
        eager: Callable[..., Any] | None,
        example: tuple[Sequence[Any], Mapping[str, Any]],
        weights: Mapping[str, torch.Tensor] | None = None,
        plugins: Plugins | None = None,
        context: ExportContext | None = None,
        timings: dict[str, float] | None = None,
        pass_timings: dict[str, float] | None = None,
        lowered: list[tuple[Node, str]] | None = None,
    ) -> None:
        self.signature = signature
        self.timings = timings or {}
        self.pass_timings = pass_timings or {}
        self.lowered = lowered or []
        self.eager = eager
        self.example = example
        self.weights = dict(weights or {})
        self._model = model
        self._plugins = plugins
        self._context = context
        self._session: Session | None = None
        self._lock = threading.Lock()

    @property
    def model(self) -> ir.Model:
        """The model. Assign it after a change, also one in place: the next call then loads it anew."""
        return self._model

    @model.setter
    def model(self, model: ir.Model) -> None:
        with self._lock:
            self._model = model
            self._session = None

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """The plugins that took part: lowered a node, ran a pass."""
        return self._plugins.used_plugins() if self._plugins is not None else ()

    @property
    def model_proto(self) -> onnx.ModelProto:
        """The model as a protobuf message, made at each access. It holds a copy of the weights."""
        return to_proto(self._model)

    def save(self, target: str | os.PathLike[str] | BinaryIO, *, external_data: bool | None = None) -> SavedFile:
        """Write the model, atomically where the target is a path; returns what was written.

        Args:
            target: A path, or a binary file object.
            external_data: Whether the weights go into a second file beside it; None: only where one file cannot hold
                them (2 GB).

        A plugin's hook `serialize` is asked first where the target is a path.

        Raises:
            SerializeError: it could not be written; what was there before is unharmed.
        """
        options = WriteOptions(external_data=external_data)
        written = None
        if self._plugins is not None and self._context is not None:
            written = save_plugged(self, self._plugins, self._context, target, options)
        return written or save(self._model, target, options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run in ONNX Runtime, called as the original is. Tensors of the result are on the CPU.

        Raises OnnxExporterError where ONNX Runtime is not installed, refuses the model or fails, and where the arguments
        do not fit what was exported.
        """
        leaves = self.signature.flatten(args, kwargs)
        return self.signature.unflatten(self._run(leaves), leaves)

    def verify(
        self,
        args: Sequence[Any] | torch.Tensor | None = None,
        kwargs: Mapping[str, Any] | None = None,
        *,
        rtol: float | None = None,
        atol: float | None = None,
    ) -> VerificationReport:
        """Compare with the original on the same inputs: every output's dtype, shape and values.

        Args:
            args: Positional arguments; the example's where neither `args` nor `kwargs` is given.
            kwargs: Keyword arguments.
            rtol: Relative tolerance; by dtype where not given (see `onnxexp.program.comparison`).
            atol: Absolute tolerance; by dtype and the values' magnitude where not given.

        Raises:
            VerificationError: they differ; it lists every output that does.
            OnnxExporterError: the program cannot be run, or it was made without an original.
        """
        from onnxexp.program.comparison import compare, run_eager

        if self.eager is None:
            raise OnnxExporterError("this program was made without an original to compare with")
        if args is None and kwargs is None:
            args, kwargs = self.example
        args = (args,) if isinstance(args, torch.Tensor) else tuple(args or ())
        leaves = self.signature.flatten(args, kwargs or {})
        expected = run_eager(self.eager, args, kwargs or {})
        actual = self.signature.unflatten(self._run(leaves), leaves)
        names = self.signature.output_names([value.name or "" for value in self._model.graph.outputs])
        report = compare(expected, actual, names, rtol=rtol, atol=atol)
        report.raise_for_difference()
        return report

    def _run(self, leaves: Sequence[Any]) -> list[Any]:
        if not self._model.graph.outputs:
            return []
        return self._loaded().run({**self.weights, **{slot.name: leaves[slot.leaf] for slot in self.signature.inputs}})

    def _loaded(self) -> Session:
        """The session, made at the first call."""
        from onnxexp.program.onnxruntime_session import Session

        with self._lock:
            if self._session is None:
                self._session = Session(self._model)
            return self._session

    def __str__(self) -> str:
        return render(self.model)

    def __repr__(self) -> str:
        graph = self._model.graph
        inputs, outputs = (
            ", ".join(f"{value.name}: {type_text(value)}" for value in values) for values in (graph.inputs, graph.outputs)
        )
        return ascii_text(
            f"<ONNXProgram ({inputs}) -> ({outputs}), {len(graph)} nodes, opset {self._model.opset_imports.get('')}>"
        )
