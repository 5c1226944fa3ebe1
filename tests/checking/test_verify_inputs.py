"""`ONNXProgram.verify` on several and random inputs, sizes, and both backends."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import onnxexp
from tests.checking import networks


class Scale(torch.nn.Module):
    """A scale by the number of columns, which a trace fixes without a guard."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * float(int(x.shape[1]))


class Dropped(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> Any:
        return torch.nn.functional.dropout(self.linear(x), 0.5, self.training), self.linear(x)


def frozen() -> onnxexp.ONNXProgram:
    """Export a trace that has fixed a size, without the check that would refuse it."""
    x = torch.randn(2, 6)
    return networks.quietly_exported(
        Scale(), {"x": x}, dynamic_shapes={"x": {0: "batch", 1: "n"}}, capture="trace", check_sizes=False
    )  # type: ignore[no-any-return]


def test_a_frozen_size_is_found() -> None:
    program = frozen()
    assert program.verify().ok, "the example hides it"
    with pytest.raises(onnxexp.VerificationError, match=r"where axis 0 of x is 3, axis 1 of x is 5.*\n.*max abs error") as caught:
        program.verify(inputs="sizes")
    report = caught.value.report
    assert report is not None and report.cases[0].ok and not report.ok and len(report.cases) == 4


def test_a_frozen_size_stops_an_export(tmp_path: Any) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"an older file")
    with pytest.raises(onnxexp.VerificationError, match="axis 1 of x"):
        networks.quietly_exported(
            Scale(), {"x": torch.randn(2, 6)}, f=path, dynamic_shapes={"x": {1: "n"}}, capture="trace", check_sizes=False,
            verify="sizes",
        )  # fmt: skip
    assert path.read_bytes() == b"an older file"


def test_the_same_size_computed_is_right() -> None:
    program = networks.quietly_exported(Scale(), {"x": torch.randn(2, 6)}, dynamic_shapes={"x": {0: "batch", 1: "n"}})
    report = program.verify(inputs="sizes")
    shapes = [case.outputs[0].actual for case in report.cases]
    assert report.ok and len(set(shapes)) == len(shapes) == 4 and "float32[4, 12]" in shapes


def test_several_inputs() -> None:
    program = networks.quietly_exported(torch.nn.Tanh(), {"input": torch.randn(3)}, dynamic_shapes={"input": {0: "n"}})
    report = program.verify(inputs=[(torch.randn(5),), torch.full((2,), torch.inf), {"input": torch.tensor([torch.nan, 1.0])}])
    assert report.ok and [case.inputs for case in report.cases] == [f"the inputs are inputs[{index}]" for index in range(3)]
    assert "the inputs are inputs[2]: 1 of 1 outputs agree" in str(report)


def test_random_inputs_keep_ranges() -> None:
    model, example = networks.bert()
    program = networks.quietly_exported(model, example)
    report = program.verify(inputs="random", seed=3)  # the ids stay within the vocabulary
    assert report.ok and report.outputs[0].max_abs > 0 and report.snr > 60


@pytest.mark.parametrize("inputs", ["sizs", [], 3])
def test_inputs_that_are_none(inputs: Any) -> None:
    program = networks.quietly_exported(torch.nn.ReLU(), {"input": torch.randn(3)})
    with pytest.raises(onnxexp.OptionError, match="give a list of argument tuples, 'random', 'sizes'"):
        program.verify(inputs=inputs)


def test_the_reference_evaluator() -> None:
    program = networks.quietly_exported(torch.nn.Linear(4, 3), {"input": torch.randn(2, 4)})
    assert program.verify(backend="reference").ok
    with pytest.raises(onnxexp.OptionError, match="choose 'onnxruntime' or 'reference'"):
        program.verify(backend="tensorrt")


def test_tolerances_by_dtype() -> None:
    table = onnxexp.SymbolicTable("aten", override=True)

    @table("tanh")
    def off_by_little(op: Any, x: Any) -> Any:
        return op.Add(op.Tanh(x), 0.01)

    program = networks.quietly_exported(torch.nn.Tanh(), {"input": torch.randn(3)}, plugins=[table, ...])
    with pytest.raises(onnxexp.VerificationError):
        program.verify()
    assert program.verify(tolerances={torch.float32: (0.0, 0.02)}).ok
    with pytest.raises(onnxexp.VerificationError):
        program.verify(tolerances={torch.float64: (0.0, 0.02)})


def test_random_outputs_are_compared_by_type() -> None:
    program = networks.quietly_exported(Dropped(), {"x": torch.randn(2, 6)}, training="TRAINING")
    report = program.verify()
    assert [bool(each.note) for each in report.outputs] == [True, False] and "random values" in str(report)
    mismatch = program.find_mismatch()
    assert mismatch.ok and any(each.note == "random numbers" for each in mismatch.nodes), str(mismatch)


def test_a_size_that_the_model_refuses_is_left_out() -> None:
    class Even(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if torch.jit.is_tracing() or torch.compiler.is_exporting():
                return x + 1
            if x.shape[0] % 2:
                raise ValueError("an even batch, please")
            return x + 1

    program = networks.quietly_exported(Even(), {"x": torch.randn(4, 2)}, dynamic_shapes={"x": {0: "batch"}})
    report = program.verify(inputs="sizes")
    assert report.ok and report.skipped and "an even batch, please" in str(report)
