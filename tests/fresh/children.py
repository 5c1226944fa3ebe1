"""Run functions in forked children, from a process that has exported nothing."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pickle
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import torch

import onnxexp
from onnxexp._plugins.discovery import discover


def in_child(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in a forked child; return its result, or a text without one."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            data = pickle.dumps(function(*args))
        except BaseException:  # noqa: BLE001 - a child must not return into pytest
            data = pickle.dumps(traceback.format_exc())
        with open(writer, "wb") as file:
            file.write(data)
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        data = file.read()
    _, status = os.waitpid(child, 0)
    return pickle.loads(data) if data else f"the process ended with status {status}"


def preload() -> None:
    """Import what exports through any frontend import, without an export here."""
    for name in in_child(_imported_by_exports):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    discover()
    gc.disable()  # a collection in a child would copy all memory of this process


def _imported_by_exports() -> list[str]:
    before = set(sys.modules)
    model, x = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.GELU()).eval(), torch.randn(2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for capture in ("export", "trace", "script"):
            onnxexp.export(model, (x,), capture=capture, dynamic_shapes=({0: "batch"},))
        torch.export.export(model, (x,), strict=True)
    return [name for name in sys.modules if name not in before]
