"""Install onnxexp in torch.onnx's place when a process imports torch.

``onnxexp-torch-onnx.pth`` imports this module at the start of Python, where the environment variable is set.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _AfterTorch(MetaPathFinder):
    """Finds torch once, and lets its loader call `install` at the end."""

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        """Find torch by the other finders; leave every other module to them."""
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            try:
                from onnxexp_torch_onnx import install

                install()
            except Exception as error:  # noqa: BLE001 - an installation that fails in any way leaves torch.onnx
                warnings.warn(f"ONNXEXP_REPLACE_TORCH_ONNX is set, but onnxexp does not load: {error}", stacklevel=2)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if not any(isinstance(each, _AfterTorch) for each in sys.meta_path) and "torch" not in sys.modules:
    sys.meta_path.insert(0, _AfterTorch())
