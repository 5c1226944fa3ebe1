"""Options that are members of an enumeration, such as the mode of an export."""

from __future__ import annotations

import enum
from typing import Any, TypeVar

from onnxexp._errors import OptionError
from onnxexp._suggest import nearest

E = TypeVar("E", bound="EnumOption")


class EnumOption(enum.Enum):
    """An enumeration whose members may be given by name."""

    @classmethod
    def read(cls: type[E], value: Any, option: str) -> E:
        """Return the member for a member, its name or torch.onnx's member of that name.

        Raises OptionError, with the name of the option, for anything else.
        """
        # torch.onnx's enums are recognised by their members' names, so that they need not be imported
        name = value if isinstance(value, str) else str(getattr(value, "name", value))
        if name.upper() not in cls.__members__:
            known = cls.__members__
            raise OptionError(f"{option} is {value!r}{nearest(name.upper(), known)}; it may be {', '.join(known)}")
        return cls[name.upper()]


class TrainingMode(EnumOption):
    """Export for inference (EVAL), in the model's own mode (PRESERVE) or for TRAINING."""

    EVAL = "eval"
    PRESERVE = "preserve"
    TRAINING = "training"
