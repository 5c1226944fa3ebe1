"""`dynamic_shapes`, `dynamic_axes`, example sizes, symbol names, and refusals."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim, ExportedProgram

import onnxexp
from onnxexp._capture.example_inputs import adapted_inputs, describe_enlargement, enlarge
from onnxexp._capture.size_names import name_output_axes
from onnxexp._errors import CaptureError, OptionError
from onnxexp._neutral_graph import TensorType, Value
from onnxexp._request.dynamic_shapes import DynamicSpec, read_dynamic
from onnxexp._torch_export.symbol_names import check_dynamic, symbol_names

ANY = Dim.DYNAMIC


@dataclasses.dataclass
class Batch:
    ids: torch.Tensor
    weight: Any = None


def module(body: Callable[..., Any]) -> torch.nn.Module:
    """Build a module with the signature and the code of `body`."""
    model = torch.nn.Module()
    vars(model)["forward"] = body
    return model


def captured(
    model: Any, args: Any, kwargs: Any = None, *, strict: bool = False, **options: Any
) -> tuple[ExportedProgram, DynamicSpec]:
    spec = read_dynamic(model.forward, args, kwargs or {}, **options)
    with adapted_inputs(model, args, kwargs or {}, spec) as (new_args, new_kwargs):
        return torch.export.export(model, new_args, new_kwargs, dynamic_shapes=spec.shapes, strict=strict), spec


def sizes(program: ExportedProgram, spec: DynamicSpec) -> dict[str, list[int | str]]:
    """Return the readable sizes of the user inputs and outputs, by fx name."""
    names = symbol_names(program, spec)
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    shown: list[str] = [str(name) for name in (*program.graph_signature.user_inputs, *program.graph_signature.user_outputs)]
    return {
        name: [names.size(size) for size in values[name].shape] for name in shown if isinstance(values.get(name), torch.Tensor)
    }


# What is accepted


def forward(x: Any, past: Any = None, *rest: Any, n: Any = None, **options: Any) -> None: ...


def required(spec: DynamicSpec) -> list[tuple[str, int, str | None]]:
    """List the axes that must be dynamic after capture: leaf, number and name."""
    axes = zip(spec.leaves, spec.axes, strict=True)
    return [(leaf.name, axis, given.name) for leaf, each in axes for axis, given in each.items() if given.required]


X = torch.ones(3, 4)
batch = Dim("batch", min=2)


@pytest.mark.parametrize(
    "shapes",
    [
        {"x": {0: batch}, "past": None},
        {"x": (batch, None)},
        {"x": [batch, Dim.STATIC]},
        {"x": [batch, 4]},
        {"x": {0: batch, -1: None}},
        {"in": {0: batch}},
        ({0: batch}, None),
        [{0: batch}, ({"key": None},)],
        {"x": {0: batch}, "past": ({"key": {}},)},
    ],
)
def test_dynamic_shapes_as_torch_takes_them(shapes: Any) -> None:
    spec = read_dynamic(forward, (X, ({"key": X},)), {}, dynamic_shapes=shapes, input_names=["in"])
    assert spec.shapes == {"x": {0: batch}, "past": ({"key": None},)}
    assert spec.input_names == ["in", "past.0.key"]
    assert required(spec) == [("in", 0, "batch")]


@pytest.mark.parametrize(
    "past",
    [{0: {"key": ["p", None]}}, ({"key": {0: "p"}},), [{"key": {-2: "p"}}]],
    ids=["dict for tuple", "tuple", "list for tuple"],
)
def test_nested_inputs(past: Any) -> None:
    spec = read_dynamic(forward, (X, ({"key": X},)), {}, dynamic_shapes={"past": past})
    assert spec.shapes == {"x": None, "past": ({"key": {0: ANY}},)}


@pytest.mark.parametrize(
    "shapes",
    [{"past": {"ids": {0: "n"}}}, {"past": [{0: "n"}]}, {"past.ids": {0: "n"}}, {"past.*": {0: "n"}}, {"past": Batch({0: "n"})}],
)  # type: ignore[arg-type]
def test_dataclasses(shapes: Any) -> None:
    spec = read_dynamic(forward, (X, Batch(X)), {}, dynamic_shapes=shapes)
    assert spec.shapes == {"x": None, "past": [{0: ANY}]}


def test_what_star_parameters_take() -> None:
    shapes = {"rest": ({0: "r"}, None), "extra": {1: "e"}, "n": ANY}
    spec = read_dynamic(forward, (X, None, X, X), {"extra": X, "n": 3}, dynamic_shapes=shapes)
    assert spec.shapes == {"x": None, "past": None, "rest": ({0: ANY}, None), "n": ANY, "extra": {1: ANY}}
    assert spec.input_names == ["x", "rest.0", "rest.1", "extra", "n"]


def gathers(*tensors: Any) -> None: ...


@pytest.mark.parametrize(
    ("args", "shapes"),
    [
        ((X,), ({0: "b"},)),
        ((X,), (({0: "b"},),)),
        ((X, X), ({0: "b"}, None)),
        ((X, X), [[{0: "b"}, None]]),
        ((X, X), {"tensors": ({0: "b"}, None)}),
    ],
    ids=["one", "one, nested", "two", "two, nested", "two, by name"],
)
def test_a_star_parameter_is_given_as_one_or_argument_by_argument(args: Any, shapes: Any) -> None:
    spec = read_dynamic(gathers, args, {}, dynamic_shapes=shapes)
    assert spec.shapes == {"tensors": ({0: ANY}, None)[: len(args)]}


def test_hints_and_their_ranges_go_to_torch_as_they_are() -> None:
    bounded = Dim.DYNAMIC(min=2, max=9)
    spec = read_dynamic(forward, (X,), {}, dynamic_shapes={"x": {0: bounded, 1: Dim.AUTO}})
    assert spec.shapes == {"x": {0: bounded, 1: Dim.AUTO}}
    assert [axis for _, axis, _ in required(spec)] == [0]


def test_nothing_dynamic_gives_torch_nothing() -> None:
    assert read_dynamic(forward, (X,), {}).shapes is None
    assert read_dynamic(forward, (X,), {}, dynamic_shapes={"x": {0: Dim.STATIC}}).shapes is None


def test_shapes_collection() -> None:
    collection = torch.export.ShapesCollection()
    collection[X] = {0: batch}
    assert read_dynamic(lambda x: x, (X,), {}, dynamic_shapes=collection).shapes == {"x": {0: batch}}


@pytest.mark.parametrize(
    ("axes", "wanted"),
    [
        ({"x": [0, 1]}, [("x", 0, None), ("x", 1, None)]),
        ({"x": {0: "b", -1: "w"}, "output": [0]}, [("x", 0, "b"), ("x", 1, "w")]),
        ({"x": {0: "b"}, "past.0": [1]}, [("x", 0, "b"), ("past.0", 1, None)]),
        ({"in": (0,)}, [("in", 0, None)]),
    ],
)
def test_dynamic_axes_in_three_forms(axes: Any, wanted: Any) -> None:
    names = ["in"] if "in" in axes else None
    spec = read_dynamic(forward, (X, (X,)), {}, dynamic_axes=axes, input_names=names)
    assert required(spec) == wanted
    assert spec.outputs == ({"output": {0: None}} if "output" in axes else {})


def test_swapped_input_names_are_meant_in_dynamic_axes() -> None:
    spec = read_dynamic(lambda a, b: a, (X, X), {}, dynamic_axes={"a": {0: "n"}}, input_names=["b", "a"])
    assert spec.shapes == {"a": None, "b": {0: ANY}}


def test_numbers_in_dynamic_shapes_may_stand_beside_dynamic_axes() -> None:
    spec = read_dynamic(lambda x, n: x, (X, 3), {}, dynamic_shapes={"n": ANY}, dynamic_axes={"x": {0: "rows"}})
    assert spec.input_names == ["x", "n"] and list(spec.scalars) == [1] and spec.axes[0][0].name == "rows"


# What is answered


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dynamic_shapes": {"x": {0: "b"}}, "dynamic_axes": {"x": [1]}}, "both describe axes: give one"),
        ({"dynamic_shapes": {"y": {0: "b"}}}, r"names 'y', which is no input of the model.*There are: x, past, past.0.key"),
        ({"dynamic_shapes": {"pasd": None}}, r"did you mean 'past'\?"),
        ({"dynamic_shapes": ({0: "b"},)}, "has 1 entries, but the model is called with 2 parameters: x, past"),
        ({"dynamic_shapes": 3}, "must be a dict by parameter name"),
        ({"dynamic_shapes": {"x": {2: "b"}}}, r"no axis 2; the example's shape is \(3, 4\), which has axes -2 to 1"),
        ({"dynamic_shapes": {"x": {"0": "b"}}}, "no axis '0'"),
        ({"dynamic_shapes": {"x": {0: "b", -2: "c"}}}, "describes axis 0 of x twice"),
        ({"dynamic_shapes": {"x": ["b"]}}, "has 1 entries, but x has 2 axes"),
        ({"dynamic_shapes": {"x": ANY}}, "x is a tensor of shape"),
        ({"dynamic_shapes": {"x": {0: 5}}}, "axis 0 is given as 5, but the example has 3"),
        ({"dynamic_shapes": {"x": {0: 2.5}}}, "axis 0 is 2.5; expected a name"),
        (
            {"dynamic_shapes": {"past": [{"kay": None}]}},
            r"a dict with 1 entries \(key\); 'kay' is none of them \(did you mean 'key'\?\)",
        ),
        ({"dynamic_shapes": {"past": [None, None]}}, "a tuple with 1 entries .0., but it has 2"),
        ({"dynamic_shapes": {"past": ANY}}, "Nest it as the input is nested"),
        ({"dynamic_shapes": {"past": None, "past.0.key": {9: "n"}}}, "no axis 9"),
        ({"dynamic_shapes": {"x": {0: "a"}, "in": {0: "a"}}, "input_names": ["in"]}, "are about the same input"),
        ({"input_names": ["a", "b", "c"]}, "gives 3 names.*2 inputs: x, past.0.key"),
        ({"dynamic_axes": {"x": [5]}}, "no axis 5"),
        ({"dynamic_axes": {"x": [0, 0]}}, "names an axis twice"),
        ({"dynamic_axes": {"x": [0, -2]}}, "describes axis 0 of x twice"),
        ({"dynamic_axes": {"x": "batch"}}, "must be a list of axes"),
        ({"dynamic_axes": {"x": {"batch": 0}}}, "must be a list of axes"),
        ({"dynamic_axes": [("x", 0)]}, "must be a dict such as"),
        ({"dynamic_axes": {"past": [0]}}, "'past' is not one tensor. Name the ones inside: past.0.key"),
    ],
)
def test_bad_input_is_answered(options: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        read_dynamic(forward, (X, ({"key": X},)), {}, **options)


def test_constants_cannot_be_dynamic() -> None:
    with pytest.raises(OptionError, match="'text' is a constant of the export"):
        read_dynamic(forward, (X, "text"), {}, dynamic_shapes={"past": ANY})
    with pytest.raises(OptionError, match="3 is a number; make it a graph input with Dim.DYNAMIC"):
        read_dynamic(forward, (X, 3), {}, dynamic_shapes={"past": {0: "n"}})
    with pytest.raises(OptionError, match="no tensor and has no axes.*makes a number a graph input"):
        read_dynamic(forward, (X, 3), {}, dynamic_axes={"past": [0]})


def test_unknown_outputs_are_answered_after_capture() -> None:
    spec = read_dynamic(forward, (X,), {}, dynamic_axes={"outpud": [0]})
    with pytest.raises(OptionError, match=r"no input or output of that name \(did you mean 'output'\?\)"):
        name_output_axes({"output": Value("output", TensorType(torch.float32, ("b", 4)))}, spec, {})


# Example sizes


def resized(spec: DynamicSpec, args: Any) -> list[tuple[int, ...]]:
    new, _ = enlarge(args, {}, spec)
    return [tuple(tensor.shape) for tensor in torch.utils._pytree.tree_leaves(new)]


@pytest.mark.parametrize(
    ("shapes", "wanted", "expected"),
    [
        (((1, 4),), ({0: "b"},), [(2, 4)]),
        (((0, 4),), ({0: ANY},), [(2, 4)]),
        (((1, 4), (5, 4)), ({0: "b"}, {0: "b"}), [(5, 4), (5, 4)]),
        (((1, 4), (5, 4)), ({0: ANY}, {0: ANY}), [(5, 4), (5, 4)]),
        (((1, 4), (5, 4)), ({0: batch}, {0: batch}), [(5, 4), (5, 4)]),
        (((1, 4), (2, 4)), ({0: batch}, {0: 2 * batch}), [(2, 4), (4, 4)]),
        (((3, 4), (4, 4)), ({0: batch}, {0: batch}), [(3, 4), (4, 4)]),
        (((1, 1), (1, 6), (1, 5)), ({0: "b", 1: "seq"}, {0: "b", 1: "total"}, {0: "b", 1: "past"}), [(2, 2), (2, 7), (2, 5)]),
        (((1, 4),), ({0: Dim.AUTO},), [(1, 4)]),
        (((1, 4),), (None,), [(1, 4)]),
    ],
)
def test_sizes_0_and_1_are_enlarged_together_with_what_they_are_tied_to(shapes: Any, wanted: Any, expected: Any) -> None:
    args = tuple(torch.ones(shape) for shape in shapes)
    spec = read_dynamic(lambda *xs: None, args, {}, dynamic_shapes={"xs": wanted})
    assert resized(spec, args) == expected
    assert len(describe_enlargement(spec, *enlarge(args, {}, spec))) == sum(
        a != b for old, new in zip(shapes, expected, strict=True) for a, b in zip(old, new, strict=True)
    )


def test_unchanged_inputs_are_the_same_objects_and_a_tensor_given_twice_becomes_two() -> None:
    spec = read_dynamic(lambda a, b: None, (X, X), {}, dynamic_shapes={"a": {0: "n"}})
    (first, second), _ = enlarge((X, X), {}, spec)
    assert first is X and second is not X and second.data_ptr() == X.data_ptr()


@pytest.mark.parametrize("strict", [False, True])
def test_an_example_of_size_1_is_no_trap(strict: bool) -> None:
    program, spec = captured(torch.nn.Linear(4, 4), (torch.ones(1, 4),), strict=strict, dynamic_axes={"input": {0: "batch"}})
    assert sizes(program, spec) == {"input": ["batch", 4], "linear": ["batch", 4]}
    check_dynamic(program, spec)


# Numbers


@pytest.mark.parametrize("strict", [False, True])
def test_dynamic_numbers_become_inputs(strict: bool) -> None:
    class Scaled(torch.nn.Module):
        def forward(self, x: torch.Tensor, times: int, scale: float, shift: bool, fixed: float) -> torch.Tensor:
            return x.repeat(times, 1) * scale + torch.full((1,), shift) + fixed

    model = Scaled()
    wanted = {"times": "times", "scale": ANY, "shift": ANY, "x": {0: "b"}}
    program, spec = captured(model, (X, 3, 0.5, True, 1.5), strict=strict, dynamic_shapes=wanted)
    assert spec.input_names == ["x", "times", "scale", "shift"]
    assert "forward" not in vars(model)
    values = [node.meta["val"] for node in program.graph.find_nodes(op="placeholder")]
    assert values[2].dtype == torch.float32 and values[3].dtype == torch.bool and values[4] == 1.5
    (output,) = program.graph_signature.user_outputs
    assert sizes(program, spec)[str(output)] == ["b*times", 4]
    ran = program.module()(torch.ones(2, 4), 2, torch.tensor(0.25), torch.tensor(False), 1.5)
    assert torch.equal(ran, model(torch.ones(2, 4), 2, 0.25, False, 1.5))


def test_a_float_is_as_wide_as_the_widest_input() -> None:
    program, _ = captured(module(lambda x, scale: x * scale), (X.double(), 0.1), dynamic_shapes={"scale": ANY})
    assert [node.meta["val"].dtype for node in program.graph.find_nodes(op="placeholder")] == [torch.float64, torch.float64]


def test_an_int_given_as_auto_or_static() -> None:
    spec = read_dynamic(lambda n, m, k: None, (1, 2, 3), {}, dynamic_shapes={"n": Dim.AUTO, "m": Dim.STATIC, "k": 3})
    assert spec.input_names == ["n"]


def test_a_program_says_which_of_its_numbers_are_dynamic() -> None:
    program = torch.export.export(module(lambda x, n, m: x.repeat(n, m)), (X, 3, 2), dynamic_shapes=(None, ANY, None))
    spec = read_dynamic(program.module().forward, (X, 3, 2), {}, input_names=["in", "times"], program=program)
    assert spec.input_names == ["in", "times"]
    assert sizes(program, spec)["x"] == [3, 4]
    assert sizes(program, spec)["repeat"] == ["3*times", 8]


def test_entries_of_double_star_parameters_can_be_dynamic() -> None:
    def body(x: torch.Tensor, **options: Any) -> torch.Tensor:
        return x + options["bias"]

    model = module(body)
    program, spec = captured(model, (X,), {"bias": X}, dynamic_shapes={"x": {0: "b"}, "bias": {0: "b"}})
    assert sizes(program, spec) == {"x": ["b", 4], "bias": ["b", 4], "add": ["b", 4]}
    assert model.forward is body


# Names after capture


def test_derived_dims_are_readable_expressions() -> None:
    def body(x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.cat([x, x, x[:, :1]], 1), x[:, ::2], y.view(-1), torch.nonzero(y), torch.nn.functional.pad(x, (1, 2))

    program, spec = captured(
        module(body), (X, torch.ones(4, 5)), dynamic_shapes={"x": {0: batch, 1: "seq"}, "y": {0: 2 * Dim("half"), 1: ANY}}
    )
    found = sizes(program, spec)
    assert found["x"] == ["batch", "seq"] and found["y"] == ["2*half", "y_dim_1"]
    outputs = [found[str(name)] for name in program.graph_signature.user_outputs]
    assert outputs == [["batch", "2*seq + 1"], ["batch", "(seq + 1)//2"], ["2*half*y_dim_1"], ["dim_0", 2], ["batch", "seq + 3"]]


def test_axes_that_turn_out_equal_share_the_first_name() -> None:
    program, spec = captured(module(lambda x, y: x + y), (X, X), dynamic_axes={"x": {0: "a", 1: "v"}, "y": {0: "b", 1: "w"}})
    assert sizes(program, spec) == {"x": ["a", "v"], "y": ["a", "v"], "add": ["a", "v"]}


def test_one_name_for_two_sizes_is_told_apart() -> None:
    program, spec = captured(
        module(lambda x, y: torch.cat([x, y])), (X, torch.ones(5, 4)), dynamic_axes={"x": {0: "n"}, "y": {0: "n"}}
    )
    with pytest.warns(UserWarning, match="two sizes that differ in the example are called n; one of them is n_1 in the file"):
        assert sizes(program, spec) == {"x": ["n", 4], "y": ["n_1", 4], "cat": ["n + n_1", 4]}


def test_a_composite_size_keeps_the_users_name() -> None:
    program, spec = captured(
        module(lambda x, y: x.view(-1, 2) + y), (X, torch.ones(6, 2)), dynamic_axes={"x": {0: "b"}, "y": {0: "rows"}}
    )
    assert sizes(program, spec)["x"] == ["b", 4]
    assert sizes(program, spec)["y"] == ["rows", 2]


def test_output_axes_get_the_users_names() -> None:
    spec = read_dynamic(forward, (X,), {}, dynamic_axes={"x": {0: "b"}, "out": {0: "rows", -1: "w"}, "other": [0]})
    out = Value("out", TensorType(torch.float32, ("2*b", 4, "dim_0")))
    other = Value("other", TensorType(torch.float32, ("b",)))
    name_output_axes({"out": out, "other": other}, spec, {})
    assert out.type == TensorType(torch.float32, ("rows", 4, "w")) and other.type == TensorType(torch.float32, ("b",))
    out.type = TensorType(torch.float32, (3, "n"))
    with pytest.warns(UserWarning, match="axis 0 of output out was asked to be dynamic, but it is always 3"):
        name_output_axes({"out": out, "other": other}, spec, {})
    assert out.type == TensorType(torch.float32, (3, "w"))
    out.type = TensorType(torch.float32, ())
    for scalar in (out, 3):
        with pytest.raises(OptionError, match="no axis 0"):
            name_output_axes({"out": scalar, "other": other}, spec, {})


def test_an_axis_that_came_out_static_is_an_error() -> None:
    spec = read_dynamic(lambda x: x, (X,), {}, dynamic_shapes={"x": {0: "b"}})
    program = torch.export.export(module(lambda x: x + 1), (X,))
    with pytest.raises(CaptureError, match=r"axis 0 of input x \(b\) was asked to be dynamic, but the model fixes it to 3"):
        check_dynamic(program, spec)


def test_a_failed_export_leaves_nothing_on_the_tensors() -> None:
    def fixed(x: torch.Tensor) -> torch.Tensor:
        return x.view(4, 3)

    x = torch.ones(4, 3)
    with pytest.raises(CaptureError, match="asked to be dynamic"):
        onnxexp.export(fixed, (x,), dynamic_shapes=({0: "n"},), capture="export")
    assert not vars(x)
    assert onnxexp.export(fixed, (x,), capture="export").model.graph.outputs[0].shape == (4, 3)


def test_an_axis_that_is_a_sum_of_others() -> None:
    """`verify` takes sizes that fit, and a call with others is an error."""
    program = onnxexp.export(
        lambda old, new, mask: torch.cat([old, new]) * mask,
        (torch.randn(3), torch.randn(2), torch.randn(5)),
        dynamic_shapes=({0: "past"}, {0: "sequence"}, {0: "past + sequence"}),
    )
    report = program.verify(inputs="sizes")
    assert "refuses" not in str(report) and str(program.model.graph.inputs[2].shape) == "[past + sequence]"
    with pytest.raises(onnxexp.OnnxExporterError, match=r"is past \+ sequence, which is 4"):
        program(torch.randn(1), torch.randn(3), torch.randn(5))
