"""Compare operators of ONNX Runtime with the nodes that onnxexp exports.

Each pair computes the same from random numbers, in turn, with one thread. A ratio above 1 means that the first is faster. The
figures are the reasons why onnxexp-plugin-ort uses an operator or not.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import helper, numpy_helper
from torch import nn
from transformers import MixtralConfig
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock

import onnxexp

REPEATS, LOADS = 25, 7
WIDTH, HEADS, EXPERTS, INNER = 512, 8, 8, 896
QUERY, KEYS, MIDDLE, LAYERS = 640, 320, 1792, 14
"""The sizes of the benchmarks' Llama."""

Arrays = Mapping[str, "np.ndarray[Any, Any]"]


def measure() -> dict[str, float]:
    """Measure the speed of one form ÷ that of another, by comparison."""
    torch.manual_seed(0)
    found = {}
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        found["fused ÷ separate products, 1 token"] = statistics.median(_fused_products(Path(folder)) for _ in range(LOADS))
        layer, operator = _experts(Path(folder))
        for tokens in (1, 64, 256):
            found[f"MoE ÷ composition, {tokens} tokens"] = _ratio(operator, layer, {"x": _random(1, tokens, WIDTH)})
        for name, (operator, norm) in _norms(Path(folder)).items():
            for tokens in (1, 16, 128):
                feeds = {"x": _random(1, tokens, WIDTH), "y": _random(1, tokens, WIDTH)}
                found[f"{name} ÷ sum and norm, {tokens} tokens"] = _ratio(operator, norm, feeds)
        for opset in (20, 23):
            attention = _exported(Attention(), Path(folder), *[torch.randn(2, 5, WIDTH)] * 3, opset=opset)
            other = _session(_multi_head_attention())
            for tokens in (16, 128, 384):
                feeds = {name: _random(1, tokens, WIDTH) for name in ("q", "k", "v")}
                name = f"MultiHeadAttention ÷ {'Attention of opset 23' if opset == 23 else 'composition'}, {tokens} tokens"
                found[name] = _ratio(other, attention, feeds)
    return found


def _fused_products(folder: Path) -> float:
    """Load fused and separate products, and compare them.

    Each load puts the weights into another place in memory, which changes the ratio by a tenth.
    """
    separate, fused = (_exported(Products(each), folder, torch.randn(1, 1, QUERY)) for each in (False, True))
    return _ratio(fused, separate, {"x": _random(1, 1, QUERY)})


class Products(nn.Module):
    """The products of a Llama's layers with their weights, without what is between."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(0)
        shapes = [(QUERY, QUERY), (KEYS, QUERY), (KEYS, QUERY), (QUERY, QUERY), (MIDDLE, QUERY), (MIDDLE, QUERY), (QUERY, MIDDLE)]
        layers = [[torch.randn(shape, generator=random) * shape[1] ** -0.5 for shape in shapes] for _ in range(LAYERS)]
        if fused:
            layers = [[torch.cat(layer[:3]), layer[3], torch.cat(layer[4:6]), layer[6]] for layer in layers]
        self.layers = nn.ModuleList(nn.ParameterList(layer) for layer in layers)
        self.fused = fused

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply each layer to the result of the one before it."""
        linear = nn.functional.linear
        for layer in self.layers:
            if self.fused:
                q, k, v = linear(x, layer[0]).split([QUERY, KEYS, KEYS], -1)
                gate, up = linear(linear(q + torch.cat([k, v], -1), layer[1]), layer[2]).chunk(2, -1)
            else:
                q, k, v = (linear(x, layer[index]) for index in range(3))
                out = linear(q + torch.cat([k, v], -1), layer[3])
                gate, up = linear(out, layer[4]), linear(out, layer[5])
            x = x + linear(gate.tanh() * up, layer[-1])
        return x


class Residual(nn.Module):
    """A residual sum and its norm."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the norm of the sum, and the sum."""
        total = x + y
        return self.norm(total), total


class Attention(nn.Module):
    """Attention of an encoder: every token to every other."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Attend with q, k and v of [batch, sequence, width]."""
        q, k, v = (x.unflatten(2, (HEADS, -1)).transpose(1, 2) for x in (q, k, v))
        return nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def _experts(folder: Path) -> tuple[onnxruntime.InferenceSession, onnxruntime.InferenceSession]:
    """Load Mixtral's experts as onnxexp exports them, and as MoE.

    MoE takes the interleaved weights of its SwiGLU.
    """
    config = MixtralConfig(
        hidden_size=WIDTH, intermediate_size=INNER, num_local_experts=EXPERTS, num_experts_per_tok=2,
        experts_implementation="grouped_mm",
    )  # fmt: skip
    model = MixtralSparseMoeBlock(config).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.05)
    both = model.experts.gate_up_proj.reshape(EXPERTS, 2, INNER, WIDTH).transpose(1, 2).reshape(EXPERTS, 2 * INNER, WIDTH)
    weights = {"gate": model.gate.weight.T, "first": both, "second": model.experts.down_proj}
    nodes = [
        helper.make_node("MatMul", ["x", "gate"], ["scores"]),
        helper.make_node("Reshape", ["scores", "rows"], ["routed"]),
        helper.make_node(
            "MoE", ["x", "routed", "first", "", "second"], ["o"], domain="com.microsoft", k=2, activation_type="swiglu",
            normalize_routing_weights=1, swiglu_fusion=1, activation_alpha=1.0, activation_beta=0.0,
        ),
    ]  # fmt: skip
    arrays = {name: weight.detach().contiguous().numpy() for name, weight in weights.items()}
    operator = _model(nodes, ["x"], arrays | {"rows": np.array([-1, EXPERTS])})
    return _exported(model, folder, torch.randn(1, 7, WIDTH)), _session(operator)


def _norms(folder: Path) -> dict[str, tuple[onnxruntime.InferenceSession, onnxruntime.InferenceSession]]:
    """Load norms of sums as one operator, and as onnxexp exports them."""
    made = {}
    norms = {"SkipLayerNormalization": nn.LayerNorm(WIDTH), "SkipSimplifiedLayerNormalization": nn.RMSNorm(WIDTH, eps=1e-5)}
    for name, norm in norms.items():
        weights = {key: parameter.detach().numpy() for key, parameter in norm.named_parameters()}
        node = helper.make_node(name, ["x", "y", *weights], ["n", "", "", "t"], domain="com.microsoft", epsilon=1e-5)
        exported = _exported(Residual(norm), folder, *[torch.randn(2, 5, WIDTH)] * 2)
        made[name] = _session(_model([node], ["x", "y"], weights, ["n", "t"])), exported
    return made


def _multi_head_attention() -> onnx.ModelProto:
    node = helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["o"], domain="com.microsoft", num_heads=HEADS)
    return _model([node], ["q", "k", "v"], {})


def _model(
    nodes: Sequence[onnx.NodeProto], inputs: Sequence[str], arrays: Arrays, outputs: Sequence[str] = ("o",)
) -> onnx.ModelProto:
    def tensor(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", "sequence", WIDTH])

    initializers = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "graph", [tensor(name) for name in inputs], [tensor(name) for name in outputs], initializers)
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def _exported(model: nn.Module, folder: Path, *args: torch.Tensor, opset: int = 20) -> onnxruntime.InferenceSession:
    axes = {axis: name for axis, name in enumerate(("batch", "sequence")) if args[0].shape[axis] > 1}
    path = folder / "model.onnx"
    names = ["q", "k", "v"] if len(args) == 3 else ["x", "y"][: len(args)]
    onnxexp.export(model.eval(), args, path, dynamic_shapes=(axes,) * len(args), opset_version=opset, input_names=names)
    return _session(onnx.load(path))


def _session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _random(*sizes: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(sizes, np.float32)


def _ratio(one: onnxruntime.InferenceSession, other: onnxruntime.InferenceSession, feeds: Arrays) -> float:
    """Return the median of the other's processor time ÷ the one's.

    The results of both must agree.
    """
    np.testing.assert_allclose(one.run(None, dict(feeds))[0], other.run(None, dict(feeds))[0], rtol=1e-3, atol=1e-3)
    ratios = []
    for _ in range(REPEATS):
        first, second = (_seconds(session, feeds) for session in (one, other))
        ratios.append(second / first)
    return statistics.median(ratios)


def _seconds(session: onnxruntime.InferenceSession, feeds: Arrays) -> float:
    start = time.process_time()
    session.run(None, dict(feeds))
    return time.process_time() - start
