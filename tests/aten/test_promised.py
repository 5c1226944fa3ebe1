"""Every operator that torch.onnx's old documentation listed has a symbolic, at every opset that can express it."""

from __future__ import annotations

import pytest
import torch

from onnxexp_aten import plugin

PROMISED = ["abs", "acos", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "add", "addmm", "arange", "argmax", "argmin", "asin", "atan", "avg_pool1d", "avg_pool2d", "avg_pool3d", "baddbmm", "cat", "ceil", "clamp", "clamp_max", "clamp_min", "cos", "cumsum", "div", "dropout", "elu", "embedding", "embedding_bag", "empty", "empty_like", "eq", "erf", "exp", "expand", "expand_as", "flatten", "floor", "frobenius_norm", "full", "full_like", "gather", "ge", "gelu", "glu", "gt", "hardtanh", "index", "index_copy", "index_fill", "index_select", "instance_norm", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d", "isnan", "layer_norm", "le", "leaky_relu", "log", "log1p", "log2", "log_sigmoid", "log_softmax", "logsumexp", "lt", "masked_fill", "max", "max_pool1d", "max_pool2d", "max_pool3d", "mean", "min", "mm", "mul", "multinomial", "narrow", "ne", "neg", "nonzero", "norm", "ones", "ones_like", "permute", "pixel_shuffle", "pow", "prelu", "prod", "rand", "randn", "randn_like", "reciprocal", "reflection_pad1d", "reflection_pad2d", "relu", "repeat", "replication_pad1d", "replication_pad2d", "replication_pad3d", "reshape", "reshape_as", "round", "rrelu", "rsqrt", "rsub", "scatter", "scatter_add", "select", "selu", "sigmoid", "sign", "sin", "size", "slice", "softmax", "softplus", "sort", "split", "sqrt", "squeeze", "stack", "std", "sub", "sum", "t", "tan", "tanh", "threshold", "to", "topk", "transpose", "type_as", "unfold", "unsqueeze", "view", "where", "zeros", "zeros_like", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "batch_norm", "lstm", "gru", "rnn_tanh", "rnn_relu", "constant_pad_nd", "feature_dropout", "unbind", "index_put", "scaled_dot_product_attention", "einsum", "_unique2", "unique_dim", "logical_and", "logical_or", "logical_not", "bitwise_and", "bitwise_or", "linear", "matmul"]

LATER = {"_unique2": 11, "unique_dim": 11}
"""The first opset of those that ONNX cannot express before: Unique came with 11."""


@pytest.mark.parametrize("name", PROMISED)
def test_promised(name: str) -> None:
    packet = getattr(torch.ops.aten, name)
    names = [f"aten::{name}.{overload}" if overload != "default" else f"aten::{name}" for overload in packet.overloads()]
    assert any(plugin.find(op, LATER.get(name, 9)) for op in names), f"none of {names} has a symbolic"
