"""Switch modules of transformers to the paths that they have for exports.

The switch is ``torch.jit.is_tracing()``. Where it is true, models of images leave out shortcuts for the configured size, which
would fix the size of the graph.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from onnxexp import is_in_onnx_export

_PACKAGES = ("transformers", "transformers_modules")
"""transformers, and its name for the code of checkpoints."""


def tracing_switch() -> Iterator[tuple[Any, str, Callable[[], bool]]]:
    """Yield the replacement (owner, name, function) of `torch.jit.is_tracing`.

    In captures of torch.export, the function returns true if transformers calls it, and false otherwise. A torch without
    TorchScript needs no replacement.
    """
    if not hasattr(torch, "jit"):
        return
    original: Any = vars(torch.jit)["is_tracing"]
    is_scripting = vars(torch.jit)["is_scripting"]

    def is_tracing() -> bool:
        if is_scripting():  # as in torch's own function: torch.jit.script compiles nothing below
            return False
        if torch.compiler.is_dynamo_compiling():  # strict capture cannot trace what follows
            return False
        if not (torch.compiler.is_exporting() and is_in_onnx_export()):
            return bool(original())
        return str(sys._getframe(1).f_globals.get("__name__")).partition(".")[0] in _PACKAGES

    yield torch.jit, "is_tracing", is_tracing
