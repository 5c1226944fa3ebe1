"""Functions that write to arguments, return views, keep state or unknown sizes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.autograd.function import InplaceFunction

import onnxexp
from tests.autograd import functions as f
from tests.autograd.harness import Case, X, check, program, rows
from tests.torch_versions import RELEASE

ONE = torch.tensor(1.0)


class DirtyTwo(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_dirty(x, y)
        x.mul_(2)
        y.add_(1)
        return x, y, x + y

    @staticmethod
    def symbolic(g, x, y):
        doubled, more = g.op("Add", x, x), g.op("Add", y, g.op("Constant", value_t=ONE))
        return doubled, more, g.op("Sum", doubled, more)


class Unmarked(torch.autograd.Function):
    """Writes into its argument without mark_dirty, and does not return it."""

    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        return x + 1

    @staticmethod
    def symbolic(g, x):
        return g.op("Sum", g.op("Add", x, x), g.op("Constant", value_t=ONE))


class UnmarkedReturned(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.mul_(2)

    @staticmethod
    def symbolic(g, x):
        return g.op("Sum", x, x)


class Inplace(InplaceFunction):
    @staticmethod
    def forward(ctx, x, inplace=False):
        if inplace:
            ctx.mark_dirty(x)
        return (x if inplace else x.clone()).mul_(2)

    @staticmethod
    def symbolic(g, x, inplace=False):
        return g.op("Sum", x, x)


class Halves(torch.autograd.Function):
    """Two views of the argument."""

    @staticmethod
    def forward(ctx, x):
        return x[:, :2], x[:, 2:]

    @staticmethod
    def symbolic(g, x):
        bounds = [
            [g.op("Constant", value_t=torch.tensor([value])) for value in (start, end, 1)] for start, end in ((0, 2), (2, 4))
        ]
        return tuple(g.op("Slice", x, *each) for each in bounds)


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * 2
        return y, y

    @staticmethod
    def symbolic(g, x):
        y = g.op("Add", x, x)
        return y, y


class Swapped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return y, x, x + y

    @staticmethod
    def symbolic(g, x, y):
        return y, x, g.op("Sum", x, y)


class Chosen(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, mask):
        return x[mask]

    @staticmethod
    def symbolic(g, x, mask):
        return g.op("GatherND", x, g.op("Transpose", g.op("NonZero", mask), perm_i=[1, 0]))


class Unique(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.unique(x, return_counts=True)

    @staticmethod
    def symbolic(g, x):
        values, _, _, counts = g.op("Unique", x, sorted_i=1, outputs=4)
        return values, counts


class Once(torch.autograd.Function):
    """A Function whose forward calls the forward that was stored for it, once."""

    left: Any = None

    @classmethod
    def call(cls, forward: Any, *args: Any) -> Any:
        Once.left = forward
        return cls.apply(*args)

    @staticmethod
    def forward(ctx, *args):
        forward, Once.left = Once.left, None
        return forward()

    @staticmethod
    def symbolic(g, name, x):
        return g.op(name, x)


class Saving(torch.autograd.Function):
    """Saves what it returns, and reads which gradients are needed."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.set_materialize_grads(False)
        y = x * weight
        if ctx.needs_input_grad[1]:
            ctx.save_for_backward(x, y)
        ctx.factor = 3
        return y * ctx.factor

    @staticmethod
    def symbolic(g, x, weight):
        return g.op("Mul", g.op("Mul", weight, x), g.op("Constant", value_t=torch.tensor(3.0)))


class PlainSaving(torch.autograd.Function):
    forward = Saving.forward


class Weighing(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function
        self.weight = torch.nn.Parameter(torch.linspace(-1, 1, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function.apply(x, self.weight)


def both_written(x: torch.Tensor, y: torch.Tensor) -> Any:
    a, b = x + 0, y * 1
    return a, b, *DirtyTwo.apply(a, b)


def view_written(x: torch.Tensor) -> Any:
    a = x + 0
    f.Dirty.apply(a[:, 1:3])
    return a


def written(function: Any, *args: Any) -> Any:
    """Return a forward that returns the result and the argument after the call."""

    def forward(x: torch.Tensor) -> Any:
        y = x + 0
        return function.apply(y, *args), y

    return forward


def result_written(function: Any, *args: Any, argument: bool) -> Any:
    """Return a forward that writes into the result, and may return the argument."""

    def forward(x: torch.Tensor) -> Any:
        y = x + 0
        z = function.apply(y, *args)
        z.add_(1)
        return (y, z) if argument else z

    return forward


CASES = [
    Case("two written", both_written, (X, X.flip(0)), has=("Sum",)),
    Case("a view written", view_written, has=("Sum",)),
    Case("written unmarked", written(Unmarked), has=("Mul",), lacks=("Sum",)),
    Case("written unmarked, returned", written(UnmarkedReturned), has=("Sum",)),
    Case("InplaceFunction", lambda x: Inplace.apply(x, False), has=("Sum",)),
    Case("InplaceFunction in place", written(Inplace, True), has=("Sum",)),
    Case("two views", Halves.apply, has=("Slice",)),
    Case("a result twice", Twice.apply, has=("Add",)),
    Case("arguments swapped", Swapped.apply, (X, X.flip(0)), has=("Sum",)),
    Case("a new result written", result_written(f.MyRelu, argument=True), has=("Clip",)),
    Case("the argument returned, then written", result_written(f.Same, argument=False)),
    Case("a view returned, then written", result_written(f.Reversal, 0.5, argument=False)),
    Case("a mask", lambda x: Chosen.apply(x, x > 0), has=("GatherND",)),
    Case("a mask, used", lambda x: f.MyRelu.apply(Chosen.apply(x, x > 0) * 2).sum(), has=("GatherND", "Clip")),
    # torch 2.11 gives the counts of a traced unique the dtype of x
    Case(
        "unique",
        lambda x: Unique.apply((x * 3).round()),
        has=("Unique",),
        frontends=("non-strict", "strict", *["trace"] * (RELEASE > (2, 11))),
    ),
    Case("a forward that works once", lambda x: Once.call(x.exp, "Exp", x), has=("Exp",), frontends=("non-strict", "trace")),
    Case("saved", Weighing(Saving), has=("Mul",)),
    Case(
        "saved, inlined", Weighing(PlainSaving), has=("Mul",), frontends=("non-strict", "trace")
    ),  # Dynamo knows no needs_input_grad
]


@rows(CASES)
@pytest.mark.filterwarnings("ignore:Unmarked writes into")
def test_memory(case: Case, how: str) -> None:
    check(case, how)


@pytest.mark.parametrize("how", ["non-strict", "strict", "trace"])
@pytest.mark.parametrize(("function", "args"), [(f.Same, ()), (f.Reversal, (0.5,))])
def test_a_result_that_shares_memory_and_is_written(function: Any, args: Any, how: str) -> None:
    """A written argument has no known value: reading it is refused at the user's line."""
    with pytest.raises(onnxexp.OnnxExporterError, match=r"z.add_\(1\) wrote to .* to fix this, clone\(\)"):
        program(Case("shared", result_written(function, *args, argument=True)), how)


def test_a_lost_write_is_told() -> None:
    with pytest.warns(UserWarning, match="Unmarked writes into an argument that it does not return; it is inlined"):
        program(Case("lost", written(Unmarked)), "non-strict")
