"""nn/backward.py: core ATen's backward operators, called as captured gradients do."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import onnxexp
from onnxexp.testing import Case, cases

torch.manual_seed(0)

aten = torch.ops.aten
X = torch.randn(2, 4, 7, 6)
OPSETS = (9, 20)


def convolution(x: torch.Tensor, weight: torch.Tensor, *options: Any, name: str) -> Case:
    y = aten.convolution(x, weight, None, *options)

    def gradients(grad, x, weight):
        return aten.convolution_backward(grad, x, weight, [y.shape[1]], *options, [True, True, True])

    return Case(gradients, torch.randn_like(y), x, weight, opsets=OPSETS, rtol=1e-4, atol=1e-4, name=name)


def average(kernel: Any, *options: Any, name: str) -> Case:
    y = aten.avg_pool2d(X, kernel, *options)
    return Case(
        lambda grad, x: aten.avg_pool2d_backward(grad, x, kernel, *options), torch.randn_like(y), X, opsets=OPSETS, name=name
    )


def maximum(x: torch.Tensor, *options: Any, name: str, dynamic: Any = None) -> Case:
    pool, backward = (F.max_pool2d, aten.max_pool2d_with_indices_backward)
    if len(options[0]) == 3:
        pool, backward = (F.max_pool3d, aten.max_pool3d_with_indices_backward)
    y, places = pool(x, *options, return_indices=True)
    return Case(
        lambda grad, x, places: backward(grad, x, *options, places),
        torch.randn_like(y), x, places, dynamic=dynamic, opsets=OPSETS, name=name,
    )  # fmt: skip


def adaptive(*sizes: int) -> Case:
    name = f"adaptive_{sizes[0]}_{sizes[1]}"
    return Case(aten._adaptive_avg_pool2d_backward, torch.randn(2, 4, *sizes), X, opsets=OPSETS, name=name)


@cases(
    convolution(X, torch.randn(3, 4, 3, 3), [1, 1], [0, 0], [1, 1], False, [0, 0], 1, name="conv"),
    convolution(X, torch.randn(6, 2, 3, 2), [2, 3], [1, 0], [1, 2], False, [0, 0], 2, name="conv_with_everything"),
    convolution(X[0], torch.randn(3, 7, 2), [2], [1], [1], False, [0], 1, name="conv1d"),
    convolution(X, torch.randn(4, 3, 3, 3), [1, 1], [0, 0], [1, 1], True, [0, 0], 1, name="conv_transpose"),
    convolution(X, torch.randn(4, 3, 3, 2), [2, 3], [1, 0], [1, 2], True, [1, 2], 2, name="conv_transpose_with_everything"),
    average([2, 3], [2, 3], [0, 0], False, True, None, name="average"),
    average([3, 3], [2, 2], [1, 1], True, True, None, name="average_of_the_border_too"),
    average([3, 3], [2, 2], [1, 1], True, False, None, name="average_without_the_border"),
    average([3, 2], [2, 2], [1, 0], False, True, 5, name="average_by_a_divisor"),
    adaptive(1, 1),
    adaptive(3, 4),
    adaptive(7, 2),
    maximum(X, [2, 3], [2, 3], [0, 0], [1, 1], False, name="maximum"),
    maximum(X, [3, 3], [1, 2], [1, 1], [2, 1], True, name="maximum_of_windows_that_overlap"),
    maximum(X[0], [3, 2], [2, 2], [1, 0], [1, 1], False, name="maximum_without_a_batch"),
    maximum(X[None].contiguous(), [2, 3, 2], [1, 3, 2], [0, 1, 0], [1, 1, 1], False, name="maximum_of_volumes"),
    maximum(X.half(), [2, 3], [1, 3], [0, 0], [1, 1], False, name="maximum_of_halves"),
    maximum(X, [2, 3], [1, 3], [0, 0], [1, 1], False, name="maximum_of_any_batch", dynamic={0: [0], 1: [0], 2: [0]}),
)
def test_gradients(check):
    check()


def energy_gradient(x: torch.Tensor) -> torch.Tensor:
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        return torch.autograd.grad((x * x.sin()).sum(), x)[0]


def test_gradients_that_a_forward_turns_on() -> None:
    program = onnxexp.export(energy_gradient, (X,), dynamic_axes={"x": {0: "n"}})
    for given in (X, X[:1], torch.randn(5, 4, 7, 6)):
        torch.testing.assert_close(program(given), energy_gradient(given), rtol=1e-4, atol=1e-5)
