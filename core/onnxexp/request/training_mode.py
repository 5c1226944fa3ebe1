"""The mode in which a model is exported."""

from __future__ import annotations

import enum
from typing import Any

from onnxexp.errors import OptionError

__all__ = ["TrainingMode", "parse_training_mode"]


class TrainingMode(enum.Enum):
    """Export for inference (EVAL), in the model's own mode (PRESERVE) or for TRAINING."""

    EVAL = "eval"
    PRESERVE = "preserve"
    TRAINING = "training"


def parse_training_mode(value: Any) -> TrainingMode:
    """Return the mode for a `TrainingMode`, its name or torch.onnx's member.

    Raises OptionError for anything else.
    """
    if isinstance(value, TrainingMode):
        return value
    # torch.onnx's enum is recognised by its members' names, so that it need not be imported
    name = value if isinstance(value, str) else str(getattr(value, "name", value))
    try:
        return TrainingMode[name.upper()]
    except KeyError:
        raise OptionError(f"training is {value!r}; it may be {', '.join(map(str, TrainingMode))}") from None
