"""`operator_export_type`: operators that stay torch's, through both frontends."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import onnxexp
from onnxexp._errors import OptionError

X = torch.rand(2, 3)
CAPTURES = ("export", "trace")


FEW = onnxexp.SymbolicTable("aten")
FEW.direct({"relu": "Relu", "neg": "Neg"})
"""The only symbolics of these tests: no other operator is known, even when the aten plugin has new ones."""


class Unknown(nn.Module):
    def forward(self, x):
        return -torch.special.airy_ai(x.relu())


class Known(nn.Module):
    def forward(self, x):
        return x.relu().sum(1, keepdim=True) * 2


def graph_of(model, **options):
    program = onnxexp.export(model, (X,), **options)
    return program, [(node.domain, node.op_type) for node in program.model.graph]


@pytest.mark.parametrize("capture", CAPTURES)
def test_onnx_refuses_what_it_lacks(capture) -> None:
    with pytest.raises(onnxexp.UnsupportedOperators, match="airy"):
        graph_of(Unknown(), capture=capture, plugins=[FEW, "torchscript"])


@pytest.mark.parametrize("capture", CAPTURES)
def test_what_nothing_lowers_stays_in_its_own_domain(capture) -> None:
    program, found = graph_of(Unknown(), capture=capture, operator_export_type="ONNX_FALLTHROUGH", plugins=[FEW, "torchscript"])
    assert found == [("", "Relu"), ("aten", "special_airy_ai"), ("", "Neg")]
    assert program.model.opset_imports["aten"] == 1


@pytest.mark.parametrize("capture", CAPTURES)
def test_what_nothing_lowers_is_an_aten_node(capture) -> None:
    kind = onnxexp._lowering.keep_torch_ops.OperatorExportTypes.ONNX_ATEN_FALLBACK
    program, found = graph_of(Unknown(), capture=capture, operator_export_type=kind, plugins=[FEW, "torchscript"])
    assert found == [("", "Relu"), ("org.pytorch.aten", "ATen"), ("", "Neg")]
    node = program.model.graph[1]
    assert node.attributes["operator"].as_string() == "special_airy_ai"
    assert node.outputs[0].dtype is not None and list(node.outputs[0].shape) == [2, 3]


class Decomposable(nn.Module):
    """Operators that torch decomposes. `FEW` lowers some of the results."""

    def forward(self, x):
        return -nn.functional.elu(torch.triu(x).relu()).softmax(-1)


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("kind", ["ONNX_FALLTHROUGH", "ONNX_ATEN_FALLBACK"])
def test_what_nothing_lowers_stays_one_node_though_torch_decomposes_it(kind, capture) -> None:
    program, found = graph_of(Decomposable(), capture=capture, operator_export_type=kind, plugins=[FEW, "torchscript"])
    names = [node.attributes["operator"].as_string() if node.op_type == "ATen" else node.op_type for node in program.model.graph]
    assert names == ["triu", "Relu", "elu", "softmax", "Neg"]
    assert {domain for domain, _ in found} == {"", "aten" if kind == "ONNX_FALLTHROUGH" else "org.pytorch.aten"}


@pytest.mark.parametrize("kind", ["ONNX", "ONNX_FALLTHROUGH", "ONNX_ATEN_FALLBACK"])
def test_what_a_decomposition_lowers_completely_is_decomposed(kind) -> None:
    few = onnxexp.SymbolicTable("aten")
    few.direct({"mul": "Mul", "sigmoid": "Sigmoid"})
    _, found = graph_of(nn.SiLU(), operator_export_type=kind, plugins=[few])
    assert sorted(found) == [("", "Mul"), ("", "Sigmoid")]


@pytest.mark.parametrize("capture", CAPTURES)
def test_all_operators_as_aten_nodes(capture) -> None:
    program, found = graph_of(Known(), capture=capture, operator_export_type="ONNX_ATEN")
    assert set(found) == {("org.pytorch.aten", "ATen")}
    operators = [node.attributes["operator"].as_string() for node in program.model.graph]
    assert operators == ["relu", "sum", "mul"]
    total = program.model.graph[1]
    assert list(total.attributes["dim"].as_ints()) == [1] and total.attributes["keepdim"].as_int() == 1
    assert total.attributes["overload_name"].as_string() == "dim_IntList"


@pytest.mark.parametrize("capture", CAPTURES)
def test_the_captured_graph_printed(capture, capsys) -> None:
    _, found = graph_of(Known(), capture=capture, operator_export_type="RAW")
    assert [domain for domain, _ in found] == ["aten"] * 3
    assert "aten::sum.dim_IntList" in capsys.readouterr().out


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.relu() if x.sum() > 0 else x.neg()


@pytest.mark.parametrize(("kind", "domain"), [("ONNX_ATEN", "org.pytorch.aten"), ("RAW", "aten")])
def test_branches_of_kept_operators(kind, domain) -> None:
    _, found = graph_of(Branches(), capture="script", operator_export_type=kind)
    assert {name for name, _ in found} == {domain, ""} and found[-1] == ("", "If")


def test_torchs_own_members_are_understood() -> None:
    program, _ = graph_of(nn.ReLU(), operator_export_type=torch.onnx.OperatorExportTypes.ONNX_ATEN_FALLBACK)
    torch.testing.assert_close(program(X), X.relu())


def test_anything_else_is_refused() -> None:
    with pytest.raises(OptionError, match="operator_export_type is 'caffe2'; it may be ONNX, ONNX_ATEN"):
        graph_of(nn.ReLU(), operator_export_type="caffe2")
