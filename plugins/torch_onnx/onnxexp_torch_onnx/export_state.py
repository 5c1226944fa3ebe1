"""The training mode and the log of an export."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

import torch

from onnxexp import TrainingMode
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


class _ToStdout(_StreamHandler):
    """A handler that prints records to stdout, as torch.onnx's log does."""

    def __init__(self) -> None:
        super().__init__(sys.stdout)


def enable_log() -> None:
    """Turn on onnxexp's log.

    Without a handler of the user, the log goes to stdout.
    """
    _LOGGER.setLevel(logging.INFO)
    if not _LOGGER.hasHandlers():
        _LOGGER.addHandler(_ToStdout())


def disable_log() -> None:
    """Turn off onnxexp's log."""
    _LOGGER.setLevel(logging.CRITICAL + 1)
    for handler in [each for each in _LOGGER.handlers if isinstance(each, _ToStdout)]:
        _LOGGER.removeHandler(handler)


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
