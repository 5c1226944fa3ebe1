"""Models that call ONNX operators by name, through torch.onnx.ops."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.onnx.ops

import onnxexp
from onnxexp._plugins.loading import symbolics_for

X = torch.randn(2, 3)
Q = torch.randn(1, 2, 4, 8)


def node(function: Any, *args: Any, **options: Any) -> Any:
    (only,) = onnxexp.export(function, args, **options).model.graph
    return only


def test_a_custom_operator_with_attributes() -> None:
    attributes = {"alpha": 1, "name": "a name", "floats": [1.0, 2.5], "ints": [3, 4], "texts": ["a", "b"], "beta": 0.5}

    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.onnx.ops.symbolic(
            "my.domain::Foo", (x, None, x), attributes, dtype=torch.int32, shape=(x.shape[0], 7), version=3
        )

    program = onnxexp.export(model, (X,), dynamic_shapes=({0: "batch"},))
    (made,) = program.model.graph
    assert (made.domain, made.op_type, program.model.opset_imports["my.domain"]) == ("my.domain", "Foo", 3)
    assert [value and value.name for value in made.inputs] == ["x", None, "x"]
    assert {name: attribute.value for name, attribute in made.attributes.items()} == attributes | {
        "floats": pytest.approx((1.0, 2.5)),
        "ints": (3, 4),
        "texts": ("a", "b"),
    }
    assert str(made.outputs[0].shape) == "[batch,7]" and made.outputs[0].dtype.name == "INT32"


def test_an_onnx_operator_computes_what_it_should() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.onnx.ops.symbolic("LeakyRelu", (x,), {"alpha": 0.25}, dtype=x.dtype, shape=x.shape)

    torch.testing.assert_close(onnxexp.export(Model(), (X,))(X), torch.nn.functional.leaky_relu(X, 0.25))


def test_two_versions_of_one_domain_are_refused() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        for version in (1, 2):
            x = torch.onnx.ops.symbolic("my.domain::Foo", (x,), dtype=x.dtype, shape=x.shape, version=version)
        return x

    with pytest.raises(onnxexp.LoweringError, match="my.domain::Foo needs version 2 of its domain; the model imports version 1"):
        onnxexp.export(model, (X,))


def test_several_outputs() -> None:
    def model(x: torch.Tensor) -> Any:
        return torch.onnx.ops.symbolic_multi_out("my.domain::Foo", (x,), dtypes=(torch.int64, x.dtype), shapes=([1], x.shape))

    assert [str(output.dtype) for output in node(model, X).outputs] == ["INT64", "FLOAT"]


@pytest.mark.parametrize("opset", [23, 24])
def test_attention(opset: int) -> None:
    def model(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.onnx.ops.attention(q, k, v, is_causal=True, scale=0.5)[0]

    program = onnxexp.export(model, (Q, Q, Q), opset_version=opset)
    assert [made.op_type for made in program.model.graph] == ["Attention"]
    program.verify()


def test_rotary_embedding() -> None:
    def model(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        return torch.onnx.ops.rotary_embedding(x, cos, sin, interleaved=True)

    angles = torch.rand(1, 4, 4)
    program = onnxexp.export(model, (Q, angles.cos(), angles.sin()), opset_version=23)
    assert [made.op_type for made in program.model.graph] == ["RotaryEmbedding"]
    program.verify()
    with pytest.raises(onnxexp.OpsetError, match="opset_version=23 can express all of it"):
        onnxexp.export(model, (Q, angles.cos(), angles.sin()), opset_version=20)


def test_installed_symbolics_are_found_by_operator_and_opset() -> None:
    assert [function.__name__ for function in symbolics_for("onnx::Attention.opset23", 23)] == ["attention"]
    assert symbolics_for("onnx::Attention.opset23", 22) == symbolics_for("onnx::NoSuch.opset1", 23) == []
