"""symbolic_helper: our helpers against torch.onnx's own, in the same symbolics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.onnx.symbolic_helper as theirs

import onnxexp
import onnxexp_torch_onnx as onnx_exporter
from onnxexp_autograd import Autograd
from onnxexp_torch_onnx import JitScalarType, symbolic_helper
from onnxexp_torch_onnx.errors import SymbolicValueError
from tests.torch_onnx.test_g import Identity

X = torch.randn(3, 4)


class Model(torch.nn.Module):
    """Any forward; a Function that the symbolic under test stands for."""

    def __init__(self, forward: Callable[..., Any]) -> None:
        super().__init__()
        self.computed = forward

    def forward(self, x: torch.Tensor) -> Any:
        computed = self.computed

        class Computed(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return computed(x)

            symbolic = staticmethod(lambda g, x: self.symbolic(g, x))

        return Computed.apply(x)


def check(forward: Callable[..., Any], symbolic: Callable[..., Any], opset: int, x: torch.Tensor = X) -> onnxexp.ONNXProgram:
    model = Model(forward)
    model.symbolic = symbolic
    program = onnxexp.export(
        model, (x,), opset_version=opset, plugins=[Autograd(), ...], dynamic_shapes={"x": {0: torch.export.Dim.DYNAMIC}}
    )
    for inputs in (x, torch.cat([x, x])):
        torch.testing.assert_close(program(inputs), forward(inputs))
    return program


def constant(g: Any, value: Any) -> Any:
    return g.op("Constant", value_t=torch.tensor(value))


CASES: list[tuple[str, Callable[..., Any], Callable[..., Any]]] = [
    ("unsqueeze", lambda x: x[None, :, None], lambda h, g, x: h._unsqueeze_helper(g, x, [0, 2])),
    ("unsqueeze nothing", lambda x: x * 1, lambda h, g, x: h._unsqueeze_helper(g, x, [])),
    ("squeeze", lambda x: x * 1, lambda h, g, x: h._squeeze_helper(g, h._unsqueeze_helper(g, x, [1]), [1])),
    ("reduce", lambda x: x.sum(1, keepdim=True), lambda h, g, x: h._reducesum_helper(g, x, axes_i=[1])),
    ("reduce all", lambda x: x.sum(), lambda h, g, x: h._reducesum_helper(g, x, keepdims_i=0)),
    ("topk", lambda x: tuple(x.topk(2)), lambda h, g, x: h._topk_helper(g, x, 2, 1, largest=True, sorted=True)),
    ("topk of a value", lambda x: tuple(x.topk(2)), lambda h, g, x: h._topk_helper(g, x, constant(g, 2), 1, True, True)),
    ("sort", lambda x: tuple(x.sort(1, descending=True)), lambda h, g, x: h._sort_helper(g, x, 1)),
    ("select", lambda x: x[:, 1:2], lambda h, g, x: h._select_helper(g, x, 1, constant(g, 1))),
    ("size", lambda x: torch.scalar_tensor(x.shape[0], dtype=torch.int64), lambda h, g, x: h._size_helper(g, x, constant(g, 0))),
    ("numel", lambda x: torch.scalar_tensor(x.numel(), dtype=torch.int64), lambda h, g, x: h._numel_helper(g, x)),
    ("reshape", lambda x: x.reshape(2, -1), lambda h, g, x: h._reshape_helper(g, x, constant(g, [2, -1]))),
    ("slice", lambda x: x[:, 1:3], lambda h, g, x: h._slice_helper(g, x, axes=[1], starts=[1], ends=[3])),
    ("argmax", lambda x: x.argmax(), lambda h, g, x: h._argmin_argmax_helper(g, x, None, None, "ArgMax")),
    ("argmin", lambda x: x.argmin(1), lambda h, g, x: h._argmin_argmax_helper(g, x, constant(g, 1), constant(g, 0), "ArgMin")),
    ("cast", lambda x: x.double(), lambda h, g, x: h._maybe_cast_to_type(g, x, _scalar_types(h).DOUBLE)),
    ("flatten", lambda x: x.flatten(), lambda h, g, x: h._flatten_helper(g, x, 0, 1, 2)),
    ("wrapped number", lambda x: x + 2.0, lambda h, g, x: g.op("Add", x, h._generate_wrapped_number(g, 2.0))),
    ("float cast", lambda x: x * 1, lambda h, g, x: h._op_with_optional_float_cast(g, "Mul", x, constant(g, 1.0))),
    ("unbind", lambda x: x[:, 1], lambda h, g, x: h._unbind_helper(g, x, constant(g, 1), 4)[1]),
    ("less", lambda x: x < 0.5, lambda h, g, x: h._lt_helper(g, x, constant(g, 0.5))),
]  # fmt: skip


def _scalar_types(helper: Any) -> Any:
    return JitScalarType if helper is symbolic_helper else torch.onnx.JitScalarType


@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize("helper", [symbolic_helper, theirs], ids=["ours", "theirs"])
@pytest.mark.parametrize(("forward", "build"), [pytest.param(*rest, id=name) for name, *rest in CASES])
def test_helpers(forward: Any, build: Any, helper: Any, opset: int) -> None:
    if (build is CASES[5][2] or build is CASES[6][2]) and opset == 11:
        opset = 12
    check(forward, lambda g, x: build(helper, g, x), opset)


THIRD_PARTIES = [
    # what mmcv, mmdeploy, detectron2, fairseq, torchvision, brevitas, nncf, transformers and TensorRT's tools import
    "_get_const", "_maybe_get_const", "_maybe_get_scalar", "_is_none",
    "_is_value", "_is_tensor", "_is_constant", "_is_list",
    "_is_packed_list", "_unpack_list", "_get_tensor_sizes", "_get_tensor_dim_size",
    "_get_tensor_rank", "_unimplemented", "_onnx_unsupported", "_onnx_opset_unsupported",
    "_onnx_opset_unsupported_detailed", "_scalar", "_if_scalar_type_as", "_unsqueeze_helper",
    "_squeeze_helper", "_reducesum_helper", "_topk_helper", "_sort_helper",
    "_slice_helper", "_select_helper", "_size_helper", "_reshape_helper",
    "_flatten_helper", "_interpolate_helper", "_interpolate_get_scales", "_interpolate_size_to_scales",
    "_interpolate_get_scales_if_available", "_interpolate_warning", "_parse_arg", "_get_interpolate_attributes",
    "_try_get_scalar_type", "_is_fp", "_is_bool", "_block_list_in_opset",
    "_index_fill_reshape_helper", "_avgpool_helper", "_batchnorm_helper", "_arange_cast_helper",
    "_generate_wrapped_number", "_handle_reduce_dim_none", "_unpack_tuple", "_unpack_quantized_tensor",
    "dequantize_helper", "quantize_helper", "requantize_bias_helper", "parse_args",
    "quantized_args", "cast_pytorch_to_onnx", "scalar_type_to_onnx", "scalar_type_to_pytorch_type",
    "pytorch_name_to_type", "scalar_name_to_pytorch", "check_training_mode", "is_complex_value",
    "args_have_same_dtype", "_node_get", "_is_tensor_list", "_is_tuple_construct",
]  # fmt: skip


@pytest.mark.parametrize("name", THIRD_PARTIES)
def test_a_name_that_third_parties_import(name: str) -> None:
    assert name in symbolic_helper.__all__ and hasattr(symbolic_helper, name)


def test_everything_that_torch_exports_is_here() -> None:
    assert [name for name in theirs.__all__ if not hasattr(symbolic_helper, name)] == []


@pytest.mark.parametrize("name", ["cast_pytorch_to_onnx", "pytorch_name_to_type", "scalar_name_to_pytorch"])
def test_tables_by_name(name: str) -> None:
    ours = getattr(symbolic_helper, name)
    for key, value in getattr(theirs, name).items():
        assert (value if isinstance(value, (str, torch.dtype)) else int(value)) == ours[key]


def test_tables_by_number() -> None:
    assert [int(each) for each in symbolic_helper.scalar_type_to_onnx] == [int(each) for each in theirs.scalar_type_to_onnx]
    assert symbolic_helper.scalar_type_to_pytorch_type == theirs.scalar_type_to_pytorch_type


@pytest.mark.parametrize("kind", list(JitScalarType), ids=lambda kind: kind.name)
def test_scalar_types(kind: JitScalarType) -> None:
    theirs_kind = torch.onnx.JitScalarType(int(kind))
    assert theirs_kind.name == kind.name and theirs_kind.onnx_compatible() == kind.onnx_compatible()
    assert int(theirs_kind.onnx_type()) == kind.onnx_type() and theirs_kind.scalar_name() == kind.scalar_name()
    if kind is not JitScalarType.UNDEFINED:
        assert JitScalarType.from_dtype(kind.dtype()) is kind and theirs_kind.torch_name() == kind.torch_name()
        assert JitScalarType.from_name(kind.scalar_name()) is JitScalarType.from_name(kind.torch_name()) is kind


def test_scalar_types_of_what_has_none() -> None:
    for ask in (JitScalarType.from_dtype, JitScalarType.from_name, JitScalarType.from_onnx_type, JitScalarType.from_value):
        with pytest.raises(onnx_exporter.OnnxExporterError):
            ask(None)
    assert JitScalarType.from_value(None, JitScalarType.FLOAT) is JitScalarType.FLOAT
    assert JitScalarType.from_value(torch.ones(1).half()) is JitScalarType.HALF
    assert JitScalarType.from_onnx_type(7) is JitScalarType.INT64


def export(symbolic: Callable[..., Any]) -> onnxexp.ONNXProgram:
    class Calls(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return Identity.apply(x)

    return onnxexp.export(Calls(), (X,), plugins=[Autograd({Identity: symbolic}), ...])


def test_parse_args() -> None:
    seen: list[Any] = []

    @symbolic_helper.parse_args("v", "i", "f", "b", "s", "t", "is", "fs", "none")
    def parsed(g, *args):
        seen.extend(args[1:])
        return args[0]

    def symbolic(g, x):
        values = [constant(g, 3), constant(g, 0.5), constant(g, True), g.op("Constant", value_s="text"), constant(g, [1.0])]
        listed = g.op("prim::ListConstruct", constant(g, 1), constant(g, 2))
        return parsed(g, x, *values, listed, constant(g, [0.5]), None)

    export(symbolic)
    assert seen[:4] == [3, 0.5, True, "text"] and seen[4].tolist() == [1.0] and seen[5:] == [[1, 2], [0.5], None]
    assert [type(each) for each in seen[:3]] == [int, float, bool]


def test_parse_args_of_what_is_not_known() -> None:
    @symbolic_helper.parse_args("v", "i")
    def parsed(g, x, size):
        return x

    with pytest.raises(onnxexp.LoweringError, match="the argument size of parsed must be known at export"):
        export(lambda g, x: parsed(g, x, x))
    with pytest.raises(onnxexp.LoweringError, match="got 3 arguments, and parse_args names 2"):
        export(lambda g, x: parsed(g, x, 1, 2))


def test_values_that_do_not_fit_say_which() -> None:
    def symbolic(g, x):
        with pytest.raises(SymbolicValueError, match="must be known at export"):
            symbolic_helper._get_const(x, "i", "dim")
        with pytest.raises(SymbolicValueError, match="a list whose elements are known"):
            symbolic_helper._unpack_list(x)
        with pytest.raises(SymbolicValueError, match="a tuple"):
            symbolic_helper._unpack_quantized_tensor(x)
        with pytest.raises(SymbolicValueError, match="ONNX has no equivalent of foo"):
            symbolic_helper._onnx_unsupported("foo", x)
        with pytest.raises(onnxexp.OnnxExporterError, match="foo cannot be expressed at opset 9; opset 11 can"):
            symbolic_helper._onnx_opset_unsupported("foo", 9, 11)
        assert symbolic_helper._maybe_get_const(x, "i") is x and symbolic_helper._maybe_get_const(3, "i") == 3
        assert symbolic_helper._get_tensor_sizes(x) == [3, 4] and symbolic_helper._get_tensor_dim_size(x, 1) == 4
        assert symbolic_helper._try_get_scalar_type(x) is JitScalarType.FLOAT and symbolic_helper._is_fp(x)
        assert symbolic_helper._type_promote_from_values(x, constant(g, 1)) is JitScalarType.FLOAT
        assert symbolic_helper._if_scalar_type_as(torch.tensor(1), x).dtype == torch.float32
        assert symbolic_helper._scalar(torch.tensor([2.5])) == 2.5 and symbolic_helper._scalar("text") is None
        assert symbolic_helper._scalar(constant(g, 2.5)) == symbolic_helper._scalar(2.5) == 2.5
        with pytest.raises(SymbolicValueError, match="_scalar must be known at export"):
            symbolic_helper._scalar(x)
        return x

    export(symbolic)


@pytest.mark.parametrize("helper", [symbolic_helper, theirs], ids=["ours", "theirs"])
def test_quantized_args(helper: Any) -> None:
    @helper.quantized_args(True)
    def relu(g, x):
        return g.op("Relu", x)

    def symbolic(g, x):
        assert relu(g, x).node().kind() == "onnx::Relu"  # a tensor of floats is left as it is
        quantized = helper.quantize_helper(
            g, x, constant(g, 0.125), constant(g, 7).setType(x.type()) if False else constant(g, 7)
        )
        return helper.dequantize_helper(g, relu(g, quantized))[0]

    program = export(symbolic)
    expected = torch.fake_quantize_per_tensor_affine(X, 0.125, 7, 0, 255).relu()
    torch.testing.assert_close(program(X), expected)


def test_look_ups() -> None:
    from onnxexp_torch_onnx import symbolic_opset9, symbolic_opset11, symbolic_opset20

    def symbolic(g, x):
        x = symbolic_opset9.relu(g, x)
        x = symbolic_opset20.gelu(g, x, "tanh")
        values, _ = symbolic_opset11.max(g, x, constant(g, 1), keepdim_or_y := 1)
        assert keepdim_or_y
        return symbolic_opset9.add(g, x, values, alpha=None)

    def forward(x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.gelu(x.relu(), approximate="tanh")
        return y + y.max(1, keepdim=True)[0]

    for opset in (9, 13, 20):
        check(forward, symbolic, opset)
    with pytest.raises(AttributeError, match="aten::no_such_operator"):
        symbolic_opset9.no_such_operator


def test_look_ups_that_do_not_fit() -> None:
    from onnxexp_torch_onnx import symbolic_opset9

    with pytest.raises(onnxexp.LoweringError, match="aten::gelu does not take"):
        export(lambda g, x: symbolic_opset9.gelu(g, x, x))
    with pytest.raises(onnxexp.LoweringError, match="no argument nothing"):
        export(lambda g, x: symbolic_opset9.gelu(g, x, nothing=1))


def test_check_training_mode() -> None:
    with pytest.warns(UserWarning, match="dropout is in training mode, and the export is for inference"):
        symbolic_helper.check_training_mode(1, "dropout")


class MinusNumber(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - 2.5


@pytest.mark.parametrize(
    "read", [lambda b: b, symbolic_helper._scalar, lambda b: torch.tensor(symbolic_helper._scalar(b)).double()]
)
@pytest.mark.parametrize("with_g", [True, False], ids=["torch 1.0", "torch 1.13"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32])
def test_if_scalar_type_as_with_both_signatures(read: Any, with_g: bool, dtype: torch.dtype) -> None:
    def sub(g: Any, a: Any, b: Any, alpha: Any) -> Any:
        a = g.op("Cast", a, to_i=JitScalarType.from_dtype(torch.promote_types(dtype, torch.float32)).onnx_type())
        leading = (g,) if with_g else ()
        return g.op("Sub", a, symbolic_helper._if_scalar_type_as(*leading, read(b), a))

    onnx_exporter.register_custom_op_symbolic("aten::sub", sub, 9)
    x = torch.arange(6, dtype=dtype).reshape(2, 3)
    onnx_exporter.export(MinusNumber(), (x,), input_names=["x"], dynamic_axes={"x": [0]}).verify((x[:1],))


def test_former_names_read_the_running_export() -> None:
    seen = []

    def relu(g: Any, x: Any) -> Any:
        seen.append((symbolic_helper._export_onnx_opset_version, symbolic_helper._operator_export_type))
        symbolic_helper._set_opset_version(13)
        symbolic_helper._set_operator_export_type(onnx_exporter.OperatorExportTypes.ONNX)
        return symbolic_helper._cast_func_template(1, g, g.op("Relu", x), False)

    onnx_exporter.register_custom_op_symbolic("aten::relu", relu, 9)
    onnx_exporter.export(torch.nn.ReLU(), X, opset_version=13)
    assert seen == [(13, "ONNX")]
    assert symbolic_helper._onnx_master_opset == 28 and {9, 10, 11} < set(symbolic_helper._onnx_stable_opsets)
    assert symbolic_helper._sum([1, 2]) == 3
    with pytest.raises(onnxexp.OptionError, match="pass opset_version=11 to export"):
        symbolic_helper._set_opset_version(11)
    with pytest.raises(onnxexp.OptionError, match="pass operator_export_type='ONNX_ATEN' to export"):
        symbolic_helper._set_operator_export_type("ONNX_ATEN")
    with pytest.raises(onnxexp.LoweringError, match="erf cannot be expressed at opset"):
        symbolic_helper._black_list_in_opset("erf")()
