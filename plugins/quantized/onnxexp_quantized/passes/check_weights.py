"""Refuse files in which a quantized weight has become float.

A folded DequantizeLinear or Cast makes a weight four times as large, and no integer kernel runs. `FindWeights` lists the
quantized weights of the captured graph, `CheckWeights` looks for them in the finished model.
"""

from __future__ import annotations

import collections
import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import onnx_ir as ir
import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from onnxexp import LoweringError
from onnxexp.graph import Graph, Node, TensorType, Value
from onnxexp.rewriting import TorchTensor

_FOUND = "quantized.weights"
"""Key in `ExportContext.plugin_data`: the names of the weights by their number of elements, and all captured tensors."""
_NAMESPACES = ("quantized_decomposed::", "onnxexp_quantized::", "quantized::", "torchao::")
_INNER = "export::access_subclass_inner_tensor"
"""The operator that reads a tensor out of torchao's weights."""
_NARROW = frozenset({torch.int8, torch.uint8, torch.float8_e4m3fn, torch.float8_e5m2})
_VIEWS = frozenset({"alias", "clone", "contiguous", "detach", "permute", "reshape", "t", "transpose", "unsqueeze", "view"})
_WIDE = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.DOUBLE})


class FindWeights:
    """The pass over the captured graph."""

    name = "find-weights"

    def __init__(self, plugin_data: dict[Any, Any]) -> None:
        self._plugin_data = plugin_data

    def __call__(self, graph: Graph) -> bool:
        makers = {output: node for node in graph.walk() for output in node.outputs}
        weights: dict[Value, int] = {}
        for node in graph.walk():
            if node.op.startswith(_NAMESPACES):
                narrow = {value: _elements(value, graph, makers) for value in _sources(node, makers)}
                weights.update(sorted(narrow.items(), key=lambda each: -each[1])[:1])  # the others are zero points
            elif node.op.startswith(_INNER) and node.args[1] == "qdata":
                weights[node.outputs[0]] = _elements(node.outputs[0], graph, makers)
        names = collections.defaultdict(list)
        for value, elements in weights.items():
            if elements > 1:
                names[elements].append(value.name)
        plain = itertools.filterfalse(is_traceable_wrapper_subclass, graph.params.values())
        self._plugin_data[_FOUND] = dict(names), set(map(_storage, plain))
        return False


class CheckWeights(ir.passes.InPlacePass):
    """The pass over the finished model. It changes nothing.

    Raises LoweringError where as many float numbers as a quantized weight has are stored, and the weight is not. Skip the pass to
    write such a file.
    """

    last = True

    def __init__(self, plugin_data: Mapping[Any, Any]) -> None:
        self._plugin_data = plugin_data

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        weights, captured = self._plugin_data.get(_FOUND, ({}, set()))
        stored = [value.const_value for value in model.graph.initializers.values() if value.const_value is not None]
        narrow = collections.Counter(tensor.size for tensor in stored if tensor.dtype not in _WIDE)
        for size, names in weights.items():
            if narrow[size] >= len(names):
                continue
            wide = [each for each in stored if each.size == size and each.dtype in _WIDE and _storage_of(each) not in captured]
            if wide:
                raise LoweringError(
                    f"the file would have {wide[0].name!r} as {wide[0].dtype.name.lower()}, and of the quantized weights with as "
                    f"many elements ({', '.join(map(repr, names))}) one is missing: it was dequantized at export, by a symbolic "
                    "or a pass; to fix this, let it use DequantizeLinear, or leave this pass out to store float numbers"
                )
        return ir.passes.PassResult(model, modified=False)


def _sources(node: Node, makers: Mapping[Value, Node]) -> Iterator[Value]:
    """Yield the arguments of a node, followed through views."""
    for value in node.inputs():
        maker = makers.get(value)
        while maker is not None and maker.op.removeprefix("aten::").partition(".")[0] in _VIEWS and maker.inputs():
            value = maker.inputs()[0]
            maker = makers.get(value)
        yield value


def _elements(value: Value, graph: Graph, makers: Mapping[Value, Node]) -> int:
    """Return the number of elements of a constant of 8 bits; 0 for other values."""
    maker, of = makers.get(value), value.type
    constant = value in graph.params or (maker is not None and maker.op.startswith(_INNER))
    if not constant or not isinstance(of, TensorType) or of.dtype not in _NARROW or of.sizes is None:
        return 0
    return math.prod(size for size in of.sizes if isinstance(size, int))


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata  # fake tensors have one, too


def _storage_of(contents: ir.TensorProtocol) -> int | None:
    return _storage(contents.torch) if isinstance(contents, TorchTensor) else None
