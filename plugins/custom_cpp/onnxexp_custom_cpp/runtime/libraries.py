"""Libraries with custom operators: of ONNX Runtime, and of torch."""

from __future__ import annotations

import ctypes
import importlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx_ir as ir
import torch

from onnxexp.torch_ops import overload
from onnxexp_custom_cpp.runtime.errors import BridgeError


class Libraries:
    """The libraries of one session; its options get those of ONNX Runtime.

    Raises BridgeError for a file that is neither kind of library, or does not load.
    """

    def __init__(self, paths: Sequence[str | os.PathLike[str]], options: Any) -> None:
        self._paths: list[str] = []
        self._served: dict[Any, bool] = {}
        for path in map(Path, paths):
            if not path.is_file():
                raise BridgeError(f"there is no library {path}")
            known = _operators()
            if _is_for_onnxruntime(path):
                _register(options, str(path.resolve()))
                self._paths.append(str(path.resolve()))
            else:
                _load_torch_library(path, known)

    def serves(self, node: ir.Node) -> bool:
        """Return whether a library has a kernel for a node: its model of one node loads."""
        if not self._paths:
            return False
        key = (node.op_identifier(), tuple(value and value.dtype for value in (*node.inputs, *node.outputs)), len(node.inputs))
        if key not in self._served:
            self._served[key] = self._loads(node)
        return self._served[key]

    def load_torch_operator(self, mapped: Mapping[str, Any]) -> None:
        """Load what the metadata of an operator name, where torch does not know it."""
        for path in mapped.get("libraries", ()):
            if overload(str(mapped["torch"])) is None and Path(path).is_file():
                _load_torch_library(Path(path))
        for name in mapped.get("modules", ()):
            if overload(str(mapped["torch"])) is None:
                try:
                    importlib.import_module(name)
                except ImportError as error:
                    raise BridgeError(
                        f"{mapped['torch']} is defined by the module {name}, which is not there: {error}"
                    ) from error

    def _loads(self, node: ir.Node) -> bool:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        for path in self._paths:
            options.register_custom_ops_library(path)
        inputs = [None if value is None else _copied(value, f"x{index}") for index, value in enumerate(node.inputs)]
        outputs = [_copied(value, f"y{index}") for index, value in enumerate(node.outputs)]
        alone = ir.Node(node.domain, node.op_type, inputs, node.attributes.values(), outputs=outputs)
        imports = {"": 17, node.domain: node.version or 1}
        graph = ir.Graph(
            [value for value in inputs if value is not None], outputs, nodes=[alone], opset_imports=imports, name="one"
        )
        try:
            onnxruntime.InferenceSession(ir.to_proto(ir.Model(graph, ir_version=8)).SerializeToString(), options)
        except Exception:  # noqa: BLE001 - ONNX Runtime's errors have no base of their own; the whole model's load reports them
            return False
        return True


def _copied(value: ir.Value, name: str) -> ir.Value:
    rank = None if value.shape is None else ir.Shape([None] * len(value.shape))
    return ir.Value(name=name, type=value.type, shape=rank)


def _is_for_onnxruntime(path: Path) -> bool:
    """Return whether a library exports the function that ONNX Runtime calls."""
    try:
        library = ctypes.CDLL(str(path.resolve()))
    except OSError as error:
        raise BridgeError(f"the library {path} does not load: {error}") from error
    try:
        library.RegisterCustomOps  # noqa: B018 - the access looks the symbol up
    except AttributeError:
        return False
    return True


def _register(options: Any, path: str) -> None:
    try:
        options.register_custom_ops_library(path)
    except Exception as error:  # ONNX Runtime's errors have no base of their own
        raise BridgeError(f"ONNX Runtime does not take the library {path}: {error}") from error


def _load_torch_library(path: Path, known: int = -1) -> None:
    """Load a library of torch operators.

    Raises BridgeError where it registers none: `known` is the number of operators before it was opened.
    """
    name = str(path.resolve())
    again = name in torch.ops.loaded_libraries
    torch.ops.load_library(name)  # type: ignore[no-untyped-call]
    if not again and _operators() == known:
        raise BridgeError(
            f"{path} is no library of custom operators: it has no function RegisterCustomOps for ONNX Runtime, and registers no "
            "torch operator"
        )


def _operators() -> int:
    return len(torch._C._dispatch_get_all_op_names())
