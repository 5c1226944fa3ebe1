"""`export_modules_as_functions`: modules as model-local functions."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Any

import onnx_ir as ir
import torch

from onnxexp import OptionError, Options, hookimpl, warn
from onnxexp.frontends import is_scripted
from onnxexp_torch_onnx.function_extraction import SCOPE, FunctionExtractor

FIRST_OPSET = 15
"""Model-local functions need ONNX IR 8, which came with opset 15."""


class ModuleFunctions:
    """A plugin that turns modules of the given classes into model-local functions.

    In place of classes, True selects every module.

    The function's name is that of the class, and its domain is the class's Python module. Modules with equal nodes share a
    function; their weights are its inputs. The function's attributes are the module's annotated variables, and ``inferred::``
    ones: attributes of inner nodes in which the modules differ. A module stays flat, with a warning, if other nodes between its
    own need it and are needed by it.
    """

    def __init__(self, model: Any, classes: bool | Collection[type[torch.nn.Module]]) -> None:
        if classes is not True and not (isinstance(classes, Collection) and all(isinstance(each, type) for each in classes)):
            raise OptionError(f"export_modules_as_functions is {classes!r}; it may be True, False or a set of module classes")
        self._modules = {
            path: (*_named(module), _annotated(module))
            for path, module in _submodules(model)
            if classes is True or _is_wanted(module, classes)
        }

    @hookimpl(trylast=True)  # other passes look at nodes of the main graph only, and merge what would make equal modules differ
    def post_pass(self, options: Options) -> Callable[[ir.Model], None]:
        check_opset(options.opset)

        def modules_as_functions(model: ir.Model) -> None:
            extractor = FunctionExtractor(model)
            for path in sorted(self._modules, key=lambda path: (-path.count("."), path)):
                self._make(extractor, model, path)

        return modules_as_functions

    def _make(self, extractor: FunctionExtractor, model: ir.Model, path: str) -> None:
        domain, name, attributes = self._modules[path]
        flat = []
        for graph in _graphs(model):
            nodes = [node for node in graph if _within(node.metadata_props.get(SCOPE, ""), path)]
            if nodes and not extractor.extract(nodes, domain, name, path, attributes):
                flat += [run for run in _runs(graph, nodes) if not extractor.extract(run, domain, name, path, attributes)]
        if flat:
            warn(f"export_modules_as_functions: {path} ({name}) stays flat: other nodes come between its own")


def check_opset(opset: int) -> None:
    """Raise OptionError for an opset without model-local functions."""
    if opset < FIRST_OPSET:
        raise OptionError(f"export_modules_as_functions: ONNX has functions from opset {FIRST_OPSET} on; the target is {opset}")


def _submodules(model: Any) -> list[tuple[str, torch.nn.Module]]:
    """List the modules below the exported one, by path.

    The module of a bound method has the path ``self``.
    """
    if isinstance(model, torch.nn.Module):
        return list(model.named_modules())[1:]
    if isinstance(model, torch.export.ExportedProgram):
        raise OptionError("export_modules_as_functions needs the model itself: an ExportedProgram has no module objects")
    owner = getattr(model, "__self__", None)  # set on bound methods only
    return list(owner.named_modules(prefix="self")) if isinstance(owner, torch.nn.Module) else []


def _is_wanted(module: torch.nn.Module, classes: bool | Collection[type[torch.nn.Module]]) -> bool:
    if isinstance(classes, bool):
        return False
    return isinstance(module, tuple(classes)) or _named(module) in map(_named_class, classes)


def _named(module: Any) -> tuple[str, str]:
    """Return the domain and the name of a module's function.

    The domain is the Python module of the class, and the name is that of the class.
    """
    if not is_scripted(module):
        return _named_class(type(module))
    qualified = module._c._type().qualified_name().removeprefix("__torch__.")
    return re.sub(r"\.?___torch_mangle_\d+", "", qualified.rpartition(".")[0]) or "__main__", module.original_name


def _named_class(kind: type[torch.nn.Module]) -> tuple[str, str]:
    return kind.__module__, re.sub(r"\W", "_", kind.__qualname__)


def _annotated(module: torch.nn.Module) -> list[ir.Attr]:
    """Convert the annotated variables of a module's class to attributes.

    Only numbers, strings, and lists of those become attributes.
    """
    names = [name for kind in type(module).__mro__ if kind is not torch.nn.Module for name in inspect.get_annotations(kind)]
    inherited = inspect.get_annotations(torch.nn.Module)
    found = {name: getattr(module, name, None) for name in names if name not in inherited}  # some classes annotate only
    return [made for name, value in sorted(found.items()) for made in _attribute(name, value)]


def _attribute(name: str, value: Any) -> list[ir.Attr]:
    elements = list(value) if isinstance(value, (list, tuple)) else [value]
    for kinds, type_ in (((int,), "INT"), ((int, float), "FLOAT"), ((str,), "STRING")):
        if elements and all(isinstance(each, kinds) for each in elements):
            made = [kinds[-1](each) for each in elements]
            single = not isinstance(value, (list, tuple))
            return [ir.Attr(name, ir.AttributeType[type_ if single else f"{type_}S"], made[0] if single else made)]
    return []


def _graphs(model: ir.Model) -> list[ir.Graph]:
    """List the main graph, then those of branches and loops outside functions."""
    found = {id(node.graph): node.graph for node in model.graph.all_nodes() if isinstance(node.graph, ir.Graph)}
    return list(found.values())


def _within(scope: str, path: str) -> bool:
    return scope == path or scope.startswith(f"{path}.")


def _runs(graph: ir.Graph, nodes: list[ir.Node]) -> list[list[ir.Node]]:
    """Split the nodes into consecutive runs.

    A module that is called several times has several runs.
    """
    wanted = set(nodes)
    runs: defaultdict[int, list[ir.Node]] = defaultdict(list)
    number = 0
    for node in graph:
        if node in wanted:
            runs[number].append(node)
        else:
            number += 1
    return list(runs.values())
