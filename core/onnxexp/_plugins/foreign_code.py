"""Call code of a plugin with its name in errors, and restore the process's state.

The imports of this project's plugins may change that state: a filter of warnings, for example, stays.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import warnings
from collections.abc import Iterator

import torch

from onnxexp._errors import OnnxExporterError, summary
from onnxexp._plugins.plugin import Plugin
from onnxexp._request.config import working_directory


@contextlib.contextmanager
def calling(
    plugin: Plugin, what: object, error_type: type[OnnxExporterError], passing: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Replace errors of a plugin's code inside the `with`, and restore the state.

    `what` names the plugin in the error, as its text. The exceptions of `passing` stay as they are.
    """
    with restored_state(plugin), naming(what, error_type, passing):
        yield


@contextlib.contextmanager
def naming(what: object, error_type: type[OnnxExporterError], passing: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Replace errors of a plugin's code inside the `with` by one with its name.

    The text of `what` is the name in the error. SystemExit and other exceptions that are no Exception are replaced too, but not
    KeyboardInterrupt, which is the user's.
    """
    kept: tuple[type[BaseException], ...] = (KeyboardInterrupt, GeneratorExit, *passing)
    try:
        yield
    except kept:
        raise
    except BaseException as error:  # a plugin may raise anything
        raise error_type(f"{what} failed: {summary(error)}") from error


@contextlib.contextmanager
def restored_state(plugin: Plugin) -> Iterator[None]:
    """Restore the state of the process that foreign code inside the `with` may change.

    The state is torch's modes, the filters of warnings, the working directory and the handlers of signals.
    """
    if plugin.own:
        yield
        return
    grad, dtype, filters, folder = torch.is_grad_enabled(), torch.get_default_dtype(), list(warnings.filters), working_directory()
    autocast, modes, handlers = _autocast(), torch._C._len_torch_function_stack(), _handlers()
    try:
        yield
    finally:
        torch.set_grad_enabled(grad)
        torch.set_default_dtype(dtype)
        while torch._C._len_torch_function_stack() > modes:
            torch._C._pop_torch_function_stack()
        for device, (enabled, fast) in autocast.items():
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, fast)
        if warnings.filters != filters:
            warnings.filters[:] = filters  # type: ignore[index] # a list at run time
            warnings.simplefilter("default", append=True)  # it also clears the caches of the filters
            del warnings.filters[len(filters) :]  # type: ignore[attr-defined]
        if folder is not None and working_directory() != folder:
            os.chdir(folder)
        for number, handler in handlers.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)  # type: ignore[arg-type] # what getsignal returned


def _autocast() -> dict[str, tuple[bool, torch.dtype]]:
    return {device: (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in ("cpu", "cuda")}


def _handlers() -> dict[signal.Signals, object]:
    """Return Python's signal handlers, or none if this is not the main thread.

    Only the main thread may change them.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    found = {number: signal.getsignal(number) for number in signal.valid_signals()}
    return {number: handler for number, handler in found.items() if handler is not None}
