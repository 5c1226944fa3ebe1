"""The operators of quantized_decomposed, one by one."""

from __future__ import annotations

import pytest
import torch
from torch.ao.quantization.fx import _decomposed  # noqa: F401 - it registers the operators

import onnxexp
from onnxexp.testing import Case, cases

OPS = torch.ops.quantized_decomposed
OPSETS = (10, 12, 13, 19, 21, 23)

torch.manual_seed(0)
X = torch.randn(3, 4, 6) * 20
TIES = torch.arange(-8, 16).reshape(4, 6) / 2
SCALES, ZEROS = torch.tensor([0.1, 0.25, 0.5, 1.5]), torch.tensor([0, 3, 10, 7])
CODES = torch.randint(0, 127, (3, 4, 6))
ROWS, GROUPS = torch.rand(12, 1) + 0.1, torch.rand(4, 3) + 0.1


def per_tensor(low, high, dtype, scale=0.1, zero=3):
    return lambda x: OPS.quantize_per_tensor(x, scale, zero, low, high, dtype)


def per_channel(low, high, dtype, axis=1, zeros=ZEROS):
    return lambda x: OPS.quantize_per_channel(x, SCALES, zeros, axis, low, high, dtype)


def back(dtype, scale=0.1, zero=3, out=None):
    return lambda x: OPS.dequantize_per_tensor(x, scale, zero, 0, 127, dtype, out_dtype=out)


def back_by_channel(dtype, axis=1, zeros=ZEROS):
    return lambda x: OPS.dequantize_per_channel(x, SCALES, zeros, axis, 0, 127, dtype)


@cases(
    Case(per_tensor(0, 255, torch.uint8), X, dynamic={0: [0, 2]}, opsets=OPSETS, name="uint8"),
    Case(per_tensor(-128, 127, torch.int8), X, opsets=OPSETS, name="int8"),
    Case(per_tensor(0, 127, torch.uint8), X, dynamic={0: [1]}, opsets=OPSETS, name="7 bits"),
    Case(per_tensor(-8, 7, torch.int8, 2.0, 0), X, opsets=OPSETS, name="4 bits"),
    Case(per_tensor(0, 255, torch.uint8, 0.5, 0), TIES, opsets=OPSETS, name="ties"),
    Case(per_tensor(0, 255, torch.uint8, 0.1, 3), X.half(), opsets=(13, 21), name="half"),
    Case(per_tensor(-32768, 32767, torch.int16, 0.01, 7), X, opsets=OPSETS, name="int16"),
    Case(per_tensor(0, 65535, torch.uint16, 0.01, 700), X, opsets=OPSETS, name="uint16"),
    Case(per_tensor(-(2**31), 2**31 - 1, torch.int32, 1e-3, 0), X, opsets=OPSETS, name="int32"),
    Case(per_tensor(-448, 448, torch.float8_e4m3fn, 0.5, 0), X.clamp(-7, 7), opsets=(19, 21), name="float8"),
    Case(per_channel(-128, 127, torch.int8), X, dynamic={0: [0, 2]}, opsets=OPSETS, name="channels"),
    Case(per_channel(-127, 127, torch.int8, -2, ZEROS * 0), X, opsets=OPSETS, name="channels, symmetric"),
)
def test_quantize(check):
    check()


@cases(
    Case(back(torch.uint8), CODES.to(torch.uint8), dynamic={0: [0, 2]}, opsets=OPSETS, name="uint8"),
    Case(back(torch.int8), CODES.to(torch.int8), opsets=OPSETS, name="int8"),
    Case(back(torch.int8, out=torch.float16), CODES.to(torch.int8), opsets=(13, 21), name="half"),
    Case(back(torch.int16), CODES.to(torch.int16), opsets=OPSETS, name="int16"),
    Case(back(torch.uint16), CODES.to(torch.uint16), opsets=OPSETS, name="uint16"),
    Case(back(torch.int32, zero=0), CODES.to(torch.int32), opsets=OPSETS, name="int32"),
    Case(back(torch.int32), CODES.to(torch.int32), opsets=OPSETS, name="int32 with a zero point"),
    Case(back(torch.float8_e4m3fn, zero=0), CODES.to(torch.float8_e4m3fn), opsets=(19, 21), name="float8"),
    Case(back_by_channel(torch.uint8), CODES.to(torch.uint8), dynamic={0: [0, 2]}, opsets=OPSETS, name="channels"),
    Case(back_by_channel(torch.int8, -2, None), CODES.to(torch.int8), opsets=OPSETS, name="channels, no zero points"),
    Case(back_by_channel(torch.int32, 1, None), CODES.to(torch.int32), opsets=OPSETS, name="channels, int32"),
)
def test_dequantize(check):
    check()


def with_tensors(x, scale, zero):
    quantized = OPS.quantize_per_tensor.tensor(x, scale, zero, 0, 255, torch.uint8)
    return quantized, OPS.dequantize_per_tensor.tensor(quantized, scale, zero, 0, 255, torch.uint8)


def with_limits(x, scale, zero):
    low, high = torch.tensor(0), torch.tensor(127)
    quantized = OPS.quantize_per_tensor.tensor2(x, scale, zero, low, high, torch.uint8)
    return OPS.dequantize_per_tensor.tensor2(quantized, scale, zero, low, high, torch.uint8)


def by_token(x, scales, zeros):
    quantized = OPS.quantize_per_token(x, scales, zeros, -128, 127, torch.int8)
    return quantized, OPS.dequantize_per_token(quantized, scales, zeros, -128, 127, torch.int8, torch.float32)


def by_group(x):
    zeros = torch.arange(12).reshape(4, 3)
    quantized = OPS.quantize_per_channel_group(x, GROUPS, zeros, -8, 7, torch.int8, 2)
    return quantized, OPS.dequantize_per_channel_group(quantized, GROUPS, zeros, -8, 7, torch.int8, 2, torch.float32)


@cases(
    Case(with_tensors, X, torch.tensor([0.1]), torch.tensor([7]), dynamic={0: [0]}, opsets=OPSETS),
    Case(with_limits, X, torch.tensor(0.1), torch.tensor(7), opsets=OPSETS),
    Case(by_token, X.reshape(12, 6), ROWS, torch.arange(12).reshape(12, 1), dynamic={0: [0], 1: [0], 2: [0]}, opsets=OPSETS),
    Case(by_group, X[0], opsets=OPSETS),
    Case(lambda x: OPS.fake_quant_per_channel(x, SCALES, ZEROS, 1, 0, 15), X, opsets=OPSETS, name="fake"),
    Case(lambda x: OPS.convert_element_type.no_fuse(x, torch.int32), X, opsets=OPSETS, name="convert"),
)
def test_parameters_as_tensors(check):
    check()


def chosen(x):
    scale, zero = OPS.choose_qparams.tensor(x, 0, 255, 1e-6, torch.uint8)
    return scale, zero, OPS.quantize_per_tensor.tensor(x, scale, zero, 0, 255, torch.uint8)


def chosen_symmetrically(x):
    scale, zero = OPS.choose_qparams_symmetric.tensor(x, -128, 127, 1e-6, torch.int8)
    return scale, zero, OPS.quantize_per_tensor.tensor(x, scale, zero, -128, 127, torch.int8)


def chosen_by_token(x):
    scales, zeros = OPS.choose_qparams_per_token(x, torch.int8)
    return OPS.quantize_per_token(x, scales, zeros, -128, 127, torch.int8)


def chosen_by_token_asymmetrically(x):
    scales, zeros = OPS.choose_qparams_per_token_asymmetric(x, torch.int8)
    return scales, zeros, OPS.quantize_per_token(x, scales, zeros, -128, 127, torch.int8)


@cases(
    Case(chosen, X, dynamic={0: [0, 1]}, opsets=OPSETS),
    Case(chosen, X.abs() + 1, opsets=(13,), name="positive"),
    Case(chosen, X * 0, opsets=(13,), name="zeros"),
    Case(chosen_symmetrically, X, dynamic={0: [0, 1]}, opsets=OPSETS),
    Case(chosen_by_token, X, dynamic={0: [0, 1]}, opsets=OPSETS),
    Case(chosen_by_token_asymmetrically, X, dynamic={0: [0, 1]}, opsets=OPSETS),
)
def test_parameters_of_the_tensor_itself(check):
    check()


def test_float8_below_its_opset():
    codes = CODES.to(torch.float8_e4m3fn)
    with pytest.raises(onnxexp.OpsetError, match="float8_e4m3fn from opset 19 on") as caught:
        onnxexp.export(back(torch.float8_e4m3fn, zero=0), (codes,), opset_version=17)
    assert caught.value.first_opset == 19
