"""The exporters under test: torch.onnx's own, onnxexp under its names, and torch.onnx where onnxexp is installed."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.onnx
from torch.onnx._internal.torchscript_exporter import utils, verification
from torch.utils import _pytree as pytree

import onnxexp
import onnxexp_torch_onnx
from onnxexp._torch_compat import ScriptFunction, ScriptModule

_export, _old_export = torch.onnx.export, utils._export
_exports: list[str] = []
"""The exports of this process, which runs one test."""
_input_names: list[str] = []
"""The names in the last of them."""
_NO_EFFECT = ("dynamo", "fixed_batch_size")
"""Arguments of torch.onnx that choose its exporter, or that it does not read."""


def _use_torch_onnx(capture: str) -> None:
    """Let the tests that call torch.onnx.export call its TorchScript exporter."""
    torch.onnx.export = functools.partial(_export, dynamo=False)
    utils._export = _noted("torch.onnx", _old_export)


def _use_onnxexp(capture: str) -> None:
    """Let all tests export with onnxexp, with this `capture` of unscripted models."""
    torch.onnx.export = utils._export = _noted("onnxexp", functools.partial(_onnxexp, capture))
    _feed_all_inputs()
    for name in ("register_custom_op_symbolic", "unregister_custom_op_symbolic"):
        setattr(torch.onnx, name, getattr(onnxexp_torch_onnx, name))
        setattr(utils, name, getattr(onnxexp_torch_onnx, name))


def _use_installed(capture: str) -> None:
    """Let the tests call torch.onnx, which onnxexp serves in this process: its TorchScript exporter, as in torch 2.6."""
    onnxexp_torch_onnx.install()
    torch.onnx.export = _noted("installed", functools.partial(torch.onnx.export, dynamo=False))
    utils._export = _noted("installed", torch.onnx.utils._export)
    _feed_all_inputs()
    for name in ("register_custom_op_symbolic", "unregister_custom_op_symbolic"):
        setattr(utils, name, getattr(torch.onnx, name))


EXPORTERS = {"onnxexp": _use_onnxexp, "installed": _use_installed, "torch.onnx": _use_torch_onnx}


def has_exported() -> bool:
    """Return whether the test has exported anything.

    Some tests are empty in a script.
    """
    return bool(_exports)


def _noted(name: str, export: Callable[..., Any]) -> Callable[..., Any]:
    def noted(*args: Any, **options: Any) -> Any:
        _exports.append(name)
        _input_names[:] = options.get("input_names") or ()
        return export(*args, **options)

    return noted


def _onnxexp(capture: str, model: Any, args: Any, f: Any = None, *positional: Any, **options: Any) -> None:
    for name in _NO_EFFECT:
        options.pop(name, None)
    scripted = isinstance(model, (ScriptModule, ScriptFunction))
    capture = "auto" if scripted else capture
    program = onnxexp_torch_onnx.export(model, args, None, *positional, capture=capture, **options)
    if f is not None:
        program.save(f)


def _feed_all_inputs() -> None:
    """Feed a graph with the first set of inputs that has the right number.

    The sets are all inputs, those of torch's tracer, those that a test names, and the tensors. torch's tracer removes unused
    inputs; onnxexp keeps them, but for numbers that the model fixes.
    """
    prepare, open_session = verification._prepare_input_for_onnx, verification._onnx_backend_session
    sessions: list[Any] = []

    def session(*args: Any) -> Any:
        sessions.append(open_session(*args))
        return sessions[-1]

    def inputs(args: Any, kwargs: Any, remained: Any, flatten: bool) -> Any:
        every = prepare(args, kwargs, None, flatten)
        taken = [value.name for value in sessions[-1].get_inputs()]
        by_name = [value for name, value in zip(_input_names, every, strict=False) if name in taken]
        tensors = [value for value in pytree.tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
        choices = every, prepare(args, kwargs, remained, flatten), by_name, tensors
        return next((each for each in choices if len(each) == len(taken)), every)

    verification._prepare_input_for_onnx, verification._onnx_backend_session = inputs, session


def accept_right_exports(case: type) -> None:
    """Let a test that expects a refusal pass if the export is right instead.

    A wrong result is an error. Tests name the refusal by torch's class or by its base, RuntimeError.
    """
    strict = case.assertRaises

    def assert_raises(self: Any, expected: Any, *args: Any, **kwargs: Any) -> Any:
        refusal = isinstance(expected, type) and (expected is RuntimeError or issubclass(expected, torch.onnx.OnnxExporterError))
        if refusal and not args:
            return _refused_or_right(expected)
        return strict(self, expected, *args, **kwargs)

    case.assertRaises = assert_raises


@contextlib.contextmanager
def _refused_or_right(expected: type[BaseException]) -> Iterator[types.SimpleNamespace]:
    """Yield an object that gets the refusal as its `exception`, as unittest's does."""
    caught = types.SimpleNamespace()
    try:
        yield caught
    except (expected, onnxexp.OnnxExporterError) as error:
        caught.exception = error
