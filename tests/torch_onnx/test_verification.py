"""find_mismatch, verify, and the names of torch 2.1's preview."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path
from typing import Any

import onnx
import onnxscript
import pytest
import torch

import onnxexp
import onnxexp_torch_onnx as onnx_exporter
from onnxexp._model.onnxruntime_session import Session
from onnxexp_torch_onnx.verification import GraphInfo, OnnxBackend, VerificationOptions, find_mismatch, verify


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(self.linear(x)).relu() + torch.sigmoid(x) * 2


MODEL, X = Model(), torch.randn(3, 4)


def wrong(opset: int = 9) -> None:
    onnx_exporter.register_custom_op_symbolic("aten::gelu", lambda g, x, approximate: g.op("Tanh", x), opset)


def test_nothing_differs(capsys: pytest.CaptureFixture[str]) -> None:
    info = find_mismatch(MODEL, X, opset_version=15)
    assert not info.has_mismatch() and info.upper_graph_info is None
    assert info.essential_node_count() == 6 and "aten::gelu" in info.essential_node_kinds()
    info.pretty_print_mismatch()
    assert capsys.readouterr().out == "nothing differs\n"


def test_the_operator_at_fault_is_found(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    wrong()
    info = find_mismatch(MODEL, (X,), opset_version=15)
    assert info.has_mismatch()
    (leaf,) = info.all_mismatch_leaf_graph_info()
    assert [node.op for node in leaf.graph] == ["aten::gelu"] and "gelu" in str(leaf.mismatch_error)
    assert info.find_partition(leaf.id) is leaf and info.find_partition("0000000") is None
    info.pretty_print_tree()
    info.pretty_print_mismatch(graph=True)
    printed = capsys.readouterr().out
    assert printed.count("x id:") == len(leaf.id) + 1 and "elements are off" in printed
    assert "torch.nn.functional.gelu(self.linear(x))" in printed  # the user's line
    folder = Path(leaf.export_repro(str(tmp_path)))
    assert sorted(path.name for path in folder.iterdir()) == ["data.pt", "mismatch.txt", "model.onnx", "repro.py"]
    onnx.checker.check_model(onnx.load(folder / "model.onnx"))
    info.clear()
    assert not info.has_mismatch()


def test_what_only_passes_an_error_on_is_not_at_fault() -> None:
    wrong()
    info = find_mismatch(MODEL, X)
    assert {node.op for leaf in info.all_mismatch_leaf_graph_info() for node in leaf.graph} == {"aten::gelu"}


def test_tolerances_of_find_mismatch() -> None:
    onnx_exporter.register_custom_op_symbolic("aten::sigmoid", lambda g, x: g.op("Add", g.op("Sigmoid", x), 1e-4), 9)
    assert find_mismatch(MODEL, X).has_mismatch()
    info = find_mismatch(MODEL, X, options=VerificationOptions(rtol=1e-3, atol=1e-2))
    assert isinstance(info, GraphInfo) and not info.has_mismatch()
    info.find_mismatch(VerificationOptions(rtol=1e-6, atol=1e-6))
    (leaf,) = info.all_mismatch_leaf_graph_info()
    assert [node.op for node in leaf.graph] == ["aten::sigmoid"]
    info.find_mismatch(VerificationOptions(atol=1e-2))
    assert not info.has_mismatch() and info.upper_graph_info is None


class TwoRelus(torch.nn.Module):
    """torch's example: an operator that is wrong twice, with others after it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


@pytest.mark.parametrize("form", ["module", "script", "trace"])
def test_each_operator_at_fault_is_found(form: str) -> None:
    model: Any = TwoRelus().eval()
    if form == "script":
        model = torch.jit.script(model)
    elif form == "trace":
        model = torch.jit.trace(model, X)
    assert not find_mismatch(model, X, opset_version=15).has_mismatch()
    onnx_exporter.register_custom_op_symbolic("aten::relu", lambda g, x: x, 9)
    info = find_mismatch(model, X, opset_version=15)
    leaves = info.all_mismatch_leaf_graph_info()
    assert [node.op for leaf in leaves for node in leaf.graph] == ["aten::relu"] * 2
    assert info.export_options["opset_version"] == 15 and info.input_args[0] is X and len(info.params_dict) == 6
    error, onnx_model, onnx_outs, pt_outs = leaves[0].verify_export(VerificationOptions())
    assert "relu" in str(error) and onnx_model is info.model and pt_outs == leaves[0].pt_outs
    assert onnx_outs[0].shape == pt_outs[0].shape == (3, 5)


@pytest.mark.parametrize("backend", [OnnxBackend.ONNX_RUNTIME_CPU, OnnxBackend.REFERENCE])
def test_verify(backend: OnnxBackend) -> None:
    options = VerificationOptions(backend=backend, rtol=1e-4, atol=1e-5)
    others = [torch.randn(5, 4), (torch.randn(1, 4),)]
    arguments: dict[str, Any] = {"input_names": ["x"], "dynamic_axes": {"x": [0]}, "additional_test_inputs": others}
    verify(MODEL, X, opset_version=18, options=options, **arguments)
    wrong()
    with pytest.raises(onnxexp.VerificationError, match="output 0"):
        verify(MODEL, X, opset_version=18, options=options, **arguments)
    verify(MODEL, X, options=VerificationOptions(backend=backend, acceptable_error_percentage=1.0))


def test_dynamo_export(tmp_path: Path) -> None:
    output = onnx_exporter.dynamo_export(MODEL, X)
    assert isinstance(output, onnx_exporter.ExportOutput) and isinstance(output.model_proto, onnx.ModelProto)
    inputs = output.adapt_torch_inputs_to_onnx(X)
    (result,) = Session(output.program.model).run({"x": inputs[0]})
    (expected,) = output.adapt_torch_outputs_to_onnx(MODEL(X))
    torch.testing.assert_close(result, expected.detach())
    torch.testing.assert_close(output(X), expected.detach())
    output.save(str(tmp_path / "model.onnx"))
    onnx.checker.check_model(str(tmp_path / "model.onnx"))


def test_dynamo_export_with_dynamic_shapes() -> None:
    options = onnx_exporter.ExportOptions(dynamic_shapes=True, op_level_debug=True)
    output = onnx_exporter.dynamo_export(Model(), X, export_options=options)
    assert output(torch.randn(7, 4)).shape == (7, 4)


def test_dynamo_export_with_dynamic_shapes_of_a_variable_number_of_inputs() -> None:
    class Sum(torch.nn.Module):
        def forward(self, *xs: torch.Tensor, **named: torch.Tensor) -> torch.Tensor:
            return sum(xs) + named["last"]

    options = onnx_exporter.ExportOptions(dynamic_shapes=True)
    output = onnx_exporter.dynamo_export(Sum(), X, X, last=X, export_options=options)
    x = torch.randn(7, 5)
    torch.testing.assert_close(output(x, x, last=x), 3 * x)


def test_diagnostics() -> None:
    onnx_exporter.register_custom_op_symbolic("aten::gelu", lambda g, x, approximate: g.op("Foo", x), 9)
    quiet, strict = onnx_exporter.DiagnosticOptions(), onnx_exporter.DiagnosticOptions(logging.DEBUG, warnings_as_errors=True)
    with pytest.warns(UserWarning, match="no operator Foo"):
        onnx_exporter.dynamo_export(MODEL, X, export_options=onnx_exporter.ExportOptions(diagnostic_options=quiet))
    before = logging.getLogger("onnxexp").level
    with pytest.raises(onnxexp.OnnxExporterError, match="no operator Foo"):
        onnx_exporter.dynamo_export(MODEL, X, export_options=onnx_exporter.ExportOptions(diagnostic_options=strict))
    assert logging.getLogger("onnxexp").level == before


def test_warnings_of_an_export_as_sarif(tmp_path: Path) -> None:
    onnx_exporter.register_custom_op_symbolic("aten::gelu", lambda g, x, approximate: g.op("Foo", x), 9)
    with pytest.warns(UserWarning, match="no operator Foo"):
        output = onnx_exporter.dynamo_export(MODEL, X)
    (diagnostic,) = output.diagnostic_context.diagnostics
    assert (diagnostic.rule, diagnostic.level) == ("UserWarning", "warning") and "no operator Foo" in diagnostic.message
    output.save_diagnostics(tmp_path / "report.sarif")
    log = json.loads((tmp_path / "report.sarif").read_text("utf-8"))
    (run,) = log["runs"]
    assert log["version"] == "2.1.0" and run["tool"]["driver"]["name"] == "onnxexp"
    assert run["tool"]["driver"]["rules"] == [{"id": "UserWarning"}] and run["invocations"] == [{"executionSuccessful": True}]
    assert run["results"][0]["message"]["text"] == diagnostic.message
    with pytest.raises(onnx_exporter.InvalidExportOptionsError, match=r"ends in \.sarif"):
        output.save_diagnostics(tmp_path / "report.json")


def test_errors_of_an_export_as_sarif(tmp_path: Path) -> None:
    first, second = (
        torch.library.custom_op(f"sarif::{name}", torch.clone, mutates_args=(), schema="(Tensor x) -> Tensor")
        for name in ("first", "second")
    )
    for each in (first, second):
        each.register_fake(torch.empty_like)

    class Odd(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = first(x)
            return second(y) + second(x)

    with pytest.raises(onnx_exporter.OnnxExporterError) as caught:
        onnx_exporter.dynamo_export(Odd(), X)
    output = caught.value.export_output
    output.save_diagnostics(tmp_path / "report.sarif")
    (run,) = json.loads((tmp_path / "report.sarif").read_text("utf-8"))["runs"]
    texts = {result["message"]["text"].partition(" ")[0]: result["locations"] for result in run["results"]}
    assert set(texts) == {"sarif::first", "sarif::second"}
    (place,) = texts["sarif::first"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == Path(__file__).as_uri()
    assert place["physicalLocation"]["region"]["startLine"] > 1 and run["invocations"] == [{"executionSuccessful": False}]
    with pytest.raises(onnx_exporter.UnsupportedOperatorError):
        output.model_proto
    with pytest.raises(onnx_exporter.UnsupportedOperatorError):
        output.save(tmp_path / "model.onnx")


def test_names_of_other_editions() -> None:
    assert onnx_exporter.ONNXProgramSerializer is onnx_exporter.ExportOutputSerializer
    assert onnx_exporter.unconvertible_ops is onnx_exporter.utils.unconvertible_ops
    assert onnx_exporter.is_onnxrt_backend_supported() == ("onnxrt" in torch._dynamo.list_backends())
    model = onnx_exporter.export(MODEL, X).model
    assert (model.producer_name, model.producer_version) == (onnx_exporter.producer_name, onnx_exporter.producer_version)
    assert issubclass(onnx_exporter.OnnxExporterWarning, UserWarning)
    assert onnx_exporter.ExportTypes.PROTOBUF_FILE == "Saved model as a protobuf file"


def test_a_serializer_of_ones_own(tmp_path: Path) -> None:
    class Text:
        def serialize(self, export_output: Any, destination: io.BufferedIOBase) -> None:
            destination.write(onnx.printer.to_text(export_output.model_proto).encode())

    assert isinstance(Text(), onnx_exporter.ExportOutputSerializer)
    output = onnx_exporter.dynamo_export(MODEL, X)
    output.save(str(tmp_path / "model.txt"), serializer=Text())
    assert "Gelu" in (tmp_path / "model.txt").read_text()
    file = io.BytesIO()
    output.save(file, serializer=Text())
    assert file.getvalue() == (tmp_path / "model.txt").read_bytes()


def test_models_without_weights(tmp_path: Path) -> None:
    with onnx_exporter.enable_fake_mode() as fake_context:
        model, x = Model(), torch.randn(3, 4)
    output = onnx_exporter.dynamo_export(model, x, export_options=onnx_exporter.ExportOptions(fake_context=fake_context))
    torch.save(MODEL.state_dict(), tmp_path / "weights.pt")
    with pytest.raises(onnxexp.OptionError, match="no linear.weight"):
        output.save(str(tmp_path / "model.onnx"), model_state_dict={})
    output.save(str(tmp_path / "model.onnx"), model_state_dict=str(tmp_path / "weights.pt"))
    loaded = onnx.load(tmp_path / "model.onnx")
    assert [value.name for value in loaded.graph.input] == ["x"] and len(loaded.graph.initializer) >= 2
    torch.testing.assert_close(output(X), MODEL(X).detach())


def test_a_registry_of_ones_own() -> None:
    from onnxscript.onnx_opset import opset18 as op

    domain = onnxscript.values.Opset("mine", 1)

    @onnxscript.script(domain)
    def gelu(X):
        return op.Mul(X, op.Sigmoid(X))

    registry = onnx_exporter.OnnxRegistry(18)
    assert registry.opset_version == 18 and not registry.is_registered_op("mine", "foo")
    before = registry.get_op_functions("aten", "gelu", "default")
    registry.register_op(gelu, "aten", "gelu")
    assert registry.get_op_functions("aten", "gelu", "default") == [*(before or []), gelu]
    options = onnx_exporter.ExportOptions(onnx_registry=registry)
    output = onnx_exporter.dynamo_export(torch.nn.GELU(), X, export_options=options)
    assert output.program.model.opset_imports[""] == 18
    torch.testing.assert_close(output(X), torch.nn.functional.silu(X))


def test_unconvertible_ops_of_a_model_that_is_fine() -> None:
    graph, missing = onnx_exporter.utils.unconvertible_ops(MODEL, X, opset_version=20)
    assert missing == [] and len(graph.nodes) == 6
