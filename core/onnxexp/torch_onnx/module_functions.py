"""`export_modules_as_functions`: modules as functions of the model."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection

import onnx_ir as ir
import torch

from onnxexp.plugins.hookspecs import hookimpl
from onnxexp.request.options import Options
from onnxexp.torch_onnx.function_extraction import SCOPE, Extraction
from onnxexp.user_warnings import warn

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
            path: _named(module)
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
        domain, name = self._modules[path]
        flat = []
        for graph in _graphs(model):
            nodes = [node for node in graph if _within(node.metadata_props.get(SCOPE, ""), path)]
            if nodes and not extraction.extract(nodes, domain, name, path):
                flat += [run for run in _runs(graph, nodes) if not extraction.extract(run, domain, name, path)]
        if flat:
            warn(f"export_modules_as_functions: {path} ({name}) stays flat, it is not computed in one go")


def _is_wanted(module: torch.nn.Module, classes: bool | Collection[type[torch.nn.Module]]) -> bool:
    if isinstance(classes, bool):
        return False
    return isinstance(module, tuple(classes)) or _named(module) in map(_named_class, classes)


def _named(module: torch.nn.Module) -> tuple[str, str]:
    """Domain and name of a module's function: where its class is, and what it is called; TorchScript remembers the class's."""
    if not isinstance(module, torch.jit.ScriptModule):
        return _named_class(type(module))
    qualified = module._c._type().qualified_name().removeprefix("__torch__.")
    return re.sub(r"\.?___torch_mangle_\d+", "", qualified.rpartition(".")[0]) or "__main__", module.original_name


def _named_class(kind: type[torch.nn.Module]) -> tuple[str, str]:
    return kind.__module__, re.sub(r"\W", "_", kind.__qualname__)


def _graphs(model: ir.Model) -> list[ir.Graph]:
    """The main graph, then those of branches and loops that are no part of a function yet."""
    found = {id(node.graph): node.graph for node in model.graph.all_nodes() if isinstance(node.graph, ir.Graph)}
    return list(found.values())


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
