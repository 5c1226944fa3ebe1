"""support/kernel_dtypes.py: its table of kernels, against the installed ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import onnxruntime
import pytest
import torch
from onnx import helper

from onnxexp_aten.support.kernel_dtypes import _LAST, _RUNS
from tests.older_releases import LIMITED

NEWEST = 21 if LIMITED else 26
"""The newest opset of ONNX Runtime 1.20, or of today's."""
NO_NODE = ("ConstantOfShape", "RandomNormal", "RandomUniform", "Resize")
"""No input decides; Resize is checked with values of its own."""
ONLY_FOR_ACCELERATORS = torch.bfloat16
FIRST = {
    name: min(
        schema.since_version for schema in onnx.defs.get_all_schemas_with_history() if (schema.domain, schema.name) == ("", name)
    )
    for name in _RUNS
}
ATTRIBUTES = {
    "BitShift": {"direction": "LEFT"}, **{name: {"hidden_size": 2} for name in ("GRU", "LSTM", "RNN")},
}  # fmt: skip


def opsets(name: str, since: int) -> Iterator[int]:
    """Yield the opsets that change an operator, from `since` or 9 on."""
    first, last = max(since, 9, FIRST[name]), min(_LAST.get(name, NEWEST), NEWEST)
    return (each for each in range(first, last + 1) if each in (first, onnx.defs.get_schema(name, each).since_version))


def one_node(name: str, dtype: torch.dtype, opset: int) -> bytes:
    """Build a model of one operator with inputs of a dtype.

    Where the schema does not allow the dtype, an input is int64, or else has the first type that is allowed.
    """
    schema = onnx.defs.get_schema(name, opset)
    allowed = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
    wanted = f"tensor({ {torch.float32: 'float', torch.float64: 'double'}.get(dtype, str(dtype).removeprefix('torch.')) })"
    inputs = []
    for each in schema.inputs:
        if each.option != onnx.defs.OpSchema.FormalParameterOption.Optional or name == "Clip":
            choices = sorted(
                allowed.get(each.type_str, [each.type_str]), key=lambda text: (text != wanted, text != "tensor(int64)")
            )
            code = onnx.TensorProto.DataType.Value(choices[0][len("tensor(") : -1].upper())
            inputs.append(helper.make_tensor_value_info(each.name, code, None))
    attributes = {each.name: [1, 1] if each.type.name == "INTS" else 1 for each in schema.attributes.values() if each.required}
    results = [each.name for each in schema.outputs if each.option != onnx.defs.OpSchema.FormalParameterOption.Optional] or ["Y"]
    node = helper.make_node(name, [each.name for each in inputs], results, **(attributes | ATTRIBUTES.get(name, {})))
    graph = helper.make_graph([node], "one_node", inputs, [onnx.ValueInfoProto(name=each) for each in results])
    imports = [helper.make_opsetid("", opset)]
    version = helper.find_min_ir_version_for(imports)
    model: bytes = helper.make_model(graph, opset_imports=imports, ir_version=version).SerializeToString()
    return model


@pytest.mark.parametrize("name", [name for name in _RUNS if name not in NO_NODE])
def test_each_dtype_has_a_kernel(name: str) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    for dtype, since in _RUNS[name].items():
        for opset in opsets(name, since) if dtype is not ONLY_FOR_ACCELERATORS and since <= NEWEST else ():
            onnxruntime.InferenceSession(one_node(name, dtype, opset), options, providers=["CPUExecutionProvider"])
