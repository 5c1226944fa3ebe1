"""splitting.py: a tensor taken apart along an axis."""

from __future__ import annotations

import torch

from onnxexp.testing import Case, cases

torch.manual_seed(0)

X = torch.randn(4, 5)


@cases(
    Case(lambda x: x.split(2, 1), X, dynamic={0: [0]}, emits={"Split"}, name="split"),
    Case(lambda x: x.split([2, 3], -1), X, dynamic={0: [0]}, emits={"Split"}, name="split_sizes"),
    Case(lambda x: x.split(5, 1), X, dynamic={0: [0]}, emits={"Identity"}, name="split_whole"),
    Case(lambda x: x.split([1, x.shape[0] - 1]), X, dynamic={0: [0]}, name="split_rest"),
    Case(lambda x: x.chunk(2, 1), X, dynamic={0: [0]}, emits={"Split"}, name="chunk"),
    Case(lambda x: x.chunk(2), X, dynamic={0: [0]}, opsets=(10, 13, 20), name="chunk_dynamic"),
    Case(lambda x: x.tensor_split(3, 1), X, dynamic={0: [0]}, emits={"Split"}, name="tensor_split"),
    Case(lambda x: x.tensor_split((1, 3), 1), X, dynamic={0: [0]}, emits={"Split"}, name="tensor_split_at"),
    Case(lambda x: torch.hsplit(x, [2]), X, name="hsplit"),
    Case(lambda x: torch.vsplit(x, 2), X, name="vsplit"),
    Case(lambda x: torch.dsplit(x, 2), torch.randn(1, 2, 4), name="dsplit"),
    Case(lambda x: x.unbind(1), X, dynamic={0: [0]}, emits={"Gather"}, name="unbind"),
    Case(lambda x: x.split(2, 1), torch.randint(9, (2, 4)) > 4, opsets=(9, 20), name="split_bool"),
)
def test_split(check):
    check()
