"""The arguments of `export`, read and checked before anything is done."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from onnxexp.capture.torch_state import TrainingMode, model_mode
from onnxexp.errors import OptionError
from onnxexp.program.comparison import call_unharmed
from onnxexp.request.config import TARGETS, Config
from onnxexp.request.dynamic_shapes import DynamicSpec, read_dynamic
from onnxexp.request.model import as_module, forward_of

__all__ = ["Call", "Options", "read_call"]

_CAPTURES = ("auto", "export", "trace", "script")


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of one export, apart from the model and its inputs; hooks get it too.

    Attributes:
        opset: The target opset of ONNX's default domain.
        training: The mode that the model is captured in.
        custom_opsets: The versions at which other domains are imported.
        fold: May what does not depend on the inputs be computed at export?
        skip_passes: Passes that do not run, as ``name`` or ``plugin/name``.
        debug: Is the graph checked after every pass?
        target: "onnxruntime": operators and dtypes that ONNX Runtime has no kernel for, or a wrong one, are avoided; "onnx": each
            operator as the specification has it, whoever runs it.
        capture: How the model is captured: "auto", "export", "trace" or "script".
        claims: The operators that the tables of the selected plugins have symbolics for, as they were registered.
    """

    opset: int
    training: TrainingMode = TrainingMode.EVAL
    custom_opsets: dict[str, int] = dataclasses.field(default_factory=dict)
    fold: bool = True
    skip_passes: tuple[str, ...] = ()
    debug: bool = False
    target: str = TARGETS[0]
    capture: str = "auto"
    claims: frozenset[str] = frozenset()

    @classmethod
    def read(
        cls,
        config: Config,
        *,
        claims: frozenset[str],
        capture: str,
        training: Any,
        custom_opsets: Mapping[str, int] | None,
        export_params: bool,
        keep_initializers_as_inputs: bool,
        do_constant_folding: bool,
    ) -> Options:
        """Check the arguments of a call; OptionError for malformed or contradictory ones."""
        if capture not in _CAPTURES:
            raise OptionError(f"capture is {capture!r}; it may be {' or '.join(map(repr, _CAPTURES))}")
        if not export_params and keep_initializers_as_inputs:
            raise OptionError(
                "export_params=False leaves no initializers that keep_initializers_as_inputs=True could list: give one of the two"
            )
        domains = dict(custom_opsets or {})
        for domain, version in domains.items():
            if domain in ("", "ai.onnx"):
                raise OptionError("custom_opsets is for other domains; opset_version says the version of ONNX's own")
            if type(version) is not int or version < 1:
                raise OptionError(f"custom_opsets[{domain!r}] is {version!r}; a domain's version is a whole number from 1 on")
        return cls(
            opset=config.opset,
            training=_training_mode(training),
            custom_opsets=domains,
            fold=do_constant_folding,
            skip_passes=config.skip_passes,
            debug=config.debug,
            target=config.target,
            capture=capture,
            claims=claims,
        )


def _training_mode(training: Any) -> TrainingMode:
    """Ours, a string, or torch.onnx's member of the same name."""
    if isinstance(training, TrainingMode):
        return training
    name = training if isinstance(training, str) else str(getattr(training, "name", training))
    try:
        return TrainingMode[name.upper()]
    except KeyError:
        raise OptionError(f"training is {training!r}; it may be {', '.join(map(str, TrainingMode))}") from None


@dataclasses.dataclass(eq=False)
class Call:
    """The model and the example call that it is captured with.

    Attributes:
        module: The model as a module; for an ExportedProgram the module that it unflattens to.
        program: The ExportedProgram, where one was given.
        args, kwargs: The example, as the model is called.
        spec: What is dynamic, and how the inputs are called.
        forward: The parameters of the model's forward.
    """

    module: torch.nn.Module
    program: ExportedProgram | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    spec: DynamicSpec
    forward: inspect.Signature

    @property
    def example(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return self.args, self.kwargs

    def eager(self, training: TrainingMode) -> Callable[..., Any]:
        """The model in the mode that it was exported in, to compare with."""

        def run(*args: Any, **kwargs: Any) -> Any:
            if self.program is not None:
                return call_unharmed(self.module, args, kwargs)
            with model_mode(self.module.modules(), training):
                return call_unharmed(self.module, args, kwargs)

        return run


def read_call(
    model: Any,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    dynamic_axes: Mapping[str, Any] | None,
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
) -> Call:
    """Raises OptionError where the arguments do not fit the model or contradict each other."""
    program = model if isinstance(model, ExportedProgram) else None
    positional, named = _arguments(args, kwargs)
    if program is not None:
        if dynamic_shapes is not None or dynamic_axes is not None:
            raise OptionError(
                "an ExportedProgram says itself what is dynamic: give dynamic_shapes to torch.export.export instead"
            )
        if program.example_inputs is None:
            raise OptionError("this ExportedProgram has no example inputs, from which the names of the inputs are read")
        given = (positional, named) if positional or named else None
        positional, named = program.example_inputs
        if given is not None:
            _check_example(given, (positional, named))
    module = program.module(check_guards=False) if program is not None else as_module(model)
    forward = forward_of(module)
    spec = read_dynamic(
        forward,
        positional,
        named,
        dynamic_shapes=dynamic_shapes,
        dynamic_axes=dynamic_axes,
        input_names=input_names,
        output_names=output_names,
        program=program,
    )
    if program is not None and given is not None:
        positional, named = given
    return Call(module, program, tuple(positional), dict(named), spec, inspect.signature(forward))


def _check_example(given: tuple[Any, Any], own: tuple[Any, Any]) -> None:
    """Arguments beside an ExportedProgram are another example for it: built alike."""
    if pytree.tree_structure(given) != pytree.tree_structure(own):
        raise OptionError("args are not built like the example inputs of the ExportedProgram: leave them out, or give the like")


def _arguments(args: Any, kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """torch.onnx's convention: one argument may come without a tuple; a dict at the end is the keyword arguments."""
    if isinstance(args, list):
        raise OptionError("args is a list: give a tuple of the positional arguments, or ([...],) where the model takes a list")
    positional = args if type(args) is tuple else (args,)
    if positional and type(positional[-1]) is dict:
        if positional[-1] and kwargs:
            raise OptionError("keyword arguments come both as the last element of args and as kwargs: give them once")
        return positional[:-1], {**positional[-1], **(kwargs or {})}
    return positional, dict(kwargs or {})
