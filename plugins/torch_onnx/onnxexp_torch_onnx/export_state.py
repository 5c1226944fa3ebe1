"""The training mode and the log of an export."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

import torch

from onnxexp import OptionError, TrainingMode
from onnxexp.frontends import model_mode

_LOGGER = logging.getLogger("onnxexp")


def training_mode(mode: Any) -> TrainingMode:
    """Convert torch.onnx's argument to a training mode.

    The argument is a member of either enumeration, its name, or a bool; None is EVAL. Raises OptionError for anything else.
    """
    if mode is None or isinstance(mode, bool):
        return TrainingMode.TRAINING if mode else TrainingMode.EVAL
    return TrainingMode.read(mode, "training")


@contextlib.contextmanager
def select_model_mode_for_export(model: torch.nn.Module, mode: Any) -> Iterator[None]:
    """Put every module of the model into the mode inside the `with`."""
    with model_mode(model.modules(), training_mode(mode)):
        yield


@contextlib.contextmanager
def set_training(model: torch.nn.Module, mode: bool | None) -> Iterator[None]:
    """Put the model into training (True) or inference mode (False) inside the `with`.

    None leaves the mode unchanged.
    """
    chosen = TrainingMode.PRESERVE if mode is None else training_mode(mode)
    with model_mode(model.modules(), chosen):
        yield


if TYPE_CHECKING:
    _StreamHandler = logging.StreamHandler[TextIO]
else:
    _StreamHandler = logging.StreamHandler  # without parameters in Python 3.10


class _LogHandler(_StreamHandler):
    """A handler that prints records, as torch.onnx's log does.

    It prints to stdout, unless `set_log_stream` changes it.
    """

    def __init__(self) -> None:
        super().__init__(sys.stdout)


def enable_log() -> None:
    """Turn on onnxexp's log.

    Without a handler of the user, the log goes to stdout.
    """
    _LOGGER.setLevel(logging.INFO)
    if not _LOGGER.hasHandlers():
        _LOGGER.addHandler(_LogHandler())


def disable_log() -> None:
    """Turn off onnxexp's log."""
    _LOGGER.setLevel(logging.CRITICAL + 1)
    for handler in [each for each in _LOGGER.handlers if isinstance(each, _LogHandler)]:
        _LOGGER.removeHandler(handler)


def is_onnx_log_enabled() -> bool:
    """Return whether onnxexp's log is on."""
    return _LOGGER.isEnabledFor(logging.INFO)


def set_log_stream(stream_name: str) -> None:
    """Print the log that `enable_log` has turned on to ``stdout`` or ``stderr``.

    Raises OptionError for another name.
    """
    streams = {"stdout": sys.stdout, "stderr": sys.stderr}
    if stream_name not in streams:
        raise OptionError(f"stream_name={stream_name!r}; to fix this, pass 'stdout' or 'stderr'")
    for handler in _LOGGER.handlers:
        if isinstance(handler, _LogHandler):
            handler.setStream(streams[stream_name])


def log(*args: Any) -> None:
    """Write values to onnxexp's log, if it is on."""
    _LOGGER.info("%s", " ".join(map(str, args)))


@contextlib.contextmanager
def setup_onnx_logging(verbose: bool) -> Iterator[None]:
    """Turn on onnxexp's log inside the `with` if `verbose` is set."""
    with logging_to_stdout() if verbose else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def exporter_context(model: torch.nn.Module, mode: Any, verbose: bool) -> Iterator[tuple[None, None, None]]:
    """Put the model into the mode inside the `with`.

    `verbose` turns on the log there.
    """
    with select_model_mode_for_export(model, mode), setup_onnx_logging(verbose):
        yield None, None, None


@contextlib.contextmanager
def logging_to_stdout() -> Iterator[None]:
    """Turn on onnxexp's log inside the `with`."""
    level, handlers = _LOGGER.level, list(_LOGGER.handlers)
    enable_log()
    try:
        yield
    finally:
        _LOGGER.setLevel(level)
        for handler in [each for each in _LOGGER.handlers if each not in handlers]:
            _LOGGER.removeHandler(handler)
