"""Asking and setting the state of an export."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import torch

from onnxexp.capture.torch_state import TrainingMode, is_exporting, model_mode

__all__ = ["disable_log", "enable_log", "is_in_onnx_export", "select_model_mode_for_export", "set_training", "training_mode"]

is_in_onnx_export = is_exporting

_LOGGER = logging.getLogger("onnxexp")


def training_mode(mode: Any) -> TrainingMode:
    """The mode that torch.onnx's argument says: a member of either enumeration, its name, or, as once, a bool; None is EVAL."""
    if mode is None or isinstance(mode, bool):
        return TrainingMode.TRAINING if mode else TrainingMode.EVAL
    name = mode if isinstance(mode, str) else mode.name
    return TrainingMode[name.upper()]


@contextlib.contextmanager
def select_model_mode_for_export(model: torch.nn.Module, mode: Any) -> Iterator[None]:
    """Inside, every module of the model is in the mode; afterwards each is in its own again."""
    with model_mode(model.modules(), training_mode(mode)):
        yield


@contextlib.contextmanager
def set_training(model: torch.nn.Module, mode: bool | None) -> Iterator[None]:
    """Inside, the model is in training mode (True) or not (False); None changes nothing."""
    chosen = TrainingMode.PRESERVE if mode is None else training_mode(mode)
    with model_mode(model.modules(), chosen):
        yield


def enable_log() -> None:
    """Show onnxexp's log."""
    _LOGGER.setLevel(logging.INFO)


def disable_log() -> None:
    """Show nothing of onnxexp's log."""
    _LOGGER.setLevel(logging.CRITICAL + 1)
