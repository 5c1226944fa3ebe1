"""The zoo file: the models of a sweep, and their options."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from importlib_metadata import entry_points

from onnxexp import OptionError
from onnxexp.commands import nearest, parse_toml

MODELS = "onnxexp.models"
"""The group of entry points that plugins offer models by."""

FRONTENDS = ("auto", "export", "trace", "script")
VERIFICATIONS = ("example", "random", "repeated", "sizes")

EXPORT_OPTIONS = (
    "input_names", "output_names", "target", "dynamic_shapes", "dynamic_axes", "training", "operator_export_type", "fallback",
    "plugins", "without", "prefer", "skip_passes", "custom_opsets", "weights", "export_params", "keep_initializers_as_inputs",
    "do_constant_folding", "external_data", "strip", "verbose", "debug", "check_sizes",
)  # fmt: skip
"""The arguments of `onnxexp.export` that a zoo file can set; the sweep sets the others."""


@dataclasses.dataclass(frozen=True)
class Model:
    """A model of the zoo.

    Attributes:
        name: Its name in the zoo.
        target: ``MODULE:FACTORY``, a file as for ``onnxexp export``, or ``hf:FOLDER``.
        opsets, frontends: What it is restricted to; empty: all of the sweep's.
        options: Arguments of `onnxexp.export`.
        verify: The inputs to compare on; "" for no comparison.
        sizes: Sizes of the dynamic axes by name, to compare on too.
        rtol, atol: The tolerances of the comparison; None: those of `ONNXProgram.verify`.
        task, task_options: For ``hf:``, as for ``onnxexp export hf:``.
        time, memory: The limits of a cell, in seconds and bytes; None: the sweep's.
    """

    name: str
    target: str
    opsets: tuple[int, ...] = ()
    frontends: tuple[str, ...] = ()
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    verify: str = "repeated"
    sizes: tuple[Mapping[str, int], ...] = ()
    rtol: float | None = None
    atol: float | None = None
    task: str = ""
    task_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    time: float | None = None
    memory: int | None = None


@dataclasses.dataclass(frozen=True)
class Zoo:
    """The contents of a zoo file.

    `folder` is the file's folder, `preload` the modules that each worker imports once, before its first cell.
    """

    folder: Path
    models: tuple[Model, ...]
    opsets: tuple[int, ...] = ()
    frontends: tuple[str, ...] = ()
    variants: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=lambda: {"": {}})
    time: float | None = None
    memory: int | None = None
    preload: tuple[str, ...] = ()


def read(path: Path) -> Zoo:
    """Read a zoo file.

    Raises OptionError, which lists every mistake in the file.
    """
    try:
        contents = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else error
        raise OptionError(f"the zoo file {str(path)!a} cannot be read: {reason}; give the path of a TOML file") from None
    table = parse_toml(contents, f"the zoo file {path}")
    problems = list(_problems(table))
    if not problems:
        zoo = _zoo(path, table)
        problems = [*_empty(zoo), *_wrong_targets(zoo)]
    if problems:
        raise OptionError(
            "\n".join([f"the zoo file {path} has mistakes, and nothing was run:", *(f"  {each}" for each in problems)])
        )
    return zoo


def read_bytes(text: str | int) -> int | None:
    """Read a number of bytes, such as ``8 GB`` or ``500MiB``; None if it is none."""
    if isinstance(text, int):
        return text if text > 0 and not isinstance(text, bool) else None
    number = text.rstrip("BKMGTibkmgt ")
    unit = text[len(number) :].strip().lower().removesuffix("b")
    powers = {"": 1, **{f"{one}i": 1 << 10 * (at + 1) for at, one in enumerate("kmgt")}}
    powers |= {one: 1000 ** (at + 1) for at, one in enumerate("kmgt")}
    try:
        value = int(float(number) * powers[unit])
    except (ValueError, KeyError, OverflowError):
        return None
    return value if value > 0 else None


def _list_of(allowed: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and bool(value) and all(map(allowed, value))


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return _is_int(value) or isinstance(value, float)


def _is_module(value: Any) -> bool:
    return isinstance(value, str) and all(part.isidentifier() for part in value.split("."))


def _is_sizes(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(_is_int(size) and size >= 0 for size in value.values())


_Rule = tuple[Callable[[Any], bool], str]
_OPSETS: _Rule = (_list_of(_is_int), "a list of numbers, such as [17, 20]")
_FRONTENDS: _Rule = (_list_of(lambda each: each in FRONTENDS), f"a list of {', '.join(FRONTENDS)}")
_TIME: _Rule = (lambda value: _is_number(value) and value > 0, "a number of seconds")
_TOLERANCE: _Rule = (lambda value: _is_number(value) and value >= 0, "a number, such as 1e-4")
_MEMORY: _Rule = (lambda value: isinstance(value, (str, int)) and read_bytes(value) is not None, 'a size, such as "8 GB"')
_TEXT: _Rule = (lambda value: isinstance(value, str) and bool(value), "a text")
_TABLE: _Rule = (lambda value: isinstance(value, dict), "a table")

_SWEEP: Mapping[str, _Rule] = {
    "opset": _OPSETS, "frontend": _FRONTENDS, "time": _TIME, "memory": _MEMORY,
    "plugins": (_list_of(lambda each: isinstance(each, str)), "a list of distributions"),
    "preload": (_list_of(_is_module), 'a list of modules, such as ["transformers"]'),
}  # fmt: skip
_MODEL: Mapping[str, _Rule] = {
    "target": _TEXT, "opset": _OPSETS, "frontend": _FRONTENDS, "time": _TIME, "memory": _MEMORY, "options": _TABLE, "task": _TEXT,
    "verify": (lambda value: value is False or value in VERIFICATIONS, f"false or one of {', '.join(VERIFICATIONS)}"),
    "sizes": (_list_of(_is_sizes), "a list of sizes by the names of axes, such as [{ batch = 5 }]"),
    "rtol": _TOLERANCE, "atol": _TOLERANCE, "task-options": _TABLE,
}  # fmt: skip


def _problems(table: Mapping[str, Any]) -> Iterator[str]:
    """Describe unknown keys and values of a wrong type."""
    yield from _unknown("the file", table, ("sweep", "models", "variants"))
    for name in ("sweep", "models", "variants"):
        if not isinstance(table.get(name, {}), dict):
            yield f"{name} is no table"
            return
    yield from _wrong("[sweep]", table.get("sweep", {}), _SWEEP)
    for name, model in table.get("models", {}).items():
        where = f"[models.{name}]"
        if not isinstance(model, dict):
            yield f"{where} is no table"
            continue
        yield from _wrong(where, model, _MODEL)
        if isinstance(model.get("options"), dict):
            yield from _unknown(f"options of {where}", model["options"], EXPORT_OPTIONS)
        if "target" not in model:
            yield f'{where} has no target, such as target = "my_models:resnet" or "hf:checkpoints/bert"'
    for name, options in table.get("variants", {}).items():
        if not isinstance(options, dict):
            yield f"[variants.{name}] is no table"
            continue
        yield from _unknown(f"[variants.{name}]", options, EXPORT_OPTIONS)


def _unknown(where: str, table: Mapping[str, Any], known: Sequence[str]) -> Iterator[str]:
    for key in table:
        if key not in known:
            yield f"{where} has an unknown key {key!r}{nearest(key, known)}; known: {', '.join(known)}"


def _wrong(where: str, table: Mapping[str, Any], rules: Mapping[str, _Rule]) -> Iterator[str]:
    yield from _unknown(where, table, tuple(rules))
    for key, (fits, expected) in rules.items():
        if key in table and not fits(table[key]):
            yield f"{where} has {key} = {table[key]!r}: expected {expected}"


def _zoo(path: Path, table: Mapping[str, Any]) -> Zoo:
    sweep = table.get("sweep", {})
    offered = {model.name: model for model in _offered(sweep.get("plugins", ()), path)}
    listed = {name: _model(name, model) for name, model in table.get("models", {}).items()}
    return Zoo(
        path.resolve().parent,
        tuple({**offered, **listed}.values()),
        tuple(sweep.get("opset", ())),
        tuple(sweep.get("frontend", ())),
        table.get("variants") or {"": {}},
        sweep.get("time"),
        _bytes(sweep),
        tuple(sweep.get("preload", ())),
    )


def _bytes(table: Mapping[str, Any]) -> int | None:
    return read_bytes(table["memory"]) if "memory" in table else None


def _model(name: str, table: Mapping[str, Any]) -> Model:
    return Model(
        name,
        _entry_point(table["target"]),
        tuple(table.get("opset", ())),
        tuple(table.get("frontend", ())),
        table.get("options", {}),
        table.get("verify", "repeated") or "",
        tuple(table.get("sizes", ())),
        table.get("rtol"),
        table.get("atol"),
        table.get("task", ""),
        table.get("task-options", {}),
        table.get("time"),
        _bytes(table),
    )


def _entry_point(target: str) -> str:
    """Replace ``model:NAME`` by that entry point's ``MODULE:FACTORY``; keep others."""
    if not target.startswith("model:"):
        return target
    points = {point.name: point.value for point in entry_points(group=MODELS)}
    return points.get(target.removeprefix("model:"), target)


def _offered(distributions: Sequence[str], path: Path) -> Iterator[Model]:
    """Yield the models that the entry points of some distributions name.

    Raises OptionError where a distribution has none.
    """
    points = [(point.dist.name if point.dist is not None else "", point) for point in entry_points(group=MODELS)]
    for name in distributions:
        own = [point for distribution, point in points if distribution == name]
        if not own:
            known = sorted({distribution for distribution, _ in points})
            raise OptionError(
                f"the zoo file {path} lists the plugin {name!r}{nearest(name, known)}, which has no entry points of the group "
                f"{MODELS}; to fix this, install the plugin, or take one of: {', '.join(known) or 'none'}"
            )
        yield from (Model(point.name, point.value) for point in own)


def _empty(zoo: Zoo) -> Iterator[str]:
    if not zoo.models:
        yield "it has no models: add a table [models.NAME], or a list of plugins to [sweep]"


def _wrong_targets(zoo: Zoo) -> Iterator[str]:
    """Describe targets that cannot be read, as far as it shows without running them."""
    for model in zoo.models:
        where, folder = f"[models.{model.name}]", zoo.folder
        scheme, colon, place = model.target.rpartition(":")
        if model.target.startswith("model:"):
            known = sorted(f"model:{point.name}" for point in entry_points(group=MODELS))
            listed = f"; installed: {', '.join(known) or 'none'}"
            yield f"{where}: no plugin has a model {model.target!r}{nearest(model.target, known)}{listed}"
        elif model.target.startswith("hf:"):
            if not (folder / model.target.removeprefix("hf:")).exists():
                yield f"{where}: there is no {folder / model.target.removeprefix('hf:')}"
            if not model.task:
                yield f'{where} has no task: a target hf: needs one, such as task = "text-generation"'
        elif model.task or model.task_options:
            yield f"{where} has a task, which is for a target hf: only"
        elif not colon and not model.target.endswith((".pt2", ".pt", ".pth", ".ts")):
            yield f"{where}: the target {model.target!r} is neither MODULE:FACTORY nor a file nor hf:FOLDER"
        elif scheme.endswith(".py") and not (folder / scheme).is_file():
            yield f"{where}: there is no file {folder / scheme}"
        elif not colon and not (folder / place).is_file():
            yield f"{where}: there is no file {folder / place}"
