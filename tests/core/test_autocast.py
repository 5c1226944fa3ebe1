"""Regions under torch.autocast: the graph casts what autocast casts, and no more.

Eager's float16 runs in ONNX Runtime on a CPU. bfloat16 does not run there, so only its dtypes are compared.
"""

from __future__ import annotations

import collections

import onnx
import onnx_ir as ir
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import onnxexp
from onnxexp.testing import Case, check_case
from tests.eager import run_eager

pytest.importorskip("onnxexp_aten", reason="the operators are the aten plugin's")
torch.manual_seed(0)
X, W = torch.randn(3, 4), torch.randn(4, 4)


class Under(nn.Module):
    """A function of x and w under autocast."""

    def __init__(self, fn, dtype):
        super().__init__()
        self.fn, self.dtype = fn, dtype

    def forward(self, x, w):
        with torch.autocast("cpu", dtype=self.dtype):
            return self.fn(x, w)


def disabled_inside(x, w):
    y = x @ w
    with torch.autocast("cpu", enabled=False):
        z = x @ w
    return y, z, z @ w


def other_dtype_inside(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ w
    return y.float(), x @ w


FUNCTIONS = {
    "matmul": lambda x, w: x @ w,
    "linear": lambda x, w: F.linear(x, w, w[0]),
    "linear of halves": lambda x, w: F.linear(x.half(), w, w[0]),
    "addmm": lambda x, w: torch.addmm(w[0], x, w),
    "baddbmm": lambda x, w: torch.baddbmm(x[None], x[None], w[None]),
    "conv": lambda x, w: F.conv1d(x[None], w[:, :3, None]),
    "einsum": lambda x, w: torch.einsum("ij,jk->ik", x, w),
    "einsum mixed": lambda x, w: torch.einsum("ij,jk->ik", x @ w, w),
    "tensordot": lambda x, w: torch.tensordot(x, w, 1),
    "attention": lambda x, w: F.scaled_dot_product_attention(x[None], x[None], x[None], attn_mask=torch.zeros(3, 3)),
    "softmax": lambda x, w: (x @ w).softmax(-1),
    "softmax in float32": lambda x, w: (x @ w).softmax(-1, dtype=torch.float32),
    "gelu": lambda x, w: F.gelu(x @ w),
    "layer_norm": lambda x, w: F.layer_norm(x @ w, (4,), w[0], w[1]),
    "batch_norm": lambda x, w: F.batch_norm(x @ w, w[0], w[1].abs(), w[2], w[3]),
    "mse_loss": lambda x, w: F.mse_loss(x @ w, x),
    "cdist": lambda x, w: torch.cdist(x @ w, x),
    "prod": lambda x, w: torch.prod((x @ w).tanh(), 1),
    "mean": lambda x, w: (x @ w).mean(1),
    "sum": lambda x, w: (x @ w).sum(1, dtype=torch.float32),
    "add": lambda x, w: x @ w + x,
    "cat": lambda x, w: torch.cat([x @ w, x]),
    "stack": lambda x, w: torch.stack([x @ w, x]),
    "where": lambda x, w: torch.where(x > 0, x @ w, x),
    "to": lambda x, w: (x @ w).float() + 1,
    "type_as": lambda x, w: (x @ w).type_as(x),
    "zeros_like": lambda x, w: torch.zeros_like(x @ w, dtype=torch.float32) + x,
    "in place": lambda x, w: (x @ w).clone().add_(x),
    "views": lambda x, w: F.pad((x @ w).t(), (1, 1)).reshape(-1),
    "chunk": lambda x, w: torch.chunk(x @ w, 2, 1),
    "cosine": lambda x, w: F.cosine_similarity(x @ w, x),
    "embedding": lambda x, w: F.embedding(torch.tensor([1, 2]), w) @ w,
    "disabled inside": disabled_inside,
    "cond": lambda x, w: torch.cond((x @ w).sum() > 0, lambda x: x @ w, lambda x: (x @ w) * 2, (x,)),
}
"""By name, as what pytest shows."""


@pytest.mark.parametrize("opset", [13, 20, 23])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_float16(name, opset):
    check_case(
        Case(Under(FUNCTIONS[name], torch.float16), X, W, dynamic={0: [0]} if name != "attention" else {}, rtol=0.02, atol=0.02),
        opset,
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bfloat16(name):
    """The results' dtypes are those of eager, and the graph is valid."""
    model = Under(FUNCTIONS[name], torch.bfloat16)
    program = onnxexp.export(model, (X, W), opset_version=23)
    onnx.checker.check_model(program.model_proto, full_check=True)
    expected = model(X, W)
    expected = expected if isinstance(expected, tuple) else (expected,)
    names = {torch.float32: "FLOAT", torch.bfloat16: "BFLOAT16"}
    assert [str(output.dtype) for output in program.model.graph.outputs] == [names[tensor.dtype] for tensor in expected]


def test_casts_are_explicit():
    """Each input of the product in another dtype gets one Cast, and its result none."""
    program = onnxexp.export(Under(lambda x, w: ((x @ w).relu() @ w).exp(), torch.float16), (X, W))
    counted = collections.Counter(node.op_type for node in program.model.graph)
    assert counted == {"Cast": 2, "MatMul": 2, "Relu": 1, "Exp": 1}


def test_dtypes_of_regions():
    program = onnxexp.export(Under(other_dtype_inside, torch.float16), (X, W))
    made = [str(node.outputs[0].dtype) for node in program.model.graph if node.op_type == "MatMul"]
    assert made == ["BFLOAT16", "FLOAT16"]


class Recurrent(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.layer(x)


@pytest.mark.parametrize(
    "layer", [nn.LSTM(4, 4), nn.GRU(4, 4), nn.RNN(4, 4), nn.LSTM(4, 4, proj_size=2)], ids=["LSTM", "GRU", "RNN", "projected"]
)
def test_recurrent_layers(layer):
    """Recurrent layers are kept whole, so torch's choice of dtypes must be known."""
    model = Recurrent(layer)
    x = torch.randn(2, 3, 4)
    result = run_eager(model, x)
    program = onnxexp.export(model, (x,), dynamic_shapes={"x": {0: "time", 1: "batch"}})
    found, expected = (torch.utils._pytree.tree_leaves(each) for each in (program(x), result))
    assert [tensor.dtype for tensor in found] == [tensor.dtype for tensor in expected]
    torch.testing.assert_close(found, expected, rtol=0.02, atol=0.02)


class Fixed(nn.Module):
    """A layer under autocast behind a line that only strict mode captures at any size."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.layer, self.dtype = nn.Linear(4, 3), dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + float(x.shape[0])
        with torch.autocast("cpu", dtype=self.dtype):
            y = self.layer(x.relu()) * 2
        return y.softmax(-1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_strict_capture(dtype):
    """torch.export's strict mode records a region's operators without autocast."""
    model = Fixed(dtype).eval()
    program = onnxexp.export(model, (X,), dynamic_shapes=({0: "n"},), capture="export", opset_version=23)
    assert program.model.graph.outputs[0].dtype == ir.DataType[{"float16": "FLOAT16", "bfloat16": "BFLOAT16"}[str(dtype)[6:]]]
    if dtype == torch.float16:
        for x in (X, torch.randn(5, 4)):
            torch.testing.assert_close(program(x), model(x), rtol=0.02, atol=0.02)


def test_given_strict_program():
    exported = torch.export.export(Fixed(torch.float16).eval(), (X,), strict=True)
    program = onnxexp.export(exported)
    torch.testing.assert_close(program(X), exported.module()(X), rtol=0.02, atol=0.02)
