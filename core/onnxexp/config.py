"""What is configured: three doors with one meaning, later wins.

1. ``[tool.onnxexp]`` in the nearest pyproject.toml that has it, or ``onnxexp.toml`` with the same keys at its top level (it wins
   in the same folder); searched from the working directory upwards.
2. The environment: ``ONNXEXP_PLUGINS``, ``ONNXEXP_DISABLE``, ``ONNXEXP_PREFER``, ``ONNXEXP_ALLOW``, ``ONNXEXP_OPSET``,
   ``ONNXEXP_TARGET``, ``ONNXEXP_SKIP_PASSES``, ``ONNXEXP_DEBUG``; lists with commas, tables as ``key=value`` with commas.
3. The arguments of a call or of a command.

Three keys gather instead of replacing: `disable` and `skip_passes` are united, `prefer` is merged by operator. Every door's
`allow` holds: a later door can lock further, never unlock.

Nothing here needs torch.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from onnxexp.errors import OptionError
from onnxexp.suggest import nearest
from onnxexp.version import MAX_OPSET, MIN_OPSET

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["DEFAULT_OPSET", "KEYS", "TARGETS", "Config", "Key", "Setting", "load"]

DEFAULT_OPSET = 20
TARGETS = ("onnxruntime", "onnx")
"""Whose operators an export keeps to: those that ONNX Runtime has kernels for, or all of ONNX's."""
CALL = "call"
_OWN = "onnxexp.toml"
_TICK = 2 * 10**9
"""Nanoseconds of the coarsest clock by which a file system dates its files."""
_Dated: TypeAlias = tuple[str, int, int, int, int]
_ARGUMENTS = {"opset": "opset_version", "disable": "without"}
"""What the keys are called among the arguments of `export`, where that is something else."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """A value in force, and the door that it came through: a file, a variable, "call" or "default"."""

    name: str
    value: Any
    origin: str


@dataclasses.dataclass(frozen=True)
class Config:
    """The configuration of one export.

    Attributes:
        plugins: Exactly these plugins (names; from a call also objects); ``...`` stands for every other installed one.
            None: every installed one.
        disable: Plugins that are off.
        prefer: Which plugin lowers an operator that several claim, by operator.
        allow: Sets of distributions, each of which a plugin's distribution must be in: ``name``, or ``name@sha256:...`` with the
            hash of its files. Empty: no lock.
        opset: The opset where a call names none, 9 to 28.
        target: "onnxruntime" or "onnx", see `Options`.
        skip_passes: Passes that do not run, as ``name`` or ``plugin/name``.
        debug: Check the graph between passes.
        origins: Where each value came from, by its name here.
    """

    plugins: tuple[Any, ...] | None
    disable: tuple[str, ...]
    prefer: dict[str, str]
    allow: tuple[frozenset[str], ...]
    opset: int
    target: str
    skip_passes: tuple[str, ...]
    debug: bool
    origins: dict[str, str]

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Each value with where it came from."""
        return tuple(Setting(name, vars(self)[name], origin) for name, origin in self.origins.items())


@dataclasses.dataclass(frozen=True)
class Key:
    """A key of the configuration: what it must be (for messages and documentation), and how it is read.

    `check` takes a value from TOML or a call and returns it, or raises ValueError; `parse` makes such a value from a variable's
    text; `merge` joins an earlier door's value with a later one's (a later one replaces where there is none).
    """

    name: str
    expected: str
    default: Any
    meaning: str
    check: Callable[[Any], Any]
    parse: Callable[[str], Any]
    merge: Callable[[Any, Any], Any] | None = None


def load(
    *,
    plugins: Sequence[Any] | None = None,
    disable: Sequence[str] = (),
    prefer: Mapping[str, str] | None = None,
    allow: Sequence[str] | None = None,
    skip_passes: Sequence[str] = (),
    opset: int | None = None,
    target: str | None = None,
    debug: bool | None = None,
) -> Config:
    """The configuration of a call with these arguments. Raises OptionError naming the file or variable, the key and the cure."""
    standing = _standing()
    plain = plugins is None and allow is None and not (disable or prefer or skip_passes)
    said = (standing, type(opset), opset, target, type(debug), debug) if plain else None  # 20.0 is 20 to Python, but no opset
    for known, config in _last_call[:]:
        if known == said:
            return config
    call = {
        "plugins": None if plugins is None else list(plugins) if isinstance(plugins, (list, tuple)) else plugins,
        "disable": list(disable) if isinstance(disable, (list, tuple)) and disable else disable or None,
        "prefer": dict(prefer) if prefer else None,
        "allow": None if allow is None else list(allow),
        "skip_passes": list(skip_passes) if isinstance(skip_passes, (list, tuple)) and skip_passes else skip_passes or None,
        "opset": opset,
        "target": target,
        "debug": debug,
    }
    config = _through(standing, [(CALL, {key: value for key, value in call.items() if value is not None})])
    if said:
        _last_call[:] = [(said, config)]
    return config


def _through(config: Config, doors: Iterable[tuple[str, dict[str, Any]]]) -> Config:
    """The configuration after these doors."""
    values, origins = dict(vars(config)), dict(config.origins)
    for origin, given in doors:
        for name, value in given.items():
            key = _key(name, origin)
            checked = _checked(key, value, origin)
            joined = key.merge is not None and origins[name] != "default"
            values[name] = key.merge(values[name], checked) if joined and key.merge else checked
            origins[name] = f"{origins[name]}; {origin}" if joined else origin
    return Config(**{**values, "origins": origins})


# Doors


def _standing() -> Config:
    """What files and variables say; they are read again only where the folder, a file or the environment is another."""
    folder, variables = os.getcwd(), getattr(os.environ, "_data", os.environ)  # going through it decodes each variable
    files = [_dated(path) for path in _places(folder) if os.access(path, os.F_OK)]  # most are not, and to catch an error is slow
    for known, config in _last_standing[:]:
        if known == (folder, files, variables):
            return config
    config = _through(_DEFAULT, [*_file(files), *_environment(os.environ)])
    settled = all(time.time_ns() - max(times) > _TICK for _, _, _, *times in files)  # else a change may show no other time
    _last_standing[:] = [((folder, files, dict(variables)), config)] if settled else []
    return config


@functools.lru_cache(maxsize=4)
def _places(folder: str) -> tuple[str, ...]:
    """Where a file may be, from a folder upwards: in each our own, then pyproject.toml."""
    parent = os.path.dirname(folder)
    here = os.path.join(folder, _OWN), os.path.join(folder, "pyproject.toml")
    return (*here, *(() if parent == folder else _places(parent)))


def _dated(path: str) -> _Dated:
    """A file, its number and size, and when it was changed."""
    found = os.stat(path)
    return path, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _file(there: Iterable[_Dated]) -> list[tuple[str, dict[str, Any]]]:
    for path, *_ in there:
        if not os.path.isfile(path):
            continue
        with open(path, "rb") as file:
            contents = file.read()
        if os.path.basename(path) == _OWN:
            return [(path, _toml(path, contents))]
        if b"onnxexp" in contents:
            section = _toml(path, contents).get("tool", {}).get("onnxexp")
            if section is not None:
                if not isinstance(section, dict):
                    raise OptionError(f"{path}: [tool.onnxexp] is {section!r}, not a table")
                return [(f"{path} [tool.onnxexp]", section)]
    return []


def _toml(path: str, contents: bytes) -> dict[str, Any]:
    try:
        parsed: dict[str, Any] = tomllib.loads(contents.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"{path} is not valid TOML: {error}") from None
    return parsed


def _environment(variables: Mapping[str, str]) -> list[tuple[str, dict[str, Any]]]:
    doors: list[tuple[str, dict[str, Any]]] = []
    for variable in sorted([variable for variable in variables if variable.startswith("ONNXEXP_")]):
        name, text = variable.removeprefix("ONNXEXP_").lower(), variables[variable]
        key = _key(name, variable)
        try:
            doors.append((variable, {name: key.parse(text)}))
        except ValueError:
            raise OptionError(f"{variable} is {text!r}; expected {key.expected}") from None
    return doors


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
        raise OptionError(f"{label} is {str(error) or repr(value)}; expected {key.expected}") from None


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
        if isinstance(element, (int, float, dict, list)):  # what TOML knows besides strings: only a call can give objects
            raise ValueError(f"{value!r}, with {element!r} in it")
    return tuple(... if isinstance(element, str) and element == "..." else element for element in value)


def _prefer(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
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


def _opset(value: Any) -> int:
    if type(value) is not int or not MIN_OPSET <= value <= MAX_OPSET:
        raise ValueError
    return value


def _target(value: Any) -> str:
    if not isinstance(value, str) or value not in TARGETS:
        raise ValueError
    return value


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


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


KEYS = (
    Key("plugins", 'a list of plugin names (and "..." for every other installed one)', None,
        "Exactly these plugins are on; unset, every installed one is.", _plugins, _split),
    Key("disable", "a list of plugin names", (), "These plugins are off.", _names, _split, _union),
    Key("prefer", 'a table of operators and plugin names, as {"space::op" = "my-pack"}', {},
        "Which plugin lowers an operator that several claim.", _prefer, _pairs, lambda first, then: {**first, **then}),
    Key("allow",
        'a list of distributions, each as "name" or "name@sha256:<64 hex digits>" (onnxexp plugins --lock prints them)', (),
        "Only plugins of these distributions may load.", _allow, _split, lambda first, then: (*first, *then)),
    Key("opset", f"a whole number from {MIN_OPSET} to {MAX_OPSET}", DEFAULT_OPSET,
        "The opset of exports that name none.", _opset, int),
    Key("target", '"onnxruntime" or "onnx"', TARGETS[0],
        "What the models run in: ONNX Runtime, or whatever implements ONNX's specification.", _target, str.strip),
    Key("skip_passes", 'a list of passes, each as "name" or "plugin/name"', (),
        "These passes do not run.", _names, _split, _union),
    Key("debug", "true or false", False, "Check the graph after every pass.", _bool, _truth),
)  # fmt: skip
"""Every setting, in the order in which it is shown."""
_BY_NAME = {key.name: key for key in KEYS}
_DEFAULT = Config(**{key.name: key.default for key in KEYS}, origins={key.name: "default" for key in KEYS})

_last_standing: list[tuple[Any, Config]] = []
"""What the files and variables were that were read last, and what they say."""
_last_call: list[tuple[Any, Config]] = []
"""The last call that gave nothing but numbers and words, and its configuration."""
