"""Examples of torch.onnx's documentation, but for the import and smaller models.

The examples of tracing and scripting are in tests/torchscript/test_documentation.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import onnxscript
import pytest
import torch
from onnxscript.onnx_opset import opset15

import onnxexp
import onnxexp_torch_onnx as onnx_exporter
from onnxexp_autograd import plugin
from onnxexp_torch_onnx import symbolic_helper
from onnxexp_torch_onnx.symbolic_helper import _unimplemented, parse_args
from tests.autograd.functions import MyLogExp, MyRelu

PLUGINS = [plugin, ...]


class AlexNet(torch.nn.Module):
    """torchvision's, with narrower layers."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[torch.nn.Module] = []
        for inside, out, kernel, stride, padding, pool in (
            (3, 8, 11, 4, 2, True), (8, 12, 5, 1, 2, True), (12, 16, 3, 1, 1, False), (16, 12, 3, 1, 1, False),
            (12, 8, 3, 1, 1, True),
        ):  # fmt: skip
            layers += [torch.nn.Conv2d(inside, out, kernel, stride, padding), torch.nn.ReLU(inplace=True)]
            layers += [torch.nn.MaxPool2d(3, 2)] if pool else []
        self.features = torch.nn.Sequential(*layers)
        self.avgpool = torch.nn.AdaptiveAvgPool2d((6, 6))
        self.classifier = torch.nn.Sequential(
            torch.nn.Dropout(), torch.nn.Linear(8 * 36, 32), torch.nn.ReLU(inplace=True),
            torch.nn.Dropout(), torch.nn.Linear(32, 32), torch.nn.ReLU(inplace=True), torch.nn.Linear(32, 10),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


def test_alexnet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dummy_input = torch.randn(10, 3, 224, 224)
    model = AlexNet()
    input_names = ["actual_input_1"] + ["learned_%d" % i for i in range(16)]  # noqa: UP031 - as written there
    output_names = ["output1"]
    path = str(tmp_path / "alexnet.onnx")
    onnx_exporter.export(model, dummy_input, path, verbose=True, input_names=input_names, output_names=output_names)
    printed = capsys.readouterr().out
    assert "%actual_input_1" in printed and "%learned_0" in printed and "%output1" in printed

    loaded = onnx.load(path)
    onnx.checker.check_model(loaded)
    assert "learned_15" in onnx.helper.printable_graph(loaded.graph)
    assert {each.name for each in loaded.graph.initializer} >= {f"learned_{number}" for number in range(16)}
    ort_session = onnxruntime.InferenceSession(path)
    x = np.random.randn(10, 3, 224, 224).astype(np.float32)
    outputs = ort_session.run(None, {"actual_input_1": x})
    np.testing.assert_allclose(outputs[0], model.eval()(torch.from_numpy(x)).detach().numpy(), atol=1e-5)


def test_alexnet_with_the_parameters_as_inputs() -> None:
    program = onnx_exporter.export(
        AlexNet(), torch.randn(1, 3, 224, 224), export_params=False, input_names=["x", "learned_0"], do_constant_folding=False
    )
    assert [value.name for value in program.model.graph.inputs[:2]] == ["x", "learned_0"]
    program.verify()


class Calls(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def operators(program: Any) -> list[str]:
    return [node.op_type for node in program.model.graph]


def test_elu() -> None:
    def elu(g, input, alpha, inplace=False):
        return g.op("Elu", input, alpha_f=alpha)

    onnx_exporter.register_custom_op_symbolic("aten::elu", elu, 9)
    program = onnx_exporter.export(torch.nn.ELU(0.3), torch.ones(1), opset_version=9)
    assert operators(program) == ["Elu"]
    program.verify((torch.tensor([-1.5]),))


def test_elu_of_the_editions_before_1_5() -> None:
    from onnxexp_torch_onnx.symbolic_helper import _scalar

    def elu(g, input, alpha, inplace=False):
        return g.op("Elu", input, alpha_f=_scalar(alpha))

    onnx_exporter.register_custom_op_symbolic("aten::elu", elu, 9)
    program = onnx_exporter.export(torch.nn.ELU(0.3), torch.ones(1), opset_version=9)
    assert operators(program) == ["Elu"]
    program.verify((torch.tensor([-1.5]),))


def test_my_relu() -> None:
    program = onnx_exporter.export(Calls(MyRelu.apply), torch.randn(2, 3), plugins=PLUGINS)
    assert operators(program) == ["Clip"]
    program.verify()


def test_my_log_exp() -> None:
    program = onnx_exporter.export(Calls(MyLogExp.apply), torch.ones(1) * 3, plugins=PLUGINS)
    assert operators(program) == ["Exp", "Log", "Log"]
    program.verify()


@pytest.mark.parametrize("kind", ["ONNX_FALLTHROUGH", "ONNX_ATEN_FALLBACK"])
def test_my_log_exp_without_inlining(kind: str) -> None:
    kinds = onnx_exporter.OperatorExportTypes
    model, x = Calls(MyLogExp.apply), torch.ones(1)
    program = onnx_exporter.export(model, x, plugins=PLUGINS, operator_export_type=kinds[kind])
    (node,) = program.model.graph
    assert (node.domain, node.op_type) == ("autograd", "MyLogExp")


def test_python_op(capsys: pytest.CaptureFixture[str]) -> None:
    class MyClip(torch.autograd.Function):
        @staticmethod
        def forward(ctx, input, min):
            ctx.save_for_backward(input)
            return input.clamp(min=min)

    class MyRelu(torch.autograd.Function):
        @staticmethod
        def forward(ctx, input):
            ctx.save_for_backward(input)
            return input.clamp(min=0)

    def symbolic_python_op(ctx: onnx_exporter.SymbolicContext, g, *args, **kwargs):
        n = ctx.cur_node
        print("original node: ", n)
        for i, out in enumerate(n.outputs()):
            print(f"original output {i}: {out}, requires grad: {out.requiresGrad()}")
        import torch.onnx.symbolic_helper as sym_helper

        for i, arg in enumerate(args):
            requires_grad = arg.requiresGrad() if sym_helper._is_value(arg) else False
            print(f"arg {i}: {arg}, requires grad: {requires_grad}")

        name = kwargs["name"]
        ret = None
        if name == "MyClip":
            ret = g.op("Clip", args[0], args[1])
        elif name == "MyRelu":
            ret = g.op("Relu", args[0])
        else:
            return _unimplemented("prim::PythonOp", "unknown node kind: " + name)
        # Copy type and shape from original node.
        ret.setType(n.output().type())
        return ret

    onnx_exporter.register_custom_op_symbolic("prim::PythonOp", symbolic_python_op, 1)
    model = Calls(lambda x, low: MyRelu.apply(MyClip.apply(x, low)))
    program = onnx_exporter.export(model, (torch.randn(3, 2), torch.tensor(-0.2)), plugins=PLUGINS, opset_version=13)
    assert operators(program) == ["Clip", "Relu"]
    program.verify()
    printed = capsys.readouterr().out
    assert "original output 0" in printed and "requires grad: False" in printed and "arg 1" in printed


def test_python_op_with_an_unknown_name_says_so() -> None:
    onnx_exporter.register_custom_op_symbolic(
        "prim::PythonOp", lambda g, *args, name: _unimplemented("prim::PythonOp", f"unknown node kind: {name}"), 1
    )
    with pytest.raises(onnx_exporter.OnnxExporterError, match="unknown node kind: MyLogExp"):
        onnx_exporter.export(Calls(MyLogExp.apply), torch.ones(1), plugins=PLUGINS)


def test_selu_through_onnxscript() -> None:
    op = opset15
    custom_opset = onnxscript.values.Opset(domain="onnx-script", version=1)

    @onnxscript.script(custom_opset)
    def Selu(X):
        alpha = 1.67326  # auto wrapped as Constants
        gamma = 1.0507
        alphaX = op.CastLike(alpha, X)
        gammaX = op.CastLike(gamma, X)
        neg = gammaX * (alphaX * op.Exp(X) - alphaX)
        pos = gammaX * X
        zero = op.CastLike(0, X)
        return op.Where(zero >= X, neg, pos)

    def custom_selu(g, X):
        return g.onnxscript_op(Selu, X).setType(X.type())

    onnx_exporter.register_custom_op_symbolic(symbolic_name="aten::selu", symbolic_fn=custom_selu, opset_version=15)
    x = torch.randn(1, 2, 3, 4, requires_grad=True)
    program = onnx_exporter.export(torch.nn.SELU(), x, opset_version=15, custom_opsets={"onnx-script": 2})
    assert [(node.domain, node.op_type) for node in program.model.graph] == [("onnx-script", "Selu")]
    assert program.model.opset_imports["onnx-script"] == 2 and program.model.opset_imports[""] == 15
    program.verify(rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def foo_forward() -> Any:
    library = torch.library.Library("custom_ops", "FRAGMENT")
    library.define("foo_forward(Tensor input1, Tensor input2, float attr1, int attr2) -> Tensor")
    library.impl("foo_forward", lambda a, b, attr1, attr2: a * attr1 + b * attr2, "CompositeExplicitAutograd")
    torch.library.register_fake("custom_ops::foo_forward", lambda a, b, attr1, attr2: torch.empty_like(a), lib=library)
    yield
    library._destroy()


class FooModel(torch.nn.Module):
    def __init__(self, attr1, attr2):
        super().__init__()
        self.attr1 = attr1
        self.attr2 = attr2

    def forward(self, input1, input2):
        # Calling custom op
        return torch.ops.custom_ops.foo_forward(input1, input2, self.attr1, self.attr2)


@pytest.mark.usefixtures("foo_forward")
def test_foo_forward() -> None:
    @symbolic_helper.parse_args("v", "v", "f", "i")
    def symbolic_foo_forward(g, input1, input2, attr1, attr2):
        return g.op("custom_domain::Foo", input1, input2, attr1_f=attr1, attr2_i=attr2)

    onnx_exporter.register_custom_op_symbolic("custom_ops::foo_forward", symbolic_foo_forward, 9)
    x = torch.randn(2, 3)
    program = onnx_exporter.export(FooModel(0.5, 3), (x, x), custom_opsets={"custom_domain": 2})
    (node,) = program.model.graph
    assert (node.domain, node.op_type) == ("custom_domain", "Foo")
    assert node.attributes["attr1"].as_float() == 0.5 and node.attributes["attr2"].as_int() == 3
    assert program.model.opset_imports["custom_domain"] == 2
    assert onnx_exporter.export(FooModel(0.5, 3), (x, x)).model.opset_imports["custom_domain"] == 1


@pytest.mark.usefixtures("foo_forward")
def test_foo_forward_of_1_4_without_a_domain() -> None:
    @parse_args("v", "v", "f", "i")
    def symbolic_foo_forward(g, input1, input2, attr1, attr2):
        return g.op("Foo", input1, input2, attr1_f=attr1, attr2_i=attr2)

    onnx_exporter.register_custom_op_symbolic("custom_ops::foo_forward", symbolic_foo_forward, 9)
    x = torch.randn(2, 3)
    with pytest.warns(UserWarning, match="ONNX has no operator Foo"):
        program = onnx_exporter.export(FooModel(0.5, 3), (x, x))
    assert operators(program) == ["Foo"]


def test_unconvertible_ops() -> None:
    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.qr(x)[0] + torch.linalg.eigh(x)[0].relu()

    model, args, opset_version = Model(), torch.randn(3, 3), 17
    few = onnxexp.SymbolicTable("aten")
    few.direct({"relu": "Relu", "add": "Add"})
    torch_script_graph, unconvertible_ops = onnx_exporter.utils.unconvertible_ops(
        model, args, opset_version=opset_version, plugins=[few]
    )
    assert set(unconvertible_ops) == {"aten::linalg_qr", "aten::linalg_eigh"}
    assert any(node.op == "aten::relu" for node in torch_script_graph.nodes)


def test_lstm_with_dynamic_axes(tmp_path: Path) -> None:
    layer_count = 4
    model = torch.nn.LSTM(10, 20, num_layers=layer_count, bidirectional=True)
    model.eval()
    with torch.no_grad():
        input = torch.randn(5, 3, 10)
        h0 = torch.randn(layer_count * 2, 3, 20)
        c0 = torch.randn(layer_count * 2, 3, 20)
        path = str(tmp_path / "lstm.onnx")
        onnx_exporter.export(model, (input, (h0, c0)), path)
        dims = onnx.load(path).graph.input[0].type.tensor_type.shape.dim
        assert [dim.dim_value for dim in dims] == [5, 3, 10]
        program = onnx_exporter.export(
            model,
            (input, (h0, c0)),
            path,
            input_names=["input", "h0", "c0"],
            output_names=["output", "hn", "cn"],
            dynamic_axes={"input": {0: "sequence"}, "output": {0: "sequence"}},
        )
        dims = onnx.load(path).graph.input[0].type.tensor_type.shape.dim
        assert [dim.dim_param or dim.dim_value for dim in dims] == ["sequence", 3, 10]
        program.verify((torch.randn(8, 3, 10), (h0, c0)))
