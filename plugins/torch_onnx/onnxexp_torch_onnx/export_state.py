"""The state of an export: its training mode, its log."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import torch

from onnxexp import TrainingMode, is_in_onnx_export
from onnxexp.capture.torch_state import model_mode

__all__ = ["disable_log", "enable_log", "is_in_onnx_export", "select_model_mode_for_export", "set_training", "training_mode"]

_LOGGER = logging.getLogger("onnxexp")


def training_mode(mode: Any) -> TrainingMode:
    """The mode for torch.onnx's argument.

    It is a member of either enumeration, its name, or a bool; None is EVAL.
    """
    if mode is None or isinstance(mode, bool):
        return TrainingMode.TRAINING if mode else TrainingMode.EVAL
    name = mode if isinstance(mode, str) else mode.name
    return TrainingMode[name.upper()]


@contextlib.contextmanager
def select_model_mode_for_export(model: torch.nn.Module, mode: Any) -> Iterator[None]:
    """Put every module of the model into the mode; restore the modes at the end."""
    with model_mode(model.modules(), training_mode(mode)):
        yield


@contextlib.contextmanager
def set_training(model: torch.nn.Module, mode: bool | None) -> Iterator[None]:
    """Put the model into training mode (True) or inference mode (False).

    None changes nothing.
    """
    chosen = TrainingMode.PRESERVE if mode is None else training_mode(mode)
    with model_mode(model.modules(), chosen):
        yield


def enable_log() -> None:
    """Turn on onnxexp's log."""
    _LOGGER.setLevel(logging.INFO)


def disable_log() -> None:
    """Turn off onnxexp's log."""
    _LOGGER.setLevel(logging.CRITICAL + 1)
