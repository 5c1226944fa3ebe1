"""One axis, or one number, as the user describes it."""

from __future__ import annotations

import dataclasses
from typing import Any

from torch.export import Dim

from onnxexp.errors import OptionError

__all__ = ["Axis", "is_hint", "read_axis", "read_scalar"]

_EXPECTED = 'a name ("batch"), a Dim, Dim.DYNAMIC, Dim.AUTO, Dim.STATIC, the size itself, or None'


@dataclasses.dataclass(frozen=True, slots=True)
class Axis:
    """What is wanted of an axis or a number.

    `dim` is what torch.export takes, `name` the user's name for it, `asked` says that it must come out dynamic.
    """

    dim: Any
    name: str | None
    asked: bool


def is_hint(dim: Any, *kinds: str) -> bool:
    """Whether `dim` is one of Dim.AUTO, Dim.DYNAMIC, Dim.STATIC (`kinds`: those only), with or without a range."""
    return isinstance(dim, type(Dim.AUTO)) and (not kinds or dim.type.name in kinds)


def read_axis(dim: Any, shape: tuple[int, ...], axis: Any, where: str) -> Axis | None:
    """One axis of a tensor; None for a static one. Raises OptionError for what cannot be meant."""
    if type(axis) is not int or not -len(shape) <= axis < len(shape):
        bounds = f"axes {-len(shape)} to {len(shape) - 1}" if shape else "no axes"
        raise OptionError(f"{where}: there is no axis {axis!r}; the example's shape is {shape}, which has {bounds}.")
    size = shape[axis]
    if dim is None or is_hint(dim, "STATIC"):
        return None
    if type(dim) is int:
        if dim != size:
            raise OptionError(f"{where}: axis {axis} is said to be {dim}, but the example has {size} there (shape {shape}).")
        return None
    wanted = _read(dim)
    if wanted is None:
        raise OptionError(f"{where}: axis {axis} is {dim!r}; expected {_EXPECTED}.")
    return wanted


def read_scalar(value: Any, dim: Any, where: str) -> Axis | None:
    """A number that may be dynamic; None for a constant. Raises OptionError for what cannot be dynamic."""
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
