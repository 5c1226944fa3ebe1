"""Fake quantization, per tensor and per channel."""

from __future__ import annotations

import pytest
import torch

from onnxexp.testing import Case, cases, check_case

torch.manual_seed(0)
X = torch.randn(3, 4, 5) * 20
SCALES, ZEROS = torch.tensor([0.1, 0.25, 0.5, 1.5]), torch.tensor([0, 3, 10, 7], dtype=torch.int32)


def per_tensor(low, high, scale=0.1, zero=10):
    return lambda x: torch.fake_quantize_per_tensor_affine(x, scale, zero, low, high)


def per_channel(low, high, zeros=ZEROS, axis=1):
    return lambda x: torch.fake_quantize_per_channel_affine(x, SCALES, zeros, axis, low, high)


def from_a_module(x, scale, zero):
    return torch.fake_quantize_per_tensor_affine(x, scale, zero, 0, 255)


@cases(
    Case(per_tensor(0, 255), X, dynamic={0: [0, 2]}, name="uint8"),
    Case(per_tensor(-128, 127), X, name="int8"),
    Case(per_tensor(0, 127), X, dynamic={0: [1]}, name="7 bits"),
    Case(per_tensor(-8, 7, 0.5, 0), X, name="4 bits"),
    Case(per_tensor(0, 255), X.double(), name="double"),
    Case(per_tensor(0, 255), X.half(), name="half"),
    Case(per_channel(0, 255), X, dynamic={0: [0]}, name="channels"),
    Case(per_channel(-128, 127, axis=1), X, name="channels, int8"),
    Case(per_channel(0, 15), X, dynamic={0: [0, 2]}, name="channels, 4 bits"),
    Case(per_channel(0, 255, ZEROS + 0.5), X, name="zero points between the steps"),
    Case(from_a_module, X, torch.tensor([0.1]), torch.tensor([10], dtype=torch.int32), name="parameters as inputs"),
    Case(per_tensor(0, 255, 1.0, 0), torch.arange(-3, 12) / 2, name="halves to even"),
)
def test_fake_quantization(check):
    check()


@pytest.mark.parametrize(("model", "opset"), [(per_tensor(0, 255), 10), (per_tensor(-128, 127), 20), (per_channel(0, 255), 13)])
def test_a_range_of_eight_bits_is_a_pair_of_operators(model, opset):
    case = Case(model, X, opsets=(opset,), emits={"QuantizeLinear", "DequantizeLinear"})
    check_case(case, opset)
