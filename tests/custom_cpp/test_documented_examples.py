"""Custom operators of torch.onnx's documentation (1.10 to 2.2), with the results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnxscript import FLOAT, opset15, script
from onnxscript.values import Opset
from torch import Tensor, nn

import onnxexp_torch_onnx
from onnxexp_custom_cpp import runtime
from tests.custom_cpp.foo_op import ort_library

pytestmark = pytest.mark.usefixtures("foo")


class CustomModel(nn.Module):
    def __init__(self, attr1: float, attr2: int) -> None:
        super().__init__()
        self.attr1, self.attr2 = attr1, attr2

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return torch.ops.cpp_ops.foo_forward(input1, input2, self.attr1, self.attr2)


@pytest.fixture
def registered() -> Iterator[None]:
    """Register the documentation's symbolic, by torch.onnx's names."""

    @onnxexp_torch_onnx.symbolic_helper.parse_args("v", "v", "f", "i")
    def symbolic_foo_forward(g: Any, input1: Any, input2: Any, attr1: float, attr2: int) -> Any:
        return g.op("custom_domain::Foo", input1, input2, attr1_f=attr1, attr2_i=attr2)

    onnxexp_torch_onnx.register_custom_op_symbolic("cpp_ops::foo_forward", symbolic_foo_forward, 9)
    yield
    onnxexp_torch_onnx.unregister_custom_op_symbolic("cpp_ops::foo_forward", 9)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_cpp_operator_runs_by_its_library(version: int) -> None:
    model, example = CustomModel(0.5, 3), (torch.randn(2, 3), torch.randn(2, 3))
    program = onnxexp_torch_onnx.export(
        model, example, opset_version=9, custom_opsets={"custom_domain": version}, input_names=["x", "y"],
        dynamic_axes={"x": {0: "n"}, "y": {0: "n"}},
    )  # fmt: skip
    onnx.checker.check_model(program.model_proto)
    assert {each.domain: each.version for each in program.model_proto.opset_import}["custom_domain"] == version
    session = runtime.session(program.model, libraries=[ort_library()], bridge="never")
    for rows in (1, 5):
        x, y = torch.randn(rows, 3), torch.randn(rows, 3)
        np.testing.assert_allclose(session.run(None, {"x": x.numpy(), "y": y.numpy()})[0], model(x, y).numpy(), rtol=1e-6)


def test_selu_by_onnxscript_runs() -> None:
    custom = Opset(domain="onnx-script", version=2)

    @script(custom)
    def Selu(X: FLOAT[...]) -> FLOAT[...]:
        alpha, gamma = 1.67326, 1.0507
        alphaX = opset15.CastLike(alpha, X)
        gammaX = opset15.CastLike(gamma, X)
        neg = gammaX * (alphaX * opset15.Exp(X) - alphaX)
        pos = gammaX * X
        zero = opset15.CastLike(0, X)
        return opset15.Where(zero >= X, neg, pos)

    def custom_selu(g: Any, X: Any) -> Any:
        return g.onnxscript_op(Selu, X).setType(X.type())

    onnxexp_torch_onnx.register_custom_op_symbolic("aten::selu", custom_selu, 15)
    try:
        program = onnxexp_torch_onnx.export(
            nn.SELU(), (torch.randn(3),), opset_version=15, custom_opsets={"onnx-script": 2}, input_names=["x"],
            dynamic_axes={"x": {0: "n"}},
        )  # fmt: skip
    finally:
        onnxexp_torch_onnx.unregister_custom_op_symbolic("aten::selu", 15)
    assert {each.domain: each.version for each in program.model_proto.opset_import}["onnx-script"] == 2
    x = torch.linspace(-3, 3, 7)
    torch.testing.assert_close(program(x)[0], nn.functional.selu(x), rtol=1e-4, atol=1e-4)
