"""The modules ``symbolic_opset7`` … ``symbolic_opset20``, made in one loop."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec
from types import ModuleType

from onnxexp_torch_onnx.symbolic_lookup import symbolic

__all__ = ["opset_modules"]

_OPSETS = range(7, 21)
_DOC = "torch.onnx's symbolics: ``relu(g, x)`` is lowered by the plugin for ``aten::relu`` of the running export."


def opset_modules(package: str) -> dict[str, ModuleType]:
    """Make the modules of a package, by their names in it.

    Each attribute is looked up in the running export.
    """
    modules = {}
    for opset in _OPSETS:
        name = f"symbolic_opset{opset}"
        module = importlib.util.module_from_spec(ModuleSpec(f"{package}.{name}", loader=None))
        vars(module).update(__doc__=_DOC, __all__=[], __getattr__=symbolic)
        modules[name] = module
    return modules
