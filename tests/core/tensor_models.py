"""Models that return their initializers, for tests of what is written."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import torch

from onnxexp._builder.torch_tensor_data import TorchTensor
from onnxexp._serialize import WriteOptions

EXTERNAL = WriteOptions(external_data=True)


def model_of(**tensors: torch.Tensor | ir.TensorProtocol) -> ir.Model:
    """Build a model whose outputs are copies of its initializers."""
    nodes, initializers = [], []
    for name, tensor in tensors.items():
        const = TorchTensor(tensor, name) if isinstance(tensor, torch.Tensor) else tensor
        shape, type_ = ir.Shape(list(const.shape)), ir.TensorType(const.dtype)
        initializers.append(ir.Value(name=name, shape=shape, type=type_, const_value=const))
        nodes.append(ir.node("Identity", [initializers[-1]], name=f"copy_{name}"))
        output = nodes[-1].outputs[0]
        output.name, output.shape, output.type = f"{name}_out", shape, type_
    outputs = [node.outputs[0] for node in nodes]
    graph = ir.Graph([], outputs, nodes=nodes, initializers=initializers, opset_imports={"": 20}, name="main", doc_string="text")
    return ir.Model(graph, ir_version=10, producer_name="test", metadata_props={"key": "value"})


def values(path: str | os.PathLike[str]) -> dict[str, np.ndarray[Any, Any]]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip((name.removesuffix("_out") for name in names), session.run(names, {}), strict=True))


def noise(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Draw random bits, NaNs among them, as a tensor of the dtype."""
    generator = torch.Generator().manual_seed(0)
    high = 2 if dtype is torch.bool else 256
    width = torch.empty((), dtype=dtype).element_size()
    return torch.randint(high, (*shape[:-1], shape[-1] * width), dtype=torch.uint8, generator=generator).view(dtype)


def raw(tensor: torch.Tensor) -> bytes:
    """Return the bytes of a plain copy of a tensor."""
    return tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def mixed() -> ir.Model:
    """Build a model of small and large tensors, with strings, from torch and numpy."""
    return model_of(
        w=torch.randn(400, 500).t(),
        b=torch.randn(500),
        table=ir.tensor(np.arange(9000, dtype=np.int64)),
        four_bits=ir.Tensor(np.arange(8, dtype=np.uint8), dtype=ir.DataType.UINT4),
        words=ir.tensor(["a", "ü"]),
        n=torch.tensor(3),
    )
