"""ONNX operators by the kernels that ONNX Runtime has for them on the CPU."""

from __future__ import annotations

import onnx_ir as ir


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FAMILIES = {
    "Conv": "QLinearConv ConvInteger FusedConv NhwcFusedConv",
    "MatMul": """Gemm QGemm FusedGemm MatMulInteger QLinearMatMul MatMulIntegerToFloat MatMulInteger16 DynamicQuantizeMatMul
        MatMulNBits FusedMatMul""",
    "Add": "QLinearAdd",
    "Mul": "QLinearMul",
    "Concat": "QLinearConcat",
    "Sigmoid": "QLinearSigmoid",
    "Softmax": "QLinearSoftmax",
    "LeakyRelu": "QLinearLeakyRelu",
    "AveragePool": "QLinearAveragePool",
    "GlobalAveragePool": "QLinearGlobalAveragePool ReduceMean",
    "MaxPool": "NhwcMaxPool",
    "LSTM": "DynamicQuantizeLSTM",
}
_FAMILY = {operator: name for name, operators in _FAMILIES.items() for operator in operators.split()}

_NOT_QLINEAR = _words(
    """QGemm ConvInteger MatMulInteger MatMulInteger16 MatMulIntegerToFloat DynamicQuantizeMatMul DynamicQuantizeLSTM MatMulNBits
    QAttention QEmbedLayerNormalization GatherBlockQuantized"""
)

LAYERS = _words("Conv ConvTranspose Gemm MatMul LSTM GRU RNN")
"""Operators with weights, which a report lists in any case."""

MOVING = _words(
    """MaxPool NhwcMaxPool Resize Transpose Reshape Flatten Squeeze Unsqueeze Slice Split Expand Tile Pad Gather DepthToSpace
    SpaceToDepth Identity Concat"""
)
"""Operators that only move or choose elements: they run on integers as they are."""

WITH_INTEGER_KERNEL = frozenset(_FAMILIES) - {"MaxPool", "LSTM"} | {"Gemm"}
"""Operators that ONNX Runtime replaces between DequantizeLinear and QuantizeLinear."""

ACTIVATIONS = _words(
    """Relu Clip LeakyRelu PRelu Sigmoid Tanh HardSwish HardSigmoid Elu Selu Celu Gelu Swish Mish Softplus Softsign
    ThresholdedRelu BatchNormalization"""
)
"""Operators that may stand between a layer and its QuantizeLinear."""

INTEGERS = frozenset(
    {
        ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT4, ir.DataType.UINT4, ir.DataType.INT16, ir.DataType.UINT16,
        ir.DataType.INT32,
    }
)  # fmt: skip
"""The types of quantized values."""

HALF_BYTE = frozenset({ir.DataType.INT4, ir.DataType.UINT4})


def family(operator: str) -> str:
    """Return the float operator that an operator replaces: Conv for QLinearConv.

    The result for Gemm and its quantized forms is MatMul.
    """
    return _FAMILY.get(operator, operator)


def is_integer_operator(operator: str) -> bool:
    """Return whether an operator computes with integers, or with integer weights."""
    return operator.startswith("QLinear") or operator in _NOT_QLINEAR
