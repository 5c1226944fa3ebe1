"""``int()`` of symbolic sizes, which Python makes the example's number.

Strict mode keeps it, since Dynamo does not run it. A model that strict mode refuses as well is captured once more, with another
``int`` in the files whose lines fix a number.
"""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import torch

_CONVERTS = re.compile(r'File "([^"\n]+)", line \d+: [^\n]*\bint\(')
_int = builtins.int
_SYMBOLIC: Any = torch


class _IntLike(type):
    """The class of `_Int`, which takes the place of ``int`` in tests of types."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _int)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, _int)

    def __eq__(cls, other: object) -> bool:
        return other is _int or other is cls

    def __hash__(cls) -> int:
        return hash(_int)


class _Int(metaclass=_IntLike):
    """``int``, which keeps symbolic numbers."""

    def __new__(cls, *arguments: Any, **options: Any) -> Any:
        number = arguments[0] if arguments else None
        if isinstance(number, torch.SymInt):
            return number
        if isinstance(number, torch.SymFloat):
            return _SYMBOLIC.sym_int(number)
        return _int(*arguments, **options)


def converting_files(reasons: Iterable[str]) -> set[str]:
    """Return the files of the lines in reasons of refusals that call ``int``."""
    return {file for reason in reasons for file in _CONVERTS.findall(reason)}


def symbolic_int(files: Iterable[str]) -> list[tuple[ModuleType, str, Any]]:
    """List the replacements of ``int`` in these files, as (module, name, class)."""
    wanted = set(files)
    modules: list[Any] = list(sys.modules.values())  # not every object there is a module
    found = [each for each in modules if wanted and isinstance(each, ModuleType) and getattr(each, "__file__", None) in wanted]
    return [(module, "int", _Int) for module in found]
