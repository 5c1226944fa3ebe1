"""The public names with their signatures: ``python -m tests.core.api`` prints them, ``--write`` renews the snapshot.

`tests/core/test_api.py` compares the snapshot, `tests/core/api.txt`, with the code, so that a change of the public surface
shows in a review.
"""

from __future__ import annotations

import argparse
import enum
import functools
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOORS = tuple(
    f"onnxexp{door}" for door in ("", ".checking", ".commands", ".frontends", ".graph", ".rewriting", ".testing", ".torch_ops")
)
"""The public modules of the core."""
SNAPSHOT = Path(__file__).with_name("api.txt")


def text() -> str:
    """Return the public modules with their names and signatures, and the number of both."""
    lines = [line for door in DOORS for line in _module(door)]
    names = sum(len(importlib.import_module(door).__all__) for door in DOORS)
    return "\n".join([*lines, f"{len(DOORS)} public modules, {names} public names", ""])


def _module(name: str) -> Iterator[str]:
    module = importlib.import_module(name)
    yield f"{name}"
    for each in sorted(module.__all__):
        yield from _described(each, getattr(module, each))
    yield ""


def _described(name: str, value: Any) -> Iterator[str]:
    """Yield the lines of one public name: of a class with its public members."""
    if inspect.isclass(value) and value.__module__.startswith("onnxexp"):
        bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
        yield f"  class {name}({bases})" if bases else f"  class {name}"
        if issubclass(value, enum.Enum):
            yield f"    {', '.join(member.name for member in value)}"
            return
        if "__init__" in vars(value):
            yield f"    {_signature('__init__', value.__init__)}"
        yield from (f"    {line}" for line in _members(value))
    elif inspect.isroutine(value) or hasattr(value, "__wrapped__"):  # functools' caches
        yield f"  {_signature(name, value)}"
    else:
        yield f"  {name}"


def _members(owner: type) -> Iterator[str]:
    for name, value in sorted(vars(owner).items()):
        if name.startswith("_"):
            continue
        plain = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        if inspect.isfunction(plain):
            yield _signature(name, plain)
        elif isinstance(plain, (property, functools.cached_property)):
            read: Any = plain.fget if isinstance(plain, property) else plain.func
            yield f"{name}: {_annotation(inspect.signature(read).return_annotation)}"


def _signature(name: str, function: Any) -> str:
    """Format a signature, with annotations as they are in the source."""
    signature = inspect.signature(function)
    parts, keyword_only = [], False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            parts.append("*")
        keyword_only |= parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        annotation = "" if parameter.annotation is parameter.empty else f": {_annotation(parameter.annotation)}"
        default = "" if parameter.default is parameter.empty else f" = {_default(parameter.default)}"
        parts.append(f"{stars}{parameter.name}{annotation}{default}")
    result = "" if signature.return_annotation is signature.empty else f" -> {_annotation(signature.return_annotation)}"
    return f"{name}({', '.join(parts)}){result}"


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _default(default: Any) -> str:
    simple = default is None or default is ... or isinstance(default, (bool, int, float, str, tuple))
    return repr(default) if simple else "…"  # an object, whose text may have an address


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="renew the snapshot")
    if parser.parse_args().write:
        SNAPSHOT.write_text(text(), "utf-8")
    else:
        print(text(), end="")
