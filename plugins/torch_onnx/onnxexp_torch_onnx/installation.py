"""Put onnxexp in torch.onnx's place, for every caller in the process."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import inspect
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

from onnxexp import warn
from onnxexp_torch_onnx import errors
from onnxexp_torch_onnx.dynamo import ExportOptions, OnnxRegistry, dynamo_export
from onnxexp_torch_onnx.errors import OnnxExporterWarning
from onnxexp_torch_onnx.exporting import export as own_export
from onnxexp_torch_onnx.onnx_program import ONNXProgram
from onnxexp_torch_onnx.quantized_inputs_and_outputs import without_parts
from onnxexp_torch_onnx.registry import register_custom_op_symbolic, unregister_custom_op_symbolic
from onnxexp_torch_onnx.served_export import by_name, serve

VARIABLE = "ONNXEXP_REPLACE_TORCH_ONNX"
"""The environment variable with which a process calls `install` when it imports torch."""
_ABSENT = object()
_ERRORS = ("OnnxExporterError", "OnnxExporterWarning", "SymbolicValueError", "UnsupportedOperatorError", "CheckerError")
_OF_FORMER_RELEASES = {
    "dynamo_export": dynamo_export,
    "ExportOptions": ExportOptions,
    "OnnxRegistry": OnnxRegistry,
    "register_custom_op_symbolic": register_custom_op_symbolic,
    "unregister_custom_op_symbolic": unregister_custom_op_symbolic,
}
"""Names that torch.onnx gets where the installed release lacks them."""
_NOT_CALLERS = ("torch.", "onnxexp")
"""The beginnings of the names of modules that keep what they have imported."""


@dataclasses.dataclass(frozen=True)
class _Replaced:
    """An attribute of a module that is replaced; `original` may be `_ABSENT`."""

    owner: ModuleType
    name: str
    original: Any
    replacement: Any

    def put(self) -> None:
        """Replace the attribute."""
        setattr(self.owner, self.name, self.replacement)

    def put_back(self) -> None:
        """Restore the attribute, unless somebody else has replaced it meanwhile."""
        if vars(self.owner).get(self.name) is not self.replacement:
            return
        if self.original is _ABSENT:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.original)


@dataclasses.dataclass
class _Installation:
    """What is replaced in the process at present, torch's names first."""

    replaced: list[_Replaced] = dataclasses.field(default_factory=list)
    lock: threading.RLock = dataclasses.field(default_factory=threading.RLock)


_INSTALLED = _Installation()


def install() -> None:
    """Let onnxexp serve torch.onnx.export and the rest in the whole process.

    Names that a module has imported from torch.onnx before are replaced, too. A second call does nothing, but for a torch.onnx
    that was reloaded meanwhile. torch's own function is ``torch.onnx.export.__wrapped__``. Another tool's function in its place
    is replaced, with a warning, and `uninstall` puts it back.
    """
    with _INSTALLED.lock:
        found = [each for each in _replacements() if each.original is not each.replacement]
        imported = list(_imported((each.original, each.replacement) for each in found))
        for each in (*found, *imported):
            each.put()
        _INSTALLED.replaced += [*found, *imported]
        foreign = next((each.original for each in found if each.name == "export" and _is_foreign(each.original)), None)
    if foreign is not None:
        warn(
            f"torch.onnx.export was {foreign.__module__}.{foreign.__qualname__}, not torch's own: onnxexp takes its place until "
            "uninstall()",
            OnnxExporterWarning,
        )


def uninstall() -> None:
    """Put everything back that `install` has replaced.

    What another tool has put into its place meanwhile stays. It may go on calling onnxexp's function, which then calls torch's.
    """
    with _INSTALLED.lock:
        for each in reversed(_INSTALLED.replaced):
            each.put_back()
        functions = {id(each.replacement): each for each in _INSTALLED.replaced if inspect.isfunction(each.replacement)}
        for other in _imported((each.replacement, each.original) for each in functions.values()):  # imported meanwhile
            other.put()
        _INSTALLED.replaced.clear()


def is_installed() -> bool:
    """Return whether onnxexp serves torch.onnx.export in this process."""
    return bool(_INSTALLED.replaced)


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Serve torch.onnx inside the `with`; after it, as before."""
    before = is_installed()
    install()
    try:
        yield
    finally:
        if not before:
            uninstall()


def _replacements() -> Iterator[_Replaced]:
    """Iterate over what is to be replaced in torch.onnx, with what there is now."""
    onnx = importlib.import_module("torch.onnx")
    yield _replaced(onnx, "export", _served)
    yield _replaced(onnx, "_export", _served_outputs)
    yield _replaced(onnx, "ONNXProgram", _always(ONNXProgram))
    # an import of torch.onnx.utils would change the attribute of that name; since torch 2.9 it is another module
    for utils in {id(each): each for each in (vars(onnx).get("utils"), sys.modules.get("torch.onnx.utils")) if each}.values():
        yield _replaced(utils, "export", _served_trace)
        yield _replaced(utils, "_export", _served_outputs)
    for module in (onnx, importlib.import_module("torch.onnx.errors")):
        for name in _ERRORS:
            if name in vars(module):
                yield _replaced(module, name, _always(getattr(errors, name)))
    for name, own in _OF_FORMER_RELEASES.items():
        if name not in vars(onnx) or vars(onnx)[name] is own:
            yield _replaced(onnx, name, _always(own))


def _replaced(owner: ModuleType, name: str, replacement: Callable[[Any], Any]) -> _Replaced:
    original = vars(owner).get(name, _ABSENT)
    if any(each.owner is owner and each.name == name and each.replacement is original for each in _INSTALLED.replaced):
        return _Replaced(owner, name, original, original)
    return _Replaced(owner, name, original, replacement(original))


def _always(replacement: Any) -> Callable[[Any], Any]:
    return lambda original: replacement


def _is_foreign(function: Any) -> bool:
    return function is not _ABSENT and not str(getattr(function, "__module__", "torch")).startswith(("torch", "onnxexp"))


def _imported(pairs: Iterable[tuple[Any, Any]]) -> Iterator[_Replaced]:
    """Iterate over the places to which modules have imported objects.

    `pairs` are the objects, each with its replacement.
    """
    by_id = {id(old): (old, new) for old, new in pairs if old is not _ABSENT and new is not _ABSENT}
    modules: list[tuple[str, Any]] = list(sys.modules.items())  # not every object there is a module
    for name, module in modules:
        if isinstance(module, ModuleType) and not name.startswith(_NOT_CALLERS):
            for key, value in list(vars(module).items()):
                if id(value) in by_id:
                    yield _Replaced(module, key, *by_id[id(value)])


def _serving(original: Any, run: Callable[[dict[str, Any]], Any]) -> Callable[..., Any]:
    """Return a function that passes `run` its arguments by name.

    After `uninstall`, it calls torch's own.
    """
    function = own_export if original is _ABSENT else original

    @functools.wraps(function)
    def export(*args: Any, **options: Any) -> Any:
        if not is_installed() and original is not _ABSENT:
            return original(*args, **options)
        return run(by_name(function, args, options))

    return export


def _served(original: Any) -> Callable[..., Any]:
    """Return torch.onnx.export on onnxexp."""
    function = own_export if original is _ABSENT else original
    default = inspect.signature(function).parameters.get("dynamo")
    export = _serving(original, functools.partial(serve, dynamo=default is not None and default.default is True))
    export.__signature__ = _with_own_parameters(function)  # type: ignore[attr-defined] # `inspect` reads it
    return export


def _served_trace(original: Any) -> Callable[..., Any]:
    """Return torch.onnx.utils.export on onnxexp: ``dynamo=False``."""
    return _serving(original, lambda values: serve({**values, "dynamo": False}, dynamo=False))


def _served_outputs(original: Any) -> Callable[..., Any]:
    """Return torch.onnx.utils._export on onnxexp, which returns the model's result."""

    def run(values: dict[str, Any]) -> Any:
        file = values.pop("f", None)
        program = serve({**values, "dynamo": False}, dynamo=False)
        assert program is not None and program.eager is not None
        if file is not None:
            program.save(file, external_data=values.get("external_data"))
        given, kwargs = without_parts(*program.example)
        return program.eager(*given, **kwargs)

    return _serving(original, run)


def _with_own_parameters(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of torch's function with onnxexp's further parameters."""
    torchs, own = inspect.signature(function), inspect.signature(own_export)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in torchs.parameters.values()):
        return torchs
    further = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in own.parameters.items()
        if name not in torchs.parameters and parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    return torchs.replace(parameters=[*torchs.parameters.values(), *further])
