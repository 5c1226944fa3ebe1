"""The mode in which a model is exported, and options that are members of an enum."""

from __future__ import annotations

import enum
from typing import Any, TypeVar

from onnxexp._errors import OptionError
from onnxexp._suggest import nearest

__all__ = ["TrainingMode", "enum_member"]

E = TypeVar("E", bound=enum.Enum)


class TrainingMode(enum.Enum):
    """Export for inference (EVAL), in the model's own mode (PRESERVE) or for TRAINING."""

    EVAL = "eval"
    PRESERVE = "preserve"
    TRAINING = "training"


def enum_member(kind: type[E], value: Any, option: str) -> E:
    """Return the member for a member, its name or torch.onnx's member of that name.

    Raises OptionError for anything else.
    """
    # torch.onnx's enums are recognised by their members' names, so that they need not be imported
    name = value if isinstance(value, str) else str(getattr(value, "name", value))
    known = kind.__members__
    if name.upper() not in known:
        raise OptionError(f"{option} is {value!r}{nearest(name.upper(), known)}; it may be {', '.join(known)}")
    return known[name.upper()]
