"""nn/activation.py: every activation at every opset, in three float precisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from onnxexp.testing import Case, cases

torch.manual_seed(0)

X = torch.randn(3, 4, 6) * 3
I = torch.randint(-9, 9, (3, 4))  # noqa: E741


def weights(x: torch.Tensor, *values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=x.dtype)


ACTIVATIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "relu": lambda x: (F.relu(x), F.relu6(x)),
    "hardtanh": lambda x: (F.hardtanh(x), F.hardtanh(x, -2, 0.5)),
    "threshold": lambda x: (F.threshold(x, 0.5, 2.0), F.threshold(x, 0, 0), F.threshold(x, 0.5, 0), F.threshold(x, -1, 20)),
    "leaky_relu": lambda x: (F.leaky_relu(x), F.leaky_relu(x, 0.3), F.rrelu(x, 0.1, 0.3)),
    "elu": lambda x: (F.elu(x), F.elu(x, 0.5), F.selu(x), F.celu(x), F.celu(x, 0.7)),
    "glu": lambda x: (F.glu(x, 1), F.glu(x)),
    "gates": lambda x: (F.silu(x), F.mish(x)),
    "gelu": lambda x: (F.gelu(x), F.gelu(x, approximate="tanh")),
    "hard": lambda x: (F.hardswish(x), F.hardsigmoid(x)),
    "softplus": lambda x: (F.softplus(x), F.softplus(x, 2), F.softplus(x, 0.5, 3), F.softplus(x * 10, 1, 5)),
    "log_sigmoid": lambda x: (F.logsigmoid(x), F.softsign(x)),
    "shrink": lambda x: (F.hardshrink(x), F.hardshrink(x, 1.0), F.softshrink(x), F.softshrink(x, 1.0), F.tanhshrink(x)),
    "prelu": lambda x: (
        F.prelu(x, weights(x, 0.3)),
        F.prelu(x, weights(x, 0.3, 0.1, 0.2, 0.5)),
        F.prelu(x[0, :, 0], weights(x, 0.3)),
    ),
}


def case(name: str, dtype: torch.dtype, **options: Any) -> Case:
    tolerance = 4e-3 if dtype == torch.float16 else 1e-5
    label = f"{name}-{str(dtype).removeprefix('torch.')}"
    return Case(ACTIVATIONS[name], X.to(dtype), rtol=tolerance, atol=tolerance, name=label, **options)


@cases(*(case(name, torch.float32, dynamic={0: [0]}) for name in ACTIVATIONS))
def test_single_precision(check):
    check()


@cases(*(case(name, dtype, opsets=(9, 13, 20, 24)) for name in ACTIVATIONS for dtype in (torch.float64, torch.float16)))
def test_double_and_half_precision(check):
    check()


def of_ints(x: torch.Tensor) -> Any:
    thresholds = F.threshold(x, 2, 5), F.threshold(x, -0.5, 2.7)
    return F.relu(x), F.relu(x.int()), F.relu(x.to(torch.int8)), F.relu6(x), F.hardtanh(x), *thresholds


@cases(Case(of_ints, I), Case(torch.nn.PReLU(4), X), Case(lambda x: F.glu(x, 0), X.repeat(2, 1, 1), dynamic={0: [1]}, name="glu"))
def test_more(check):
    check()


@cases(
    Case(F.gelu, X, emits={"Gelu"}),
    Case(F.hardswish, X, emits={"HardSwish"}),
    Case(F.mish, X, emits={"Mish"}),
    Case(F.celu, X, emits={"Elu"}),
    Case(lambda x: F.threshold(x, 0, 0), X, emits={"Relu"}, name="threshold"),
    Case(F.softplus, X, emits={"Softplus"}),
    Case(F.silu, X, emits={"Sigmoid", "Mul"}),
)
def test_what_is_emitted(check):
    check()
