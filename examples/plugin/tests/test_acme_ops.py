"""Export each operator, check it, and compare ONNX Runtime with PyTorch."""

from __future__ import annotations

import torch
from onnxexp.testing import Case, cases, cases_of, check_table

import acme_ops

X = torch.linspace(-3, 3, 24).reshape(2, 3, 4)


@cases(
    Case(acme_ops.snake, X, dynamic={0: [0, 2]}),
    Case(
        lambda x: acme_ops.snake(x, 0.5),
        X,
        emits={"Mul": 2, "Sin": 1, "Div": 1, "Add": 1},
        name="alpha",
    ),
    Case(
        acme_ops.gated,
        X,
        X.flip(0),
        dynamic={0: [0, 1], 1: [0, 1]},
        emits={9: {"Erf", "Mul", "Add"}, 20: {"Gelu", "Mul"}},
    ),
)
def test_operators(check):
    check()


def test_table():
    check_table(acme_ops.plugin, cases_of(test_operators))
