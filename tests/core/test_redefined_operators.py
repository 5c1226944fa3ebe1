"""Operators of a library that is destroyed, and defined again with another schema."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import onnxexp

X = torch.randn(2, 3)


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        y = x + 0
        return torch.ops.redefined.step(y), y


@contextlib.contextmanager
def defined(schema: str, function: Callable[..., Any]) -> Iterator[None]:
    library = torch.library.Library("redefined", "FRAGMENT")
    library.define(f"step{schema}")
    library.impl("step", function, "CompositeExplicitAutograd")
    library.define("step_functional(Tensor x) -> (Tensor, Tensor)")
    library.impl("step_functional", lambda x: (-x, x * 2), "CompositeExplicitAutograd")
    try:
        yield
    finally:
        library._destroy()


def written(x: torch.Tensor) -> torch.Tensor:
    result = -x
    x.mul_(2)
    return result


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_an_export_reads_the_schema_of_its_own_time(capture: str) -> None:
    if capture == "trace":
        pytest.importorskip("onnxexp_torchscript", reason="the TorchScript plugin traces")
    table = onnxexp.SymbolicTable("redefined")
    table("step")(lambda op, x: op.Neg(x))
    table("step_functional")(lambda op, x: (op.Neg(x), op.Mul(x, 2.0)))
    for schema, function in [("(Tensor x) -> Tensor", torch.neg), ("(Tensor(a!) x) -> Tensor", written)] * 2:
        with defined(schema, function):
            program = onnxexp.export(Model(), (X,), plugins=[table, ...], capture=capture)
            torch.testing.assert_close(program(X), Model()(X))
