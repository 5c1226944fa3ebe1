"""Results of traced and scripted models, and state that a trace does not change."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onnxexp
from onnxexp import CaptureError
from tests.core.exporting import without_context

from .running import exported

X = torch.randn(2, 3)


class Numbers(nn.Module):
    def forward(self, x: Tensor):
        return x + 1, 3, 2.5, True, None


@pytest.mark.parametrize("capture", ["trace", "script"])
def test_numbers_are_outputs(capture) -> None:
    program = exported(Numbers(), (X,), capture=capture, dynamic_axes={"x": {0: "n"}})
    types = {value.name: value.type.dtype.name for value in program.model.graph.outputs}
    assert types == {"output_0": "FLOAT", "output_1": "INT64", "output_2": "FLOAT", "output_3": "BOOL"}
    for rows in (1, 2, 5):
        result = program(x := torch.randn(rows, 3))
        torch.testing.assert_close(result[0], x + 1)
        assert result[1:] == (3, 2.5, True, None)


@pytest.mark.parametrize("capture", ["trace", "script"])
def test_no_output_at_all(capture) -> None:
    class Nothing(nn.Module):
        def forward(self, x: Tensor):
            return None

    with pytest.raises(CaptureError, match="the model returns NoneType, and an ONNX file needs an output"):
        exported(Nothing(), (X,), capture=capture)


class Written(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.t = torch.ones(3)
        self.calls = 0

    def forward(self, x: Tensor):
        self.t.add_(1)
        self.calls += 1
        return self.t + x


@pytest.mark.parametrize("capture", ["trace", "script"])
@pytest.mark.parametrize("rows", [1, 2])
def test_an_attribute_has_the_value_from_before_the_export(capture, rows) -> None:
    model, x = Written(), torch.randn(rows, 3)
    with pytest.warns(UserWarning, match="the forward writes into"):
        program = onnxexp.export(model, (x,), capture=capture)
    assert model.calls == 0 and model.t.tolist() == [1, 1, 1]
    torch.testing.assert_close(program(x), x + 2)


class Holder:
    def __init__(self, keys: Any) -> None:
        self.keys = keys


def test_tensors_inside_an_object_become_no_constants() -> None:
    with pytest.raises(CaptureError, match="the argument held is a Holder, whose tensors would become constants"):
        exported(lambda x, held: x + held.keys, (X, Holder(X)), capture="trace")
    fixed = Holder(3)
    torch.testing.assert_close(exported(lambda x, held: x + held.keys, (X, fixed), capture="trace")(X, fixed), X + 3)


class Failing(nn.Module):
    def forward(self, x: Tensor):
        if torch.jit.is_tracing():
            raise ValueError("no trace")
        return x.reshape(7, -1) if x.shape[0] == 1 else x


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (2, r'the model fails while it is traced: ValueError: no trace; to fix this, write that line .* or use capture="script"'),
        (1, "the model itself fails on the example inputs: RuntimeError: .* to fix this, pass example inputs that it accepts"),
    ],
)
def test_the_fix_of_a_failed_trace(rows, message) -> None:
    with pytest.raises(CaptureError, match=message) as caught:
        exported(Failing(), (torch.ones(rows, 3),), capture="trace")
    assert without_context(caught.value.__cause__)


@pytest.mark.parametrize("wrap", [torch.compile, nn.DataParallel, lambda model: model.compile() or model])
def test_a_wrapped_model(wrap) -> None:
    model = nn.Linear(3, 4)
    program = onnxexp.export(wrap(model), (X,), capture="trace", dynamic_shapes={"input": {0: "n"}})
    assert [value.name for value in program.model.graph.inputs] == ["input"]
    assert set(program.model.graph.initializers) == {"weight", "bias"}


@pytest.mark.parametrize("capture", ["trace", "script"])
def test_weights_of_a_checkpoint(capture, tmp_path) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)).eval()
    with onnxexp.meta_parameters():
        hollow = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)).eval()
    files = []
    for each, weights in ((model, None), (hollow, model.state_dict())):
        files.append(tmp_path / f"{len(files)}.onnx")
        exported(each, (X,), capture=capture, dynamic_axes={"input": {0: "n"}}, weights=weights).save(files[-1])
    assert files[0].read_bytes() == files[1].read_bytes()
    assert all(each.is_meta for each in hollow.parameters())
    if capture == "trace":
        with pytest.raises(
            CaptureError, match="is on the meta device, without data, and its inputs are not; to fix this, pass weights="
        ):
            exported(hollow, (X,), capture=capture)
