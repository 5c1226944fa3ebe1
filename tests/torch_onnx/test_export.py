"""`export` with torch.onnx's arguments, the old ones too."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import onnx
import onnxscript
import pytest
import torch

import onnxexp
import onnxexp_torch_onnx as onnx_exporter
from onnxexp_torch_onnx import OperatorExportTypes
from onnxexp_torch_onnx.deprecated_arguments import FIXES
from onnxexp_torch_onnx.errors import OnnxExporterWarning


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 5)
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dropout(torch.relu(self.linear(x)))


class Odd(torch.nn.Module):
    """One operator that FEW does not lower."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.qr(x.relu())[0] + 1


FEW = onnxexp.SymbolicTable("aten")
FEW.direct({"relu": "Relu"})
FEW("add")(lambda op, x, y, alpha: op.Add(x, y))
MODEL, X = Model(), torch.randn(3, 4)


def operators(program: onnxexp.ONNXProgram) -> list[str]:
    return [f"{node.domain}::{node.op_type}" for node in program.model.graph]


def test_positional_arguments_are_torch_onnxs(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx_exporter.export(
        MODEL, (X,), str(path), True, False, onnx_exporter.TrainingMode.EVAL, ["in"], ["out"], OperatorExportTypes.ONNX, 13, True,
        {"in": {0: "n"}},
    )  # fmt: skip
    loaded = onnx.load(path)
    assert [value.name for value in (*loaded.graph.input, *loaded.graph.output)] == ["in", "out"]
    assert loaded.opset_import[0].version == 13 and loaded.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "n"


def test_a_file_object() -> None:
    file = io.BytesIO()
    onnx_exporter.export(MODEL, X, file)
    onnx.checker.check_model(onnx.load_from_string(file.getvalue()))


@pytest.mark.parametrize(
    ("training", "dropped"),
    [
        (None, False), (False, False), (True, True), ("TRAINING", True), (onnx_exporter.TrainingMode.EVAL, False),
        (onnx_exporter.TrainingMode.TRAINING, True), (torch.onnx.TrainingMode.TRAINING, True),
        (torch.onnx.TrainingMode.PRESERVE, True),
    ],
)  # fmt: skip
def test_training_as_it_was_written_over_the_years(training: Any, dropped: bool) -> None:
    program = onnx_exporter.export(Model(), X, training=training)
    assert ("::Dropout" in operators(program)) is dropped


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"training": "nonsense"}, "training is 'nonsense'; it may be EVAL"),
        ({"training": 3}, "training is 3; it may be"),
        ({"operator_export_type": 3}, "operator_export_type is 3; it may be"),
        ({"operator_export_type": False}, "give aten, export_raw_ir and what follows by keyword"),
        ({"custom_opsets": [1]}, "custom_opsets is [1]; it is a dict"),
        ({"input_names": "abc"}, "input_names must be a list of names, not 'abc'"),
        ({"export_modules_as_functions": [3]}, "export_modules_as_functions is [3]; it may be True"),
    ],
)
def test_arguments_of_the_wrong_kind(options: dict[str, Any], message: str) -> None:
    with pytest.raises(onnxexp.OptionError, match=re.escape(message)):
        onnx_exporter.export(MODEL, X, **options)


@pytest.mark.parametrize("capture", ["auto", "export", "trace"])
@pytest.mark.parametrize("axes", [{"x": {0: "n"}, "y": {0: "m"}}, {"x": [0], "y": [0]}, {"x": {0: "n", 1: "w"}, "y": [0]}])
def test_an_axis_of_an_input_that_the_model_fixes_is_a_warning(capture: str, axes: Any) -> None:
    class Wants(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.linear(x.transpose(0, 1), torch.ones(2, 3)).sum() + y

    with pytest.warns(OnnxExporterWarning, match=r"the model fixes axis 0 of x, so the file has a static size there"):
        program = onnx_exporter.export(Wants(), (torch.ones(3, 4), X), dynamic_axes=axes, capture=capture)
    x, y = program.model.graph.inputs
    assert x.shape[0] == 3 and not isinstance(y.shape[0], int)
    given = torch.ones(3, 4), torch.randn(7, 4)
    torch.testing.assert_close(program(*given)[0], Wants()(*given))


@pytest.mark.parametrize("capture", ["auto", "trace"])
def test_dynamic_axes_of_an_unknown_name_are_a_warning(capture: str) -> None:
    axes = {"x": {0: "n"}, "lengths": [0], "sizes": {0: "m"}}
    with pytest.warns(OnnxExporterWarning) as caught:
        program = onnx_exporter.export(MODEL, X, input_names=["x"], dynamic_axes=axes, capture=capture)
    assert [re.findall(r"dynamic_axes\['(\w+)'\]: the model has no", str(each.message)) for each in caught] == [
        ["lengths"],
        ["sizes"],
    ]
    assert next(str(size) for size in program.model.graph.inputs[0].shape) == "n"


def test_dynamic_axes_that_an_output_lacks_are_a_warning() -> None:
    with pytest.warns(OnnxExporterWarning, match=r"dynamic_axes\['y'\]: there is no axis 5"):
        onnx_exporter.export(MODEL, X, input_names=["x"], output_names=["y"], dynamic_axes={"x": [0], "y": [0, 5]})


def test_dynamic_shapes_that_the_model_fixes_are_errors() -> None:
    with pytest.raises(onnxexp.CaptureError, match="was asked to be dynamic"):
        onnx_exporter.export(lambda x: x + torch.ones(3, 1), X, dynamic_shapes={"x": {0: "n"}})


def test_names_of_the_parameters_of_a_wrapped_model() -> None:
    program = onnx_exporter.export(torch.compile(MODEL), X, input_names=["in", "weights", "shift"])
    assert {"weights", "shift"} <= set(program.model.graph.initializers)


def test_parameters_among_the_inputs() -> None:
    kept = onnx_exporter.export(MODEL, X, keep_initializers_as_inputs=True)
    assert {value.name for value in kept.model.graph.inputs} == {"x", "linear.weight", "linear.bias"}
    out = onnx_exporter.export(MODEL, X, export_params=False)
    assert {value.name for value in out.model.graph.inputs} == {"x", "linear.weight", "linear.bias"}
    assert not out.model.graph.initializers


def test_names_of_parameters() -> None:
    program = onnx_exporter.export(MODEL, X, input_names=["x", "w", "b"])
    assert set(program.model.graph.initializers) == {"w", "b"}
    program.verify()
    with pytest.warns(UserWarning, match="more input_names"):
        onnx_exporter.export(MODEL, X, input_names=["x", "w", "b", "c"])


def test_aten() -> None:
    program = onnx_exporter.export(MODEL, X, operator_export_type=OperatorExportTypes.ONNX_ATEN)
    assert set(operators(program)) == {"org.pytorch.aten::ATen"}
    assert [node.attributes["operator"].as_string() for node in program.model.graph][:2] == ["linear", "relu"]
    assert "linear.weight" in [value.name for value in program.model.graph.inputs]  # as torch.onnx did for such files
    with pytest.warns(DeprecationWarning, match="aten is deprecated"):
        assert operators(onnx_exporter.export(MODEL, X, aten=True)) == operators(program)


def test_raw() -> None:
    program = onnx_exporter.export(MODEL, X, operator_export_type=OperatorExportTypes.RAW)
    assert operators(program)[:2] == ["aten::linear", "aten::relu"]
    with pytest.warns(DeprecationWarning, match="export_raw_ir is deprecated"):
        assert operators(onnx_exporter.export(MODEL, X, export_raw_ir=True)) == operators(program)


def test_what_nobody_lowers_falls_back() -> None:
    x = torch.randn(3, 3)
    with pytest.raises(onnx_exporter.UnsupportedOperatorError, match="aten::linalg_qr"):
        onnx_exporter.export(Odd(), x, plugins=[FEW])
    program = onnx_exporter.export(Odd(), x, plugins=[FEW], operator_export_type=OperatorExportTypes.ONNX_ATEN_FALLBACK)
    assert operators(program) == ["::Relu", "org.pytorch.aten::ATen", "::Add"]
    through = onnx_exporter.export(Odd(), x, plugins=[FEW], operator_export_type=torch.onnx.OperatorExportTypes.ONNX_FALLTHROUGH)
    assert operators(through) == ["::Relu", "aten::linalg_qr", "::Add"]
    (node,) = (node for node in through.model.graph if node.domain == "aten")
    assert node.attributes["mode"].as_string() == "reduced" and tuple(node.outputs[0].shape) == (3, 3)


def test_contradicting_arguments() -> None:
    with pytest.raises(onnxexp.OptionError, match="contradict"), pytest.warns(DeprecationWarning, match="aten"):
        onnx_exporter.export(MODEL, X, aten=True, export_raw_ir=True)
    with pytest.raises(onnxexp.OptionError, match="replaced"), pytest.warns(DeprecationWarning, match="aten"):
        onnx_exporter.export(MODEL, X, aten=True, operator_export_type=OperatorExportTypes.ONNX)


@pytest.mark.parametrize("name", sorted(FIXES))
def test_each_deprecated_argument_warns(name: str) -> None:
    value: Any = (
        MODEL(X) if name == "example_outputs" else name in ("strip_doc_string", "_retain_param_name", "onnx_shape_inference")
    )
    with pytest.warns(DeprecationWarning, match=f"{name} is deprecated: "):
        onnx_exporter.export(MODEL, X, **{name: value})


@pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")
def test_deprecated_arguments_keep_their_meaning(tmp_path: Path) -> None:
    model = Model()
    model.linear = torch.nn.Linear(4, 5000)
    program = onnx_exporter.export(
        model, X, tmp_path / "model.onnx", strip_doc_string=False, _retain_param_name=False, use_external_data_format=True,
        enable_onnx_checker=True, add_node_names=False,
    )  # fmt: skip
    assert all(node.doc_string and not node.name for node in program.model.graph)
    assert set(program.model.graph.initializers) == {"param_0", "param_1"}
    assert len(list(tmp_path.iterdir())) == 2
    program.verify()


def test_the_checker_speaks() -> None:
    onnx_exporter.register_custom_op_symbolic("aten::relu", lambda g, x: g.op("Foo", x), 9)
    with pytest.warns(UserWarning, match="no operator Foo"), pytest.raises(onnx_exporter.CheckerError, match="Foo"):
        onnx_exporter.export(MODEL, X, enable_onnx_checker=True)


def test_an_argument_that_never_was() -> None:
    for given, meant in (("strip_doc_strings", "strip_doc_string"), ("opset", "opset_version"), ("dynamic_axis", "dynamic_axes")):
        with pytest.raises(onnxexp.OptionError, match=rf"no argument '{given}' \(did you mean '{meant}'\?\)"):
            onnx_exporter.export(MODEL, X, **{given: True})


def test_export_to_pretty_string(capsys: pytest.CaptureFixture[str]) -> None:
    text = onnx_exporter.export_to_pretty_string(MODEL, X, "ignored.onnx", verbose=True, opset_version=11)
    assert text.startswith("graph(%x : Float(3, 4),") and "%linear" in text and not Path("ignored.onnx").exists()
    assert capsys.readouterr().out == ""
    assert '"" : 11' in onnx_exporter.export_to_pretty_string(MODEL, X, google_printer=True, opset_version=11)


def test_a_translation_table() -> None:
    from onnxscript.onnx_opset import opset18 as op

    domain = onnxscript.values.Opset("mine", 1)

    @onnxscript.script(domain)
    def leaky(X, slope: float = 0.25):
        return op.LeakyRelu(X, alpha=slope)

    class Leaky(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.leaky_relu(x, 0.5)

    program = onnx_exporter.export(
        Leaky(), X, opset_version=18, custom_translation_table={torch.ops.aten.leaky_relu.default: leaky}, verify=True
    )
    assert operators(program) == ["mine::leaky"]
    with pytest.raises(onnxexp.OptionError, match="not a torch operator"):
        onnx_exporter.export(Leaky(), X, custom_translation_table={3: leaky})
    with pytest.raises(onnxexp.OptionError, match="leaky_relu.default is 3; it must be a function"):
        onnx_exporter.export(Leaky(), X, custom_translation_table={torch.ops.aten.leaky_relu.default: 3})  # type: ignore[dict-item]


@pytest.mark.parametrize("key", [torch.ops.aten.leaky_relu, torch.ops.aten.leaky_relu.default, "aten::leaky_relu"])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_translation_table_beside_a_registration(key: Any, rows: int) -> None:
    """The table of the call wins over what the process has registered."""
    from onnxscript.onnx_opset import opset18 as op

    domain = onnxscript.values.Opset("mine", 1)

    @onnxscript.script(domain)
    def leaky(X, slope: float = 0.25):
        return op.LeakyRelu(X, alpha=slope)

    model, x = torch.nn.Sequential(torch.nn.LeakyReLU(0.5), torch.nn.ReLU()), torch.randn(rows, 4)
    onnx_exporter.register_custom_op_symbolic("aten::leaky_relu", lambda g, x, slope, *_: g.op("Neg", x), 9)
    onnx_exporter.register_custom_op_symbolic("aten::relu", lambda g, x: g.op("Abs", x), 9)
    program = onnx_exporter.export(model, x, opset_version=18, custom_translation_table={key: leaky})
    assert operators(program) == ["mine::leaky", "::Abs"]
    torch.testing.assert_close(program(x)[0], torch.nn.functional.leaky_relu(x, 0.5).abs())
    registry = onnx_exporter.OnnxRegistry()
    registry.register_op(leaky, "aten", "leaky_relu")
    exported = onnx_exporter.dynamo_export(model, x, export_options=onnx_exporter.ExportOptions(onnx_registry=registry))
    assert operators(exported.program) == ["mine::leaky", "::Abs"]


def test_logging(caplog: pytest.LogCaptureFixture) -> None:
    onnx_exporter.enable_log()
    onnx_exporter.export(MODEL, X)
    assert any(record.getMessage().startswith("capture: ") for record in caplog.records)
    caplog.clear()
    onnx_exporter.disable_log()
    onnx_exporter.export(MODEL, X)
    assert not [record for record in caplog.records if record.name.startswith("onnxexp")]  # torch's own go to pytest as well


def test_modes() -> None:
    model = Model().train()
    with onnx_exporter.select_model_mode_for_export(model, onnx_exporter.TrainingMode.EVAL):
        assert not model.training and not model.dropout.training
    assert model.training
    with onnx_exporter.set_training(model, False):
        assert not model.training
    with onnx_exporter.set_training(model, None):
        assert model.training


def test_is_in_onnx_export() -> None:
    seen: list[bool] = []

    class Asks(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(onnx_exporter.is_in_onnx_export() and torch.onnx.is_in_onnx_export())
            return x.relu()

    onnx_exporter.export(Asks(), X)
    assert seen[0] and not onnx_exporter.is_in_onnx_export()


def test_operators_that_keep_shapes() -> None:
    from onnxexp_torch_onnx.operators import reshape_from_tensor_shape, shape_as_tensor

    class Reshaped(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return reshape_from_tensor_shape(x * 2, shape_as_tensor(y))

    assert shape_as_tensor(X).tolist() == [3, 4]
    program = onnx_exporter.export(Reshaped(), (torch.randn(4, 6), torch.randn(3, 8)), verify=True, dynamic_axes={"y": [0, 1]})
    assert program(torch.randn(4, 6), torch.randn(12, 2))[0].shape == (12, 2)


class Encoder(torch.nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize(("layers", "fewer"), [(6, 4), pytest.param(24, 10, marks=pytest.mark.full)])
def test_modules_as_functions(layers: int, fewer: int, capture: str) -> None:
    """All layers become one function: a tenth of the nodes at 24, the same outputs."""
    model, x = Encoder(layers).eval(), torch.randn(2, 5, 32)
    for parameter in model.parameters():  # equal weights would be shared
        torch.nn.init.normal_(parameter, std=0.1)
    asked: dict[str, Any] = {"opset_version": 17, "dynamic_axes": {"x": {0: "batch", 1: "time"}}, "capture": capture}
    flat = onnx_exporter.export(model, x, **asked)
    classes = {torch.nn.TransformerEncoderLayer}
    program = onnx_exporter.export(model, x, **asked, export_modules_as_functions=classes)
    assert [(domain, name) for domain, name, _ in program.model.functions] == [
        ("torch.nn.modules.transformer", "TransformerEncoderLayer")
    ]
    inside = sum(len(function) for function in program.model.functions.values())
    assert len(program.model.graph) + inside <= len(flat.model.graph) / fewer
    assert program.model.opset_imports[""] == 17
    assert all(function.opset_imports[""] == 17 for function in program.model.functions.values())
    onnx.checker.check_model(program.model_proto, full_check=True)
    for inputs in (x, torch.randn(3, 7, 32)):
        torch.testing.assert_close(program(inputs)[0], flat(inputs)[0], rtol=1e-4, atol=1e-4)


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x)) + 1


class Controlled(torch.nn.Module):
    """Modules in a branch and in a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.one = Block()
        self.two = Block()

    def forward(self, x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        for _ in range(int(count)):
            x = self.one(x) - 1
        if bool(x.sum() > 0):
            return self.two(x)
        return x


@pytest.mark.parametrize("opset", [16, 20])
def test_modules_in_branches_and_loops_as_functions(opset: int) -> None:
    scripted = torch.jit.script(Controlled())
    program = onnx_exporter.export(scripted, (X, torch.tensor(3)), opset_version=opset, export_modules_as_functions={Block})
    assert [(domain, name) for domain, name, _ in program.model.functions] == [(Block.__module__, "Block")]
    calls = [node for node in program.model.graph.all_nodes() if node.op_type == "Block"]
    assert len(calls) == 2 and all(node.graph is not program.model.graph for node in calls)
    onnx.checker.check_model(program.model_proto, full_check=True)
    for count in (0, 1, 5):
        program.verify((X, torch.tensor(count)))
        program.verify((-X.abs(), torch.tensor(count)))


@pytest.mark.parametrize("opset", [9, 14])
def test_an_opset_without_functions_is_refused(opset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(onnxexp.OptionError, match=f"functions from opset 15 on; the target is {opset}"):
        onnx_exporter.export(MODEL, X, opset_version=opset, export_modules_as_functions=True)
    monkeypatch.setenv("ONNXEXP_OPSET", str(opset))
    with pytest.raises(onnxexp.OnnxExporterError, match=f"functions from opset 15 on; the target is {opset}"):
        onnx_exporter.export(MODEL, X, export_modules_as_functions=True)


class Parted(torch.nn.Module):
    """Annotated variables, and constants in the forward that are none."""

    scale: float
    sizes: list[int]
    name: str
    flag: bool
    absent: int
    weight: torch.Tensor

    def __init__(self, alpha: float, shift: float) -> None:
        super().__init__()
        self.alpha, self.shift = alpha, shift
        self.scale, self.sizes, self.name, self.flag, self.weight = alpha, [1, 2], "n", True, torch.ones(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.leaky_relu(x, self.alpha) + self.shift


class Outer(torch.nn.Module):
    def __init__(self, alpha: float, shift: float) -> None:
        super().__init__()
        self.inner = Parted(alpha, shift)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * 2


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("opset", [15, 20])
def test_attributes_of_functions(opset: int, capture: str) -> None:
    model = torch.nn.Sequential(Parted(0.1, 1.0), Parted(0.2, 1.0), Outer(0.3, 3.0), Outer(0.4, 4.0), torch.nn.Linear(4, 3))
    asked: dict[str, Any] = {"opset_version": opset, "capture": capture, "input_names": ["x"], "dynamic_axes": {"x": [0]}}
    program = onnx_exporter.export(model, X, export_modules_as_functions=True, **asked)
    functions = {name: list(function.attributes) for (_, name, _), function in program.model.functions.items()}
    annotated = ["flag", "name", "scale", "sizes"]
    assert functions == {
        "Parted": [*annotated, "inferred::value", "inferred::alpha"],
        "Outer": ["inferred::scale", "inferred::value", "inferred::alpha"],
        "Linear": ["in_features", "out_features"],
    }
    calls = {str(node.metadata_props["onnxexp.scope"]): node.attributes for node in program.model.graph}
    assert [calls[scope]["inferred::alpha"].value for scope in ("0", "1", "2", "3")] == [0.1, 0.2, 0.3, 0.4]
    assert calls["1"]["scale"].value == 0.2 and calls["1"]["flag"].value == 1 and list(calls["1"]["sizes"].value) == [1, 2]
    assert (calls["4"]["in_features"].value, calls["4"]["out_features"].value) == (4, 3)
    onnx.checker.check_model(program.model_proto, full_check=True)
    for rows in (3, 1, 7):
        program.verify((torch.randn(rows, 4),))


def test_every_module_as_a_function() -> None:
    model, x = Encoder(3).eval(), torch.randn(2, 5, 32)
    program = onnx_exporter.export(model, x, opset_version=18, export_modules_as_functions=True, verify=True)
    names = {name for _, name, _ in program.model.functions}
    assert {"Linear", "LayerNorm", "TransformerEncoderLayer", "MultiheadAttention"} <= names
    assert len(program.model.graph) == 1
    onnx.checker.check_model(program.model_proto, full_check=True)


def test_a_module_called_twice_and_one_that_is_interleaved() -> None:
    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(torch.relu(self.inner(x)) + 1)

    program = onnx_exporter.export(Twice(), X, opset_version=17, export_modules_as_functions={torch.nn.Linear}, verify=True)
    calls = [node for node in program.model.graph if node.op_type == "Linear"]
    assert len(calls) == 2 and len(program.model.functions) == 1


class NoneOrTensor(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor | None:
        y: torch.Tensor | None = None
        if x.size(0) > 1:
            y = x * 2
        return y


class NoneUntilALoop(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor | None:
        y: torch.Tensor | None = None
        for _ in range(x.size(0)):
            y = x * 2
        return y


@pytest.mark.parametrize("model", [NoneOrTensor(), NoneUntilALoop()], ids=["if", "loop"])
@pytest.mark.parametrize("length", [0, 1, 3])
def test_an_optional_output_has_the_shape_of_the_tensor(model: torch.nn.Module, length: int) -> None:
    scripted = torch.jit.script(model)
    program = onnx_exporter.export(
        scripted, torch.ones(length), opset_version=17, input_names=["x"], dynamic_axes={"x": {0: "n"}}
    )
    expected = onnx.helper.make_optional_type_proto(onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, ("n",)))
    assert program.model_proto.graph.output[0].type == expected
    for x in (torch.ones(0), torch.ones(1), torch.ones(4)):
        result, wanted = program(x)[0], model(x)
        assert (result is None) == (wanted is None)
        assert wanted is None or torch.equal(result, wanted)


class EmptyLists(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        one: list[torch.Tensor] = []
        other: list[torch.Tensor] = []
        return one, other


def test_empty_lists_alone_are_empty_sequences() -> None:
    program = onnx_exporter.export(torch.jit.script(EmptyLists()), (torch.ones(2),))
    assert program(torch.ones(2)) == ([], [])
