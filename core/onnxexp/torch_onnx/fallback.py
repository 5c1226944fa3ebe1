"""Torch's operators as nodes of their own, for OperatorExportTypes other than ONNX."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import onnx_ir as ir
import torch

from onnxexp import attributes as attrs
from onnxexp.builder import Builder
from onnxexp.dtypes import to_onnx
from onnxexp.graph import Node, TensorType
from onnxexp.hookspecs import hookimpl
from onnxexp.torch_onnx.enums import OperatorExportTypes
from onnxexp.values import Tensor

__all__ = ["FALLING_BACK", "TorchNodes"]

FALLING_BACK = (OperatorExportTypes.ONNX_ATEN_FALLBACK, OperatorExportTypes.ONNX_FALLTHROUGH)
"""Where only what nobody lowers stays an operator of torch's."""
_ATEN = (OperatorExportTypes.ONNX_ATEN, OperatorExportTypes.ONNX_ATEN_FALLBACK)


@dataclasses.dataclass(frozen=True)
class TorchNodes:
    """A plugin that writes torch's operators as they are: in the form of org.pytorch.aten's ``ATen``, with the name as an
    attribute, or each in its own domain (``aten::relu``).

    Attributes:
        kind: Which of the two.
        ops: The operators that are written so; None: all that give tensors.
    """

    kind: OperatorExportTypes
    ops: frozenset[str] | None = None

    @hookimpl
    def lower_node(self, op: Builder, node: Node) -> Any:
        if self.ops is not None and node.op not in self.ops:
            return None
        if node.op.startswith("prim::") or not all(isinstance(output.type, TensorType) for output in node.outputs):
            return None
        namespace, _, full = node.op.partition("::")
        name, _, overload = full.partition(".")
        named = {"operator": name, "overload_name": overload} if self.kind in _ATEN and namespace == "aten" else {}
        domain, op_type = ("org.pytorch.aten", "ATen") if named else (namespace, name)
        inputs: list[Tensor | None] = []
        for argument, arg in zip(_arguments(node), op.args, strict=True):
            if isinstance(arg, str):
                named[argument] = arg
            else:
                inputs += _inputs(op, arg)
        while inputs and inputs[-1] is None:
            inputs.pop()
        encoded: dict[str, ir.Attr] = {key: attrs.guess(key, value) for key, value in named.items()}
        op.state.import_domain(domain, op.custom_opsets)
        results = op._emit(domain, op_type, inputs, encoded, [None] * len(node.outputs), None)
        for result, output in zip(results, node.outputs, strict=True):
            result.stamp(output.type)
        return results


def _arguments(node: Node) -> list[str]:
    schemas = torch._C._jit_get_schemas_for_operator(node.op.partition(".")[0])
    schema = next((each for each in schemas if each.overload_name == node.op.partition(".")[2]), None)
    if schema is not None and len(schema.arguments) == len(node.args):
        return [argument.name for argument in schema.arguments]
    return [f"arg{index}" for index in range(len(node.args))]


def _inputs(op: Builder, arg: Any) -> Iterator[Tensor | None]:
    """An argument as inputs: a list of tensors is several, numbers are constants, dtypes are their ONNX numbers."""
    if arg is None or isinstance(arg, Tensor):
        yield arg
    elif isinstance(arg, (list, tuple)) and any(isinstance(each, Tensor) and not each.scalar for each in arg):
        for each in arg:
            yield from _inputs(op, each)
    elif isinstance(arg, torch.dtype):
        yield op.constant(int(to_onnx(arg)))
    elif isinstance(arg, (bool, int, float, list, tuple, torch.Tensor)):
        yield op.constant(arg)
    else:
        yield None  # a device, a layout, a memory format: nothing that ONNX has
