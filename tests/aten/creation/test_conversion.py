"""creation/conversion.py: casts for other dtypes, no nodes for everything else."""

from __future__ import annotations

import torch

from onnxexp.testing import Case, cases

torch.manual_seed(0)
X = torch.randn(3, 4) * 3
I = torch.randint(-9, 9, (3, 4))  # noqa: E741


def converted(x, i):
    floats = x.to(torch.int64), x.half(), x.double(), x.bool(), x.int(), x.to("cpu", torch.float64), x.short()
    ints = i.float(), i.to(torch.int8), i.bool(), i.to(torch.int32), i.abs().to(torch.uint8), i.half()
    truth = i > 0
    return *floats, *ints, x.to(i), x.type_as(truth), truth.float(), truth.long(), truth.to(torch.uint8), i.to(x)


def copied(x):
    return x.to("cpu") + 1, x.to(x.dtype) + 2, x.clone() + 3, x.contiguous() + 4, x.detach() + 5, x.positive() + 6


@cases(
    Case(converted, X, I, dynamic={0: [0], 1: [0]}),
    Case(copied, X, emits={"Add"}),
    Case(lambda x: x.to(torch.int32).to(torch.float64), X, emits={"Cast"}, name="one after the other"),
)
def test_conversion(check):
    check()
