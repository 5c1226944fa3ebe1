"""Programs for the exact rows of docs/reference/torch-onnx-differences.md."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import onnxruntime
import onnxscript
import pytest
import torch

import onnxexp
import onnxexp_torch_onnx as onnx_exporter
from onnxexp_torch_onnx import symbolic_helper

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "torch-onnx-differences.md"
ROW = re.compile(r"\b(?:\d\.\d|X)-\w+")
CAPTURES = ("auto", "trace", "script")
X = torch.randn(2, 3)

F = TypeVar("F", bound=Callable[..., Any])


def documents(*rows: str) -> Callable[[F], F]:
    """Name the rows that a test is about."""

    def mark(test: F) -> F:
        vars(test)["rows"] = rows
        return test

    return mark


def lines_of_the_page() -> list[tuple[list[str], str]]:
    """Read each line of the tables: its rows, and what onnxexp does."""
    cells = [line.strip("|").split("|") for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    return [(ROW.findall(first), last.strip()) for first, *_, last in cells if ROW.search(first)]


def test_each_row_that_is_exact_has_a_test() -> None:
    exact = {row for rows, here in lines_of_the_page() if here.startswith("exact") for row in rows}
    tested = {row for test in globals().values() for row in getattr(test, "rows", ())}
    assert exact and exact == tested


def test_each_row_stands_once_and_with_its_reason() -> None:
    rows = [row for rows, _ in lines_of_the_page() for row in rows]
    assert len(rows) == len(set(rows))
    assert all(here.startswith("exact") or here.endswith(".") for _, here in lines_of_the_page())


def operators(program: Any) -> list[str]:
    return [node.op_type for node in program.model.graph]


def registered(name: str) -> Callable[[Callable[..., Any]], None]:
    return lambda symbolic: onnx_exporter.register_custom_op_symbolic(name, symbolic, 9)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2))
        self.classifier = torch.nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(x).mean((2, 3)))


@documents("2.2-46")
@pytest.mark.parametrize("capture", CAPTURES)
def test_the_printed_graph(capture: str, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["actual_input", *(f"learned_{number}" for number in range(4))]
    onnx_exporter.export(
        Net(), torch.randn(2, 3, 8, 8), verbose=True, input_names=names, output_names=["result"], capture=capture
    )
    printed = capsys.readouterr().out
    assert (
        "graph(%actual_input : Float(2, 3, 8, 8),\n      %learned_0 : Float(4, 3, 3, 3),\n      %learned_1 : Float(4)," in printed
    )
    conv = r"%\w+ : Float\(2, 4, 8, 8\) = onnx::Conv\[.*group=1.*pads=\[1, 1, 1, 1\].*\]\(%actual_input, %learned_0, %learned_1\)"
    assert re.search(conv + r", scope: Net/Sequential\[features\]/Conv2d\[0\]", printed)
    assert re.search(r"%result : Float\(2, 5\) = onnx::Gemm\[.*transB=1\]\(%\w+, %learned_2, %learned_3\)", printed)
    assert "  return (%result)\n}" in printed


@documents("2.2-70")
def test_an_unrolled_loop_as_a_string() -> None:
    class Unrolled(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for number in range(3):
                x = x + number
            return x

    text = onnx_exporter.export_to_pretty_string(Unrolled(), torch.ones(2, 3, dtype=torch.long), verbose=True)
    assert text.startswith("graph(%x : Long(2, 3)) {\n") and "Long() = onnx::Constant[value={2}]()" in text
    assert text.count("= onnx::Add(") in (2, 3) and "onnx::Loop" not in text
    assert "ir_version" in onnx_exporter.export_to_pretty_string(Unrolled(), X, google_printer=True)


def test_a_scripted_loop_in_a_traced_module() -> None:
    @torch.jit.script
    def repeated(x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        for number in range(int(count)):
            x = x + number
        return x

    class Outer(torch.nn.Module):
        def forward(self, x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
            return repeated(x, count)

    args = torch.ones(2, 3, dtype=torch.long), torch.tensor(5)
    names = ["input_data", "loop_range"]
    text = onnx_exporter.export_to_pretty_string(Outer(), args, input_names=names, capture="trace")
    assert text.startswith("graph(%input_data : Long(2, 3),\n      %loop_range : Long()) {\n")
    assert re.search(r"Long\(2, 3\) = onnx::Loop\(%loop_range, .*%input_data\), scope: Outer", text)
    assert re.search(r"block0\(%\S+ : Long\(\), %\S+ : Bool\(\), %\S+ : Long\(2, 3\)\):", text) and "-> (%" in text
    program = onnx_exporter.export(Outer(), args, capture="trace")
    for count in (5, 0, 1, 9):
        program.verify((args[0], torch.tensor(count)))


@documents("1.0-10", "1.1-10", "1.4-20")
@pytest.mark.parametrize("module", ["symbolic", "symbolic_opset9"])
@pytest.mark.parametrize("capture", CAPTURES)
def test_a_symbolic_in_the_module_of_its_opset(module: str, capture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def elu(g, input, alpha, inplace=False):
        return g.op("Elu", input, alpha_f=symbolic_helper._scalar(alpha))

    few = onnxexp.SymbolicTable("aten")
    with pytest.raises(onnx_exporter.UnsupportedOperatorError, match="aten::elu"):
        onnx_exporter.export(torch.nn.ELU(0.3), X, plugins=[few, "torchscript"], capture=capture)
    monkeypatch.setitem(vars(getattr(onnx_exporter, module)), "elu", elu)
    program = onnx_exporter.export(torch.nn.ELU(0.3), X, plugins=[few, "torchscript"], capture=capture)
    assert operators(program) == ["Elu"]
    program.verify()


@documents("1.0-12", "1.1-12", "1.4-22")
@pytest.mark.parametrize("with_g", [True, False])
def test_numbers_in_the_type_of_a_tensor(with_g: bool) -> None:
    class Minus(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sub(x, 2.5, alpha=2)

    @registered("aten::sub")
    def sub(g, self, other, alpha):
        assert symbolic_helper._scalar(alpha) == 2
        other = torch.tensor(symbolic_helper._scalar(other) * symbolic_helper._scalar(alpha))
        return g.op("Sub", self, symbolic_helper._if_scalar_type_as(*([g] if with_g else []), other, self))

    program = onnx_exporter.export(Minus(), X.double())
    assert operators(program) == ["Sub"]
    program.verify()


@documents("X-01")
def test_the_names_of_older_helpers() -> None:
    names = "_sum _black_list_in_opset _default_onnx_opset_version _onnx_master_opset _onnx_stable_opsets"
    names += " _export_onnx_opset_version _set_opset_version _operator_export_type _set_operator_export_type _cast_func_template"
    assert all(hasattr(symbolic_helper, name) for name in names.split())
    assert symbolic_helper._default_onnx_opset_version in symbolic_helper._onnx_stable_opsets


@documents("X-02")
@pytest.mark.parametrize("capture", CAPTURES)
def test_names_of_tied_parameters(capture: str) -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two, self.last = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3), torch.nn.Linear(3, 2)
            self.two.weight = self.one.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(self.two(self.one(x)))

    model, names = Tied(), ["x", *(f"learned_{number}" for number in range(5))]
    program = onnx_exporter.export(model, X, input_names=names, capture=capture)
    weights = {name: torch.from_numpy(value.const_value.numpy()) for name, value in program.model.graph.initializers.items()}
    wanted = [model.one.weight, model.one.bias, model.two.bias, model.last.weight, model.last.bias]
    assert set(weights) == set(names[1:])
    assert all(torch.equal(weights[name], tensor) for name, tensor in zip(names[1:], wanted, strict=True))


class Unordered(torch.nn.Module):
    """Layers used in another order than the state_dict's; two weights tied, two equal."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.norm = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3)
        self.last = torch.nn.Linear(3, 3, bias=False)
        self.last.weight = self.one.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.one(self.norm(self.two(x))))


@documents("1.0-02", "1.1-02", "1.4-02", "1.4-38", "2.2-02", "2.2-65")
@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("option", [{"keep_initializers_as_inputs": True}, {"export_params": False}])
def test_parameters_as_inputs(option: Any, capture: str, tmp_path: Path) -> None:
    model, path = Unordered(), str(tmp_path / "model.onnx")
    wanted = ["one.weight", "one.bias", "two.weight", "two.bias", "norm.weight", "norm.bias"]
    wanted += ["norm.running_mean", "norm.running_var"]
    program = onnx_exporter.export(model, X, path, input_names=["x", *wanted], capture=capture, **option)
    assert [value.name for value in program.model.graph.inputs] == ["x", *wanted]
    program.verify()
    session = onnxruntime.InferenceSession(path)
    state = {name: tensor.detach().numpy() for name, tensor in model.state_dict().items() if name in wanted}
    for name in wanted:  # each is an input of its own, though norm.bias and norm.running_mean have the same contents
        changed = state | {name: state[name] + 0.5}
        (result,) = session.run(None, {"x": X.numpy(), **(changed if "export_params" in option else {name: changed[name]})})
        tensors = {each: torch.from_numpy(value) for each, value in changed.items()}
        expected = torch.func.functional_call(model.eval(), tensors, (X,))
        torch.testing.assert_close(torch.from_numpy(result), expected.detach())


@documents("2.2-38")
def test_what_a_symbolic_returns() -> None:
    class Both(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return torch.relu(x), *torch.unbind(x)

    @registered("aten::unbind")
    def unbind(g, input_0: torch._C.Value, dim: torch._C.Value) -> list[torch._C.Value]:
        return [g.op("Gather", input_0, g.op("Constant", value_t=torch.tensor(row)), axis_i=0) for row in range(2)]

    @registered("aten::relu")
    def relu(g, input_0: torch._C.Value) -> torch._C.Value | None:
        return g.op("Relu", input_0)

    onnx_exporter.export(Both(), X).verify()
    registered("aten::relu")(lambda g, input_0: None)
    onnx_exporter.export(Both(), X).verify()  # None: the next one that lowers it


@documents("2.2-48")
def test_an_onnxscript_function_in_an_annotated_symbolic() -> None:
    from onnxscript.onnx_opset import opset15 as op

    from onnxexp_torch_onnx._internal import jit_utils

    @onnxscript.script(onnxscript.values.Opset("mine", 1))
    def Doubled(X):
        return op.Add(X, X)

    @registered("aten::selu")
    def selu(g: jit_utils.GraphContext, X):
        return g.onnxscript_op(Doubled, X).setType(X.type())

    program = onnx_exporter.export(torch.nn.SELU(), X, opset_version=15, custom_opsets={"mine": 2})
    assert operators(program) == ["Doubled"] and program.model.opset_imports["mine"] == 2


@documents("2.2-54")
@pytest.mark.parametrize("capture", CAPTURES)
def test_numbers_as_inputs(capture: str) -> None:
    class Scaled(torch.nn.Module):
        def forward(self, x: torch.Tensor, times: int, plus: float) -> torch.Tensor:
            return x * times + plus

    names = ["x", "times", "plus"]
    program = onnx_exporter.export(Scaled(), (X, 3, 0.5), input_names=names, capture=capture)
    assert [value.name for value in program.model.graph.inputs] == names
    for times, plus in ((3, 0.5), (1, -2.0), (0, 7.5)):
        program.verify((X, times, plus))


@documents("2.2-59", "2.2-74")
def test_verbose_and_the_log(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.getLogger("onnxexp")
    monkeypatch.setattr(logger, "propagate", False)
    program = onnx_exporter.export(torch.nn.Linear(3, 2), X, verbose=True)
    printed = capsys.readouterr().out
    assert "capture: " in printed and "graph(%input : Float(2, 3)" in printed
    assert all(re.fullmatch(r"\w+\.py:\d+", str(node.doc_string)) for node in program.model.graph)
    level = logger.level
    for switch, count in ((onnx_exporter.enable_log, 1), (onnx_exporter.disable_log, 0)):
        switch()
        onnx_exporter.export(torch.nn.Linear(3, 2), X)
        assert capsys.readouterr().out.count("capture: ") == count
    logger.setLevel(level)


@documents("2.2-62")
@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize(
    ("kind", "domain", "name"), [("ONNX_ATEN_FALLBACK", "org.pytorch.aten", "ATen"), ("ONNX_FALLTHROUGH", "aten", "triu")]
)
def test_an_operator_that_stays_torchs(kind: str, domain: str, name: str, capture: str) -> None:
    class Upper(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return -torch.triu(x)

    few = onnxexp.SymbolicTable("aten")
    few.direct({"neg": "Neg"})
    kinds = onnx_exporter.OperatorExportTypes
    program = onnx_exporter.export(
        Upper(), X, plugins=[few, "torchscript"], operator_export_type=kinds[kind], capture=capture, opset_version=13
    )
    assert [(node.domain, node.op_type) for node in program.model.graph] == [(domain, name), ("", "Neg")]


@documents("2.2-67")
@pytest.mark.parametrize("capture", ["auto", "trace"])
def test_attributes_of_the_functions_of_modules(capture: str) -> None:
    class Leaky(torch.nn.Module):
        times: int

        def __init__(self, slope: float) -> None:
            super().__init__()
            self.slope, self.times = slope, 2

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.leaky_relu(x, self.slope) * self.times

    model = torch.nn.Sequential(Leaky(0.1), Leaky(0.2))
    program = onnx_exporter.export(model, X, export_modules_as_functions={Leaky}, capture=capture)
    (function,) = program.model.functions.values()
    assert list(function.attributes) == ["times", "inferred::alpha"]
    assert [node.attributes["inferred::alpha"].value for node in program.model.graph] == [0.1, 0.2]
    program.verify()
    with pytest.raises(onnx_exporter.OnnxExporterError, match="opset 15"):
        onnx_exporter.export(model, X, export_modules_as_functions=True, opset_version=14)


@documents("2.2-82", "2.2-84")
def test_diagnostics_of_a_preview_export(tmp_path: Path) -> None:
    output = onnx_exporter.dynamo_export(torch.nn.ReLU(), X)
    output.save_diagnostics(tmp_path / "good.sarif")
    assert output.diagnostic_context.diagnostics == []
    assert json.loads((tmp_path / "good.sarif").read_text("utf-8"))["runs"][0]["results"] == []

    registered("aten::relu")(lambda g, x: 1 / 0)
    with pytest.raises(onnx_exporter.OnnxExporterError) as caught:
        onnx_exporter.dynamo_export(torch.nn.ReLU(), X)
    caught.value.export_output.save_diagnostics(tmp_path / "bad.sarif")
    (result,) = json.loads((tmp_path / "bad.sarif").read_text("utf-8"))["runs"][0]["results"]
    assert result["level"] == "error" and "ZeroDivisionError" in result["message"]["text"]


@documents("2.2-85")
@pytest.mark.parametrize("registry", [onnx_exporter.OnnxRegistry(), onnx_exporter.OnnxRegistry(18)], ids=["default", "18"])
def test_an_onnxscript_function_in_a_registry(registry: onnx_exporter.OnnxRegistry) -> None:
    from onnxscript.onnx_opset import opset18 as op

    @onnxscript.script(onnxscript.values.Opset("test.customop", 1))
    def my_gelu(X):
        return op.Mul(op.Mul(X, 0.5), op.Add(op.Erf(op.Div(X, 1.4142135)), 1.0))

    registry.register_op(function=my_gelu, namespace="aten", op_name="gelu", overload="default")
    assert registry.is_registered_op("aten", "gelu", "default")
    options = onnx_exporter.ExportOptions(onnx_registry=registry)
    output = onnx_exporter.dynamo_export(torch.nn.GELU(), X, export_options=options)
    assert operators(output.program) == ["my_gelu"]
    output.program.verify()


class Detector(torch.nn.Module):
    """Its Linear fixes axis 1 of the image; axes 2 and 3 are free."""

    def __init__(self) -> None:
        super().__init__()
        self.pixels, self.other = torch.nn.Linear(3, 5), torch.nn.Linear(4, 5)

    def forward(self, input_1: torch.Tensor, input_2: torch.Tensor) -> torch.Tensor:
        return self.pixels(input_1.flatten(2).transpose(1, 2)) + self.other(input_2).unsqueeze(1)


@documents("1.4-51")
@pytest.mark.parametrize("capture", CAPTURES)
def test_a_name_for_an_axis_that_the_model_fixes(capture: str) -> None:
    axes = {
        "input_1": {0: "batch", 1: "width", 2: "height"},
        "input_2": {0: "batch"},
        "output": {0: "batch", 1: "detections"},
    }
    args = torch.randn(2, 3, 4, 5), torch.randn(2, 4)
    expected = r"axis 1 of input_1, so the file has a static size there(.|\n)*the model fixes it to 3"
    with pytest.warns(UserWarning, match=expected):
        program = onnx_exporter.export(
            Detector(), args, input_names=["input_1", "input_2"], output_names=["output"], dynamic_axes=axes, capture=capture
        )
    assert [str(size) for size in program.model.graph.inputs[0].shape] == ["batch", "3", "height", "5"]
    for batch, height in ((2, 4), (1, 1), (3, 7)):
        program.verify((torch.randn(batch, 3, height, 5), torch.randn(batch, 4)))


@documents("1.4-52")
@pytest.mark.parametrize("capture", CAPTURES)
def test_names_for_some_axes_only(capture: str) -> None:
    axes = {"input_1": [0, 2, 3], "input_2": {0: "batch"}, "output": [0, 1]}
    args, names = (torch.randn(2, 3, 4, 5), torch.randn(2, 4)), ["input_1", "input_2"]
    program = onnx_exporter.export(
        Detector(), args, input_names=names, output_names=["output"], dynamic_axes=axes, capture=capture
    )
    graph = program.model.graph
    sizes = [str(size) for value in (*graph.inputs, *graph.outputs) for size in value.shape]
    assert sizes == ["batch", "3", "input_1_dim_2", "input_1_dim_3", "batch", "4", "batch", "input_1_dim_2*input_1_dim_3", "5"]
    program.verify((torch.randn(3, 3, 1, 7), torch.randn(3, 4)))


@pytest.mark.parametrize("axes", [{"x": [0, 1]}, {"x": {0: "rows", 1: "columns"}}])
def test_several_fixed_axes(axes: Any) -> None:
    class Fixed(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.ones(2, 3)

    with pytest.warns(UserWarning, match="the file has a static size there"):
        program = onnx_exporter.export(Fixed(), X, input_names=["x"], dynamic_axes=axes)
    assert list(program.model.graph.inputs[0].shape) == [2, 3]
    with pytest.raises(onnxexp.CaptureError):
        onnxexp.export(Fixed(), (X,), input_names=["x"], dynamic_axes=axes)
    with pytest.raises(onnxexp.CaptureError):
        onnx_exporter.export(Fixed(), X, dynamic_shapes={"x": {0: "rows"}})


def row_written(data: torch.Tensor, index: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    data = data.clone()
    data[index] = new
    return data


def column_written(data: torch.Tensor, index: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    data = data.clone()
    data[:, index] = new[:4]
    return data


def row_added_to(data: torch.Tensor, index: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    data = data.clone()
    data[index] += new
    return data


@documents("1.4-15", "2.2-29", "2.2-30", "2.2-31", "X-07")
@pytest.mark.parametrize("capture", ["auto", "trace"])
@pytest.mark.parametrize("write", [row_written, column_written, row_added_to])
def test_writes_at_an_index(write: Callable[..., torch.Tensor], capture: str) -> None:
    data, new = torch.randn(4, 5), torch.randn(5)
    program = onnx_exporter.export(write, (data, torch.tensor(1), new), capture=capture)
    for index in (0, 1, 2, 3, -1, -4):
        program.verify((data, torch.tensor(index), new))


@documents("1.4-55")
@pytest.mark.parametrize("capture", ["auto", "trace"])
def test_a_shape_as_a_tensor(capture: str) -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * onnx_exporter.operators.shape_as_tensor(x)[1]

    program = onnx_exporter.export(scaled, X, dynamic_axes={"x": [0, 1]}, capture=capture)
    for shape in ((2, 3), (1, 1), (4, 7)):
        program.verify((torch.randn(shape),))


@pytest.mark.parametrize("capture", ["auto", "trace"])
def test_a_reshape_by_a_tensor(capture: str) -> None:
    def turned(x: torch.Tensor) -> torch.Tensor:
        shape = onnx_exporter.operators.shape_as_tensor(x)
        return onnx_exporter.operators.reshape_from_tensor_shape(x + 1, torch.cat([shape[1:], shape[:1]]))

    program = onnx_exporter.export(turned, X, dynamic_axes={"x": [0, 1]}, capture=capture)
    for shape in ((2, 3), (1, 1), (4, 7), (0, 3)):
        program.verify((torch.randn(shape),))


@documents("X-06")
@pytest.mark.parametrize("options", [{"training": "nonsense"}, {"operator_export_type": 3}, {"custom_opsets": [1]}])
def test_arguments_of_the_wrong_kind(options: Any) -> None:
    (name,) = options
    with pytest.raises(onnxexp.OptionError, match=name):
        onnx_exporter.export(torch.nn.ReLU(), X, **options)


@documents("2.2-14")
@pytest.mark.parametrize("capture", ["auto", "trace"])
@pytest.mark.parametrize("read", [lambda x: x.data, lambda x: x.detach()])
def test_data_and_detach(read: Callable[..., Any], capture: str) -> None:
    program = onnx_exporter.export(lambda x: read(x + 1) * x, X, capture=capture)
    program.verify((torch.randn(2, 3),))


@pytest.mark.parametrize("capture", ["auto", "trace"])
def test_an_assignment_to_data(capture: str) -> None:
    def assigns(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        y.data = y * 3
        return y * x

    with pytest.raises(onnxexp.CaptureError, match=r"an assignment to \.data cannot be captured; to fix this, write with copy_"):
        onnx_exporter.export(assigns, X, capture=capture)


@documents("2.2-15", "2.2-16", "1.4-op120")
@pytest.mark.parametrize("capture", CAPTURES)
def test_numbers_as_outputs(capture: str) -> None:
    class Numbers(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            length = x.size(1)
            length += 2
            return length, x + 1, 3, 2.5

    program = onnx_exporter.export(Numbers(), X, capture=capture)
    assert len(program.model.graph.outputs) == 4
    assert program(X)[0] == 5 and program(X)[2:] == (3, 2.5)


@documents("2.2-78")
def test_a_difference_is_an_assertion_error() -> None:
    registered("aten::relu")(lambda g, x: g.op("Neg", x))
    with pytest.raises(AssertionError, match="output 0"):
        onnx_exporter.verification.verify(torch.nn.ReLU(), X)
