"""The class `ONNXProgram`, an exported model to run, check, print and save."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import onnx
import onnx_ir as ir
import torch

from onnxexp._checking.comparison import Tolerances, VerificationReport
from onnxexp._checking.exported import opener
from onnxexp._checking.mismatch import find_mismatch
from onnxexp._checking.mismatch_report import MismatchReport
from onnxexp._checking.verification import InputCase, cases_of, verify
from onnxexp._errors import OnnxExporterError
from onnxexp._model.model_text import render
from onnxexp._model.notebook_table import notebook_table
from onnxexp._model.onnxruntime_session import Prepare, Session
from onnxexp._model.origins import LoweringRecord, without_origins
from onnxexp._model.signature import Signature
from onnxexp._model.type_text import ascii_text, type_text
from onnxexp._neutral_graph import Node
from onnxexp._request.dynamic_shapes import DynamicSpec
from onnxexp._serialize import SavedFile, WriteOptions, save, to_proto

Target: TypeAlias = "str | os.PathLike[str] | BinaryIO"
Write: TypeAlias = "Callable[[ONNXProgram, Target, WriteOptions], SavedFile]"
"""Writes a program to a path or a binary file object."""
WriteReport: TypeAlias = "Callable[..., None]"
"""Writes a report, see `onnxexp._program.plugin_hooks.report_program`."""


class ONNXProgram:
    """An exported model.

    A call runs it in ONNX Runtime, with torch tensors in the original's input and output structure. ``print(program)`` prints the
    graph.

    Attributes:
        signature: The mapping of a call of the original to the graph's inputs and outputs.
        eager: The original, for `verify`, or None.
        example: The example's ``(args, kwargs)``.
        weights: Parameters that are inputs of the graph (``export_params=False``), by input; calls feed them.
        timings: Seconds by stage of the export, in order.
        pass_timings: Seconds by pass, as ``plugin/pass``.
        spec: The dynamic axes and numbers of the export, or None.
        prepare: Prepares the model for ONNX Runtime, by the plugins' hooks.
        lowered: The nodes of the captured graph, each with its lowering: a plugin's name, "decomposed", "core", or
            "torch" for one that is kept.
        record: The captured graph and the ONNX value of each of its values; None for a program that was made otherwise.
    """

    def __init__(
        self,
        model: ir.Model,
        *,
        signature: Signature,
        eager: Callable[..., Any] | None,
        example: tuple[Sequence[Any], Mapping[str, Any]],
        weights: Mapping[str, torch.Tensor] | None = None,
        plugins_used: Callable[[], Sequence[Any]] = tuple,
        write: Write = lambda program, target, options: save(program.model, target, options),
        prepare: Prepare = lambda model, options: model,
        timings: dict[str, float] | None = None,
        pass_timings: dict[str, float] | None = None,
        lowered: list[tuple[Node, str]] | None = None,
        record: LoweringRecord | None = None,
        spec: DynamicSpec | None = None,
        write_report: WriteReport | None = None,
    ) -> None:
        self.signature = signature
        self.timings = timings or {}
        self.pass_timings = pass_timings or {}
        self.lowered = lowered or []
        self.record = record
        self.eager = eager
        self.spec = spec
        self.example = example
        self.weights = dict(weights or {})
        self._model = model
        self._plugins_used = plugins_used
        self._write, self._write_report = write, write_report
        self.prepare = prepare
        self._session: Session | None = None
        self._lock = threading.Lock()

    @property
    def model(self) -> ir.Model:
        """The ONNX model.

        Assign the model after a change, so that the next call loads it again.
        """
        return self._model

    @model.setter
    def model(self, model: ir.Model) -> None:
        with self._lock:
            self._model = model
            self._session = None

    @property
    def plugins(self) -> tuple[Any, ...]:
        """The plugins that lowered a node, changed the model in a pass, or wrote the file.

        Each plugin has a `name`, a `distribution` ("" for one that was passed to the call) with its `version`, and `hooks`.
        """
        return tuple(self._plugins_used())

    @property
    def model_proto(self) -> onnx.ModelProto:
        """The model as a protobuf message with a copy of the weights, made at each access."""
        return to_proto(self._model)

    def save(self, target: Target, *, external_data: bool | None = None, strip: bool = False) -> SavedFile:
        """Write the model, atomically if the target is a path, and return the files.

        If the target is a path, the plugins' hook `serialize` comes before the core's writer.

        Args:
            target: A path, or a binary file object.
            external_data: Whether the weights go into a second file beside it; None: only above the 2 GB limit of one file.
            strip: Leave the origin of each node (module, source line, operator, symbolic) out of the file.

        Raises:
            SerializeError: The model could not be written. An earlier file is unharmed.
        """
        with without_origins(self._model) if strip else contextlib.nullcontext():
            return self._write(self, target, WriteOptions(external_data=external_data))

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        mismatch: MismatchReport | bool = False,
        profile: bool = False,
        warnings: Sequence[str] = (),
        problems: Sequence[str] = (),
    ) -> None:
        """Write a page about this program, by a plugin such as onnxexp-plugin-report.

        The page has the program's graph, weights, times and errors.

        Args:
            path: The file, ``report.html``.
            mismatch: A result of `find_mismatch`, whose errors are shown; True runs it on the example.
            profile: Show the time that each operator takes in ONNX Runtime.
            warnings: The warnings of the export.
            problems: Why operators could not be lowered, for a program that keeps them (``ONNX_FALLTHROUGH``).

        Raises:
            OnnxExporterError: No plugin writes such a file, or it failed. An earlier file is unharmed.
        """
        if self._write_report is None:
            raise OnnxExporterError("this program cannot be reported; to fix this, use the program that onnxexp.export returns")
        found = self.find_mismatch() if mismatch is True else mismatch or None
        self._write_report(self, Path(path), found, profile, warnings=warnings, problems=problems)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model in ONNX Runtime, with the original's arguments.

        Tensors of the result are on the CPU.

        Raises OnnxExporterError where ONNX Runtime is not installed, refuses the model or fails, and where the arguments
        do not fit the exported model.
        """
        leaves = self.signature.flatten(args, kwargs)
        return self.signature.unflatten(self._run(leaves), leaves)

    def verify(
        self,
        args: Sequence[Any] | torch.Tensor | None = None,
        kwargs: Mapping[str, Any] | None = None,
        *,
        inputs: Sequence[Any] | str | None = None,
        rtol: float | None = None,
        atol: float | None = None,
        tolerances: Tolerances | None = None,
        backend: str = "onnxruntime",
        seed: int = 0,
    ) -> VerificationReport:
        """Compare the dtype, shape and values of every output with the original's.

        Outputs that depend on random numbers, such as those of a dropout in training mode, are compared by dtype and shape.

        Args:
            args: Positional arguments; the example's where neither `args`, `kwargs` nor `inputs` is given.
            kwargs: Keyword arguments.
            inputs: Several inputs: for each a tuple of positional arguments, a tensor, or a dict of keyword arguments. Or
                "random": tensors of the example's shapes, dtypes and ranges. Or "sizes": such tensors at the example's sizes and
                at others of the dynamic axes: 1, odd ones that differ from each other, twice the example's.
            rtol: Relative tolerance; by default it depends on the dtype (see `onnxexp._checking.comparison`).
            atol: Absolute tolerance; by default it depends on the dtype and the values' magnitude.
            tolerances: ``{dtype: (rtol, atol)}``.
            backend: "onnxruntime", or "reference" for ONNX's reference evaluator.
            seed: The seed of random inputs.

        Raises:
            VerificationError: Outputs differ; the message lists them all, and `report` has them.
            OnnxExporterError: The program cannot be run, or there is no original.
        """
        if inputs is not None:
            cases = list(cases_of(self, inputs, seed))
        else:
            cases = [InputCase("", *self._call_or_example(args, kwargs))]
        runner = self._loaded() if backend == "onnxruntime" else opener(backend, self.prepare)(self._model)
        return verify(self, runner, cases, rtol=rtol, atol=atol, tolerances=tolerances)

    def verify_sizes(self) -> VerificationReport:
        """Compare on the example, and on the example repeated to other sizes.

        The sizes are 1, odd ones that differ from each other, and twice the example's, as far as the axes' ranges, the program's
        restrictions and the original allow them. Raises VerificationError with the sizes.
        """
        return self.verify(inputs="repeated")

    def find_mismatch(
        self,
        args: Sequence[Any] | torch.Tensor | None = None,
        kwargs: Mapping[str, Any] | None = None,
        *,
        rtol: float | None = None,
        atol: float | None = None,
        tolerances: Tolerances | None = None,
        backend: str = "onnxruntime",
        chunk_bytes: int = 256 << 20,
    ) -> MismatchReport:
        """Find the first captured node whose ONNX value differs, and the cause.

        Every captured node is run in torch, beside its ONNX value: on torch's own results, which shows how errors grow, and on
        ONNX's, which shows the nodes that are wrong by themselves. Print the report to read it.

        Args:
            args, kwargs, rtol, atol, tolerances, backend: As for `verify`.
            chunk_bytes: The bytes of torch's results and of weights that are compared at once. ONNX Runtime loads a chunk as a
                model, so that the process grows by up to five times as much.

        Raises:
            OptionError: The program was not made by an export.
            OnnxExporterError: The arguments do not fit, or the backend cannot run the model.
        """
        return find_mismatch(
            self, *self._call_or_example(args, kwargs), rtol=rtol, atol=atol, tolerances=tolerances, backend=backend,
            chunk_bytes=chunk_bytes, loaded=self._loaded() if backend == "onnxruntime" else None,
        )  # fmt: skip

    def _call_or_example(self, args: Any, kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        if args is None and kwargs is None:
            return tuple(self.example[0]), self.example[1]
        return (args,) if isinstance(args, torch.Tensor) else tuple(args or ()), kwargs or {}

    def _loaded(self) -> Session:
        with self._lock:  # the session is made at the first call
            self._session = self._session or Session(self._model, self.prepare)
            return self._session

    def _run(self, leaves: Sequence[Any]) -> list[Any]:
        return self._loaded().run({**self.weights, **self.signature.feeds(leaves)})

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

    def _repr_html_(self) -> str:
        graph = self._model.graph
        rows = [
            (kind, value.name, type_text(value))
            for kind, values in (("input", graph.inputs), ("output", graph.outputs))
            for value in values
        ]
        size = sum(value.const_value.nbytes for value in graph.initializers.values() if value.const_value is not None)
        opset = self._model.opset_imports.get("")
        title = f"ONNXProgram: {len(graph):,} nodes, opset {opset}, {size:,} bytes of weights"
        return notebook_table(title, ("", "name", "type"), rows)
