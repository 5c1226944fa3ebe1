"""`export_modules_as_functions`: modules as functions of the model."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection

import onnx_ir as ir
import torch

from onnxexp.hookspecs import hookimpl
from onnxexp.options import Options
from onnxexp.torch_onnx.extraction import SCOPE, Extraction
from onnxexp.warning import warn

__all__ = ["FIRST_OPSET", "ModuleFunctions"]

FIRST_OPSET = 15
"""Model-local functions are of ONNX IR 8, which opset 15 came with."""


class ModuleFunctions:
    """A plugin that makes a function of each module of the given classes (True: of each module): its name is the class's, its
    domain the class's Python module. Modules that compute the same share a function; their weights are its inputs.

    What cannot be one call (another module's nodes in between that need it and are needed) stays as it is, with a warning.
    """

    def __init__(self, model: torch.nn.Module, classes: bool | Collection[type[torch.nn.Module]]) -> None:
        self._modules = {
            path: type(module)
            for path, module in model.named_modules()
            if path and (classes is True or _is_wanted(module, classes))
        }

    @hookimpl
    def post_pass(self, options: Options) -> Callable[[ir.Model], None] | None:
        if options.opset < FIRST_OPSET:
            warn(
                f"export_modules_as_functions: ONNX has functions from opset {FIRST_OPSET} on; at opset {options.opset} the "
                "graph stays flat"
            )
            return None

        def modules_as_functions(model: ir.Model) -> None:
            extraction = Extraction(model)
            for path in sorted(self._modules, key=lambda path: (-path.count("."), path)):
                self._make(extraction, model, path)

        return modules_as_functions

    def _make(self, extraction: Extraction, model: ir.Model, path: str) -> None:
        kind = self._modules[path]
        domain, name = kind.__module__, re.sub(r"\W", "_", kind.__qualname__)
        nodes = [node for node in model.graph if _within(node.metadata_props.get(SCOPE, ""), path)]
        if not nodes or extraction.extract(nodes, domain, name, path):
            return
        flat = [run for run in _runs(model.graph, nodes) if not extraction.extract(run, domain, name, path)]
        if flat:
            warn(f"export_modules_as_functions: {path} ({name}) stays flat, it is not computed in one go")


def _is_wanted(module: torch.nn.Module, classes: bool | Collection[type[torch.nn.Module]]) -> bool:
    return not isinstance(classes, bool) and isinstance(module, tuple(classes))


def _within(scope: str, path: str) -> bool:
    return scope == path or scope.startswith(f"{path}.")


def _runs(graph: ir.Graph, nodes: list[ir.Node]) -> list[list[ir.Node]]:
    """The nodes by uninterrupted stretches: a module that is called several times."""
    wanted = set(nodes)
    runs: defaultdict[int, list[ir.Node]] = defaultdict(list)
    number = 0
    for node in graph:
        if node in wanted:
            runs[number].append(node)
        else:
            number += 1
    return list(runs.values())
