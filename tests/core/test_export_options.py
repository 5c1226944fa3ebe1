"""The options of `export`, and the errors for bad ones."""

from __future__ import annotations

import io
import os
import re
import warnings
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import onnxexp
from onnxexp import CaptureError, OptionError, PluginLoadError, SerializeError, TrainingMode
from tests.core.exporting import Affine, X, kinds, names, same, valid
from tests.core.tiny import TINY, export

# Training


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Dropout(0.5), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


@pytest.mark.parametrize("given", ["enum", "string", "torch"])
@pytest.mark.parametrize("was_training", [True, False])
@pytest.mark.parametrize("mode", ["EVAL", "TRAINING", "PRESERVE"])
def test_the_training_mode_and_that_it_is_put_back(mode: str, was_training: bool, given: str) -> None:
    model = Noisy().train(was_training)
    model.inner[1].training = not was_training
    training: Any = {"enum": TrainingMode[mode], "string": mode.lower(), "torch": getattr(torch.onnx.TrainingMode, mode)}[given]
    program = valid(export(model, (X,), training=training, opset_version=15))
    expected = mode == "TRAINING" or (mode == "PRESERVE" and was_training)
    assert ("Dropout" in kinds(program)) is expected
    assert (model.training, model.inner[0].training, model.inner[1].training) == (was_training, was_training, not was_training)


def test_the_mode_is_put_back_after_a_failure() -> None:
    class Broken(Noisy):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("broken")

    model = Broken().train()
    with pytest.raises(CaptureError, match="broken"):
        export(model, (X,))
    assert model.training and model.inner[0].training


def test_grad_modes_make_no_difference(tmp_path: Path) -> None:
    model = nn.Sequential(Affine(), Affine())
    written = []
    for index, mode in enumerate([torch.enable_grad, torch.no_grad, torch.inference_mode]):
        path = tmp_path / f"{index}.onnx"
        with mode():
            export(model, (X,), path)
        written.append(path.read_bytes())
    assert written[0] == written[1] == written[2]


def test_requires_grad_is_left_alone() -> None:
    model, given = Affine(), X.clone().requires_grad_()
    export(model, (given,))
    assert model.weight.requires_grad and given.requires_grad
    assert model.weight.grad is None


# Options


@pytest.mark.parametrize("opset", [8, 0, -1, 29, 30, "18", 18.0, True])
def test_opsets_out_of_range(opset: Any) -> None:
    with pytest.raises(OptionError, match=r"opset_version is .*; expected a whole number from 9 to 28"):
        export(torch.relu, (X,), opset_version=opset)


@pytest.mark.parametrize("opset", [None, *range(9, 29)])
def test_the_opset_asked_for_comes_out(opset: int | None) -> None:
    program = valid(export(Affine(), (X,), opset_version=opset))
    assert {entry.domain: entry.version for entry in program.model_proto.opset_import} == {"": opset or 20}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capture": "dynamo"}, "capture is 'dynamo'; it may be 'auto' or 'export'"),
        ({"capture": "scrip"}, "capture is 'scrip' (did you mean 'script'?)"),
        ({"opset": 17}, "export has no argument 'opset' (did you mean 'opset_version'?)"),
        ({"dynamic_axis": {}}, "export has no argument 'dynamic_axis' (did you mean 'dynamic_axes'?)"),
        ({"aten": True}, "export has no argument 'aten'; onnxexp_torch_onnx.export takes torch.onnx's former arguments"),
        ({"custom_opsets": [1]}, "custom_opsets is [1]; it is a dict of versions"),
        ({"operator_export_type": "ONNX_ATTEN"}, "operator_export_type is 'ONNX_ATTEN' (did you mean 'ONNX_ATEN'?)"),
        ({"operator_export_type": 3}, "operator_export_type is 3; it may be"),
        ({"training": "trainig"}, "training is 'trainig' (did you mean 'TRAINING'?)"),
        ({"training": "maybe"}, "training is 'maybe'; it may be"),
        ({"training": None}, "training is None; it may be"),
        ({"custom_opsets": {"": 3}}, "opset_version is the version of ONNX's own"),
        ({"custom_opsets": {"ai.onnx": 3}}, "opset_version is the version of ONNX's own"),
        ({"custom_opsets": {"mine": 0}}, "custom_opsets['mine'] is 0; a domain's version is a whole number from 1 on"),
        ({"custom_opsets": {"mine": "1"}}, "custom_opsets['mine'] is '1'"),
        ({"export_params": False, "keep_initializers_as_inputs": True}, "give one of the two"),
        ({"input_names": ["a", "b"]}, "input_names gives 2 names (a, b), but the model has 1 input: x"),
        ({"input_names": ["a", "a"]}, "input_names gives"),
        ({"input_names": "abc"}, "input_names must be a list of names"),
        ({"input_names": [""]}, "input_names must be a list of names"),
        ({"output_names": ["a", "b"]}, "output_names gives 2 names (a, b), but the model has 1 output: output"),
        ({"output_names": ["x"]}, "output_names: 'x' is already the name of an input"),
        ({"dynamic_axes": {"z": [0]}}, "'z'"),
        ({"dynamic_axes": {"x": [2]}}, "2"),
        ({"dynamic_axes": {"x": {-3: "batch"}}}, "-3"),
        ({"dynamic_axes": {"x": {0: 5}}}, "5"),
        ({"dynamic_axes": {"x": {"0": "batch"}}}, "'0'"),
        ({"dynamic_axes": ["x"]}, "dynamic_axes"),
        ({"dynamic_shapes": {"z": {0: "batch"}}}, "'z'"),
        ({"dynamic_shapes": {"x": {2: "batch"}}}, "2"),
        ({"dynamic_shapes": {"x": {0: "batch"}}, "dynamic_axes": {"x": [0]}}, "dynamic_axes"),
    ],
)
def test_options_that_cannot_be_honoured(options: dict[str, Any], message: str) -> None:
    class One(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.relu()

    with pytest.raises(OptionError, match=re.escape(message)):
        export(One(), (X,), **options)


def test_a_plugin_that_is_missing() -> None:
    with pytest.raises(PluginLoadError, match=r"there is no plugin 'aten2'.*installed: "):
        onnxexp.export(torch.relu, (X,), plugins=["aten2"])
    with pytest.raises(OptionError, match="plugins is .3., with 3 in it; expected a list of plugin names"):
        onnxexp.export(torch.relu, (X,), plugins=[3])  # type: ignore[list-item]


def test_no_plugin_at_all() -> None:
    with pytest.raises(onnxexp.UnsupportedOperators, match="no plugin is selected, so none of the 1 operators") as raised:
        onnxexp.export(torch.relu, (X,), plugins=[])
    assert raised.value.counts == {"aten::relu": 1}
    assert onnxexp.export(lambda x: x, (X,), plugins=[])(X) is not None


def test_without_parameters(tmp_path: Path) -> None:
    model = Affine()
    program = valid(export(model, (X,), tmp_path / "m.onnx", export_params=False))
    assert names(program)[0] == ["x", "weight", "shift"]
    assert not program.model_proto.graph.initializer
    same(program(X), model(X))


def test_parameters_among_the_inputs() -> None:
    model = Affine()
    program = valid(export(model, (X,), keep_initializers_as_inputs=True))
    assert [value.name for value in program.model_proto.graph.input] == ["x", "weight", "shift"]
    assert len(program.model_proto.graph.initializer) == 2
    same(program(X), model(X))


def test_each_parameter_is_an_input_of_its_own() -> None:
    class Equal(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))
            self.register_buffer("again", torch.ones(3))
            self.weight = nn.Parameter(torch.eye(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * self.scale * self.again * torch.tensor([1.0, 1.0, 1.0])) @ self.weight.t()

    model, x = Equal(), torch.randn(2, 3)
    program = valid(export(model, (x,), keep_initializers_as_inputs=True))
    assert [value.name for value in program.model_proto.graph.input] == ["x", "scale", "weight", "again"]
    given = {"x": x, "again": torch.tensor([1.0, 2.0, 3.0]), "weight": torch.randn(3, 3)}
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    (found,) = session.run(None, {name: tensor.numpy() for name, tensor in given.items()})
    same(torch.from_numpy(found), x * given["again"] @ given["weight"].t())


def test_folding_is_an_option() -> None:
    class Folds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.weight.t()

    model = Folds()
    assert kinds(valid(export(model, (X,)))) == ["MatMul"]
    program = valid(export(model, (X,), do_constant_folding=False))
    assert kinds(program) == ["Transpose", "MatMul"]
    same(program(X), model(X))


def test_custom_opsets() -> None:
    mine = onnxexp.SymbolicTable("aten", override=True)

    @mine("sin")
    def sin(op: onnxexp.Builder, self: onnxexp.Tensor) -> Any:
        return op.domain("mine").Sine(self, scale=2.0)

    program = export(torch.sin, (X,), plugins=[mine], custom_opsets={"mine": 7, "unused": 3})
    assert {entry.domain: entry.version for entry in program.model_proto.opset_import} == {"": 20, "mine": 7}
    assert kinds(program) == ["Sine"]


def test_what_a_foreign_operator_gives_has_the_type_that_torch_says() -> None:
    mine = onnxexp.SymbolicTable("aten", override=True)

    @mine("topk")
    def topk(op: onnxexp.Builder, self: onnxexp.Tensor, k: int, dim: int, largest: bool, sorted: bool) -> Any:
        return op.domain("mine").Top(self, k=k, outputs=2)

    @mine("gt.Scalar")
    def gt(op: onnxexp.Builder, self: onnxexp.Tensor, other: float) -> Any:
        return op.domain("mine").Greater(self, than=other)

    def forward(x: torch.Tensor) -> Any:
        values, indices = x.topk(2)
        return values > 0.5, indices

    model = export(forward, (X,), plugins=[mine], dynamic_shapes={"x": {0: "n"}}).model
    assert [f"{value.dtype!r}{value.shape}" for value in model.graph.outputs] == ["BOOL[n,2]", "INT64[n,2]"]


# Files


def test_a_path_and_a_file_get_the_same_bytes(tmp_path: Path) -> None:
    model = Affine()
    export(model, (X,), tmp_path / "a.onnx")
    export(model, (X,), str(tmp_path / "b.onnx"))
    file = io.BytesIO()
    export(model, (X,), file)
    with open(tmp_path / "c.onnx", "wb") as opened:
        export(model, (X,), opened)
    written = {(tmp_path / name).read_bytes() for name in ("a.onnx", "b.onnx", "c.onnx")} | {file.getvalue()}
    assert len(written) == 1
    onnx.checker.check_model(str(tmp_path / "a.onnx"), full_check=True)


def test_weights_beside_the_file(tmp_path: Path) -> None:
    class Wide(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(64, 64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.weight

    export(Wide(), (torch.randn(2, 64),), tmp_path / "m.onnx", external_data=True)
    assert {path.name for path in tmp_path.iterdir()} == {"m.onnx", "m.onnx.data"}
    onnx.checker.check_model(str(tmp_path / "m.onnx"), full_check=True)


@pytest.mark.parametrize("where", ["missing/m.onnx", "."])
def test_a_path_that_cannot_be_written(tmp_path: Path, where: str) -> None:
    with pytest.raises(SerializeError):
        export(torch.relu, (X,), tmp_path / where)


def test_what_is_no_file() -> None:
    with pytest.raises((OptionError, SerializeError)):
        export(torch.relu, (X,), io.StringIO())
    with pytest.raises((OptionError, SerializeError)):
        export(torch.relu, (X,), 3)


def test_nothing_is_printed_unless_asked(capfd: pytest.CaptureFixture[str]) -> None:
    export(Affine(), (X,))
    with pytest.raises(CaptureError):
        export(lambda x: x.relu() if x.sum() > 0 else x, (X,), capture="export")
    with pytest.raises(onnxexp.UnsupportedOperators):
        export(torch.erfinv, (X,))
    assert capfd.readouterr() == ("", "")
    export(Affine(), (X,), verbose=True)
    assert "MatMul" in capfd.readouterr().out


def test_no_warning_of_ours_or_torchs() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        export(Affine(), (X,), dynamic_shapes=({0: "batch"},))


def test_no_absolute_path_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    export(Affine(), (X,), path)
    content = path.read_bytes()
    for part in (str(tmp_path), os.path.dirname(__file__), os.path.expanduser("~"), os.sep + "site-packages"):
        assert part.encode() not in content


def test_verify_compares() -> None:
    export(Affine(), (X,), verify=True)
    wrong = onnxexp.SymbolicTable("aten", override=True)
    wrong.direct({"sin": "Cos"})
    with pytest.raises(onnxexp.VerificationError, match="output"):
        export(torch.sin, (X,), plugins=[wrong], verify=True)


def _frozen_at(rows: int) -> onnxexp.SymbolicTable:
    """Build a table whose `sin` is right for this number of rows only."""
    table = onnxexp.SymbolicTable("aten", override=True)

    @table("sin")
    def sin(op: onnxexp.Builder, self: onnxexp.Tensor) -> onnxexp.Tensor:
        """sin(Tensor self) -> Tensor"""
        size = op.Gather(op.Shape(self), 0)
        return op.Mul(op.Sin(self), op.Cast(op.Equal(size, rows), to=onnx.TensorProto.FLOAT))  # type: ignore[no-any-return]

    return table


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dynamic_axes": {"x": {0: "batch"}}}, "where axis 0 of x is 1: the exported model disagrees"),
        (
            {"dynamic_shapes": {"x": {0: torch.export.Dim("batch", min=2)}}},
            "where axis 0 of x is 3: the exported model disagrees",
        ),
        ({"dynamic_shapes": {"x": {0: 2 * torch.export.Dim("half", min=1)}}}, "where axis 0 of x is 6: the exported model disag"),
    ],
)
def test_verify_tries_other_sizes_before_the_file_is_replaced(options: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"earlier")
    with pytest.raises(onnxexp.VerificationError, match=message):
        export(lambda x: x.sin(), (X,), path, plugins=[_frozen_at(2)], verify=True, **options)
    assert path.read_bytes() == b"earlier"
    export(torch.sin, (X,), path, plugins=[_frozen_at(2)], verify=True)


def test_verify_stays_within_the_ranges() -> None:
    tried: list[int] = []

    class Noting(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if isinstance(x.shape[0], int):
                tried.append(x.shape[0])
            return x.sin()

    export(Noting(), (X,), dynamic_shapes={"x": {0: torch.export.Dim("batch", min=2, max=3)}}, verify=True)
    assert set(tried) == {2, 3}


def test_verify_leaves_out_sizes_that_the_model_refuses() -> None:
    class Picky(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch._check(x.shape[0] % 2 == 0)
            return x.sin()

    export(Picky(), (X,), dynamic_axes={"x": {0: "batch"}}, verify=True)


# Around the export


def test_both_torch_and_we_say_that_an_export_runs() -> None:
    said = []

    def forward(x: torch.Tensor) -> torch.Tensor:
        said.append((torch.onnx.is_in_onnx_export(), onnxexp.is_in_onnx_export()))
        return x + 1

    export(forward, (X,))
    assert said and set(said) == {(True, True)}
    assert not torch.onnx.is_in_onnx_export() and not onnxexp.is_in_onnx_export()


def test_timings_by_stage() -> None:
    assert list(export(Affine(), (X,), io.BytesIO(), verify=True).timings) == [
        "capture", "pre passes", "lower", "assemble", "post passes", "verify", "write",
    ]  # fmt: skip


def test_the_table_of_these_tests_is_not_the_aten_plugin() -> None:
    assert len(TINY) < 100
