"""Load a command's target, a module's factory or a file, with its inputs."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.export import ExportedProgram

from onnxexp._errors import OnnxExporterError, OptionError
from onnxexp._pipeline import export
from onnxexp._request.config import working_directory
from onnxexp._request.module_and_forward import forward_of
from onnxexp._suggest import nearest
from onnxexp._torch_compat import NO_TORCHSCRIPT, ScriptModule

_SPEC = re.compile(r"(?:(?P<name>[^=\[\]]+)=)?(?P<dtype>\w+)\[(?P<sizes>[\d\s,]*)\]")
_SEED = 0
_SCRIPTED = (".pt", ".pth", ".ts")
"""The usual suffixes of TorchScript files."""


@dataclasses.dataclass
class Target:
    """A model, its example call, and other arguments of `export` from its factory."""

    model: Any
    args: Any = ()
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    options: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        self.args = tuple(self.args) if isinstance(self.args, (tuple, list)) else (self.args,)

    @staticmethod
    def load(text: str, inputs: Sequence[str] = (), *, trusted: bool = False) -> Target:
        """Load the target that a command's argument names.

        The caller loads the plugins first, since a module in the working directory puts that folder on `sys.path`.

        Args:
            text: ``package.module:name``, ``path/file.py:name``, ``path/file.pt2``, or ``path/file.pt``, a TorchScript file.
            inputs: Specs of example inputs, as `--input` takes them; they replace those from the factory.
            trusted: Whether a .pt2 file may run code while it is loaded.

        Raises:
            OptionError: The module, file or name does not exist, the object cannot be exported, or an input is missing.
        """
        if text.endswith(".pt2"):
            from onnxexp._cli.pt2_archive import load_archive

            target = Target(load_archive(Path(text), trusted=trusted))
        elif text.endswith(_SCRIPTED):
            target = Target(_scripted(Path(text)))
        else:
            target = _resolve(*_locate(text), text)
        if inputs:
            read = [read_input(spec) for spec in inputs]
            target.args = tuple(value for name, value in read if not name)
            target.kwargs = {name: value for name, value in read if name}
        elif not target.args and not target.kwargs and not isinstance(target.model, ExportedProgram):
            _check_needs_nothing(target.model, text)
        return target


def _scripted(path: Path) -> ScriptModule:
    """Load a TorchScript file onto the CPU."""
    if not path.is_file():
        raise OptionError(f"there is no file {path}")
    if NO_TORCHSCRIPT:
        raise OptionError(
            f"{path} cannot be read: {NO_TORCHSCRIPT}; to fix this, export the model itself, or install an older torch"
        )
    try:
        module: ScriptModule = torch.jit.load(path, map_location="cpu")  # type: ignore[no-untyped-call]
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise OptionError(
            f"{path} is no TorchScript file ({reason}): torch.jit.save writes one. For weights or a pickled model, write a "
            "factory that returns the model, and give MODULE:FACTORY"
        ) from error
    return module


def read_input(spec: str) -> tuple[str, Any]:
    """Parse ``[NAME=]DTYPE[SIZES]`` or ``[NAME=]NUMBER`` to a name and an example.

    Floats are normally distributed. Integers are 0 or 1, which are valid for every index and mask. The seed is fixed.
    """
    match = _SPEC.fullmatch(spec.strip())
    if match is None:
        name, _, number = spec.rpartition("=")
        try:
            value = ast.literal_eval(number.strip())
        except (ValueError, SyntaxError):
            value = spec
        if not isinstance(value, (bool, int, float)) and value is not None:
            raise OptionError(
                f"--input {spec}: expected [NAME=]DTYPE[SIZES] or a number, as in float32[2,3,224,224] or ids=int64[1,8]"
            )
        return name.strip(), value
    dtype = vars(torch).get(match["dtype"])
    if not isinstance(dtype, torch.dtype):
        known = [name for name, value in vars(torch).items() if isinstance(value, torch.dtype)]
        raise OptionError(f"--input {spec}: torch has no dtype {match['dtype']!r}{nearest(match['dtype'], known)}")
    sizes = [int(size) for size in match["sizes"].split(",") if size.strip()]
    return (match["name"] or "").strip(), _example(dtype, sizes)


def _example(dtype: torch.dtype, sizes: Sequence[int]) -> torch.Tensor:
    generator = torch.Generator().manual_seed(_SEED)
    if dtype.is_floating_point:
        return torch.randn(sizes, generator=generator).to(dtype)
    if dtype.is_complex:
        return torch.randn(sizes, generator=generator, dtype=torch.complex64).to(dtype)
    return torch.randint(0, 2, sizes, generator=generator).to(dtype)


def _locate(text: str) -> tuple[ModuleType, str]:
    """Import the target's module, and return it with the name in it."""
    place, colon, name = text.rpartition(":")
    if not colon or not place or not name:
        raise OptionError(f"{text!r} is neither MODULE:FACTORY nor FILE.py:FACTORY nor FILE.pt2 nor FILE.pt")
    if place.endswith(".py") or os.sep in place:
        return _file(Path(place)), name
    try:
        _add_working_directory(place.partition(".")[0])
        return importlib.import_module(place), name
    except ModuleNotFoundError as error:
        if error.name is not None and (place == error.name or place.startswith(f"{error.name}.")):
            raise OptionError(f"there is no module {place!r}: it is neither installed nor in the working directory") from None
        raise _failed(f"importing {place}", error) from error
    except Exception as error:
        raise _failed(f"importing {place}", error) from error


def _add_working_directory(top: str) -> None:
    """Put the working directory on `sys.path` if it contains the user's module."""
    here = working_directory()
    spec = PathFinder.find_spec(top, [here]) if here else None
    if here is None or spec is None or here in sys.path:
        return
    # an installed package takes precedence over a plain folder
    if spec.origin is not None or importlib.util.find_spec(top) is None:
        sys.path.insert(0, here)


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        raise OptionError(f"there is no file {path}")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # a script can import the modules beside it
    name = path.stem if path.stem not in sys.modules else f"{path.stem} ({path})"  # it may have the name of one of our packages
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise OptionError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickles look their module up by name
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise _failed(f"running {path}", error) from error
    return module


def _resolve(module: ModuleType, name: str, text: str) -> Target:
    """Return the named object, or the result of calling it, as a target."""
    found: Any = module
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise OptionError(f"{text}: {found.__name__} has no {part!r}{nearest(part, dir(found))}") from None
    if callable(found) and not isinstance(found, (torch.nn.Module, ExportedProgram)):
        _check_callable(found, text)
        try:
            found = found()
        except OnnxExporterError:
            raise
        except Exception as error:
            raise _failed(f"calling {text}", error) from error
    return _read(found, text)


def _check_callable(factory: Any, text: str) -> None:
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # some built-in callables have no signature; calling them shows missing arguments
        return
    required = [p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if required:
        raise OptionError(
            f"{text} needs arguments ({', '.join(required)}), and a factory is called without any: write a function that "
            "returns the model, or (model, args)"
        )


def _read(value: Any, text: str) -> Target:
    """Parse a factory's result, see `Target.load`.

    The result is a model, ``(model, args)``, ``(model, args, kwargs)`` or a dict of the arguments of `export`.
    """
    if isinstance(value, Mapping):
        options = dict(value)
        parameters = [name for name in inspect.signature(export).parameters if name != "f"]
        unknown = [name for name in options if name not in parameters]
        if unknown or "model" not in options:
            problem = f"{unknown[0]!r}{nearest(str(unknown[0]), parameters)} is none" if unknown else "'model' is missing"
            raise OptionError(f"{text} returns a dict, whose keys must be arguments of onnxexp.export: {problem}")
        return Target(options.pop("model"), options.pop("args", ()), dict(options.pop("kwargs", None) or {}), options)
    parts = value if isinstance(value, tuple) else (value,)
    if not parts or not (isinstance(parts[0], (torch.nn.Module, ExportedProgram)) or callable(parts[0])) or len(parts) > 3:
        raise OptionError(
            f"{text} is or returns an object of type {type(value).__name__}; a factory returns a model, (model, args), "
            "(model, args, kwargs) or a dict of the arguments of onnxexp.export"
        )
    return Target(parts[0], parts[1] if len(parts) > 1 else (), dict(parts[2]) if len(parts) > 2 else {})


def _check_needs_nothing(model: Any, text: str) -> None:
    signature = inspect.signature(forward_of(model) if isinstance(model, torch.nn.Module) else model)
    try:
        signature.bind()
    except TypeError:
        raise OptionError(
            f"{text} has no example inputs; the model takes {signature}. Pass one --input for each, as in "
            "`--input float32[1,3,224,224]`, or let the factory return (model, args)"
        ) from None


def _failed(what: str, error: Exception) -> OptionError:
    place = ""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_next is None:
            place = f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
        trace = trace.tb_next
    return OptionError(f"{what} failed: {type(error).__name__}: {error}{place}; --traceback shows where")
