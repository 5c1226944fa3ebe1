"""A fault planted in a symbolic or by a pass is found at the exact node, at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir
import pytest
import torch

import onnxexp
from tests.checking import networks

Symbolic = Callable[..., Any]


def gelu_by_tanh(op: Any, x: Any, approximate: str) -> Any:
    inner = op.Mul(op.Add(x, op.Mul(op.Mul(op.Mul(x, x), x), 0.044715)), 0.7978845608)
    return op.Mul(op.Mul(x, 0.5), op.Add(op.Tanh(inner), 1.0))


def linear_without_bias(op: Any, x: Any, weight: Any, bias: Any) -> Any:
    return op.MatMul(x, op.Transpose(weight, perm=[1, 0]))


def layer_norm_with_wrong_eps(op: Any, x: Any, shape: Any, weight: Any, bias: Any, eps: float, cudnn: bool) -> Any:
    return op.LayerNormalization(x, weight, bias, axis=-1, epsilon=1e-2)


def embedding_of_the_next(op: Any, weight: Any, indices: Any, *rest: Any) -> Any:
    last = weight.shape[0] - 1
    return op.Gather(weight, op.Min(op.Add(indices, 1), op.constant(last, torch.int64)))


def attention_without_scale(op: Any, q: Any, k: Any, v: Any, *rest: Any) -> Any:
    return op.MatMul(op.Softmax(op.MatMul(q, op.Transpose(k, perm=[0, 1, 3, 2])), axis=-1), v)


def tanh_by_sigmoid(op: Any, x: Any) -> Any:
    return op.Sigmoid(x)


def silu_without_x(op: Any, x: Any) -> Any:
    return op.Sigmoid(x)


def mean_of_one_less(op: Any, x: Any, axes: Any, keepdim: bool, dtype: Any) -> Any:
    total = op.ReduceSum(x, op.constant(axes, torch.int64), keepdims=int(keepdim))
    return op.Div(total, float(x.shape[-1] - 1))


def cat_in_reverse(op: Any, tensors: Any, axis: int) -> Any:
    return op.Concat(*reversed(tensors), axis=axis)


def cosine_in_half(op: Any, x: Any) -> Any:
    return op.cast(op.Cos(op.cast(op.cast(x, torch.float16), torch.float32)), x.dtype)


def rsqrt_as_reciprocal(op: Any, x: Any) -> Any:
    return op.Reciprocal(x)


def add_without_alpha(op: Any, x: Any, y: Any, alpha: Any) -> Any:
    return op.Add(x, y)


def softmax_on_wrong_axis(op: Any, x: Any, axis: int, dtype: Any) -> Any:
    return op.Softmax(x, axis=0)


def pool_by_average(op: Any, x: Any, kernel: Any, stride: Any, padding: Any, *rest: Any) -> Any:
    return op.AveragePool(x, kernel_shape=kernel * 2 if len(kernel) == 1 else kernel, strides=stride, pads=padding * 2)


def mean_as_sum(op: Any, x: Any, axes: Any, keepdim: bool, dtype: Any) -> Any:
    return op.ReduceSum(x, op.constant(axes, torch.int64), keepdims=int(keepdim))


def norm_with_other_groups(op: Any, x: Any, groups: int, *rest: Any) -> Any:
    return op.torch_op("aten::group_norm", x, groups * 2, *rest)[0]


def bilinear_with_corners(op: Any, x: Any, *rest: Any) -> Any:
    return op.Resize(x, None, op.constant([1.0, 1.0, 1.5, 1.5]), mode="linear", coordinate_transformation_mode="align_corners")


def round_down(op: Any, x: Any) -> Any:
    return op.Floor(x)


def sine_as_cosine(op: Any, x: Any) -> Any:
    return op.Cos(x)


def half_sigmoid(op: Any, x: Any) -> Any:
    return op.Mul(op.Sigmoid(x), 0.5)


PLANTED: list[tuple[Callable[[], Any], str, Symbolic, str]] = [
    (networks.bert, "gelu", gelu_by_tanh, "gelu"),
    (networks.bert, "linear", linear_without_bias, "linear"),
    (networks.bert, "layer_norm", layer_norm_with_wrong_eps, "layer_norm"),
    (networks.bert, "embedding", embedding_of_the_next, "embedding"),
    (networks.bert, "scaled_dot_product_attention", attention_without_scale, "scaled_dot_product_attention"),
    (networks.bert, "tanh", tanh_by_sigmoid, "tanh"),
    (networks.llama, "silu", silu_without_x, "silu"),
    (networks.llama, "mean.dim", mean_of_one_less, "mean"),
    (networks.llama, "cat", cat_in_reverse, "cat_1"),
    (networks.llama, "cos", cosine_in_half, "cos"),
    (networks.llama, "rsqrt", rsqrt_as_reciprocal, "rsqrt"),
    (networks.resnet, "add.Tensor", add_without_alpha, "add"),
    (networks.resnet, "softmax.int", softmax_on_wrong_axis, "softmax"),
    (networks.resnet, "max_pool2d", pool_by_average, "max_pool2d"),
    (networks.resnet, "mean.dim", mean_as_sum, "mean"),
    (networks.unet, "upsample_bilinear2d.vec", bilinear_with_corners, "upsample_bilinear2d"),
    (networks.unet, "round", round_down, "round_1"),
    (networks.branching, "tanh", tanh_by_sigmoid, "tanh"),
]


@pytest.mark.parametrize(("make", "op", "symbolic", "name"), PLANTED, ids=lambda each: getattr(each, "__name__", None))
def test_symbolic(make: Callable[[], Any], op: str, symbolic: Symbolic, name: str) -> None:
    torch.manual_seed(0)
    table = onnxexp.SymbolicTable("aten", override=True)
    table(op)(symbolic)
    program = networks.quietly_exported(*make(), plugins=[table, ...])
    report = program.find_mismatch()
    assert {each.op.partition(".")[0] for each in report.faults} == {f"aten::{op}".partition(".")[0]}, str(report)
    assert report.first is not None and report.first.name == name, str(report)
    assert report.first.symbolic.endswith(symbolic.__name__)
    assert report.origin is not None and report.origin.kind == "symbolic", str(report)
    assert symbolic.__name__ in str(report) and not report.ok


@pytest.mark.parametrize(
    ("op", "symbolic", "where"), [("sin", sine_as_cosine, "in the then_branch"), ("sigmoid", half_sigmoid, "iteration 0")]
)
def test_block(op: str, symbolic: Symbolic, where: str) -> None:
    torch.manual_seed(0)
    table = onnxexp.SymbolicTable("aten", override=True)
    table(op)(symbolic)
    program = networks.quietly_exported(*networks.branching(), plugins=[table, ...])
    report = program.find_mismatch()
    assert len(report.faults) == 1 and report.faults[0].node.blocks, str(report)
    assert report.first is not None and report.first.op == f"aten::{op}" and where in report.first.note, str(report)


class Breaking:
    """A plugin with a pass that changes one node."""

    name = "breaking"

    def __init__(self, change: Callable[[ir.Model], None]) -> None:
        self.change = change

    @onnxexp.hookimpl
    def post_pass(self) -> Any:
        def break_a_node(model: ir.Model) -> None:
            self.change(model)

        return break_a_node


def swap_the_branches(model: ir.Model) -> None:
    node = next(node for node in model.graph if node.op_type == "If")
    then, other = (node.attributes[name].as_graph() for name in ("then_branch", "else_branch"))
    node.attributes["then_branch"], node.attributes["else_branch"] = (
        ir.AttrGraph("then_branch", other),
        ir.AttrGraph("else_branch", then),
    )


def turn_a_relu_into_its_absolute(model: ir.Model) -> None:
    next(node for node in model.graph if node.op_type == "Relu").op_type = "Abs"


def change_the_scale_of_the_last_norm(model: ir.Model) -> None:
    norm = [node for node in model.graph if node.op_type == "LayerNormalization"][-1]
    norm.attributes["epsilon"] = ir.AttrFloat32("epsilon", 0.5)


@pytest.mark.parametrize(
    ("make", "change", "op"),
    [
        (networks.branching, swap_the_branches, "prim::If"),
        (networks.resnet, turn_a_relu_into_its_absolute, "aten::relu"),
        (networks.bert, change_the_scale_of_the_last_norm, "aten::layer_norm"),
    ],
)
def test_pass(make: Callable[[], Any], change: Callable[[ir.Model], None], op: str) -> None:
    torch.manual_seed(0)
    program = networks.quietly_exported(*make(), plugins=[Breaking(change), ...])
    report = program.find_mismatch()
    assert [each.op for each in report.faults] == [op], str(report)
    assert report.origin is not None and report.origin.kind == "pass", str(report)
    assert "break-a-node" in report.origin.what


def test_operator_inside_a_decomposition() -> None:
    torch.manual_seed(0)
    table = onnxexp.SymbolicTable("aten", override=True)

    @table("silu")
    def declined(op: Any, x: Any) -> Any:
        op.decline("so that torch decomposes it")

    table("sigmoid")(half_sigmoid)
    program = networks.quietly_exported(*networks.llama(), plugins=[table, ...], prefer={})
    report = program.find_mismatch()
    assert {each.op for each in report.faults} <= {"aten::silu", "aten::sigmoid"}, str(report)
