"""A traced model's arguments, results and parameters, and warnings about tracing."""

from __future__ import annotations

import dataclasses
import inspect
import re
import subprocess
import sys
import warnings

import pytest
import torch
from torch import Tensor, nn
from torch.utils.dlpack import from_dlpack

import onnxexp
from onnxexp._errors import CaptureError
from onnxexp_torchscript.types.type_inference import TypeInference
from tests.torch_versions import RELEASE

from .running import exported

X = torch.arange(6.0).reshape(2, 3)


class Many(nn.Module):
    def forward(self, x, pair, options, mode="sum", scale=2.0, flag=True, nothing=None, *, bias=None):
        y = x * scale + pair[0] - pair[1][0]
        if mode == "sum":
            y = y + options["a"]
        if flag and nothing is None and bias is not None:
            y = y + bias
        return y


def test_arguments_of_every_kind() -> None:
    args = (X, (X + 1, [X * 2]), {"a": X - 1}, "sum", 3.0, True, None)
    program = exported(Many(), args, kwargs={"bias": torch.ones(3)}, capture="trace")
    torch.testing.assert_close(program(*args, bias=torch.ones(3)), Many()(*args, bias=torch.ones(3)))
    names = [value.name for value in program.model.graph.inputs]
    assert names == ["x", "pair.0", "pair.1.0", "options.a", "bias"]


@dataclasses.dataclass
class Pair:
    one: Tensor
    other: Tensor


class Structured(nn.Module):
    def forward(self, pair: Pair):
        return {"sum": pair.one + pair.other, "nested": [(pair.one, 3), None], "pair": Pair(pair.other * 2, pair.one)}


def test_dataclasses_in_and_structures_out() -> None:
    given = Pair(X, X + 1)
    program = exported(Structured(), (given,), capture="trace")
    result, expected = program(given), Structured()(given)
    assert list(result) == list(expected) and result["nested"][0][1] == 3 and result["nested"][1] is None
    torch.testing.assert_close(result["pair"].one, expected["pair"].one)
    torch.testing.assert_close(result["sum"], expected["sum"])


@pytest.mark.parametrize(("number", "other"), [(3, 5), (2.5, -1.0), (0, 7)])
def test_numbers_as_inputs(number, other) -> None:
    program = exported(lambda x, n: x * n + 1, (X, number), capture="trace", dynamic_shapes=(None, "n"))
    for given in (number, other):
        torch.testing.assert_close(program(X, given), X * given + 1)


def widened(x: Tensor, y: Tensor) -> Tensor:
    return torch.cat([x.repeat(1, y.size(1)), y.repeat(1, x.size(1))], 1)


@pytest.mark.parametrize("capture", ["auto", "trace", "script"])
def test_sizes_that_differ_get_names_that_differ(capture: str) -> None:
    """torch.onnx takes the names in `dynamic_axes` for labels."""
    shapes = [((2, 4), (2, 3)), ((2, 5), (2, 5)), ((2, 1), (2, 3)), ((2, 3), (2, 1))]
    with pytest.warns(UserWarning, match="sizes that differ in the example are called seq; one of them is seq_1 in the file"):
        program = onnxexp.export(
            widened, tuple(map(torch.ones, shapes[0])), capture=capture, dynamic_axes={"x": {1: "seq"}, "y": {1: "seq"}}
        )
    assert [str(value.shape[1]) for value in program.model.graph.inputs] == ["seq", "seq_1"]
    for each in shapes:
        x, y = map(torch.randn, each)
        torch.testing.assert_close(program(x, y), widened(x, y))


def shape_as_tensor(x: Tensor) -> Tensor:
    return torch._shape_as_tensor(x) + 1


def stacked_sizes(x: Tensor) -> Tensor:
    return torch.stack([torch.as_tensor(x.size(0)), torch.as_tensor(x.size(1) * 2)])


@pytest.mark.parametrize("model", [shape_as_tensor, stacked_sizes])
@pytest.mark.parametrize("dynamic", [None, ({0: "rows"},), ({0: "rows", 1: "columns"},)])
def test_sizes_as_tensors(model, dynamic) -> None:
    program = exported(model, (X,), capture="trace", dynamic_shapes=dynamic)
    shapes = [(2, 3), (5, 3), (1, 3), (1, 1), (4, 7)]
    for shape in shapes[: 1 if dynamic is None else 3 if len(dynamic[0]) == 1 else 5]:
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), model(x))


class Lists(nn.Module):
    def forward(self, x):
        one, *others = torch.broadcast_tensors(x, x[:1])
        return one.chunk(2, 1)[1], x.split([1, 2], 1)[1].sum(0), x.unbind()[0], *others


def test_lists_have_the_types_that_the_tracer_wrote(monkeypatch) -> None:
    """No kernel runs for static facts."""
    monkeypatch.setattr(TypeInference, "run", lambda *args, **kwargs: pytest.fail("asked"))
    program = exported(Lists(), (X,), capture="trace")
    for found, expected in zip(program(X), Lists()(X), strict=True):
        torch.testing.assert_close(found, expected)


def test_a_number_as_a_size() -> None:
    program = exported(lambda x, n: x.new_ones(n, 2) + x.sum(), (X, 3), capture="trace", dynamic_shapes=(None, "n"))
    for given in (3, 6):
        torch.testing.assert_close(program(X, given), X.new_ones(given, 2) + X.sum())


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(3, 3, bias=False)
        self.other = nn.Linear(3, 3, bias=False)
        self.other.weight = self.one.weight

    def forward(self, x):
        return self.other(self.one(x).relu()) @ self.one.weight


def test_shared_parameters_are_stored_once() -> None:
    model = Tied()
    program = exported(model, (X,), capture="trace", do_constant_folding=False)
    (weight,) = (
        value for value in program.model.graph.initializers.values() if value.shape is not None and len(value.shape) == 2
    )
    assert weight.const_value is not None
    torch.testing.assert_close(torch.tensor(weight.const_value.numpy()), model.one.weight.detach())
    torch.testing.assert_close(program(X), model(X))


class Filled(nn.Module):
    def forward(self, x):
        return torch.fill(x, True) + x


class Inner(nn.Module):
    def forward(self, x):
        return x.cumsum(0)


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stack = nn.Sequential(nn.Linear(3, 3), Inner())

    def forward(self, x):
        return self.stack(x) + 1


def test_scopes_and_source_lines() -> None:
    program = exported(Outer(), (X,), capture="trace")
    scopes = {node.metadata_props.get("onnxexp.op"): node.metadata_props for node in program.model.graph}
    assert scopes["aten::cumsum"]["onnxexp.scope"] == "stack.1"
    assert scopes["aten::linear"]["onnxexp.scope"] == "stack.0"
    assert scopes["aten::cumsum"]["onnxexp.source"].startswith("test_tracing.py:")


@torch.jit.script
def clipped(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x.clamp(max=1.0)
    return -x


class ScriptedPart(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(x.size(0)):
            x = self.fc(x).tanh()
        return x


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = torch.jit.script(ScriptedPart())
        self.head = nn.Linear(3, 2)

    def forward(self, x):
        return self.head(self.part(clipped(x)))


def test_a_traced_model_with_a_scripted_module() -> None:
    model = Mixed().eval()
    program = exported(model, (X,), capture="trace", dynamic_axes={"x": [0]})
    assert {"If", "Loop"} <= {node.op_type for node in program.model.graph}
    for x in (X, -X, torch.randn(5, 3)):
        torch.testing.assert_close(program(x), model(x))


def test_a_traced_module_is_taken_as_it_is() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = torch.jit.trace(nn.Sequential(nn.Linear(3, 4), nn.ReLU()).eval(), (X,))
    program = exported(model, (X,), dynamic_axes={"input": [0]})
    for x in (X, torch.randn(5, 3)):
        torch.testing.assert_close(program(x), model(x))


def test_training_and_its_buffers() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.warns(UserWarning, match=r"1\.num_batches_tracked"):
        onnxexp.export(model, (X,), capture="trace", training="training")
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert model.training


class OfAttribute(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.numbers = torch.arange(3.0)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.numbers, x * self.numbers[:1]


# Calls that torch's tracer cannot write down by itself, or has whole where torch.export takes them apart

FLAGS = torch.tensor([True, False, True])
CALLS = {
    "a bool as the number of full_like": (lambda x: torch.full_like(x, True), FLAGS),
    "a bool as the number of new_full": (lambda x: x.new_full((2,), True) & x[:2], FLAGS),
    # torch 2.11 and 2.12 fail an assertion of their own
    **({"full of a bool has no dtype": (lambda x: torch.full((2, 3), True) & (x > 1), X)} if RELEASE > (2, 12) else {}),
    "a bool as a factor": (lambda x: torch.add(x, x, alpha=True), FLAGS),
    "a bool filled in": (lambda x: x.masked_fill(~x, True), FLAGS),
    "a bool filled in along an index": (lambda x: x.index_fill(0, torch.tensor([1]), True), FLAGS),
    "a bool as a limit": (lambda x: x.clamp(min=True) + x.clamp(max=True), X),
    "a bool as a limit of ints": (lambda x: x.clamp(True, 3), torch.tensor([0, 2, 7])),
    "an attribute": (OfAttribute(), X),
    "fill with a number": (lambda x: torch.fill(x, 1.5), X),
    "fill with a tensor": (lambda x, y: torch.fill(x, y), X, torch.tensor(2)),
    "fill in a module with state": (nn.Sequential(nn.BatchNorm1d(3), nn.Flatten(), Filled()), X),
    "combinations": (lambda x: torch.combinations(x, 2), X[0]),
    "tensor_split": (lambda x, at: torch.tensor_split(x, at, 1), X, torch.tensor([1, 2])),
    "places counted from the end": (lambda x, at: x.take_along_dim(at, 1), X, torch.tensor([[-1, 0], [-3, 2]])),
    "sums at places counted from the end": (lambda x, at: x.put(at, x[0], accumulate=True), X, torch.tensor([-1, 0, -1])),
    "cov": (torch.cov, X.sin()),
    "cov of one variable": (torch.cov, X[0]),
    "cov with weights": (lambda x, f, a: torch.cov(x, fweights=f, aweights=a), X.sin(), torch.tensor([1, 3, 2]), X[1]),
    "cov without freedom": (lambda x: torch.cov(x, correction=5), X.sin()),
    "corrcoef": (torch.corrcoef, X.sin()),
    "corrcoef of one variable": (torch.corrcoef, X[0]),
}


@pytest.mark.filterwarnings("ignore:cov")
@pytest.mark.parametrize("opset", [9, 13, 20])
@pytest.mark.parametrize("call", CALLS)
def test_calls(call, opset) -> None:
    fn, *inputs = CALLS[call]
    program = exported(fn, inputs, capture="trace", opset_version=opset)
    expected = (fn.eval() if isinstance(fn, nn.Module) else fn)(*inputs)
    torch.testing.assert_close(program(*inputs), expected, equal_nan=True)


def test_a_message_does_not_show_whole_tensors() -> None:
    with pytest.raises(CaptureError, match="data dependence") as raised:
        onnxexp.export(lambda x: from_dlpack(x * 2), (torch.randn(100, 100),), capture="trace")
    assert len(str(raised.value)) < 1000


# What tracing fixes


def test_the_tracers_warnings_name_the_users_line() -> None:
    def decides(x):
        if x.sum() > 0:
            return x + 1
        return x - 1

    with pytest.warns(UserWarning, match="Tracing fixes the branches") as caught:
        onnxexp.export(decides, (X,), capture="trace")
    (message,) = [str(warning.message) for warning in caught if "Tracing fixes" in str(warning.message)]
    assert "test_tracing.py" in message and "if x.sum() > 0:" in message


def test_what_a_model_warns_of_before_it_fails_is_told() -> None:
    def model(x):
        warnings.warn("the input is odd", stacklevel=1)
        raise ValueError("and this is too much")

    with pytest.warns(UserWarning, match="the input is odd"), pytest.raises(CaptureError, match="too much"):
        onnxexp.export(model, (X,), capture="trace")


@pytest.mark.parametrize("capture", ["auto", "export"])
def test_a_model_whose_sizes_take_torch_too_long_is_traced(monkeypatch: pytest.MonkeyPatch, capture: str) -> None:
    def windows(x):
        return x.view(-1, x.shape[1] // 2, 2) + 1

    monkeypatch.setattr("onnxexp._capture.redirect._SLOW_CALL", 0.0)  # each call is slow, and the first one too much
    monkeypatch.setattr("onnxexp._capture.redirect._SLOW_CALLS", 1e-9)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = onnxexp.export(windows, (torch.randn(3, 4),), dynamic_shapes=({0: "n"},), capture=capture)
    program.verify((torch.randn(7, 4),))
    texts = [str(each.message) for each in caught if "so the model was traced" in str(each.message)]
    assert len(texts) == (capture == "auto")
    for text in texts:
        assert "SlowSizes: __get__ took 0 s" in text and "strict=True" not in text
        assert "to fix this, use capture='trace', or wait with capture='export'" in text


def test_what_cannot_be_exported_is_traced_with_a_warning() -> None:
    def decides(x):
        return x + 1 if x.sum() > 0 else x - 1

    with pytest.warns(UserWarning, match="torch.export failed, so the model was traced") as caught:
        program = onnxexp.export(decides, (X,))
    assert any("branches in Python on a value" in str(warning.message) for warning in caught)
    torch.testing.assert_close(program(X), X + 1)


def test_a_baked_in_size_is_refused_with_its_line() -> None:
    def bakes(x):
        return x.reshape(x.size(0).__int__(), 3)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(CaptureError, match="asked to be dynamic, but the model fixes it to 2") as raised:
            onnxexp.export(bakes, (X,), capture="trace", dynamic_axes={"x": [0]})
    assert "test_tracing.py" in str(raised.value)


def test_a_model_that_fails_says_so() -> None:
    def fails(x):
        raise KeyError("no such thing")

    with pytest.raises(CaptureError, match="KeyError: 'no such thing'"):
        onnxexp.export(fails, (X,), capture="trace")


def test_torch_is_left_as_it_was() -> None:
    before = len, torch.Tensor.__iadd__, vars(torch.Tensor).get("__imod__"), torch.jit._trace._trace_module_map
    exported(Outer(), (X,), capture="trace")
    with pytest.raises(CaptureError):
        onnxexp.export(lambda x: x.nothing, (X,), capture="trace")
    assert before == (len, torch.Tensor.__iadd__, vars(torch.Tensor).get("__imod__"), torch.jit._trace._trace_module_map)


@torch.jit.script
def repeated(x: Tensor, n: int) -> Tensor:
    for _ in range(n):
        x = x + 1
    return x


@torch.jit.script
def scaled(x: Tensor, by: float, up: bool, times: int = 2) -> Tensor:
    for _ in range(times):
        x = x * by if up else x / by
    return x


@pytest.mark.parametrize("opset", [9, 11, 13, 17, 20, 23])
def test_a_size_for_a_scripted_function_stays_one(opset) -> None:
    def calls(x):
        return repeated(x, x.size(0)) + scaled(x, by=x.shape[0] / 2, up=x.size(0) > 3) + repeated(x, n=3)

    class Calls(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = torch.jit.script(ScriptedPart())

        def forward(self, x):
            return self.part(calls(x))

    for model in (calls, Calls()):
        program = exported(model, (X,), capture="trace", dynamic_axes={"x": [0]}, opset_version=opset)
        for rows in (2, 1, 5):
            x = torch.randn(rows, 3)
            torch.testing.assert_close(program(x), model(x))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_frozen_module_and_one_that_was_saved(tmp_path) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval()
    torch.jit.save(torch.jit.script(model), tmp_path / "model.pt")
    x = torch.randn(2, 3, 8, 8)
    for scripted in (torch.jit.freeze(torch.jit.script(model)), torch.jit.load(tmp_path / "model.pt")):
        program = exported(scripted, (x,), dynamic_axes={"input": [0]})
        torch.testing.assert_close(program(x[:1]), model(x[:1]))


def test_a_scripted_module_without_a_forward_says_so() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = torch.jit.script(nn.LSTM(3, 4))
    with pytest.raises(CaptureError, match="has no forward, only forward__0"):
        onnxexp.export(model, (torch.randn(5, 2, 3),))


def test_a_warning_names_the_call_that_the_user_wrote() -> None:
    def decides(x):
        return x + 1 if x.sum() > 0 else x - 1

    line = inspect.currentframe().f_lineno + 2
    with pytest.warns(UserWarning, match="so the model was traced") as caught:
        onnxexp.export(decides, (X,))
    (warned,) = [warning for warning in caught if "was traced" in str(warning.message)]
    assert (warned.filename, warned.lineno) == (__file__, line)


def test_a_packs_warning_names_the_users_line_too() -> None:
    """A pack's own frames are skipped, under any name of its package."""
    scope = {"__name__": "acme_ops.symbolics", "warn": onnxexp.warn}
    exec("def lowered():\n    inner()\ndef inner():\n    warn('from the pack')", scope)
    line = inspect.currentframe().f_lineno + 2
    with pytest.warns(UserWarning, match="from the pack") as caught:
        scope["lowered"]()
    assert (caught[0].filename, caught[0].lineno) == (__file__, line)


class Written(nn.Module):
    """Sizes that are written; counts its runs."""

    runs = 0

    def forward(self, x):
        type(self).runs += 1
        rows = kept = x.size(0)
        rows += 2
        half = x.size(0)
        half /= 2
        warnings.warn("warns once", UserWarning, stacklevel=1)
        return x.new_zeros(rows), x.reshape(kept, -1) * half


@pytest.mark.parametrize("inside", [False, True], ids=["model", "submodule"])
def test_sizes_that_are_written_are_new_numbers(inside: bool) -> None:
    Written.runs = 0
    written = Written()
    model = nn.Sequential(written) if inside else written
    before = vars(Tensor).get("__iadd__")
    with pytest.warns(UserWarning, match="warns once") as warned:
        program = onnxexp.export(model, (X,), capture="trace", dynamic_shapes=({0: "rows"},))
    assert [str(warning.message) for warning in warned].count("warns once") == 1 and Written.runs == 2
    assert vars(Tensor).get("__iadd__") is before
    zeros, scaled = program(torch.ones(5, 3))
    torch.testing.assert_close(zeros, torch.zeros(7))
    torch.testing.assert_close(scaled, torch.full((5, 3), 2.5))


class Read(nn.Module):
    runs = 0

    def forward(self, x):
        type(self).runs += 1
        positions = torch.arange(x.size(1))
        positions += x.size(0)  # a tensor, which may be written
        return x.reshape(x.size(0) * 3) + 1, positions


def test_a_model_is_run_once() -> None:
    exported(Read(), (X,), capture="trace")
    assert Read.runs == 1


class Called(nn.Linear):
    def __call__(self, x):
        return super().__call__(x) * 2


class Dispatched(nn.Linear):
    def _call_impl(self, *args, **kwargs):
        return super()._call_impl(*args, **kwargs) * 2


@pytest.mark.parametrize("case", ["plain", "hook", "pre-hook", "global hook", "__call__", "_call_impl", "compiled"])
def test_what_a_call_does_beside_the_forward_is_traced(case) -> None:
    model = {"__call__": Called, "_call_impl": Dispatched}.get(case, nn.Linear)(3, 4)
    handle = None
    if case == "hook":
        handle = model.register_forward_hook(lambda module, args, result: result * 2)
    elif case == "pre-hook":
        handle = model.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    elif case == "global hook":
        handle = nn.modules.module.register_module_forward_hook(lambda module, args, result: result * 2)
    elif case == "compiled":
        model._compiled_call_impl = lambda x: model.forward(x) * 2
    try:
        program = exported(model, (X,), capture="trace")
        torch.testing.assert_close(program(X), model(X).detach())
        assert torch.allclose(model(X), model.forward(X)) == (case == "plain")
    finally:
        if handle is not None:
            handle.remove()


def test_of_axes_that_are_found_equal_the_first_gives_the_name() -> None:
    program = exported(
        lambda left, right: torch.bmm(left, right),
        (torch.ones(2, 3, 4), torch.ones(2, 4, 5)),
        capture="trace",
        dynamic_shapes=({0: "zeta", 1: "rows", 2: "inner"}, {0: "alpha", 1: "depth", 2: "columns"}),
    )
    shapes = [[str(size) for size in value.shape] for value in (*program.model.graph.inputs, *program.model.graph.outputs)]
    assert shapes == [["zeta", "rows", "inner"], ["zeta", "inner", "columns"], ["zeta", "rows", "columns"]]


def test_a_trace_that_fixes_nothing_is_not_said_to_fix_something() -> None:
    def model(x):
        if torch.compiler.is_exporting():
            raise RuntimeError("not through torch.export")
        return x + 1

    with pytest.warns(UserWarning, match="torch.export failed, so the model was traced") as caught:
        onnxexp.export(model, (X,))
    text = "\n".join(str(warning.message) for warning in caught)
    assert "not through torch.export" in text and "fixes the branches" not in text


def test_a_fixed_axis_names_the_line_that_made_its_size_a_number() -> None:
    def by_number(x):
        rows = x.shape[0].__int__()  # made here
        return x + torch.zeros(rows, 3)  # met here

    def by_iteration(x):
        rows = len(list(x))  # made here
        return x + torch.zeros(rows, 3)  # met here

    for model in (by_number, by_iteration):
        with pytest.raises(CaptureError, match="the model fixes it to 2") as caught:
            onnxexp.export(model, (X,), capture="trace", dynamic_shapes={"x": {0: "n"}})
        assert re.search(r"# met here\n.*a size of the example a constant:\n.*# made here", str(caught.value)), str(caught.value)


@pytest.mark.parametrize("dynamic", [None, ({0: "n"},)], ids=["static", "dynamic"])
def test_a_size_as_the_first_factor(dynamic) -> None:
    def scaled(x: Tensor) -> Tensor:
        return x.shape[0] * 2 * x + x.shape[0] / (x.abs() + 1)

    exported(scaled, (torch.randn(2, 3),), capture="trace", dynamic_shapes=dynamic).verify()


def test_a_static_trace_does_not_import_the_compiler_of_torch() -> None:
    program = (
        "import sys, torch, onnxexp\n"
        "onnxexp.export(lambda x: x + 1, (torch.ones(2),), capture='trace')\n"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_a_traced_function_that_has_not_run() -> None:
    """The first run folds its constants, under the mode that notes what the model writes."""
    traced = torch.jit.trace(lambda x: (x / 255.0 + 1.0) * 2.0, torch.rand(2, 3), check_trace=False)
    program = onnxexp.export(traced, (torch.rand(2, 3),))
    x = torch.rand(2, 3)
    torch.testing.assert_close(program(x), traced(x))


def test_a_branch_on_the_larger_of_sizes_is_a_condition() -> None:
    """VITS pads its table of relative positions where a text is longer than the window."""

    def model(x: torch.Tensor) -> torch.Tensor:
        padding = max(x.shape[1] - 5, 0)
        return torch.nn.functional.pad(x, (padding, 0)) if padding > 0 else x * 2

    with pytest.warns(UserWarning, match=r"right only where max\(0, t - 5\) > 0"):
        program = onnxexp.export(model, (torch.rand(2, 50),), dynamic_shapes=({0: "n", 1: "t"},), capture="trace")
    for size in ((2, 50), (3, 6), (1, 71)):
        x = torch.rand(size)
        torch.testing.assert_close(program(x), model(x))
