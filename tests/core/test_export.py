"""`export` as its callers see it: arguments, names, what becomes an input, what a bad call is told."""

from __future__ import annotations

import dataclasses
import io
import os
import re
import warnings
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch import nn
from torch.export import Dim

import onnxexp
from onnxexp import CaptureError, OptionError, PluginLoadError, SerializeError, TrainingMode
from tests.core.tiny import TINY, export

X = torch.randn(2, 3)
Y = torch.randn(2, 3)


class Affine(nn.Module):
    """One parameter, one buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 3))
        self.register_buffer("shift", torch.randn(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ self.weight + self.shift)


class Two(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) + y


class Function(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.forward = function


def names(program: Any) -> tuple[list[str], list[str]]:
    graph = program.model.graph
    return [value.name for value in graph.inputs], [value.name for value in graph.outputs]


def kinds(program: Any) -> list[str]:
    return [node.op_type for node in program.model.graph]


def shape(program: Any, name: str) -> list[Any]:
    value = next(value for value in (*program.model.graph.inputs, *program.model.graph.outputs) if value.name == name)
    return [size if isinstance(size, int) else size.value for size in value.shape]


def valid(program: Any) -> Any:
    onnx.checker.check_model(program.model_proto, full_check=True)
    return program


def same(actual: Any, expected: Any) -> None:
    torch.testing.assert_close(actual, expected)


# Models


def test_a_module() -> None:
    model = Affine()
    program = valid(export(model, (X,)))
    same(program(X), model(X))
    assert names(program) == (["x"], ["output"])
    assert [tensor.name for tensor in program.model_proto.graph.initializer] == ["weight", "shift"]


def test_a_function_a_lambda_and_a_bound_method() -> None:
    def double(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
        return x * factor

    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Affine()

        def encode(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x) + 1

    class Plain:
        def __init__(self) -> None:
            self.scale = 3.0

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.scale

        def method(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.scale

    holder, plain = Holder(), Plain()
    for model in (double, lambda x: x + 1, holder.encode, plain, plain.method, torch.relu):
        program = valid(export(model, (X,)))
        same(program(X), model(X))
    assert "self.inner.weight" in {tensor.name for tensor in export(holder.encode, (X,)).model_proto.graph.initializer}


def test_an_exported_program() -> None:
    model = Two()
    exported = torch.export.export(model, (X, Y), dynamic_shapes={"x": {0: Dim("batch")}, "y": {0: Dim("batch")}})
    program = valid(export(exported))
    assert names(program) == (["x", "y"], ["output"])
    assert shape(program, "x") == shape(program, "y") == shape(program, "output") == ["x_dim_0", 3], "torch forgets Dims' names"
    same(program(X[:1], Y[:1]), model(X[:1], Y[:1]))
    assert export(exported, input_names=["left", "right"], output_names=["sum"]).signature.inputs[0].name == "left"


def test_an_exported_program_says_itself_what_is_dynamic() -> None:
    exported = torch.export.export(Two(), (X, Y))
    with pytest.raises(OptionError, match=r"give dynamic_shapes to torch.export.export instead"):
        export(exported, dynamic_shapes={"x": {0: "batch"}})


def test_an_exported_program_says_itself_what_its_arguments_are() -> None:
    exported = torch.export.export(Two(), (X, Y))
    with pytest.raises(OptionError, match="not built like the example inputs of the ExportedProgram"):
        export(exported, (X,))
    same(export(exported, (Y, X)).example, ((Y, X), {}))
    export(exported, (Y, X), verify=True)


@pytest.mark.parametrize("model", [3, None, "model", [nn.ReLU()]])
def test_what_is_no_model(model: Any) -> None:
    with pytest.raises(CaptureError, match="neither an nn.Module, nor a function, nor an ExportedProgram"):
        export(model, (X,))


def test_a_model_class_instead_of_an_instance() -> None:
    with pytest.raises(CaptureError, match=r"Two is a class: give an instance, Two\(\.\.\.\)"):
        export(Two, (X, Y))


# Arguments


def test_one_tensor_needs_no_tuple() -> None:
    same(export(torch.relu, X)(X), X.relu())


def test_a_dict_at_the_end_is_keyword_arguments() -> None:
    model = Two()
    for args, kwargs in [((X, {"y": Y}), None), (({"x": X, "y": Y},), None), ((X,), {"y": Y}), ((), {"y": Y, "x": X})]:
        program = valid(export(model, args, kwargs=kwargs))
        same(program(X, Y), model(X, Y))
        assert set(names(program)[0]) == {"x", "y"}
    assert names(export(model, {"x": X, "y": Y}))[0] == ["x", "y"]


def test_a_dict_is_an_argument_where_an_empty_one_follows() -> None:
    class Entries(nn.Module):
        def forward(self, entries: dict[str, torch.Tensor]) -> torch.Tensor:
            return entries["a"] + entries["b"]

    program = valid(export(Entries(), ({"a": X, "b": Y}, {})))
    assert names(program)[0] == ["entries.a", "entries.b"]
    same(program({"a": X, "b": Y}), X + Y)


def test_keyword_arguments_come_once() -> None:
    with pytest.raises(OptionError, match="both as the last element of args and as kwargs"):
        export(Two(), (X, {"y": Y}), kwargs={"y": Y})
    program = export(Two(), (X, {}), kwargs={"y": Y})
    same(program(X, Y), X.relu() + Y)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((X,), None, "missing a required argument: 'y'"),
        ((X, Y, X), None, "too many positional arguments"),
        ((X, Y), {"x": X}, "multiple values for argument 'x'"),
        ((X,), {"yy": Y}, "the model's forward has no parameter 'yy' (did you mean 'y'?)"),
        ([X, Y], None, "args is a list: give a tuple"),
    ],
)
def test_arguments_that_do_not_fit(args: Any, kwargs: Any, message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        export(Two(), args, kwargs=kwargs)


def test_a_model_that_fails_on_its_example() -> None:
    with pytest.raises(CaptureError, match="the model itself fails on the example inputs: RuntimeError: The size of tensor"):
        export(Two(), (X, torch.randn(5, 7)))


@dataclasses.dataclass
class Cache:
    keys: torch.Tensor
    values: torch.Tensor


def test_nested_inputs_and_outputs() -> None:
    class Nested(nn.Module):
        def forward(self, cache: Cache, pairs: Any, *rest: torch.Tensor, **options: torch.Tensor) -> Any:
            total = cache.keys + cache.values + pairs[0][0] + pairs[1]["k"] + rest[0] + options["bias"]
            return {"total": total, "cache": Cache(cache.keys + 1, cache.values), "pair": (total.relu(), None, 3)}

    model, arguments = Nested(), (Cache(X, Y), ((X,), {"k": Y}), X)
    program = valid(export(model, arguments, kwargs={"bias": Y}))
    assert names(program)[0] == ["cache.keys", "cache.values", "pairs.0.0", "pairs.1.k", "rest.0", "bias"]
    assert names(program)[1] == ["total", "cache.keys_out", "cache.values", "pair.0"]
    result, expected = program(*arguments, bias=Y), model(*arguments, bias=Y)
    same(result["total"], expected["total"])
    same(result["cache"].values, expected["cache"].values)
    assert result["pair"][1:] == (None, 3)


# What becomes an input


def test_constants_are_fixed_and_say_so() -> None:
    class Mixed(nn.Module):
        def forward(self, x: torch.Tensor, n: int, f: float, flag: bool, mode: str, none: Any) -> torch.Tensor:
            x = x * n + f
            return x.relu() if flag and mode == "on" and none is None else x

    model = Mixed()
    program = valid(export(model, (X, 2, 0.5, True, "on", None)))
    assert names(program)[0] == ["x"]
    same(program(X, 2, 0.5, True, "on", None), model(X, 2, 0.5, True, "on", None))
    with pytest.raises(onnxexp.OnnxExporterError, match=r"args\[1\] is fixed to 2 in this program, the call gives 3"):
        program(X, 3, 0.5, True, "on", None)


@pytest.mark.parametrize(("value", "other"), [(2, 5), (0.5, 1.5)])
def test_numbers_may_be_dynamic(value: Any, other: Any) -> None:
    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor, n: Any) -> torch.Tensor:
            return x * n

    program = valid(export(Scaled(), (X, value), dynamic_shapes={"x": None, "n": Dim.DYNAMIC}))
    assert names(program)[0] == ["x", "n"]
    same(program(X, other), X * other)


def test_a_bool_may_be_dynamic() -> None:
    class Flag(nn.Module):
        def forward(self, x: torch.Tensor, flag: bool) -> torch.Tensor:
            return x * flag

    program = valid(export(Flag(), (X, True), dynamic_shapes={"x": None, "flag": Dim.DYNAMIC}))
    same(program(X, True), X)
    same(program(X, False), X * 0)


def test_an_unused_input_stays_an_input() -> None:
    program = valid(export(lambda x, unused: x + 1, (X, Y)))
    assert names(program)[0] == ["x", "unused"]
    same(program(X, Y), X + 1)


# Outputs


def test_an_input_that_passes_straight_through_keeps_its_name() -> None:
    program = valid(export(lambda x, y: (x, y + 1), (X, Y)))
    assert names(program) == (["x", "y"], ["x", "output_1"])
    assert kinds(program) == ["Add"]
    same(program(X, Y), (X, Y + 1))


def test_an_input_that_passes_through_under_a_given_name() -> None:
    program = valid(export(lambda x: (x, x), (X,), output_names=["first", "second"]))
    assert names(program) == (["x"], ["first", "second"])
    same(program(X), (X, X))


def test_outputs_that_repeat_or_alias_an_input() -> None:
    def repeat(x: torch.Tensor) -> Any:
        total = x + 1
        return total, total, x, x, x.view(3, 2), x.detach()

    program = valid(export(repeat, (X,)))
    result = program(X)
    same(result, repeat(X))
    outputs = names(program)[1]
    assert len(set(outputs)) == len(outputs) == 6


def test_constant_outputs() -> None:
    table = torch.randn(3)

    def constants(x: torch.Tensor) -> Any:
        return x + 1, 3, 2.5, None, "text", True, table, torch.ones(2)

    program = valid(export(constants, (X,)))
    result = program(X)
    same(result[0], X + 1)
    assert result[1:6] == (3, 2.5, None, "text", True)
    same(result[6:], (table, torch.ones(2)))


def test_no_tensor_at_all() -> None:
    program = export(lambda x: None, (X,))
    assert program(X) is None
    assert names(program) == (["x"], [])


def test_sizes_as_outputs() -> None:
    program = valid(export(lambda x: (x + 1, x.shape[0], x.shape[1]), (X,), dynamic_shapes=({0: "batch"},)))
    assert program(torch.ones(7, 3))[1:] == (7, 3)


def test_an_output_that_is_a_parameter() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3))

        def forward(self, x: torch.Tensor) -> Any:
            return self.weight, x + self.weight

    model = Tied()
    program = valid(export(model, (X,)))
    same(program(X), tuple(value.detach() for value in model(X)))


# State


def test_a_mutated_buffer_is_told_and_its_value_is_right() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(1)
            return x + self.count

    model = Counter()
    with pytest.warns(UserWarning, match="the forward writes into count; an ONNX graph keeps no state"):
        program = export(model, (X,))
    assert model.count.sum() == 0, "the export left the model as it was"
    valid(program)
    same(program(X), X + 1)
    same(program(X), X + 1)


def test_a_mutated_input_is_told_and_left_alone() -> None:
    def write(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    given = X.clone()
    with pytest.warns(UserWarning, match="the forward writes into x;"):
        program = export(write, (given,))
    same(given, X)
    same(valid(program)(given), (X + 1) * 2)
    same(given, X)


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
    with pytest.raises(OptionError, match=r"opset_version is .*; onnxexp exports opsets 9 to 28"):
        export(torch.relu, (X,), opset_version=opset)


@pytest.mark.parametrize("opset", [None, *range(9, 29)])
def test_the_opset_asked_for_comes_out(opset: int | None) -> None:
    program = valid(export(Affine(), (X,), opset_version=opset))
    assert {entry.domain: entry.version for entry in program.model_proto.opset_import} == {"": opset or 20}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capture": "dynamo"}, "capture is 'dynamo'; it may be 'auto' or 'export'"),
        ({"training": "maybe"}, "training is 'maybe'; it may be"),
        ({"training": None}, "training is None; it may be"),
        ({"custom_opsets": {"": 3}}, "opset_version says the version of ONNX's own"),
        ({"custom_opsets": {"ai.onnx": 3}}, "opset_version says the version of ONNX's own"),
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
    with pytest.raises(PluginLoadError, match="neither a plugin's name nor a SymbolicTable"):
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
        export(lambda x: x.relu() if x.sum() > 0 else x, (X,))
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


# Dynamic axes


@pytest.mark.parametrize(
    "given",
    [
        {"dynamic_shapes": {"x": {0: "batch"}, "y": {0: "batch"}}},
        {"dynamic_shapes": ({0: Dim("batch")}, {0: Dim("batch")})},
        {"dynamic_axes": {"x": {0: "batch"}, "y": {0: "batch"}}},
        {"dynamic_axes": {"x": [0], "y": [0]}},
        {"dynamic_axes": {"x": {0: "batch"}, "y": [0], "output": {0: "batch"}}},
    ],
)
@pytest.mark.parametrize("size", [1, 2])
def test_an_axis_asked_to_be_dynamic_is_dynamic(given: dict[str, Any], size: int) -> None:
    program = valid(export(Two(), (X[:size], Y[:size]), **given))
    for name in ("x", "y", "output"):
        assert isinstance(shape(program, name)[0], str)
    for rows in (1, 2, 5):
        x, y = torch.randn(rows, 3), torch.randn(rows, 3)
        same(program(x, y), x.relu() + y)


def test_input_names_are_keys_of_dynamic_axes_and_shapes() -> None:
    for option in ("dynamic_axes", "dynamic_shapes"):
        axes = {"left": {0: "rows"}, "right": {0: "rows"}}
        program = valid(export(Two(), (X, Y), input_names=["left", "right"], output_names=["sum"], **{option: axes}))
        assert names(program) == (["left", "right"], ["sum"])
        assert shape(program, "left") == shape(program, "sum") == ["rows", 3]


def test_an_axis_that_the_model_fixes_is_an_error_with_the_line() -> None:
    class Fixed(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.view(6)  # this line fixes it

    with pytest.raises(CaptureError, match=r"(?s)test_export.py.*this line fixes it"):
        export(Fixed(), (X,), dynamic_shapes={"x": {0: "batch"}})


def test_a_model_that_cannot_be_captured_says_why_for_each_strategy() -> None:
    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.sum() > 0:  # depends on the data
                return x
            return -x

    with pytest.raises(CaptureError) as raised:
        export(Branches(), (X,))
    message = str(raised.value)
    assert "torch.export (strict=False): " in message and "torch.export (strict=True): " in message
    assert "test_export.py" in message
    assert "torch.cond" in message
    assert raised.value.__suppress_context__ or raised.value.__cause__ is None


# Control flow and regions


class Conditional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: self.linear(x).relu(), lambda x: torch.sin(x) * 2, (x,))


@pytest.mark.parametrize("opset", [9, 13, 20])
def test_cond(opset: int) -> None:
    model = Conditional()
    program = valid(export(model, (X,), opset_version=opset, dynamic_shapes=({0: "batch"},)))
    assert "If" in kinds(program)
    with torch.no_grad():
        for x in (X.abs(), -X.abs(), torch.ones(5, 3), -torch.ones(1, 3)):
            same(program(x), model(x))


def test_nested_cond() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        def inner(x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 10, lambda x: x * 2, lambda x: x * 3, (x,))

        return torch.cond(x.sum() > 0, inner, lambda x: -x, (x,))

    program = valid(export(forward, (X,)))
    for x in (torch.ones(2, 3), torch.ones(2, 3) * 5, -torch.ones(2, 3)):
        same(program(x), forward(x))


def test_while_loop() -> None:
    from torch._higher_order_ops import while_loop

    def forward(x: torch.Tensor, limit: torch.Tensor) -> Any:
        return while_loop(lambda i, x: i < limit, lambda i, x: (i + 1, x * 2 + i), (torch.zeros((), dtype=torch.int64), x))

    program = valid(export(forward, (X, torch.tensor(3)), dynamic_shapes=({0: "batch"}, None)))
    for limit in (0, 1, 5):
        x = torch.randn(limit + 1, 3)
        same(program(x, torch.tensor(limit)), tuple(forward(x, torch.tensor(limit))))


def test_scan_over_dynamic_time() -> None:
    from torch._higher_order_ops import scan

    class Running(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 3) * 0.1)

        def forward(self, start: torch.Tensor, xs: torch.Tensor) -> Any:
            def combine(state: torch.Tensor, x: torch.Tensor) -> Any:
                state = torch.tanh(state @ self.weight + x)
                return state, state * 2

            return scan(combine, start, xs, dim=0)

    model = Running()
    start, xs = torch.zeros(2, 3), torch.randn(4, 2, 3)
    program = valid(export(model, (start, xs), dynamic_shapes=(None, {0: "time"})))
    assert "Scan" in kinds(program)
    with torch.no_grad():
        for time in (1, 4, 9):
            xs = torch.randn(time, 2, 3)
            same(program(start, xs), tuple(model(start, xs)))


def test_scan_around_cond() -> None:
    from torch._higher_order_ops import scan

    def forward(start: torch.Tensor, xs: torch.Tensor) -> Any:
        def combine(state: torch.Tensor, x: torch.Tensor) -> Any:
            state = torch.cond(x.sum() > 0, lambda s, x: s + x, lambda s, x: s * 1.0, (state, x))
            return state, state.sin()

        return scan(combine, start, xs, dim=0)

    start, xs = torch.zeros(3), torch.randn(6, 3)
    program = valid(export(forward, (start, xs)))
    same(program(start, xs), tuple(forward(start, xs)))


def test_a_region_under_autocast() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 3))

        def forward(self, x: torch.Tensor) -> Any:
            with torch.autocast("cpu", dtype=torch.float16):
                inner = x @ self.weight
            return inner.float() + 1, inner

    model = Mixed()
    program = valid(export(model, (X,)))
    with torch.no_grad():
        expected = model(X)
    result = program(X)
    assert result[1].dtype == torch.float16
    torch.testing.assert_close(result, expected, rtol=2e-3, atol=2e-3)


def test_regions_of_other_grad_modes() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = x + 1
        with torch.enable_grad():
            y = y * 2
        return y.detach() + x

    same(valid(export(forward, (X,)))(X), forward(X))


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
        "capture", "convert", "lower", "assemble", "passes", "write", "verify",
    ]  # fmt: skip


def test_the_table_of_these_tests_is_not_the_aten_plugin() -> None:
    assert len(TINY) < 100
