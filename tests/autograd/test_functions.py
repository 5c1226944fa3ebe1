"""Functions of every kind, through each frontend."""

from __future__ import annotations

from typing import Any

import torch

from tests.autograd import builders as b
from tests.autograd import functions as f
from tests.autograd.harness import Case, X, check, rows

torch.manual_seed(0)

CUBE = torch.randn(3, 3, 2)


def conditional(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda x: f.MyRelu.apply(x), lambda x: f.SetUp.apply(x, 0.1), (x,))


def attribute(x: torch.Tensor) -> Any:
    values, indices = f.MinMax.apply(x)
    return values.unsqueeze(1) + x, indices


def dirty(x: torch.Tensor) -> Any:
    y = x + 0
    z = f.Dirty.apply(y)
    return y + z


def dirty_inlined(x: torch.Tensor) -> Any:
    y = x + 0
    f.DirtyInlined.apply(y)
    return y


def several(x: torch.Tensor) -> torch.Tensor:
    return f.Scale.apply(f.MyRelu.apply(x), 1.5, "mul", torch.float32, [1, 2], None, True) - f.MyRelu.apply(-x)


def checkpointed(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        y = f.MyRelu.apply(x)
    return y + f.MyRelu.apply(x * 2)


CASES = [
    Case("relu", f.MyRelu.apply, has=("Clip",), lacks=("Max", "Relu")),
    Case("inlined", lambda x: f.MyLogExp.apply(x.abs() + 1), has=("Exp", "Log")),
    Case("constants", lambda x: f.Scale.apply(x, 2.0, "mul", torch.float32, [1, 2], None, True), has=("Mul", "Add")),
    Case("int for float", lambda x: f.Scale.apply(x, 0.25, "mul", torch.float32, (3,), None, True), has=("Mul",)),
    Case("parse_args", lambda x, y: f.Typed.apply(x, y, 0.5, 2), (X, X.flip(0)), has=("Sum",)),
    Case("same tensor twice", lambda x: f.Typed.apply(x, x, 0.5, 2), has=("Sum",)),
    Case("two outputs", f.MinMax.apply, has=("TopK",), lacks=("ReduceMax", "ArgMax")),
    Case("one of two outputs", lambda x: f.MinMax.apply(x)[1], has=("TopK",)),
    Case("outputs used", attribute, has=("TopK",)),
    Case("a size", lambda x: f.Repeat.apply(x, x.shape[0]), has=("ReduceSum", "Cast")),
    Case("a size computed", lambda x: f.Repeat.apply(x, x.shape[0] * 2 + 1), has=("ReduceSum",)),
    Case("a size as a constant", lambda x: f.Repeat.apply(x, torch.tensor(x.shape[1])), has=("ReduceSum",)),
    Case("setup_context", lambda x: f.SetUp.apply(x, 0.1), has=("LeakyRelu",), lacks=("Where",)),
    Case("setup_context default", lambda x: f.SetUp.apply(x), has=("LeakyRelu",), lacks=("Where",)),
    Case("nested", f.Outer.apply, has=("Clip", "Add")),
    Case("nested in one with a symbolic", f.Around.apply, has=("Relu",), lacks=("Clip", "Mul")),
    Case("of a Function", lambda x: f.MyRelu.apply(f.SetUp.apply(x, 0.3)), has=("LeakyRelu", "Clip")),
    Case("reversal", lambda x: f.Reversal.apply(x, 0.5) * 2),
    Case("the input itself", lambda x: f.Same.apply(x) + 1),
    Case("the input itself, returned", lambda x: (f.Same.apply(x), x)),
    Case("written input", dirty, has=("Sum",)),
    Case("written input, inlined", dirty_inlined, has=("Mul",), frontends=("non-strict", "trace")),  # Dynamo traces no mark_dirty
    Case("non-zero", lambda x: f.NonZero.apply((x > 0).float()), has=("NonZero", "Transpose")),
    Case("non-zero used", lambda x: f.NonZero.apply((x > 0).float()).sum(0), has=("NonZero",)),
    Case("a list and a dict", lambda x, y: f.Listed.apply([x, y], {"axis": 1}), (X, X * 2), has=("Concat",)),
    Case("a tuple of one", lambda x: f.Listed.apply((x,), {"axis": 1})),
    Case(
        "fake quantization", lambda x: f.Rounding.apply(x, torch.tensor(0.1), torch.tensor(3), -128, 127), has=("QuantizeLinear",)
    ),
    Case("None out", lambda x: f.Optional.apply(x, None)[0], has=("Mul",), lacks=("Add",)),
    Case("None in", lambda x, y: f.Optional.apply(x, y)[0], (X, X), has=("Mul", "Add")),
    Case("If", b.Branching.apply, (X, X), has=("If",), lacks=("Where",)),
    Case("If with a use after", lambda x, y: f.MyRelu.apply(b.Branching.apply(x, y)), (X, X), has=("If", "Clip")),
    Case("Loop", b.Looping.apply, has=("Loop",), lacks=("Mul",)),
    Case("torch.onnx's own symbolic", b.Stock.apply, has=("Erf", "Div")),
    Case("changed after it was made", b.Mutating.apply, has=("Transpose",)),
    Case("the graph's own methods", b.Low.apply, has=("Exp",)),
    Case("cast by the exporter", b.Promoted.apply, (torch.arange(6).reshape(3, 2),), has=("Cast", "Mul")),
    Case("asks for types", b.Shaped.apply, (CUBE,), has=("Flatten",)),
    Case("in both branches of cond", conditional, has=("If",), frontends=("non-strict", "strict")),  # torch traces no cond
    Case("several in a row", several, has=("Clip",)),
    Case("the same constant call twice", lambda x: f.SetUp.apply(x, 0.1) + f.SetUp.apply(x * 2, 0.1), has=("LeakyRelu",)),
    Case("other constants", lambda x: f.SetUp.apply(x, 0.1) + f.SetUp.apply(x, 0.2), has=("LeakyRelu",)),
    Case("under no_grad", checkpointed, has=("Clip",)),
    Case("half", f.SetUp.apply, (X.half(),), has=("LeakyRelu",)),
    Case("static", f.MyRelu.apply, has=("Clip",), dynamic=False),
    Case("0-d", lambda x: f.MyRelu.apply(x.sum()), has=("Clip",)),
    Case("in a loop of the user's", lambda x: [f.MyRelu.apply(x + i) for i in range(3)], has=("Clip",)),
]


@rows(CASES)
def test_function(case: Case, how: str) -> None:
    check(case, how)
