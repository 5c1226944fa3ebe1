"""The modules ``symbolic_opset7`` … ``symbolic_opset20``, made in one loop.

The module ``symbolic`` is the only one in torch 1.0.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from onnxexp import MIN_OPSET, warn
from onnxexp_torch_onnx.overload_matching import overloads
from onnxexp_torch_onnx.symbolic_lookup import OPERATORS, symbolic

__all__ = ["OPSET_MODULES", "assigned_symbolics"]

_FIRST_OPSETS = {"symbolic": MIN_OPSET} | {f"symbolic_opset{opset}": opset for opset in range(7, 21)}
_DOC = "torch.onnx's symbolics: ``relu(g, x)`` is lowered by the plugin for ``aten::relu`` of the running export."


def _opset_modules(package: str) -> dict[str, ModuleType]:
    """Make the modules of a package, by their names in it.

    Each attribute is looked up in the running export.
    """
    modules = {}
    for name in _FIRST_OPSETS:
        module = importlib.util.module_from_spec(ModuleSpec(f"{package}.{name}", loader=None))
        vars(module).update(__doc__=_DOC, __all__=[], __getattr__=symbolic)
        modules[name] = module
    return modules


OPSET_MODULES = _opset_modules("onnxexp_torch_onnx")
"""The modules by name."""


def assigned_symbolics() -> list[tuple[str, Callable[..., Any], int]]:
    """List the functions that users assigned, as in ``symbolic_opset9.elu = f``.

    Each entry is (operator, function, first opset). A public name that no torch operator has causes a warning.
    """
    found = []
    for module, opset in _FIRST_OPSETS.items():
        for name, value in vars(OPSET_MODULES[module]).items():
            if (name.startswith("__") and name.endswith("__")) or not callable(value) or isinstance(value, type):
                continue
            operator = f"aten::{OPERATORS.get(name, name)}"
            if overloads(operator):
                found += [] if value is symbolic(name) else [(operator, value, opset)]
            elif not name.startswith("_"):
                warn(f"{module}.{name} was assigned, but torch has no operator {operator}: no export calls it")
    return found
