"""symbolic_opset7 … symbolic_opset20 as look-ups, called as people call them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onnxexp
import onnxexp_torch_onnx as onnx_exporter
from onnxexp._torch_ops.schemas import overload
from onnxexp_torch_onnx import symbolic_helper, symbolic_opset9, symbolic_opset11
from onnxexp_torch_onnx.overload_matching import decode_arguments
from tests.torch_onnx.test_symbolic_helper import check, constant

X = torch.randn(3, 4)
IMAGE = torch.randn(2, 4, 6, 6)


def none(g: Any) -> Any:
    return symbolic_opset9.unused(g)


@pytest.mark.parametrize("opset", range(7, 21))
def test_every_opset_has_its_module(opset: int) -> None:
    name = f"{onnx_exporter.__name__}.symbolic_opset{opset}"
    module = importlib.import_module(name)
    assert module is getattr(onnx_exporter, f"symbolic_opset{opset}")
    assert importlib.import_module(f".symbolic_opset{opset}", onnx_exporter.__name__) is module
    assert (module.__name__, module.__package__) == (name, onnx_exporter.__name__)
    assert importlib.util.find_spec(name) is module.__spec__
    assert module.relu.__name__ == "relu"


@pytest.mark.parametrize("opset", [6, 21])
def test_no_other_opset_has_a_module(opset: int) -> None:
    with pytest.raises(AttributeError, match=f"no attribute 'symbolic_opset{opset}'"):
        getattr(onnx_exporter, f"symbolic_opset{opset}")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(f"{onnx_exporter.__name__}.symbolic_opset{opset}")


def test_the_modules_are_imported_as_those_of_torch() -> None:
    program = "import onnxexp_torch_onnx.symbolic_opset11 as s; from onnxexp_torch_onnx.symbolic_opset9 import add; print(s, add)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "onnxexp_torch_onnx.symbolic_opset11" in ran.stdout


Case = tuple[str, Callable[..., Any], Callable[..., Any], torch.Tensor]
CASES: list[Case] = [
    # name, what torch computes, what a symbolic calls it as (`s` is the module), the input
    ("relu", lambda x: x.relu(), lambda s, g, x: s.relu(g, x), X),
    ("sub, mul, add", lambda x: (x - 1) * x + x, lambda s, g, x: s.add(g, s.mul(g, s.sub(g, x, constant(g, 1.0)), x), x), X),
    ("add with alpha", lambda x: x + 2 * x, lambda s, g, x: s.add(g, x, x, constant(g, 2)), X),
    ("neg, log, sigmoid", lambda x: -x.sigmoid().log(), lambda s, g, x: s.neg(g, s.log(g, s.sigmoid(g, x))), X),
    ("softmax of a Python axis", lambda x: x.softmax(1), lambda s, g, x: s.softmax(g, x, 1), X),
    ("softmax with a dtype", lambda x: x.softmax(1, torch.float64), lambda s, g, x: s.softmax(g, x, constant(g, 1), 7), X),
    ("log_softmax", lambda x: x.log_softmax(-1), lambda s, g, x: s.log_softmax(g, x, -1, None), X),
    ("masked_fill", lambda x: x.masked_fill(x > 0, 2.0), lambda s, g, x: s.masked_fill(
        g, x, s.gt(g, x, constant(g, 0.0)), constant(g, 2.0)), X),
    ("unsqueeze", lambda x: x.unsqueeze(0), lambda s, g, x: s.unsqueeze(g, x, 0), X),
    ("squeeze of an axis", lambda x: x[:, :1].squeeze(1), lambda s, g, x: s.squeeze(g, s._slice(
        g, x, axes=[1], starts=[0], ends=[1]), 1), X),
    ("select", lambda x: x[:, 1], lambda s, g, x: s.select(g, x, constant(g, 1), constant(g, 1)), X),
    ("_slice", lambda x: x[1:3, :2], lambda s, g, x: s._slice(g, x, axes=[0, 1], starts=[1, 0], ends=[3, 2]), X),
    ("slice", lambda x: x[:, 1:4:2], lambda s, g, x: s.slice(g, x, *(constant(g, each) for each in (1, 1, 4, 2))), X),
    ("reshape to a constant", lambda x: x.reshape(4, -1), lambda s, g, x: s.reshape(g, x, constant(g, [4, -1])), X),
    ("reshape to a list", lambda x: x.reshape(4, -1), lambda s, g, x: s.reshape(g, x, [4, -1]), X),
    ("reshape to a shape", lambda x: x * 1, lambda s, g, x: s.reshape(g, s.flatten(g, x, 0, 1), g.op("Shape", x)), X),
    ("reshape to a size among numbers", lambda x: x.reshape(-1, 2, 2), lambda s, g, x: s.reshape(
        g, x, g.op("prim::ListConstruct", s.size(g, x, constant(g, 0)), constant(g, 2), constant(g, 2))), X),
    ("view", lambda x: x.view(2, -1), lambda s, g, x: s.view(g, x, constant(g, [2, -1])), X),
    ("_reshape_from_tensor", lambda x: x * 1, lambda s, g, x: s._reshape_from_tensor(g, s.view(g, x, [-1]), g.op("Shape", x)), X),
    ("expand to a shape", lambda x: x[:1].expand(x.shape), lambda s, g, x: s.expand(g, s._slice(
        g, x, [0], [0], [1]), g.op("Shape", x), None), X),
    ("expand_as", lambda x: x[:1].expand_as(x), lambda s, g, x: s.expand_as(g, s._slice(g, x, [0], [0], [1]), x), X),
    ("size", lambda x: torch.scalar_tensor(x.shape[1], dtype=torch.int64), lambda s, g, x: s.size(g, x, constant(g, 1)), X),
    ("dim", lambda x: torch.scalar_tensor(x.dim(), dtype=torch.int64), lambda s, g, x: s.dim(g, x), X),
    ("numel", lambda x: torch.scalar_tensor(x.numel(), dtype=torch.int64), lambda s, g, x: s.numel(g, x), X),
    ("transpose", lambda x: x.transpose(0, 1), lambda s, g, x: s.transpose(g, x, 0, 1), X),
    ("permute", lambda x: x.permute(1, 0), lambda s, g, x: s.permute(g, x, constant(g, [1, 0])), X),
    ("cat", lambda x: torch.cat([x, x], 1), lambda s, g, x: s.cat(g, g.op("prim::ListConstruct", x, x), constant(g, 1)), X),
    ("cat of a Python list", lambda x: torch.cat([x, x], 1), lambda s, g, x: s.cat(g, [x, x], 1), X),
    ("stack", lambda x: torch.stack([x, x], 1), lambda s, g, x: s.stack(g, [x, x], 1), X),
    ("hstack", lambda x: torch.hstack([x, x]), lambda s, g, x: s.hstack(g, [x, x]), X),
    ("split by a size", lambda x: tuple(x.split(3, 1)), lambda s, g, x: s.split(
        g, x, constant(g, 3), constant(g, 1), _outputs=2), X),
    ("split by sizes", lambda x: tuple(x.split([1, 3], 1)), lambda s, g, x: s.split(g, x, constant(g, [1, 3]), 1, _outputs=2), X),
    ("split, number unsaid", lambda x: tuple(x.split(3, 1)), lambda s, g, x: s.split(g, x, 3, 1), X),
    ("split, taken apart", lambda x: x.split(3, 1)[1], lambda s, g, x: symbolic_helper._unpack_list(s.split(g, x, 3, 1))[1], X),
    ("split, one element", lambda x: x.split(3, 1)[0], lambda s, g, x: s.__getitem_(g, s.split(g, x, 3, 1), constant(g, 0)), X),
    ("unbind", lambda x: tuple(x.unbind(1)), lambda s, g, x: s.unbind(g, x, constant(g, 1), _outputs=4), X),
    ("unbind, number unsaid", lambda x: tuple(x.unbind(1)), lambda s, g, x: s.unbind(g, x, 1), X),
    ("chunk", lambda x: tuple(x.chunk(2, 1)), lambda s, g, x: s.chunk(g, x, constant(g, 2), constant(g, 1)), X),
    ("chunk of an unknown size", lambda x: tuple(x.chunk(3, 0)), lambda s, g, x: s.chunk(g, x, 3, 0), torch.randn(9, 4)),
    ("meshgrid", lambda x: tuple(torch.meshgrid(x[0], x[:, 0], indexing="ij")), lambda s, g, x: s.meshgrid(
        g, [s.select(g, x, 0, 0), s.select(g, x, 1, 0)], indexing="ij"), X),
    ("topk", lambda x: tuple(x.topk(2)), lambda s, g, x: s.topk(g, x, constant(g, 2), -1, 1, 1), X),
    ("topk of k from a shape", lambda x: x.topk(x.shape[0], 1)[0], lambda s, g, x: s.topk(
        g, x, s.size(g, x, constant(g, 0)), 1, 1, 1)[0], torch.randn(3, 8)),
    ("sort", lambda x: tuple(x.sort(1, descending=True)), lambda s, g, x: s.sort(g, x, constant(g, 1), constant(g, True)), X),
    ("max of an axis", lambda x: tuple(x.max(1, True)), lambda s, g, x: s.max(g, x, constant(g, 1), 1), X),
    ("max of two", lambda x: torch.max(x, -x), lambda s, g, x: s.max(g, x, s.neg(g, x)), X),
    ("max of all", lambda x: x.max(), lambda s, g, x: s.max(g, x), X),
    ("sum of all", lambda x: x.sum(), lambda s, g, x: s.sum(g, x), X),
    ("sum of axes", lambda x: x.sum((0, 1)), lambda s, g, x: s.sum(g, x, constant(g, [0, 1]), constant(g, 0), None), X),
    ("mean", lambda x: x.mean(1, True), lambda s, g, x: s.mean(g, x, constant(g, [1]), 1), X),
    ("argmax", lambda x: x.argmax(1), lambda s, g, x: s.argmax(g, x, constant(g, 1), constant(g, 0)), X),
    ("norm", lambda x: x.norm(2, 1), lambda s, g, x: s.norm(g, x, 2, [1], 0), X),
    ("clamp", lambda x: x.clamp(-0.5, 0.5), lambda s, g, x: s.clamp(g, x, constant(g, -0.5), constant(g, 0.5)), X),
    ("clamp, upper only", lambda x: x.clamp(max=0.5), lambda s, g, x: s.clamp(g, x, none(g), constant(g, 0.5)), X),
    ("clamp_min", lambda x: x.clamp(min=0), lambda s, g, x: s.clamp_min(g, x, constant(g, 0.0)), X),
    ("where", lambda x: torch.where(x > 0, x, -x), lambda s, g, x: s.where(g, s.gt(g, x, constant(g, 0.0)), x, s.neg(g, x)), X),
    ("pow", lambda x: x.pow(2), lambda s, g, x: s.pow(g, x, constant(g, 2)), X),
    ("matmul", lambda x: x @ x.t(), lambda s, g, x: s.matmul(g, x, s.t(g, x)), X),
    ("full", lambda x: torch.full((2, 3), 1.5), lambda s, g, x: s.full(g, constant(g, [2, 3]), constant(g, 1.5), 6, 0, None), X),
    ("zeros of a shape", lambda x: torch.zeros_like(x), lambda s, g, x: s.zeros(g, g.op("Shape", x), 6, None, None), X),
    ("ones", lambda x: torch.ones(2, 3), lambda s, g, x: s.ones(g, [2, 3], 6, None, None), X),
    ("zeros_like", lambda x: torch.zeros_like(x), lambda s, g, x: s.zeros_like(g, x), X),
    ("arange", lambda x: torch.arange(x.shape[0]), lambda s, g, x: s.arange(g, s.size(g, x, constant(g, 0)), 4, None, None), X),
    ("to", lambda x: x.double(), lambda s, g, x: s.to(g, x, constant(g, 7), 0, 0), X),
    ("_cast_Long", lambda x: x.long(), lambda s, g, x: s._cast_Long(g, x, False), X),
    ("_cast_Double", lambda x: x.double(), lambda s, g, x: s._cast_Double(g, x, False), X),
    ("type_as", lambda x: x * 1, lambda s, g, x: s.type_as(g, s._cast_Double(g, x, 0), x), X),
    ("index_select", lambda x: x[:, [2, 0]], lambda s, g, x: s.index_select(g, x, 1, constant(g, [2, 0])), X),
    ("gather", lambda x: x.gather(1, torch.zeros_like(x).long()), lambda s, g, x: s.gather(
        g, x, 1, s._cast_Long(g, s.zeros_like(g, x), 0)), X),
    ("index", lambda x: x[torch.tensor([1, 0])], lambda s, g, x: s.index(g, x, [constant(g, [1, 0])]), X),
    ("nonzero", lambda x: (x > 0).nonzero(), lambda s, g, x: s.nonzero(g, s.gt(g, x, constant(g, 0.0))), X),
    ("contiguous", lambda x: x * 1, lambda s, g, x: s.contiguous(g, x, constant(g, 0)), X),
    ("gelu", lambda x: torch.nn.functional.gelu(x, approximate="tanh"), lambda s, g, x: s.gelu(g, x, "tanh"), X),
    ("hardtanh", lambda x: torch.nn.functional.hardtanh(x), lambda s, g, x: s.hardtanh(g, x, -1.0, 1.0), X),
    ("tanhshrink", lambda x: torch.nn.functional.tanhshrink(x), lambda s, g, x: s.tanhshrink(g, x), X),
    ("floor_divide", lambda x: x.div(0.3, rounding_mode="floor"), lambda s, g, x: s._floor_divide(g, x, constant(g, 0.3)), X),
    ("div with a rounding mode", lambda x: x.div(0.3, rounding_mode="trunc"), lambda s, g, x: s._div_rounding_mode(
        g, x, constant(g, 0.3), "trunc"), X),
    ("dropout that does nothing", lambda x: x * 1, lambda s, g, x: s.dropout(g, x, 0.5, False), X),
    ("linear", lambda x: torch.nn.functional.linear(x, torch.ones(2, 4)), lambda s, g, x: s.linear(
        g, x, torch.ones(2, 4), None), X),
    ("layer_norm", lambda x: torch.nn.functional.layer_norm(x, (4,)), lambda s, g, x: s.layer_norm(
        g, x, constant(g, [4]), None, None, 1e-5, False), X),
    ("embedding", lambda x: torch.eye(4)[torch.zeros(2).long()], lambda s, g, x: s.embedding(
        g, torch.eye(4), constant(g, [0, 0]), -1, False, False), X),
    ("_convolution", lambda x: torch.nn.functional.conv2d(x, torch.ones(1, 4, 3, 3), None, 1, 1), lambda s, g, x: s._convolution(
        g, x, torch.ones(1, 4, 3, 3), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, False, False, False, False), IMAGE),
    ("conv2d", lambda x: torch.nn.functional.conv2d(x, torch.ones(1, 4, 3, 3)), lambda s, g, x: s.conv2d(
        g, x, torch.ones(1, 4, 3, 3), None, [1, 1], [0, 0], [1, 1], 1), IMAGE),
    ("max_pool2d", lambda x: torch.nn.functional.max_pool2d(x, 2), lambda s, g, x: s.max_pool2d(
        g, x, constant(g, [2, 2]), constant(g, [2, 2]), constant(g, [0, 0]), constant(g, [1, 1]), constant(g, 0)), IMAGE),
    ("pixel_shuffle", lambda x: torch.pixel_shuffle(x, 2), lambda s, g, x: s.pixel_shuffle(g, x, 2), IMAGE),
    ("upsample_nearest2d", lambda x: torch.nn.functional.interpolate(x, scale_factor=2.0), lambda s, g, x: s.upsample_nearest2d(
        g, x, [12, 12], None, None), IMAGE),
    ("pad", lambda x: torch.nn.functional.pad(x, (1, 2)), lambda s, g, x: s.constant_pad_nd(
        g, x, constant(g, [1, 2]), constant(g, 0.0)), X),
    ("reflection_pad", lambda x: torch.nn.functional.pad(x, (1, 1), "reflect"), lambda s, g, x: s.reflection_pad(
        g, x, [1, 1]), IMAGE[0]),
    ("paddings in ONNX's order", lambda x: torch.nn.functional.pad(x, (1, 2)), lambda s, g, x: g.op(
        "Pad", x, s._prepare_onnx_paddings(g, x, constant(g, [1, 2]))), X),
    ("a reduction of one's own", lambda x: x.sum(1), lambda s, g, x: s._reduce_op_symbolic("ReduceSum")(
        g, x, constant(g, [1]), constant(g, 0)), X),
    ("logical operators of one's own", lambda x: ~((x > 0) & (x > 0)), lambda s, g, x: s.wrap_logical_op_with_negation(
        s.wrap_logical_op_with_cast_to("Bool")(lambda g, a, b: g.op("And", a, b)))(
        g, s.gt(g, x, constant(g, 0.0)), s.gt(g, x, constant(g, 0.0))), X),
    ("attention", lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x), lambda s, g, x:
        s.scaled_dot_product_attention(g, x, x, x), IMAGE),
]  # fmt: skip


@pytest.mark.parametrize(("forward", "build", "x"), [pytest.param(*rest, id=name) for name, *rest in CASES])
def test_look_ups(forward: Any, build: Any, x: torch.Tensor) -> None:
    check(forward, lambda g, x: build(symbolic_opset11, g, x), 17, x)


@pytest.mark.full
@pytest.mark.parametrize("opset", [11, 13, 20])
@pytest.mark.parametrize(("forward", "build", "x"), [pytest.param(*rest, id=name) for name, *rest in CASES])
def test_look_ups_at_other_opsets(forward: Any, build: Any, x: torch.Tensor, opset: int) -> None:
    check(forward, lambda g, x: build(symbolic_opset9, g, x), opset, x)


IN_THE_WILD = [
    "__getitem_",
    "_cast_Double",
    "_cast_Float",
    "_cast_Long",
    "_convert_padding_node",
    "_convolution",
    "_div_rounding_mode",
    "_maybe_cast_reduce_op_input",
    "_prepare_onnx_paddings",
    "_reduce_op_symbolic",
    "_reshape_from_tensor",
    "_slice",
    "add",
    "chunk",
    "clamp",
    "contiguous",
    "conv1d",
    "dim",
    "dropout",
    "expand",
    "flatten",
    "hstack",
    "log",
    "masked_fill",
    "max",
    "min",
    "mul",
    "neg",
    "nonzero",
    "ones",
    "overload_by_arg_count",
    "relu",
    "reshape",
    "scaled_dot_product_attention",
    "select",
    "sigmoid",
    "size",
    "softmax",
    "split",
    "squeeze",
    "sub",
    "tensor",
    "transpose",
    "unbind",
    "unsqueeze",
    "unused",
    "upsample_nearest2d",
    "view",
    "wrap_logical_op_with_cast_to",
    "wrap_logical_op_with_negation",
    "zeros",
]
"""What public code was seen to import from symbolic_opsetN."""


@pytest.mark.parametrize("name", IN_THE_WILD)
@pytest.mark.parametrize("opset", [9, 11, 13])
def test_what_others_import(name: str, opset: int) -> None:
    scope: dict[str, Any] = {}
    exec(f"from onnxexp_torch_onnx.symbolic_opset{opset} import {name}", scope)
    assert callable(scope[name])


NOT_HERE = {
    "prim_": "TorchScript's own nodes: lists, numbers, branches; the capture has dealt with them",
    "_lstm_full _lstm_packed _one_hidden_rnn _generic_rnn": "pieces of the symbolic `lstm`, which is here",
    "_kl_div_log_target_impl _kl_div_non_log_target_impl _unsupported_dropout _all _any": "pieces of others",
    "_dropout_returns_masked_input_and_mask _attention_scale _causal_attention_mask _compute_edge_sizes": "pieces of others",
    "_affine_grid_generator _grid_sampler": "pieces of others",
    "_adjust_attributes_of_avg_pool _adjust_attributes_of_max_pool": "pieces of the poolings",
    "_aten_max_pool_onnx _aten_max_pool_with_indices_onnx": "pieces of the poolings",
    "_get_im2col_indices_along_dim _get_im2col_output_shape _get_im2col_padded_input": "pieces of `im2col`",
    "_arithmetic_rshift": "a piece of `__rshift_` in torch 2.15",
    "_comparison_operator _constant_fill": "of opset 8",
    "onnx_placeholder _export": "TorchScript's own",
    "noop_complex_operators unsupported_complex_operators": "lists of torch's registry",
}
"""What torch.onnx's modules hold beside symbolics of operators, and why it is not here; nobody was found who imports it."""


@pytest.mark.parametrize("opset", range(9, 21))
def test_every_symbolic_of_torch_onnx_is_here(opset: int) -> None:
    theirs = importlib.import_module(f"torch.onnx._internal.torchscript_exporter.symbolic_opset{opset}")
    ours = importlib.import_module(f"onnxexp_torch_onnx.symbolic_opset{opset}")
    names = [name for name, value in vars(theirs).items() if getattr(value, "__module__", None) == theirs.__name__]
    known = {each for names in NOT_HERE for each in names.split()}
    left_out = {name for name in names if name in known or name.startswith("prim_")}
    missing = {name for name in names if not hasattr(ours, name)}
    assert missing == left_out


class Lists(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        one, two, three = x.split(3, 1)
        return one + three[:, :1], two


def split_by_outputs(g, self, split_size, dim, _outputs=None):
    sizes = constant(g, [3] * (_outputs - 1) + [2])
    return g.op("Split", self, sizes, axis_i=symbolic_helper._get_const(dim, "i", "dim"), outputs=_outputs)


@symbolic_helper.parse_args("v", "v", "i", "i")
def split_by_outputs_parsed(g, self, split_size, dim, _outputs=None):
    return list(split_by_outputs(g, self, split_size, dim, _outputs))


def split_as_a_list(g, self, split_size, dim):
    return g.op("prim::ListConstruct", *split_by_outputs(g, self, split_size, dim, 3))


def split_as_a_sequence(g, self, split_size, dim):
    return g.op("SplitToSequence", self, split_size, axis_i=1)


def split_as_it_was(g, self, split_size, dim):
    return symbolic_opset11.split(g, self, split_size, dim)


@pytest.mark.parametrize(
    "symbolic", [split_by_outputs, split_by_outputs_parsed, split_as_a_list, split_as_a_sequence, split_as_it_was]
)
@pytest.mark.parametrize("capture", ["export", "trace"])
def test_a_symbolic_of_an_operator_that_gives_a_list(symbolic: Callable[..., Any], capture: str) -> None:
    onnx_exporter.register_custom_op_symbolic("aten::split", symbolic, 11)
    x = torch.randn(3, 8)
    program = onnx_exporter.export(Lists(), x, opset_version=17, dynamic_axes={"x": {0: "n"}}, capture=capture)
    program.verify((torch.randn(5, 8),))


def test_a_symbolic_that_builds_on_the_one_before_it() -> None:
    """As torch's own did: the look-up in a symbolic for relu is not that symbolic."""

    class Doubled(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.relu().sigmoid()

    def relu(g, x):
        return g.op("Mul", symbolic_opset9.relu(g, x), 2.0)

    onnx_exporter.register_custom_op_symbolic("aten::relu", relu, 9)
    onnx_exporter.register_custom_op_symbolic(
        "aten::sigmoid", lambda g, x: symbolic_opset9.sigmoid(g, symbolic_opset9.relu(g, x)), 9
    )
    program = onnx_exporter.export(Doubled(), X)
    torch.testing.assert_close(program(X)[0], (4 * X.relu()).sigmoid())
    with pytest.raises(onnxexp.OnnxExporterError, match="looks up aten::relu itself, and nothing else lowers it"):
        onnx_exporter.export(torch.nn.ReLU(), X, plugins=[])


def test_how_many_pieces_is_not_known() -> None:
    def symbolic(g, x):
        return symbolic_opset9.split(g, x, 2, 0)

    with pytest.raises(
        onnxexp.LoweringError, match="the number of tensors that aten::split returns here is not known.*_outputs="
    ):
        check(lambda x: x * 1, symbolic, 17)


def test_arguments_are_decoded_by_the_schema() -> None:
    op = overload("aten::_to_copy")
    assert op is not None
    given = [1, 6, 0, None, None, None, 2]
    assert decode_arguments(op._schema, given) == [1, torch.float32, torch.strided, None, None, None, torch.channels_last]
