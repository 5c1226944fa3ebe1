"""`export` as its callers see it: models, arguments, inputs and outputs."""

from __future__ import annotations

import collections
import dataclasses
import io
import re
from pathlib import Path
from typing import Any

import onnx_ir as ir
import pytest
import torch
from torch import nn
from torch.export import Dim

import onnxexp
from onnxexp import CaptureError, OptionError
from tests.core.exporting import Affine, Two, X, Y, kinds, names, same, shape, valid, without_context
from tests.core.tiny import export

# Models


def test_a_module() -> None:
    model = Affine()
    program = valid(export(model, (X,)))
    same(program(X), model(X))
    assert names(program) == (["x"], ["output"])
    assert [tensor.name for tensor in program.model_proto.graph.initializer] == ["weight", "shift"]


def test_the_file_is_the_same_whether_the_model_was_looked_at_or_not() -> None:
    program = export(Affine(), (X,))
    before, first = program.model_proto, io.BytesIO()
    program.save(first)
    graph = program.model.graph
    assert isinstance(graph, ir.Graph) and {node.graph for node in graph} == {graph} and program.model.graph is graph
    assert [value.is_graph_output() for value in graph.outputs] == [True]
    second = io.BytesIO()
    program.save(second)
    assert before == program.model_proto and first.getvalue() == second.getvalue()


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
    message = "the model itself fails on the example inputs: RuntimeError: The size of tensor"
    with pytest.raises(CaptureError, match=message) as caught:
        export(Two(), (X, torch.randn(5, 7)))
    assert without_context(caught.value.__cause__)


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
    assert names(program)[1] == ["total", "cache.keys_out", "cache.values", "pair.0", "pair.2"]
    result, expected = program(*arguments, bias=Y), model(*arguments, bias=Y)
    same(result["total"], expected["total"])
    same(result["cache"].values, expected["cache"].values)
    assert result["pair"][1:] == (None, 3)


class Settings(dict[str, Any]):
    def __init__(self, first: torch.Tensor) -> None:
        super().__init__(first=first)


class Output(collections.OrderedDict[str, Any]):
    """A model's result, as a library may define it."""


def test_subclasses_of_dict_are_flattened() -> None:
    class Nested(nn.Module):
        def forward(self, given: Settings) -> Output:
            return Output(total=given["first"] + 1, rest=(given["first"] * 2, None))

    program = valid(export(Nested(), (Settings(X),)))
    assert names(program) == (["given.first"], ["total", "rest.0"])
    result = program(Settings(Y))
    assert type(result) is Output
    same(result["total"], Y + 1)
    same(result["rest"][0], Y * 2)


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


class Named(nn.Module):
    """Its parameters are called as inputs, outputs and nodes are."""

    def __init__(self) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.randn(3))
        self.output = nn.Parameter(torch.randn(3))
        self.sin = nn.Parameter(torch.randn(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + self.x).sin() * self.output + self.sin


@pytest.mark.parametrize("export_params", [True, False])
@pytest.mark.parametrize("given", [{}, {"input_names": ["output"]}, {"output_names": ["x_1"]}, {"output_names": ["sin"]}])
def test_names_never_collide(given: dict[str, Any], export_params: bool) -> None:
    model = Named()
    program = valid(export(model, (X,), export_params=export_params, **given))
    assert names(program)[0][0] == given.get("input_names", ["x"])[0]
    assert names(program)[1] == given.get("output_names", [names(program)[1][0]])
    same(program(X), model(X).detach())


def test_a_tensor_that_is_given_twice_is_two_inputs() -> None:
    """torch.export identifies an output that is an input by the tensor object."""
    program = valid(export(lambda x, y: (x + y, x, y), (X, X)))
    same(program(X, Y), (X + Y, X, Y))


def test_a_model_without_inputs() -> None:
    program = valid(export(lambda: torch.ones(2) + 1, ()))
    same(program(), torch.full((2,), 2.0))


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
    written = {value.name: (value.type.dtype.name, list(value.shape)) for value in program.model.graph.outputs}
    assert list(written) == [f"output_{index}" for index in (0, 1, 2, 5, 6, 7)], "None and texts stay out of the file"
    assert [written[f"output_{index}"] for index in (1, 2, 5)] == [("INT64", []), ("FLOAT", []), ("BOOL", [])]
    program.verify()


@pytest.mark.parametrize("returned", [3, {"count": 3, "scale": 2.5}, (None, 3, 3), [True]])
def test_only_numbers(returned: Any) -> None:
    program = valid(export(lambda x: returned, (X,)))
    assert program(X) == returned and all(names(program))


@pytest.mark.parametrize("returned", [None, "text", (), {"text": "a", "none": None}])
def test_no_output_at_all(returned: Any, tmp_path: Path) -> None:
    with pytest.raises(
        CaptureError, match=r"the model returns .*, and an ONNX file needs an output; to fix this, return a tensor"
    ):
        export(lambda x: returned, (X,), tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


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
