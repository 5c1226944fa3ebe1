"""`dynamo_export`, the preview exporter of torch 2.1 and 2.2, with its classes."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import logging
import os
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

import onnxexp
from onnxexp import DEFAULT_OPSET, OnnxExporterError, ONNXProgram, SymbolicTable
from onnxexp.commands import OutputFile
from onnxexp.rewriting import TorchTensor
from onnxexp.torch_ops import symbolics_for
from onnxexp_torch_onnx.diagnostics import DiagnosticContext
from onnxexp_torch_onnx.onnxscript_symbolics import combined, translations
from onnxexp_torch_onnx.registry import registered


class OnnxRegistry:
    """onnxscript functions by torch operator, for one export.

    Pass it as ``ExportOptions(onnx_registry=registry)``.
    """

    def __init__(self, opset_version: int = DEFAULT_OPSET) -> None:
        self._functions: defaultdict[str, list[Callable[..., Any]]] = defaultdict(list)
        self._opset = opset_version

    @property
    def opset_version(self) -> int:
        """The target opset of the export that uses this registry."""
        return self._opset

    def register_op(
        self, function: Callable[..., Any], namespace: str, op_name: str, overload: str | None = None, is_complex: bool = False
    ) -> None:
        """Lower an operator (one overload, or all) with an onnxscript function.

        The last registration wins.
        """
        self._functions[_key(namespace, op_name, overload)].append(function)

    def is_registered_op(self, namespace: str, op_name: str, overload: str | None = None) -> bool:
        """Return whether a function of this registry or a plugin lowers the operator."""
        return bool(self.get_op_functions(namespace, op_name, overload))

    def get_op_functions(self, namespace: str, op_name: str, overload: str | None = None) -> list[Callable[..., Any]] | None:
        """List the functions for an operator, those of plugins first.

        Returns None if the operator has no function.
        """
        key = _key(namespace, op_name, overload)
        return [*symbolics_for(key, self._opset), *self._functions.get(key, ())] or None

    def table(self) -> SymbolicTable:
        """Build a table of symbolics from the registered functions."""
        return translations({key: functions[-1] for key, functions in self._functions.items()})


def _key(namespace: str, op_name: str, overload: str | None) -> str:
    return f"{namespace}::{op_name}" + (f".{overload}" if overload and overload != "default" else "")


@dataclasses.dataclass
class ONNXFakeContext:
    """The fake mode of `enable_fake_mode`, in which models have no weights."""

    fake_mode: FakeTensorMode


@contextlib.contextmanager
def enable_fake_mode() -> Iterator[ONNXFakeContext]:
    """Create models and inputs without memory inside the `with`.

    ``ExportOutput.save(..., model_state_dict=...)`` takes the weights.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=torch.fx.experimental.symbolic_shapes.ShapeEnv())
    with mode:
        yield ONNXFakeContext(mode)


@dataclasses.dataclass
class DiagnosticOptions:
    """Logging and warnings during an export.

    Attributes:
        verbosity_level: The level of the logger ``onnxexp``.
        warnings_as_errors: Whether a warning is an error.
    """

    verbosity_level: int = logging.INFO
    warnings_as_errors: bool = False

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Apply these options inside the `with`."""
        logger = logging.getLogger("onnxexp")
        before = logger.level
        logger.setLevel(self.verbosity_level)
        try:
            with warnings.catch_warnings():
                if self.warnings_as_errors:
                    warnings.simplefilter("error")
                yield
        finally:
            logger.setLevel(before)


@dataclasses.dataclass
class ExportOptions:
    """Options of `dynamo_export`.

    Attributes:
        dynamic_shapes: True makes every axis of every input dynamic.
        op_level_debug: Compare the exported model with the original.
        fake_context: The result of `enable_fake_mode`, for a model that was created in fake mode.
        onnx_registry: The user's onnxscript functions, and the opset.
        diagnostic_options: Logging and warnings during the export.
    """

    dynamic_shapes: bool | None = None
    op_level_debug: bool | None = None
    fake_context: ONNXFakeContext | None = None
    onnx_registry: OnnxRegistry | None = None
    diagnostic_options: DiagnosticOptions | None = None


@runtime_checkable
class ExportOutputSerializer(Protocol):
    """A custom writer of exported models."""

    def serialize(self, export_output: ExportOutput, destination: io.BufferedIOBase) -> None:
        """Write the model into a binary file."""


class ExportOutput:
    """The result of `dynamo_export`: an `ONNXProgram` under the names of torch 2.1.

    Attributes:
        program: The program.
        fake_context: The fake context of the export.
        diagnostic_context: The warnings of the export.
    """

    def __init__(
        self,
        program: ONNXProgram,
        fake_context: ONNXFakeContext | None = None,
        diagnostic_context: DiagnosticContext | None = None,
    ) -> None:
        self.program = program
        self.fake_context = fake_context
        self.diagnostic_context = diagnostic_context or DiagnosticContext()

    @property
    def model_proto(self) -> Any:
        """The model as a protobuf message."""
        return self.program.model_proto

    @property
    def model_signature(self) -> Any:
        """The mapping from a call of the original to the graph's inputs and outputs."""
        return self.program.signature

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.program(*args, **kwargs)

    def adapt_torch_inputs_to_onnx(self, *model_args: Any, **model_kwargs: Any) -> Sequence[Any]:
        """List the graph's inputs, in order, for a call of the original."""
        leaves = self.program.signature.flatten(model_args, model_kwargs)
        return list(self.program.signature.feeds(leaves).values())

    def adapt_torch_outputs_to_onnx(self, model_outputs: Any) -> Sequence[Any]:
        """List the graph's outputs, in order, from the result of the original."""
        return [leaf for leaf in pytree.tree_leaves(model_outputs) if isinstance(leaf, (torch.Tensor, int, float, bool))]

    def save(
        self,
        destination: str | os.PathLike[str] | io.BufferedIOBase,
        *,
        model_state_dict: Mapping[str, torch.Tensor] | str | os.PathLike[str] | None = None,
        serializer: ExportOutputSerializer | None = None,
    ) -> None:
        """Write the model.

        Args:
            destination: A path, or a binary file.
            model_state_dict: The weights of a model from fake mode, or a file that `torch.save` wrote.
            serializer: The writer; None is onnxexp's own.
        """
        if model_state_dict is not None:
            state = model_state_dict if isinstance(model_state_dict, Mapping) else torch.load(model_state_dict)
            self._fill(state)
        if serializer is None:
            self.program.save(destination)  # type: ignore[arg-type]
        elif isinstance(destination, (str, os.PathLike)):
            with OutputFile(destination).open() as file:
                serializer.serialize(self, file)
        else:
            serializer.serialize(self, destination)

    def save_diagnostics(self, destination: str | os.PathLike[str]) -> None:
        """Write the warnings and errors of the export as a SARIF log.

        Raises OptionError for a path that does not end in ``.sarif``.
        """
        self.diagnostic_context.dump(destination)

    def _fill(self, state: Mapping[str, torch.Tensor]) -> None:
        """Turn the parameters among the graph's inputs into initializers.

        Raises OptionError if a parameter is missing.
        """
        model, weights = self.program.model, self.program.weights
        missing = [name for name in weights if name not in state]
        if missing:
            raise onnxexp.OptionError(f"model_state_dict has no {', '.join(missing[:5])}")
        for value in [value for value in model.graph.inputs if value.name in weights]:
            model.graph.inputs.remove(value)
            value.const_value = TorchTensor(state[str(value.name)].detach())
            value.const_value.name = value.name
            model.graph.register_initializer(value)
        weights.clear()
        self.program.model = model


class FailedExport(ExportOutput):
    """The `export_output` of an error: an output without a program.

    It has the diagnostics. Its `program` raises the error.
    """

    def __init__(self, error: OnnxExporterError, options: ExportOptions, diagnostics: DiagnosticContext) -> None:
        self.error = error
        self.fake_context = options.fake_context
        self.diagnostic_context = diagnostics

    def __getattr__(self, name: str) -> Any:
        if name == "program":
            raise self.error
        raise AttributeError(name)


def dynamo_export(
    model: Any, /, *model_args: Any, export_options: ExportOptions | None = None, **model_kwargs: Any
) -> ExportOutput:
    """Export a model with these arguments as the example.

    Raises what `onnxexp.export` raises; the error's `export_output` has the diagnostics.
    """
    options = export_options or ExportOptions()
    diagnostics = DiagnosticContext()
    try:
        with diagnostics.recording():
            program = _export(model, model_args, model_kwargs, options)
    except OnnxExporterError as error:
        vars(error)["export_output"] = FailedExport(error, options, diagnostics)
        raise
    return ExportOutput(program, options.fake_context, diagnostics)


def _export(model: Any, model_args: tuple[Any, ...], model_kwargs: dict[str, Any], options: ExportOptions) -> ONNXProgram:
    registry = options.onnx_registry
    tables = combined(*([] if registry is None else [registry.table()]), registered().symbolics)
    shapes = _all_dynamic(model, model_args, model_kwargs) if options.dynamic_shapes else None
    with contextlib.nullcontext() if options.diagnostic_options is None else options.diagnostic_options.applied():
        program = onnxexp.export(
            model, model_args, kwargs=model_kwargs, dynamic_shapes=shapes,
            opset_version=None if registry is None else registry.opset_version, plugins=[*tables, ...],
            export_params=options.fake_context is None,
        )  # fmt: skip
    if options.op_level_debug:
        program.verify()
    return program


def _all_dynamic(model: Any, model_args: tuple[Any, ...], model_kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the dynamic shapes, by parameter, that make every axis dynamic."""

    def all_axes(leaf: Any) -> dict[int, Any] | None:
        return dict.fromkeys(range(leaf.dim()), torch.export.Dim.AUTO) if isinstance(leaf, torch.Tensor) else None

    positional, named = pytree.tree_map(all_axes, (model_args, model_kwargs))
    signature = inspect.signature(model.forward if isinstance(model, torch.nn.Module) else model)
    return dict(signature.bind(*positional, **named).arguments)
