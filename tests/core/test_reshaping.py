"""A reshape of a dynamic tensor has the sizes of the call, at every size."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import onnxexp
from onnxexp._capture.exact_reshape_sizes import exact_reshape_sizes

CASES = [
    (lambda x: x.reshape(-1, 8), "n//2, 8"),
    (lambda x: x.reshape(2, -1), "2, 2*n"),
    (lambda x: x.reshape(4, -1).reshape(-1), "4*n"),
    (lambda x: x.view(-1, x.shape[0] // 2, 2), "(2*n)//(n//2), n//2, 2"),
    (lambda x: x.view(-1, 2, x.shape[0]), "2, 2, n"),
    (lambda x: x.view(x.shape[0] // 2, 2, 4), "n//2, 2, 4"),
    (lambda x: x.view(2, x.shape[0] // 2, 4).transpose(0, 1).reshape(-1, 4), "2*(n//2), 4"),
    (lambda x: x.t().reshape(-1, x.shape[0] // 2, 2), "(2*n)//(n//2), n//2, 2"),
    (lambda x: x.unflatten(0, (-1, 2)), "n//2, 2, 4"),
]


@pytest.mark.parametrize(("function", "sizes"), CASES)
def test_sizes_are_the_calls(function: Callable[[torch.Tensor], torch.Tensor], sizes: str) -> None:
    check_sizes(function, sizes, "export")


def check_sizes(function: Callable[[torch.Tensor], torch.Tensor], sizes: str, capture: str) -> None:
    program = onnxexp.export(function, (torch.randn(8, 4),), capture=capture, dynamic_shapes=({0: "n"},))
    assert f"(output: float32[{sizes}])" in repr(program)
    tried = 0
    for size in (1, 2, 3, 4, 6, 7, 12):
        x = torch.randn(size, 4)
        try:
            expected = function(x)
        except RuntimeError:
            continue  # the call is not for this size
        assert torch.equal(program(x), expected)
        assert list(expected.shape) == eval(f"[{sizes}]", {"n": size})
        tried += 1
    assert tried >= 3


def test_torch_is_as_it_was_afterwards() -> None:
    before = torch._refs._reshape_view_helper_core_alg
    with exact_reshape_sizes():
        assert torch._refs._reshape_view_helper_core_alg is not before
    assert torch._refs._reshape_view_helper_core_alg is before
