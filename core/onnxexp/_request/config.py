"""The configuration, from three places, where a later place wins.

1. ``[tool.onnxexp]`` in the nearest pyproject.toml that has it, or ``onnxexp.toml`` with the same keys at its top level (it wins
   in the same folder); searched from the working directory upwards.
2. The environment: ``ONNXEXP_PLUGINS``, ``ONNXEXP_DISABLE``, ``ONNXEXP_PREFER``, ``ONNXEXP_ALLOW``, ``ONNXEXP_OPSET``,
   ``ONNXEXP_TARGET``, ``ONNXEXP_SKIP_PASSES``, ``ONNXEXP_DEBUG``, ``ONNXEXP_CHECK_SIZES``, ``ONNXEXP_STRICT_PLUGINS``; lists
   with commas, tables as ``key=value`` with commas.
3. The arguments of a call or of a command.

`disable` and `skip_passes` of all places are united, and `prefer` is merged by operator. Every place's `allow` counts: a later
place can lock further, never unlock. This module does not import torch.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from onnxexp._errors import OptionError
from onnxexp._request.untrusted_files import parse_toml, read_regular
from onnxexp._suggest import nearest
from onnxexp._version import DEFAULT_OPSET, MAX_OPSET, MIN_OPSET

TARGETS = ("onnxruntime", "onnx")
"""Operators for which ONNX Runtime has kernels, or all of ONNX's. A plugin named ``onnxruntime-...`` adds a target."""
CALL = "call"
_OWN = "onnxexp.toml"
_PROJECT = "pyproject.toml"
_SHOWN = 300
_ARGUMENTS = {"opset": "opset_version", "disable": "without"}
"""The names of keys among the arguments of `export`, where they differ."""
_JOINED = ("disable", "prefer", "skip_passes")  # a call can only add to these


@dataclasses.dataclass(frozen=True)
class Config:
    """The configuration of one export, with a value for each of `KEYS`.

    Attributes:
        plugins: Names; from a call also objects, and ``...`` for every other installed plugin. None: every installed one.
        allow: Locks, one for each place that has one: a plugin's distribution must be in all of them.
        origins: The origin of each value by its name: a file, a variable, "call" or "default".
    """

    plugins: tuple[Any, ...] | None
    disable: tuple[str, ...]
    prefer: dict[str, str]
    allow: tuple[frozenset[str], ...]
    opset: int
    target: str
    skip_passes: tuple[str, ...]
    debug: bool
    check_sizes: bool
    strict_plugins: bool
    origins: dict[str, str]


@dataclasses.dataclass(frozen=True)
class Key:
    """A key of the configuration, with its meaning and functions to read its value.

    `check` takes a value from TOML or a call and returns it, or raises ValueError. `parse` makes such a value from a variable's
    text. `merge` joins the values of an earlier and a later place; without it the later one replaces the earlier one.
    """

    name: str
    expected: str
    default: Any
    meaning: str
    check: Callable[[Any], Any]
    parse: Callable[[str], Any]
    merge: Callable[[Any, Any], Any] | None = None


def load(**call: Any) -> Config:
    """Return the configuration of a call with these arguments, named as in `KEYS`.

    The file and the environment decide about a key that is None, and about an empty `disable`, `prefer` or `skip_passes`. Raises
    OptionError with the file or variable, the key and the fix.
    """
    set_ = {name: value for name, value in call.items() if value is not None and (value or name not in _JOINED)}
    given = {name: list(value) if isinstance(value, tuple) else value for name, value in set_.items()}
    here = working_directory()
    return _merge([*(_file(here) if here else ()), *_environment(os.environ), (CALL, given)])


def _merge(places: Iterable[tuple[str, dict[str, Any]]]) -> Config:
    """Merge the settings of all places, in order, over the defaults."""
    values: dict[str, Any] = {key.name: key.default for key in KEYS}
    origins = dict.fromkeys(values, "default")
    for origin, given in places:
        for name, value in given.items():
            key = _key(name, origin)
            checked = _checked(key, value, origin)
            joined = key.merge is not None and origins[name] != "default"
            values[name] = key.merge(values[name], checked) if joined and key.merge else checked
            origins[name] = f"{origins[name]}; {origin}" if joined else origin
    return Config(**values, origins=origins)


# Places


def working_directory() -> str | None:
    """Return the working directory, or None where it was removed."""
    try:
        return os.getcwd()
    except OSError:
        return None


def _file(folder: str) -> list[tuple[str, dict[str, Any]]]:
    """Read the settings of the nearest file, from a folder upwards."""
    while True:
        for name in (_OWN, _PROJECT):
            path = os.path.join(folder, name)
            if os.path.isfile(path) and (settings := _settings(path)):
                return settings
        parent = os.path.dirname(folder)
        if parent == folder:
            return []
        folder = parent


def _settings(path: str) -> list[tuple[str, dict[str, Any]]]:
    """Read one file, without settings for a pyproject.toml that lacks our section."""
    contents = read_regular(path)
    if os.path.basename(path) == _OWN:
        return [(path, _toml(path, contents))]
    if b"onnxexp" not in contents:  # a broken pyproject.toml of somebody else must not stop an export
        return []
    tool = _toml(path, contents).get("tool", {})
    if not isinstance(tool, dict):
        raise OptionError(f"{path}: tool is no table; to fix this, write its settings below [tool.onnxexp]")
    section = tool.get("onnxexp")
    if section is None:
        return []
    if not isinstance(section, dict):
        raise OptionError(f"{path}: [tool.onnxexp] is {_short(section)}, not a table")
    return [(f"{path} [tool.onnxexp]", section)]


@functools.lru_cache(maxsize=4)  # the pyproject.toml of this project takes 1.2 ms
def _toml(path: str, contents: bytes) -> dict[str, Any]:
    return parse_toml(contents, path)


_NO_SETTING = "ONNXEXP_REPLACE_TORCH_ONNX"
"""The variable that onnxexp-plugin-torch-onnx reads at the start of Python."""


def _environment(variables: Mapping[str, str]) -> list[tuple[str, dict[str, Any]]]:
    places: list[tuple[str, dict[str, Any]]] = []
    for variable in sorted([variable for variable in variables if variable.startswith("ONNXEXP_") and variable != _NO_SETTING]):
        name, text = variable.removeprefix("ONNXEXP_").lower(), variables[variable]
        key = _key(name, variable)
        try:
            places.append((variable, {name: key.parse(text)}))
        except ValueError:
            raise OptionError(f"{variable} is {text!r}; expected {key.expected}") from None
    return places


def _key(name: str, origin: str) -> Key:
    if name not in _BY_NAME:
        raise OptionError(f"{origin}: there is no setting {name!r}{nearest(name, _BY_NAME)}; there are {', '.join(_BY_NAME)}")
    return _BY_NAME[name]


def _checked(key: Key, value: Any, origin: str) -> Any:
    try:
        return key.check(value)
    except ValueError as error:
        label = origin if origin.startswith("ONNXEXP_") else f"{origin}: {key.name}"
        if origin == CALL:
            label = _ARGUMENTS.get(key.name, key.name)
        raise OptionError(f"{label} is {_short(value, str(error))}; expected {key.expected}") from None


def _short(value: Any, text: str = "") -> str:
    """Shorten the text of a value for messages, since it may have a megabyte."""
    text = text or repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


# Values


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError
    for element in value:
        if not isinstance(element, str) or not element.strip():
            raise ValueError(f"{value!r}, with {element!r} in it")
    return tuple(dict.fromkeys(value))


def _plugins(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise ValueError
    strings = [... if element == "..." else element for element in value if element is ... or isinstance(element, str)]
    _names([element for element in strings if element is not ...])
    for element in value:
        if isinstance(
            element, (int, float, dict, list, datetime.date, datetime.time)
        ):  # TOML has no other objects; a call may pass plugin objects
            raise ValueError(f"{value!r}, with {element!r} in it")
    return tuple(... if isinstance(element, str) and element == "..." else element for element in value)


def _prefer(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ValueError
    for op, plugin in value.items():
        if not isinstance(op, str) or "::" not in op or not isinstance(plugin, str):
            raise ValueError(f"{value!r}, with {op!r}: {plugin!r} in it")
    return dict(value)


def _allow(value: Any) -> tuple[frozenset[str], ...]:
    for entry in _names(value):
        _, at, digest = entry.partition("@")
        if at and not (digest.startswith("sha256:") and len(digest) == 71 and set(digest[7:]) <= set("0123456789abcdef")):
            raise ValueError(f"{value!r}, with {entry!r} in it")
    return (frozenset(value),)


def _valid(test: Callable[[Any], bool]) -> Callable[[Any], Any]:
    """Make the check of a value without parts."""

    def check(value: Any) -> Any:
        if not test(value):
            raise ValueError
        return value

    return check


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _pairs(text: str) -> dict[str, str]:
    pairs = {}
    for part in _split(text):
        op, equals, plugin = part.rpartition("=")
        if not equals:
            raise ValueError
        pairs[op.strip()] = plugin.strip()
    return pairs


def _truth(text: str) -> bool:
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False, "": False}
    if text.lower() not in words:
        raise ValueError
    return words[text.lower()]


def _union(earlier: tuple[Any, ...], later: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys((*earlier, *later)))


_BOOL = _valid(lambda value: isinstance(value, bool))
KEYS = (
    Key("plugins", 'a list of plugin names (and "..." for every other installed one)', None,
        "Exactly these plugins are on; unset, every installed one is.", _plugins, _split),
    Key("disable", "a list of plugin names", (), "These plugins are off.", _names, _split, _union),
    Key("prefer", 'a table of operators and plugin names, as {"space::op" = "my-plugin"}', {},
        "Which plugin lowers an operator that several claim.", _prefer, _pairs, lambda first, then: {**first, **then}),
    Key("allow",
        'a list of distributions, each as "name" or "name@sha256:<64 hex digits>" (onnxexp plugins --lock prints them)', (),
        "Only plugins of these distributions may load.", _allow, _split, lambda first, then: (*first, *then)),
    Key("opset", f"a whole number from {MIN_OPSET} to {MAX_OPSET}", DEFAULT_OPSET,
        "The opset of exports that name none.",
        _valid(lambda value: type(value) is int and MIN_OPSET <= value <= MAX_OPSET), int),
    Key("target", '"onnxruntime" or "onnx", or the name of a plugin that begins with one of these and "-"', TARGETS[0],
        "What the models run in: ONNX Runtime, any implementation of ONNX's specification, or what a plugin of that name adds.",
        _valid(lambda value: isinstance(value, str) and value.partition("-")[0] in TARGETS), str.strip),
    Key("skip_passes", 'a list of passes, each as "name" or "plugin/name"', (),
        "These passes do not run.", _names, _split, _union),
    Key("debug", "true or false", False, "Check the graph after every pass.", _BOOL, _truth),
    Key("check_sizes", "true or false", True, "Trace a model with dynamic axes twice, at two sets of sizes.", _BOOL, _truth),
    Key("strict_plugins", "true or false", False,
        "A plugin that does not load or contradicts another stops every export.", _BOOL, _truth),
)  # fmt: skip
"""Every setting, in the order in which it is shown."""
_BY_NAME = {key.name: key for key in KEYS}
