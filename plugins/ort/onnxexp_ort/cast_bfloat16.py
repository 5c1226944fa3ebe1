"""Casts to float32 where a CPU has no kernel for bfloat16."""

from __future__ import annotations

import onnx_ir as ir
import torch
from onnx_ir.passes.common import ShapeInferencePass

from onnxexp.rewriting import TorchTensor, UniqueNames
from onnxexp_aten.passes.bfloat16_kernels import uncomputed_bfloat16

_FLOAT, _BFLOAT16 = ir.DataType.FLOAT, ir.DataType.BFLOAT16


class CastBfloat16(ir.passes.InPlacePass):
    """Write Casts around operators without a bfloat16 kernel.

    Each result is rounded to bfloat16, as torch rounds it.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        everything = ir.traversal.RecursiveGraphIterator(model.graph)
        if any(value.dtype is None for node in everything for value in node.outputs):  # in the body of an If or Loop
            ShapeInferencePass(check_type=False, strict_mode=False)(model)
        nodes = [node for node in ir.traversal.RecursiveGraphIterator(model.graph) if uncomputed_bfloat16(node)]
        names = UniqueNames.of(model.graph)
        widened: dict[tuple[ir.Value, ir.Graph], ir.Value] = {}
        for node in nodes:
            _widen_attributes(node)
            for index, value in enumerate(node.inputs):
                if value is not None and value.dtype == _BFLOAT16:
                    assert isinstance(node.graph, ir.Graph)
                    key = value, node.graph
                    if key not in widened:
                        widened[key] = _cast(value, _FLOAT, names.unique(f"{value.name}_float32"))
                        maker = widened[key].producer()
                        assert maker is not None
                        node.graph.insert_before(node, maker)
                    node.replace_input_with(index, widened[key])
            for value in node.outputs:
                if value.dtype == _BFLOAT16:
                    _narrow(value, node, names)
        return ir.passes.PassResult(model, bool(nodes))


def _narrow(value: ir.Value, node: ir.Node, names: UniqueNames) -> None:
    """Round an output that is float32 from now on."""
    name = value.name
    value.type = ir.TensorType(_FLOAT)
    value.name = names.unique(f"{name}_float32")
    result = _cast(value, _BFLOAT16, name or "")
    value.replace_all_uses_with(result, replace_graph_outputs=True)
    maker = result.producer()
    assert maker is not None and node.graph is not None
    maker.replace_input_with(0, value)
    node.graph.insert_after(node, maker)


def _cast(value: ir.Value, to: ir.DataType, name: str) -> ir.Value:
    """Return the output of a new Cast."""
    result = ir.Value(name=name, shape=value.shape, type=ir.TensorType(to))
    maker = value.producer()
    properties = {} if maker is None else dict(maker.metadata_props)
    ir.Node("", "Cast", [value], [ir.AttrInt64("to", int(to))], outputs=[result], name=f"{name}/Cast", metadata_props=properties)
    return result


def _widen_attributes(node: ir.Node) -> None:
    """Let an operator without inputs of bfloat16 return float32."""
    for name, attribute in list(node.attributes.items()):
        if name == "dtype" and attribute.as_int() == int(_BFLOAT16):
            node.attributes[name] = ir.AttrInt64(name, int(_FLOAT))
        elif attribute.type is ir.AttributeType.TENSOR and attribute.as_tensor().dtype == _BFLOAT16:
            number = torch.from_numpy(attribute.as_tensor().numpy().astype("float32"))
            node.attributes[name] = ir.AttrTensor(name, TorchTensor(number, name))
