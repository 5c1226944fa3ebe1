"""Numbers computed from a dynamic size, where torch takes a Python float."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.functional import scaled_dot_product_attention

from onnxexp import export

X = torch.randn(2, 4, 8)
MASK = torch.ones(4, 4, dtype=torch.bool).tril()


def attention(x: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(x, x, x, scale=x.shape[2] ** -0.5)


def masked_attention(x: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(x, x, x, MASK, scale=1 / x.shape[2])


def causal_attention(x: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(x, x, x, is_causal=True, scale=x.shape[0] * 0.5)


def padding(x: Tensor) -> Tensor:
    return functional.pad(x, (1, 2), value=1 / x.shape[2])


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("opset", [13, 24])
@pytest.mark.parametrize("model", [attention, masked_attention, causal_attention, padding])
def test_a_number_computed_from_a_size(model: Any, opset: int, capture: Any) -> None:
    program = export(model, (X,), capture=capture, opset_version=opset, dynamic_shapes=({0: "b", 2: "n"},))
    for shape in ((2, 4, 8), (1, 4, 3), (5, 4, 17)):
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), model(x))


def test_a_stored_reference_to_the_function() -> None:
    program = export(lambda x: scaled_dot_product_attention(x, x, x, scale=x.shape[2] ** -0.5), (X,), capture="export",
                     dynamic_shapes=({2: "n"},))  # fmt: skip
    x = torch.randn(2, 4, 5)
    torch.testing.assert_close(program(x), attention(x))
