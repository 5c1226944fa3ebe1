"""The user's description of one axis or one number."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from torch.export import Dim

from onnxexp._errors import OptionError

_EXPECTED = 'a name ("batch"), a Dim, Dim.DYNAMIC, Dim.AUTO, Dim.STATIC, the size itself, or None'


@dataclasses.dataclass(frozen=True, slots=True)
class Axis:
    """The user's description of an axis or a number that may be dynamic.

    `dim` is torch.export's form, and `name` the user's name. A `required` axis must be dynamic after capture.
    """

    dim: Any
    name: str | None
    required: bool

    @property
    def derived(self) -> tuple[str, Callable[[int], int]] | None:
        """The name of the Dim's root, and a function of the root; None for a hint."""
        if not isinstance(self.dim, Dim):
            return None
        fields = vars(self.dim)  # torch has no public name for derived dims
        return (fields["root"].__name__, fields["fn"]) if "root" in fields else (self.dim.__name__, int)


def is_hint(dim: Any, *kinds: str) -> bool:
    """Return whether `dim` is a hint such as Dim.AUTO, of one of `kinds` if given."""
    return isinstance(dim, type(Dim.AUTO)) and (not kinds or dim.type.name in kinds)


def read_axis(dim: Any, shape: tuple[int, ...], axis: Any, where: str) -> Axis | None:
    """Read one axis of a tensor, or return None if it is static.

    Raises OptionError for an axis that does not exist and a value that does not describe one.
    """
    if type(axis) is not int or not -len(shape) <= axis < len(shape):
        bounds = f"axes {-len(shape)} to {len(shape) - 1}" if shape else "no axes"
        raise OptionError(f"{where}: there is no axis {axis!r}; the example's shape is {shape}, which has {bounds}.")
    size = shape[axis]
    if dim is None or is_hint(dim, "STATIC"):
        return None
    if type(dim) is int:
        if dim != size:
            raise OptionError(f"{where}: axis {axis} is given as {dim}, but the example has {size} there (shape {shape}).")
        return None
    wanted = _read(dim)
    if wanted is None:
        raise OptionError(f"{where}: axis {axis} is {dim!r}; expected {_EXPECTED}.")
    return wanted


def read_scalar(value: Any, dim: Any, where: str) -> Axis | None:
    """Read a number that may be dynamic, or return None if it is constant.

    Raises OptionError for a value that cannot be dynamic.
    """
    if (
        is_hint(dim, "STATIC")
        or (isinstance(dim, (tuple, list, dict)) and not dim)
        or (type(dim) is type(value) and dim == value)
    ):
        return None
    if not isinstance(value, (bool, int, float)):
        raise OptionError(f"{where}: {value!r} is a constant of the export and cannot be dynamic. Leave it out, or give None.")
    if is_hint(dim, "AUTO") and type(value) is not int:
        return None
    wanted = _read(dim)
    if wanted is None:
        raise OptionError(f"{where}: {value!r} is a number; make it a graph input with Dim.DYNAMIC or a name, not {dim!r}.")
    if isinstance(dim, Dim):  # torch takes only hints for numbers
        return Axis(Dim.DYNAMIC, wanted.name, True)
    return wanted


def _read(dim: Any) -> Axis | None:
    if isinstance(dim, str) and dim:
        return Axis(Dim.DYNAMIC, dim, True)
    if isinstance(dim, Dim):
        return Axis(dim, dim.__name__, True)
    return Axis(dim, None, is_hint(dim, "DYNAMIC")) if is_hint(dim) else None
