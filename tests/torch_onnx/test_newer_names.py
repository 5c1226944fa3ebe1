"""Names of torch.onnx from 2.5 on: `ExportableModule`, `InputObserver`, `verify_onnx_program`, `assert_onnx_program`, the log."""

from __future__ import annotations

import logging
import math
from typing import Any

import pytest
import torch

import onnxexp_torch_onnx as onnx_exporter
from onnxexp import OptionError
from onnxexp_torch_onnx import utils
from onnxexp_torch_onnx.verification import VerificationInfo, verify_onnx_program

assert_onnx_program = onnx_exporter.testing.assert_onnx_program


class Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        return {"sum": x * 2 + 1, "complex": torch.complex(x, x), "none": None, "int": x.shape[1]}


class Exportable(onnx_exporter.ExportableModule):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(3, 2)

    def forward(self, x: torch.Tensor, *, scale: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * scale

    def example_arguments(self) -> Any:
        return (torch.randn(4, 3),), {"scale": torch.ones(2)}

    def input_names(self) -> list[str]:
        return ["image"]

    def output_names(self) -> list[str]:
        return ["logits"]

    def dynamic_shapes(self) -> Any:
        return {"x": {0: "batch"}, "scale": None}


def wrong(program: onnx_exporter.ONNXProgram) -> onnx_exporter.ONNXProgram:
    """Change a node of the program."""
    node = next(node for node in program.model.graph if node.op_type == "Add")
    node.op_type = "Sub"
    program.release()
    return program


@pytest.mark.parametrize("backend", ["onnxruntime", "reference"])
def test_assert_onnx_program(backend: str) -> None:
    program = onnx_exporter.export(Scaled(), (torch.randn(2, 3),), dynamic_shapes=({0: "n"},))
    assert_onnx_program(program, backend=backend)
    assert_onnx_program(program, args=(torch.randn(5, 3),), backend=backend, strategy="TorchExportNonStrictStrategy")
    with pytest.raises(AssertionError, match="not close"):
        assert_onnx_program(wrong(program), backend=backend)
    assert_onnx_program(program, backend=backend, atol=3.0, rtol=0.0)


def test_assert_onnx_program_with_another_backend() -> None:
    program = onnx_exporter.export(Scaled(), (torch.randn(2, 3),))
    with pytest.raises(OptionError, match="backend='tvm'; to fix this, pass one of 'onnxruntime', 'reference'"):
        assert_onnx_program(program, backend="tvm")


def test_verify_onnx_program() -> None:
    program = onnx_exporter.export(Scaled(), (torch.randn(2, 3),))
    found = verify_onnx_program(program)
    assert [info.name for info in found] == [value.name for value in program.model.graph.outputs]
    assert [info.max_abs_diff for info in found] == [0, 0, 0]
    inner = verify_onnx_program(wrong(program), compare_intermediates=True)
    assert [(info.name, info.max_abs_diff) for info in inner if info.max_abs_diff > 1] == [("add", 2.0), (found[0].name, 2.0)]
    assert verify_onnx_program(program, (torch.randn(2, 3),))[0].max_abs_diff == 2.0


def test_verification_info() -> None:
    info = VerificationInfo.from_tensors("x", torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5]))
    assert (info.max_abs_diff, round(info.max_rel_diff, 4)) == (0.5, 0.25)
    assert info.asdict() == {
        "name": "x", "max_abs_diff": 0.5, "max_rel_diff": info.max_rel_diff, "expected_dtype": "torch.float32",
        "abs_diff_hist": [[1.0, 0, 0, 0, 0, 0, 1.0, 0, 0], pytest.approx([0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10, 1e6])],
        "rel_diff_hist": [[1.0, 0, 0, 0, 0, 0, 1.0, 0, 0], pytest.approx([0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10, 1e6])],
        "actual_dtype": "torch.float32",
    }  # fmt: skip
    assert VerificationInfo.from_tensors("x", True, False).max_abs_diff == 1
    assert VerificationInfo.from_tensors("x", torch.ones(2, dtype=torch.uint8), torch.tensor([2, 0])).max_abs_diff == 1
    for other in (torch.ones(0), torch.ones(2, 1)):
        assert VerificationInfo.from_tensors("x", other, torch.ones(2)).max_abs_diff == math.inf


@pytest.mark.parametrize("export", [lambda module: module.to_onnx(), onnx_exporter.export], ids=["to_onnx", "export"])
def test_exportable_module(export: Any) -> None:
    program = export(Exportable())
    graph = program.model.graph
    assert [value.name for value in graph.inputs] == ["image", "scale"] and graph.outputs[0].name == "logits"
    program.verify((torch.randn(7, 3),), {"scale": torch.randn(2)})


def test_exportable_module_with_other_arguments() -> None:
    program = Exportable().to_onnx(input_names=["x"], dynamic_shapes={"x": {0: "n"}, "scale": {}}, opset_version=17)
    assert program.model.graph.inputs[0].name == "x" and str(program.model.graph.inputs[0].shape) == "[n,3]"
    given = onnx_exporter.export(Exportable(), (torch.randn(2, 3),), kwargs={"scale": torch.ones(2)})
    assert given.model.graph.inputs[0].shape == [2, 3], "with an example, the module is as any other"


def test_exportable_module_of_torch_while_installed() -> None:
    of_torch: Any = pytest.importorskip("torch.onnx", reason="torch 2.11 has it").ExportableModule
    methods = {name: value for name, value in vars(Exportable).items() if not name.startswith("__")}

    class Model(of_torch):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(3, 2)

    for name, method in methods.items():
        if callable(method):
            setattr(Model, name, method)
    Model.__abstractmethods__ = frozenset()
    with onnx_exporter.installed():
        program: Any = Model().to_onnx()
    assert program.model.producer_name == "onnxexp" and program.model.graph.outputs[0].name == "logits"


@pytest.mark.skipif(not hasattr(torch.onnx, "InputObserver"), reason="torch 2.13 and later have it")
def test_input_observer() -> None:
    model = torch.nn.Linear(3, 2)
    observer: Any = onnx_exporter.InputObserver()
    with observer(model):
        for size in (2, 5):
            model(torch.randn(size, 3))
    program = onnx_exporter.export(model, observer.infer_arguments(), dynamic_shapes=observer.infer_dynamic_shapes())
    results = observer.check_discrepancies(program)
    assert len(results) == 2 and all(each["SUCCESS"] for each in results)


def test_the_log_and_its_stream(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("onnxexp"), "propagate", False)  # without pytest's own handlers
    onnx_exporter.log("off")
    onnx_exporter.enable_log()
    try:
        assert onnx_exporter.is_onnx_log_enabled()
        onnx_exporter.log("to", 1)
        onnx_exporter.set_log_stream("stderr")
        onnx_exporter.log("to", 2)
        with pytest.raises(OptionError, match="stream_name='file'; to fix this, pass 'stdout' or 'stderr'"):
            onnx_exporter.set_log_stream("file")
    finally:
        onnx_exporter.disable_log()
    assert not onnx_exporter.is_onnx_log_enabled()
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("to 1\n", "to 2\n")


def test_exporter_context() -> None:
    model = torch.nn.Dropout()
    with utils.exporter_context(model, onnx_exporter.TrainingMode.EVAL, True) as parts:
        assert not model.training and parts == (None, None, None) and onnx_exporter.is_onnx_log_enabled()
    assert model.training and not onnx_exporter.is_onnx_log_enabled()
    with utils.setup_onnx_logging(False):
        assert not onnx_exporter.is_onnx_log_enabled()


def test_unpack_quantized_tensor() -> None:
    x = torch.quantize_per_tensor(torch.tensor([0.5, 1.0]), 0.5, 3, torch.quint8)
    integers, scale, zero_point = utils.unpack_quantized_tensor(x)
    assert (integers.tolist(), integers.dtype) == ([4, 5], torch.uint8)
    assert (scale.item(), scale.dtype, zero_point.item(), zero_point.dtype) == (0.5, torch.float64, 3, torch.int64)
    assert [each.dtype for each in utils.unpack_quantized_tensor(x, False)] == [torch.uint8, torch.float32, torch.uint8]
    assert utils.unpack_quantized_tensor("text") == ("text",)
