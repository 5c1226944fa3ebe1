"""`op.deferred`: constants that are computed when the model is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch import nn

from onnxexp import Builder, LoweringError, SymbolicTable, Tensor
from tests.core.tiny import export

computed: list[torch.device] = []


def doubled(weight: torch.Tensor) -> torch.Tensor:
    computed.append(weight.device)
    return (weight * 2).to(torch.float64)


def plugin(symbolic: Any) -> SymbolicTable:
    table = SymbolicTable("aten", override=True)
    table("linear")(symbolic)
    return table


def product(op: Builder, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"""
    wide = op.deferred(doubled, op.Transpose(weight, perm=[1, 0]))
    assert (wide.dtype, wide.shape, wide.const) == (torch.float64, (4, 6), None)
    return op.cast(op.MatMul(op.cast(input, torch.float64), wide), torch.float32)


def test_computed_when_written(tmp_path: Path) -> None:
    model, x = nn.Linear(4, 6, bias=False), torch.randn(3, 4)
    computed.clear()
    program = export(model, (x,), plugins=[plugin(product)])
    assert {device.type for device in computed} == {"meta"}, "the export itself needs dtype and shape only"
    torch.testing.assert_close(program(x), model(x) * 2)
    program.save(tmp_path / "one.onnx")
    program.save(tmp_path / "two.onnx", external_data=True)
    assert "cpu" in {device.type for device in computed}
    for name in ("one.onnx", "two.onnx"):
        onnx.checker.check_model(tmp_path / name, full_check=True)
        (weight,) = onnx.load(tmp_path / name).graph.initializer
        assert weight.name == "weight"
        torch.testing.assert_close(torch.from_numpy(onnx.numpy_helper.to_array(weight).copy()), (model.weight.T * 2).double())


def test_equal_exports_give_equal_bytes() -> None:
    model, x = nn.Linear(4, 6, bias=False), torch.randn(3, 4)
    one, two = (export(model, (x,), plugins=[plugin(product)]).model_proto.SerializeToString() for _ in range(2))
    assert one == two


def test_of_constants_only() -> None:
    def symbolic(op: Builder, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"""
        return op.deferred(torch.add, weight, input)

    with pytest.raises(LoweringError, match="op.deferred takes constants only"):
        export(nn.Linear(4, 4), (torch.randn(4, 4),), plugins=[plugin(symbolic)])
