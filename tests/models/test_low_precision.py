"""Models in bfloat16, float16 and float8: dtypes, bytes of weights, and results.

ONNX Runtime's CPU kernels take float16, with casts of its own, but hardly any bfloat16, which onnx's reference evaluator takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from onnx.reference import ReferenceEvaluator

import onnxexp

OPSETS = (13, 18, 19, 20, 22, 23)
HALVES = (torch.bfloat16, torch.float16)
EIGHTHS = (torch.float8_e4m3fn, torch.float8_e5m2)
NUMPY = {
    torch.bfloat16: ml_dtypes.bfloat16,
    torch.float8_e4m3fn: ml_dtypes.float8_e4m3fn,
    torch.float8_e5m2: ml_dtypes.float8_e5m2,
}
ONNX = {
    torch.bfloat16: onnx.TensorProto.BFLOAT16,
    torch.float16: onnx.TensorProto.FLOAT16,
    torch.float8_e4m3fn: onnx.TensorProto.FLOAT8E4M3FN,
    torch.float8_e5m2: onnx.TensorProto.FLOAT8E5M2,
}
TOLERANCE = {torch.bfloat16: 3e-2, torch.float16: 4e-3}


class Attention(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = torch.nn.Linear(16, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.head = torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


def bert_layer() -> torch.nn.Module:
    from transformers import BertConfig
    from transformers.models.bert.modeling_bert import BertLayer

    config = BertConfig(hidden_size=16, num_attention_heads=2, intermediate_size=32, attn_implementation="eager")
    return BertLayer(config)


MODELS: dict[str, tuple[Callable[[], torch.nn.Module], tuple[int, ...]]] = {
    "mlp": (lambda: torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)), (3, 8)),
    "conv": (Net, (2, 3, 8, 8)),
    "bert": (bert_layer, (2, 5, 16)),
    "layer_norm": (lambda: torch.nn.LayerNorm(16), (3, 16)),
    "attention": (Attention, (2, 5, 16)),
}


def array(tensor: torch.Tensor) -> np.ndarray:
    kind = NUMPY.get(tensor.dtype)
    return (
        tensor.numpy()
        if kind is None
        else tensor.contiguous().view({2: torch.int16, 1: torch.uint8}[tensor.itemsize]).numpy().view(kind)
    )


def back(found: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(found).view({2: np.int16, 1: np.uint8}[dtype.itemsize])).view(dtype)


def check_weights(program: onnxexp.ONNXProgram, model: torch.nn.Module, dtype: torch.dtype) -> None:
    """Check that each named weight of this dtype has the bytes that torch has."""
    named = dict(model.named_parameters()) | dict(model.named_buffers())
    stored = {value.name: value for value in program.model_proto.graph.initializer if value.name in named}
    kept = {name: value for name, value in stored.items() if value.data_type == ONNX[dtype]}
    assert kept
    for name, value in kept.items():
        found, weight = onnx.numpy_helper.to_array(value).tobytes(), named[name].detach()
        assert found in (array(weight).tobytes(), array(weight.T.contiguous()).tobytes() if weight.dim() == 2 else b""), name


def computed(program: onnxexp.ONNXProgram, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    proto = program.model_proto
    onnx.checker.check_model(proto, full_check=True)
    if dtype == torch.float16:
        return program(x)
    return back(ReferenceEvaluator(proto).run(None, {proto.graph.input[0].name: array(x)})[0], dtype)


@pytest.mark.parametrize("opset", [pytest.param(each, marks=() if each in (13, 23) else pytest.mark.full) for each in OPSETS])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_halves(name: str, dtype: torch.dtype, opset: int) -> None:
    make, shape = MODELS[name]
    torch.manual_seed(0)
    model, x = make().eval().to(dtype), torch.randn(shape).to(dtype)
    program = onnxexp.export(model, (x,), opset_version=opset)
    expected = model(x).detach()
    types = {value.type.tensor_type.elem_type for value in (*program.model_proto.graph.input, *program.model_proto.graph.output)}
    assert types == {ONNX[dtype]}
    if name != "conv" and (
        name != "layer_norm" or opset >= 17
    ):  # batch norm goes into the convolution, the composed norm is wide
        check_weights(program, model, dtype)
    result = computed(program, x, dtype)
    assert result.dtype == dtype
    torch.testing.assert_close(result.float(), expected.float(), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


class Eighth(torch.nn.Module):
    """Weights of eight bits with a scale, as in checkpoints; the product is float16."""

    def __init__(self, dtype: torch.dtype, wide: torch.dtype) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.wide = wide
        self.weight = torch.nn.Parameter(torch.randn(4, 8).to(dtype), requires_grad=False)
        self.register_buffer("scale", torch.rand(4, 1).to(wide))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rounded = x.to(self.weight.dtype).to(self.wide)
        return F.linear(rounded, self.weight.to(self.wide) * self.scale)


@pytest.mark.parametrize("opset", [19, 20, 22, 23])
@pytest.mark.parametrize("wide", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("dtype", EIGHTHS, ids=str)
def test_eighths(dtype: torch.dtype, wide: torch.dtype, opset: int) -> None:
    model, x = Eighth(dtype, wide), torch.randn(3, 8).to(wide)
    program = onnxexp.export(model, (x,), opset_version=opset)
    onnx.checker.check_model(program.model_proto, full_check=True)
    check_weights(program, model, dtype)
    torch.testing.assert_close(program(x), model(x), rtol=5e-3 if wide == torch.float16 else 1e-5, atol=1e-3)


class Passed(torch.nn.Module):
    """A model whose inputs and outputs have eight bits."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1).to(torch.float32).relu().to(x.dtype)


@pytest.mark.parametrize("dtype", EIGHTHS, ids=str)
def test_eighths_at_the_borders(dtype: torch.dtype) -> None:
    x = torch.randn(2, 3).to(dtype)
    program = onnxexp.export(Passed(), (x,), opset_version=21)
    proto = program.model_proto
    onnx.checker.check_model(proto, full_check=True)
    (found,) = ReferenceEvaluator(proto).run(None, {proto.graph.input[0].name: array(x)})
    assert torch.equal(back(found, dtype).view(torch.uint8), Passed()(x).view(torch.uint8))


@pytest.mark.parametrize(
    ("model", "x", "opset", "first"),
    [
        (Eighth(torch.float8_e4m3fn, torch.float32), torch.randn(3, 8), 18, 19),
        (Eighth(torch.float8_e5m2, torch.float32), torch.randn(3, 8), 13, 19),
        (torch.nn.Linear(4, 4).bfloat16(), torch.randn(2, 4).bfloat16(), 12, 13),
    ],
    ids=["e4m3", "e5m2", "bfloat16"],
)
def test_the_error_names_the_first_opset(model: torch.nn.Module, x: Any, opset: int, first: int) -> None:
    with pytest.raises(onnxexp.OpsetError) as caught:
        onnxexp.export(model, (x,), opset_version=opset)
    assert caught.value.first_opset == first
    onnxexp.export(model, (x,), opset_version=first)
