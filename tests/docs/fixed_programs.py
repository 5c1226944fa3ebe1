"""Programs that fail, and the same programs with the fix of the message applied."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim

import onnxexp
import onnxexp_torch_onnx

X = torch.arange(6.0).reshape(2, 3) + 1
LINEAR = nn.Linear(3, 3)


class Fix(NamedTuple):
    """A call that fails with a message, and the same call with the message's fix."""

    message: str
    fails: Callable[[], Any]
    fixed: Callable[[], Any]


OPTIONS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (r"opset_version is 8; expected a whole number from 9 to 28", {"opset_version": 8}, {"opset_version": 9}),
    (r"opset_version is '17'; expected a whole number", {"opset_version": "17"}, {"opset_version": 17}),
    (r"There are: input\.", {"dynamic_shapes": {"x": {0: "n"}}}, {"dynamic_shapes": {"input": {0: "n"}}}),
    (r"has axes -2 to 1", {"dynamic_shapes": ({2: "n"},)}, {"dynamic_shapes": ({-2: "n"},)}),
    (r"must be a dict by parameter name, or a tuple", {"dynamic_shapes": 7}, {"dynamic_shapes": {"input": {0: "n"}}}),
    (r"Give one entry for each \(None", {"dynamic_shapes": ({0: "n"}, None)}, {"dynamic_shapes": ({0: "n"},)}),
    (r'Name the axes: \{0: "batch"\}', {"dynamic_shapes": {"input": "n"}}, {"dynamic_shapes": {"input": {0: "batch"}}}),
    (r"has 1 entries, but input has 2 axes", {"dynamic_shapes": (["n"],)}, {"dynamic_shapes": (["n", None],)}),
    (
        r"both describe axes: give one",
        {"dynamic_shapes": ({0: "n"},), "dynamic_axes": {"input": [0]}},
        {"dynamic_axes": {"input": [0]}},
    ),
    (
        r"did you mean 'image'\?",
        {"input_names": ["image"], "dynamic_axes": {"img": [0]}},
        {"input_names": ["image"], "dynamic_axes": {"image": [0]}},
    ),
    (r"has 1 input: input\. Give at most that many", {"input_names": ["a", "b"]}, {"input_names": ["a"]}),
    (r"output_names gives 2 names", {"output_names": ["a", "b"]}, {"output_names": ["a"]}),
    (r"it may be 'auto' or 'export'", {"capture": "dynamo"}, {"capture": "export"}),
    (r"external_data=True needs a path", {"f": io.BytesIO(), "external_data": True}, {"f": "model.onnx", "external_data": True}),
    (r"did you mean 'fold-batch-norm'\?", {"skip_passes": ["fold-batchnorm"]}, {"skip_passes": ["fold-batch-norm"]}),
    (r"prefer: .* aten has", {"prefer": {"aten::linear": "torch-onnx"}}, {"prefer": {"aten::linear": "aten"}}),
    (r"custom_opsets is for other domains; opset_version", {"custom_opsets": {"": 18}}, {"opset_version": 18}),
    (r"operator_export_type is 'ATEN'", {"operator_export_type": "ATEN"}, {"operator_export_type": "ONNX_ATEN_FALLBACK"}),
    (r"fallback is 'aten'", {"fallback": "aten"}, {"fallback": "torch"}),
    (r"target is 'no-runtime'; expected", {"target": "no-runtime"}, {"target": "onnx"}),
    (r"training is 'evaluation'", {"training": "evaluation"}, {"training": "eval"}),
    (r"there is no plugin 'my-pack'", {"plugins": ["my-pack", ...]}, {"plugins": [...]}),
    (r"needs the plugin 'torchscript'.*switch it on", {"capture": "trace", "plugins": ["aten"]},
     {"capture": "trace", "plugins": ["aten", "torchscript"]}),
    (r"no plugin is selected", {"plugins": []}, {"plugins": ["aten"]}),
    (r"the folder .* does not exist\. Create it, or choose another", {"f": "missing/linear.onnx"}, {"f": "linear.onnx"}),
    (r"no file .*; to fix this, give the path of a file", {"weights": "nowhere.safetensors"}, {"weights": LINEAR.state_dict()}),
    (r"opened for reading; to fix this, open it in mode 'wb'", {"f": open(__file__, "rb")}, {"f": io.BytesIO()}),  # noqa: SIM115
]  # fmt: skip
"""Arguments of an export of `LINEAR` that are refused, and those that the message proposes."""


def _fix(message: str, fails: Any, fixed: Any) -> Fix:
    """Pair two exports, each given as (model, args) or (model, args, options)."""

    def call(model: Any, args: Any, options: dict[str, Any] | None = None) -> Callable[[], Any]:
        return lambda: onnxexp.export(model, args, **(options or {}))

    return Fix(message, call(*fails), call(*fixed))


DYNAMIC = {"dynamic_shapes": ({0: "n"},)}
EXPORT = {"capture": "export"}
TRACE = {"capture": "trace", "dynamic_shapes": ({0: "n"},)}


def reshapes(x: Tensor) -> Tensor:
    return x.reshape(2, 3) * 2


def limited(x: Tensor) -> Tensor:
    return x if x.shape[0] > 4 else x * 2


def decides(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x * 2
    return x


def flips(x: Tensor) -> Tensor:
    return torch.cat([part.flip(0) for part in x.split(1, 0)], 0)


def flips_pairs(x: Tensor) -> Tensor:
    return torch.cat([part.flip(0) for part in x.split(2, 0)], 0)


class Decides(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return decides(x)


def by_number(x: Tensor) -> Tensor:
    return x + torch.zeros(x.shape[0].__int__(), 3)


def writes(x: Tensor) -> Tensor:
    y = x.t().reshape(-1)
    y.add_(1)
    return x


def writes_into_a_clone(x: Tensor) -> Tensor:
    y = x.t().reshape(-1).clone()
    y.add_(1)
    return x


class Lookup(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * globals()["X"]  # type: ignore[no-any-return]


class Owner(nn.Module):
    """Has the parameters that `LINEAR(x)` alone would use as constants."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = LINEAR

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)  # type: ignore[no-any-return]


class Weather(nn.Module):
    def forward(self, readings: dict[str, Tensor]) -> Tensor:
        return readings["city"] + 1


def gradient(x: Tensor) -> Tensor:
    y = x.detach().requires_grad_()
    return torch.autograd.grad((y * y).sum(), y)[0]


def gradient_enabled(x: Tensor) -> Tensor:
    with torch.enable_grad():  # type: ignore[no-untyped-call]
        return gradient(x)


class Summed(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y


def lazy(initialized: bool) -> nn.Module:
    model = nn.LazyLinear(4)
    if initialized:
        model(X)
    return model


def hollow() -> nn.Module:
    with torch.device("meta"):
        return nn.Linear(3, 3)


def in_fake_mode() -> Any:
    with FakeTensorMode():
        return onnxexp.export(nn.Linear(3, 3), (torch.ones(2, 3),))


TWO = (torch.ones(3, 4), torch.ones(3, 4))
CAPTURED = [
    _fix(r"use torch\.stack\(items\)\[i\]", (lambda x, i: [x, x * 2][int(i)], (X, torch.tensor(1)), EXPORT),
          (lambda x, i: torch.stack([x, x * 2])[i], (X, torch.tensor(1)), EXPORT)),
    _fix(r"the model needs a Python number, as an index", (lambda x, i: x.unbind(0)[int(i)], (X, torch.tensor(1)), EXPORT),
          (lambda x, i: torch.stack(x.unbind(0))[i], (X, torch.tensor(1)), EXPORT)),
    _fix(r"missing a required argument: 'y'\. Give one", (Summed(), (X,)), (Summed(), (X, X))),
    _fix(r"no parameter 'yy' \(did you mean 'y'", (Summed(), (X,), {"kwargs": {"yy": X}}),
          (Summed(), (X,), {"kwargs": {"y": X}})),
    _fix(r"has no parameter 'city'; it takes \(readings", (Weather(), ({"city": X},)), (Weather(), ({"city": X}, {}))),
    _fix(r"args is a list: give a tuple", (LINEAR, [X]), (LINEAR, (X,))),
    _fix(r"ReLU is a class: give an instance", (nn.ReLU, (X,)), (nn.ReLU(), (X,))),
    _fix(r"to fix this, run the model once before", (lazy(False), (X,)), (lazy(True), (X,))),
    _fix(r"to fix this, give dense tensors", (nn.ReLU(), (X.to_sparse(),)), (nn.ReLU(), (X,))),
    _fix(r"to fix this, pass example inputs that it accepts", (LINEAR, (torch.ones(2, 4),)), (LINEAR, (X,))),
    _fix(r"fixes it to 2\n.*\n.*Change that line so that it works at any size", (reshapes, (X,), {**EXPORT, **DYNAMIC}),
          (lambda x: x.reshape(x.shape) * 2, (X,), {**EXPORT, **DYNAMIC})),
    _fix(r'fixes it to 2\n.*\n.*or pass capture="script", which keeps the loop', (flips, (X,), {**EXPORT, **DYNAMIC}),
          (flips, (X,), {"capture": "script", **DYNAMIC})),
    _fix(r'fixes a size that is computed .*or pass capture="script"', (flips_pairs, (X.repeat(2, 1),), {**EXPORT, **DYNAMIC}),
          (flips_pairs, (X.repeat(2, 1),), {"capture": "script", **DYNAMIC})),
    _fix(r"or leave the axis out of dynamic_shapes", (reshapes, (X,), DYNAMIC), (reshapes, (X,))),
    _fix(r"to fix this, write that line for any size, or leave the axis static", (reshapes, (X,), TRACE),
          (lambda x: x.reshape(x.shape) * 2, (X,), TRACE)),
    _fix(r"a size of the example a constant:\n.*__int__\(\)", (by_number, (X,), TRACE),
          (lambda x: x + torch.zeros(x.shape[0], 3), (X,), TRACE)),
    _fix(r'for a name \("batch"\) or Dim\.DYNAMIC it suffices', (limited, (X,), {**EXPORT, "dynamic_shapes": ({0: Dim("b")},)}),
          (limited, (X,), {**EXPORT, **DYNAMIC})),
    _fix(r"must always be equal",
          (Summed(), TWO, {**EXPORT, "dynamic_shapes": ({0: Dim("a")}, {0: Dim("b")})}),
          (Summed(), TWO, {**EXPORT, "dynamic_shapes": ({0: Dim("a")}, {0: Dim("a")})})),
    _fix(r"Use torch\.where", (decides, (X,), EXPORT), (lambda x: torch.where(x.sum() > 0, x * 2, x), (X,), EXPORT)),
    _fix(r"or torch\.cond", (decides, (X,), EXPORT),
          (lambda x: torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x.clone(), (x,)), (X,), EXPORT)),
    _fix(r"compile that part with torch\.jit\.script", (Decides(), (X,), EXPORT), (torch.jit.script(Decides()), (X,))),
    _fix(r"Give it numbers and sizes that do not depend on values",
          (lambda x: torch.stack([part.sum() for part in x[x > 0].split(1)]), (X,), EXPORT),
          (lambda x: torch.stack([part.sum() for part in x.split(1)]), (X,), EXPORT)),
    _fix(r'to fix this, write that line with operators that torch\.jit\.trace records',
          (lambda x: x * {2: 0.5}[x.shape[0]], (X,), {"capture": "trace"}),
          (lambda x: x * x.shape[0], (X,), {"capture": "trace"})),
    _fix(r'or use capture="trace"', (Lookup(), (X,), {"capture": "script"}), (Lookup(), (X,), {"capture": "trace"})),
    _fix(r"to fix this, make it one of the model's, or detach", (lambda x: LINEAR(x), (X,), {"capture": "trace"}),
          (Owner(), (X,), {"capture": "trace"})),
    _fix(r"to fix this, clone\(\) one of them before the write", (writes, (X,), {**EXPORT, **DYNAMIC}),
          (writes_into_a_clone, (X,), {**EXPORT, **DYNAMIC})),
    _fix(r"wrap that part in `with torch\.enable_grad", (gradient, (X,), {"capture": "trace"}),
          (gradient_enabled, (X,), {"capture": "trace"})),
    _fix(r"is a set, .*pass or return the tensors themselves", (lambda x: {x + 1}, (X,)), (lambda x: [x + 1], (X,))),
    Fix(r"without data: weight, bias; to fix this, .*export_params=False", lambda: onnxexp.export(hollow(), (X.to("meta"),)),
         lambda: onnxexp.export(hollow(), (X.to("meta"),), export_params=False).model),
    _fix(r"to fix this, pass weights=CHECKPOINT", (hollow(), (X,)), (hollow(), (X,), {"weights": LINEAR.state_dict()})),
    Fix(r"to fix this, leave that mode first", in_fake_mode, lambda: onnxexp.export(nn.Linear(3, 3), (torch.ones(2, 3),))),
    Fix(r"has no argument 'opset'", lambda: onnxexp_torch_onnx.export(LINEAR, (X,), opset=17),
         lambda: onnxexp_torch_onnx.export(LINEAR, (X,), opset_version=17)),
    Fix(r"onnxexp_torch_onnx\.export takes torch\.onnx's", lambda: onnxexp.export(LINEAR, (X,), dynamo=True),
         lambda: onnxexp_torch_onnx.export(LINEAR, (X,), dynamo=True)),
]  # fmt: skip


@torch.library.custom_op("fixes::twice", mutates_args=())
def twice(x: Tensor) -> Tensor:
    return x * 2


@torch.library.custom_op("fixes::halves", mutates_args=())
def halves(x: Tensor) -> tuple[Tensor, Tensor]:
    return x[:1].clone(), x[1:].clone()


twice.register_fake(torch.empty_like)
halves.register_fake(lambda x: (torch.empty_like(x[:1]), torch.empty_like(x[1:])))


def table(function: Callable[..., Any], name: str = "twice", *, override: bool = False) -> onnxexp.SymbolicTable:
    """Make a plugin with a symbolic for an operator of this file."""
    made = onnxexp.SymbolicTable("fixes", override=override)
    made(name)(function)
    return made


def doubled(op: Any, x: Any) -> Any:
    return op.Add(x, x)


def _twice(message: str, fails: list[Any], fixed: list[Any], **options: Any) -> Fix:
    """Pair two exports of `twice` by their plugins; `options` are those of the second."""
    call: Any = lambda x: twice(x)  # noqa: E731
    return _fix(message, (call, (X,), {"plugins": fails}), (call, (X,), {"plugins": fixed, **options}))


class Pack:
    """A pass that fails, or a hook with a wrong name."""

    @onnxexp.hookimpl
    def post_pass(self, options: Any) -> Any:
        def fail(model: Any) -> Any:
            raise ValueError("no such pattern")

        return fail


class Misspelt:
    @onnxexp.hookimpl
    def post_passes(self, options: Any) -> Any:
        return []


class Spelt:
    @onnxexp.hookimpl
    def post_pass(self, options: Any) -> Any:
        return []


def called(options: dict[str, Any], *args: Any) -> Callable[[], Any]:
    """Export a scaling and call the program."""
    return lambda: onnxexp.export(lambda x, factor: x * factor, (X, 2.0), **options)(*args)


ATEN = {"operator_export_type": onnxexp.OperatorExportTypes.ONNX_ATEN}
RIGHT = table(doubled)
HALVES = table(lambda op, x: (op.Slice(x, [0], [1], [0]), op.Slice(x, [1], [2], [0])), "halves")
LOWERED = [
    _twice(r"write a symbolic for it:", [...], [RIGHT, ...]),
    _twice(r"failed in line .*ZeroDivisionError", [table(lambda op, x: op.Mul(x, 1 / 0)), ...], [RIGHT, ...]),
    _twice(r"returned None; 1 Tensors were expected", [table(lambda op, x: None), ...], [RIGHT, ...]),
    _twice(r"returns torch\.float64 where torch returns torch\.float32",
           [table(lambda op, x: op.cast(op.Add(x, x), torch.float64)), ...], [RIGHT, ...]),
    _twice(r"Choose one with `prefer", [RIGHT, table(lambda op, x: op.Mul(x, 2.0)), ...],
           [RIGHT, table(lambda op, x: op.Mul(x, 2.0)), ...], prefer={"fixes::twice": "inline fixes"}),
    _twice(r"set override=True on exactly one", [RIGHT, table(lambda op, x: op.Mul(x, 2.0)), ...],
           [RIGHT, table(lambda op, x: op.Mul(x, 2.0), override=True), ...]),
    _twice(r"switch one of them off", [RIGHT, table(lambda op, x: op.Mul(x, 2.0)), ...], [RIGHT, ...]),
    _fix(r"2 Tensors were expected",
          (lambda x: halves(x), (X,), {"plugins": [table(lambda op, x: op.Slice(x, [0], [1], [0]), "halves"), ...]}),
          (lambda x: halves(x), (X,), {"plugins": [HALVES, ...]})),
    _fix(r"opset_version=11 can express all of it", (torch.unique, (X,), {"opset_version": 10}),
          (torch.unique, (X,), {"opset_version": 11})),
    _fix(r"to fix this, cast one", (LINEAR, (X.long(),)), (lambda x: LINEAR(x.float()), (X.long(),))),
    _fix(r"the pass .* failed: ValueError", (LINEAR, (X,), {"plugins": [Pack(), ...]}),
          (LINEAR, (X,), {"plugins": [Pack(), ...], "skip_passes": ["fail"]})),
    _fix(r"did you mean 'post_pass'\?", (LINEAR, (X,), {"plugins": [Misspelt(), ...]}),
          (LINEAR, (X,), {"plugins": [Spelt(), ...]})),
    Fix(r"export again with the other value", called({}, X, 3.0),
         lambda: onnxexp.export(lambda x, factor: x * factor, (X, 3.0))(X, 3.0)),
    Fix(r"is float32\[2, 3\], the call gives float32\[5, 3\]", called({}, torch.ones(5, 3), 2.0),
         called({"dynamic_shapes": ({0: "n"}, None)}, torch.ones(5, 3), 2.0)),
    Fix(r"ONNX Runtime .* does not take this model", called(ATEN, X, 2.0), called({}, X, 2.0)),
]  # fmt: skip

FIXES = [*CAPTURED, *LOWERED]


class Kept(nn.Module):
    """Keeps a tensor between calls."""

    def __init__(self) -> None:
        super().__init__()
        self.total = torch.zeros(2, 3)

    def forward(self, x: Tensor) -> Tensor:
        self.total = self.total + x
        return self.total


NOT_ONE = {"dynamic_shapes": ({0: Dim.DYNAMIC(min=2)},)}  # type: ignore[attr-defined] # torch's own
WARNINGS = [
    _fix(r"to fix this, make them inputs and outputs", (Kept(), (X,)), (Summed(), (X, X))),
    _fix(r"Use torch\.where or torch\.cond", (decides, (X,)),
          (lambda x: torch.where(x.sum() > 0, x * 2, x), (X,))),
    _fix(r"limit the sizes in dynamic_shapes \(Dim\.DYNAMIC", (lambda x: x.squeeze() + torch.ones(3), (X,), DYNAMIC),
          (lambda x: x.squeeze() + torch.ones(3), (X,), NOT_ONE)),
    _fix(r"Name the axes that squeeze removes", (lambda x: x.squeeze() + torch.ones(3), (X,), TRACE),
          (lambda x: x.squeeze(-1) + torch.ones(3), (X,), TRACE)),
]  # fmt: skip
"""Programs that succeed with a warning, and those without it."""
