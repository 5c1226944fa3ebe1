"""Modules that torch.onnx never documented, and that symbolics import."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import onnxexp_torch_onnx as onnx_exporter
from onnxexp_torch_onnx import JitScalarType, symbolic_helper
from onnxexp_torch_onnx._globals import GLOBALS
from onnxexp_torch_onnx._internal import jit_utils, registration
from onnxexp_torch_onnx._type_utils import valid_scalar_name, valid_torch_name
from onnxexp_torch_onnx.symbolic import parse_args

X = torch.randn(2, 3)


def test_jit_utils() -> None:
    def relu(g: jit_utils.GraphContext, x: torch._C.Value) -> Any:
        assert jit_utils.parse_node_kind(g.original_node.kind()) == ("aten", "relu")
        condition = g.op("Constant", value_t=torch.tensor(True))
        result, (then, orelse), _ = jit_utils.add_op_with_blocks(g, "If", condition, n_blocks=2)
        for block, kind in ((then, "Relu"), (orelse, "Neg")):
            block.block.registerOutput(block.op(kind, x))
        return result

    onnx_exporter.register_custom_op_symbolic("aten::relu", relu, 9)
    program = onnx_exporter.export(torch.nn.ReLU(), X, input_names=["x"], dynamic_axes={"x": [0]})
    program.verify((torch.randn(1, 3),))
    assert jit_utils.is_aten("aten") and jit_utils.is_prim("prim") and jit_utils.is_onnx("onnx") and not jit_utils.is_onnx("aten")
    with pytest.raises(ValueError, match="'relu' is no node's kind"):
        jit_utils.parse_node_kind("relu")


def test_registration_by_a_decorator() -> None:
    @registration.onnx_symbolic("aten::elu", opset=[9, 13], decorate=[parse_args("v", "f", "none", "none")])
    def elu(g, x, alpha, *rest):
        return g.op("Elu", x, alpha_f=alpha)

    @registration.custom_onnx_symbolic("aten::relu", opset=11)
    def relu(g, x):
        return g.op("Neg", x)

    for opset, last in ((9, "Relu"), (11, "Neg"), (20, "Neg")):
        program = onnx_exporter.export(torch.nn.Sequential(torch.nn.ELU(0.3), torch.nn.ReLU()), X, opset_version=opset)
        assert [node.op_type for node in program.model.graph] == ["Elu", last]


def test_globals_are_those_of_the_running_export() -> None:
    seen = []

    def relu(g, x):
        seen.append((GLOBALS.export_onnx_opset_version, GLOBALS.training_mode, GLOBALS.export_training, GLOBALS.in_onnx_export))
        return g.op("Relu", x)

    onnx_exporter.register_custom_op_symbolic("aten::relu", relu, 9)
    modes = onnx_exporter.TrainingMode
    onnx_exporter.export(torch.nn.ReLU(), X, opset_version=13)
    onnx_exporter.export(torch.nn.ReLU(), X, opset_version=14, training=modes.TRAINING)
    assert [each[:3] for each in seen] == [(13, modes.EVAL, False), (14, modes.TRAINING, True)]
    assert not GLOBALS.in_onnx_export and GLOBALS.autograd_inlining
    assert GLOBALS.operator_export_type is onnx_exporter.OperatorExportTypes.ONNX
    with pytest.raises(AttributeError):
        GLOBALS.export_onnx_opset_version = 9


def test_type_names() -> None:
    assert valid_scalar_name("Float") and valid_torch_name("int64_t") and not valid_scalar_name("float")
    assert JitScalarType.from_name("Float") is JitScalarType.FLOAT


def test_torch_1_0_has_helpers_and_symbolics_in_one_module() -> None:
    module = onnx_exporter.symbolic
    assert module.parse_args is symbolic_helper.parse_args and module.relu is onnx_exporter.symbolic_opset9.relu
    with pytest.raises(AttributeError, match="torch has no operator"):
        module.no_such_operator
