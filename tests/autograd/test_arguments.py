"""A Function's arguments: constants, varying numbers, tensors in containers."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import types
from typing import Any

import numpy as np
import torch
from torch.onnx import symbolic_helper

from tests.autograd.harness import Case, X, check, rows
from tests.torch_versions import RELEASE

BOTH = ("non-strict", "trace")
"""Dynamo hands on to a Function only what its graph can hold."""


class Given(torch.autograd.Function):
    """The symbolic gets the very argument that the call was given."""

    argument: Any = None

    @staticmethod
    def forward(ctx, x, argument):
        Given.argument = argument
        return x * 2

    @staticmethod
    def symbolic(g, x, argument):
        given = Given.argument
        assert type(argument) is type(given) and (argument is given or repr(argument) == repr(given))
        return g.op("Add", x, x)


class Strict(Given):
    """The same under Dynamo, which calls it with copies of containers."""

    @staticmethod
    def symbolic(g, x, argument):
        return g.op("Add", x, x)


class Plain(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, argument):
        return x * 2


class Color(enum.Enum):
    RED = 1


Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Factor:
    k: float = 3.0


def increased(x: torch.Tensor) -> torch.Tensor:
    return x + 1


class Calls(torch.autograd.Function):
    """Takes a module or a function, and calls it."""

    @staticmethod
    def forward(ctx, x, function):
        return function(x) * 2

    @staticmethod
    def symbolic(g, x, function):
        if isinstance(function, torch.nn.Linear):
            weight, bias = (g.op("Constant", value_t=each.detach()) for each in (function.weight, function.bias))
            y = g.op("Gemm", x, weight, bias, transB_i=1)
        else:
            y = g.op("Add", x, g.op("Constant", value_t=torch.tensor(1.0)))
        return g.op("Add", y, y)


class PlainCalls(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, function):
        return function(x) * 2


class Holding(torch.nn.Module):
    """A module that hands one of its own to a Function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function.apply(x, self.linear)


class Filled(torch.autograd.Function):
    """Sizes in a list, in a tuple, or a whole shape."""

    @staticmethod
    def forward(ctx, x, sizes):
        return x.sum() * torch.ones(*sizes)

    @staticmethod
    def symbolic(g, x, sizes):
        each = [size if symbolic_helper._is_value(size) else g.op("Constant", value_t=torch.tensor(size)) for size in sizes]
        shape = g.op("Concat", *(symbolic_helper._unsqueeze_helper(g, size, [0]) for size in each), axis_i=0)
        return g.op("Expand", symbolic_helper._reducesum_helper(g, x, keepdims_i=0), shape)


class Times(torch.autograd.Function):
    """A number that may vary."""

    @staticmethod
    def forward(ctx, x, number):
        return x * number

    @staticmethod
    def symbolic(g, x, number):
        value = number if symbolic_helper._is_value(number) else g.op("Constant", value_t=torch.tensor(number))
        return g.op("Mul", g.op("Cast", value, to_i=1), x)


class PlainTimes(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, number):
        return x * number


class Deep(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tree):
        return tree["a"][0] + tree["b"][1]["c"]

    @staticmethod
    def symbolic(g, tree):
        return g.op("Sum", tree["a"][0], tree["b"][1]["c"])


class Named(torch.autograd.Function):
    @staticmethod
    def forward(ctx, pair):
        return pair.a + pair.b

    @staticmethod
    def symbolic(g, pair):
        return g.op("Sum", pair.a, pair.b)


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        return x * factor.k

    @staticmethod
    def symbolic(g, x, factor):
        return g.op("Mul", x, g.op("Constant", value_t=torch.tensor(factor.k)))


class Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *tensors):
        return sum(tensors)

    @staticmethod
    def symbolic(g, *tensors):
        return g.op("Sum", *tensors)


class Keywords(torch.autograd.Function):
    """setup_context: keywords and defaults, several results."""

    @staticmethod
    def forward(x, y, factor=2.0, mode="a"):
        return x * factor + y, x - y

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, _, ctx.factor, _ = inputs
        ctx.save_for_backward(x, output[0])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def symbolic(g, x, y, factor, mode):
        assert type(factor) is float and mode in ("a", "b")
        return g.op("Sum", g.op("Mul", x, g.op("Constant", value_t=torch.tensor(factor))), y), g.op("Sub", x, y)


class Made(torch.autograd.Function):
    """A Function without a tensor among its inputs."""

    @staticmethod
    def forward(ctx, size):
        return torch.ones(size)

    @staticmethod
    def symbolic(g, size):
        return g.op("Constant", value_t=torch.ones(size))


PLAIN: dict[str, Any] = {
    "None": None, "bool": True, "int": 3, "big int": 2**40, "float": 2.5, "inf": float("inf"), "str": "abc",
    "dtype": torch.float16, "device": torch.device("cpu"), "layout": torch.strided, "memory format": torch.channels_last,
    "list": [1, 2], "no list": [],
    "tuple": (1, "a", None), "dict": {"a": 1, "b": [2]}, "size": torch.Size([2, 3]), "slice": slice(0, 2), "ellipsis": ...,
    "enum": Color.RED, "range": range(3),
}  # fmt: skip
OBJECTS: dict[str, Any] = {
    "complex": 1 + 2j, "bytes": b"ab", "module": torch.nn.Linear(4, 4), "function": increased, "lambda": lambda x: x,
    "partial": functools.partial(increased), "NumPy number": np.float32(2), "array": np.ones(2), "dataclass": Factor(),
    "set": {1}, "ordered": collections.OrderedDict(a=1), "class": torch.nn.Linear, "operator": torch.ops.aten.add.Tensor,
    "namespace": types.SimpleNamespace(a=1), "nan": float("nan"),
}  # fmt: skip


def given(function: Any, argument: Any) -> Any:
    return lambda x: function.apply(x, argument)


KEYWORDS = [
    Case("a keyword", lambda x, y: Keywords.apply(x, y, mode="b"), (X, X.flip(0)), has=("Sum",)),
    Case("keywords", lambda x, y: Keywords.apply(x=x, y=y, factor=3.0), (X, X.flip(0)), has=("Sum",)),
] * (RELEASE > (2, 12))
"""None with torch 2.11 and 2.12, whose `apply` takes no keywords."""

CASES = [
    *(Case(f"a {name}", given(Given, each), has=("Add",), frontends=BOTH) for name, each in (PLAIN | OBJECTS).items()),
    *(Case(f"a {name}", given(Strict, each), has=("Add",), frontends=("strict",)) for name, each in PLAIN.items()),
    *(
        Case(f"a {name}, inlined", given(Plain, each), has=("Mul",), frontends=BOTH, full=True)
        for name, each in (PLAIN | OBJECTS).items()
    ),
    Case("a module that is called", Holding(Calls), has=("Gemm",), lacks=("Mul",), frontends=BOTH),
    Case("a module that is called, inlined", Holding(PlainCalls), has=("Gemm", "Mul")),
    Case("a function that is called", lambda x: Calls.apply(x, increased), has=("Add",), lacks=("Mul",), frontends=BOTH),
    Case("a function that is called, inlined", lambda x: PlainCalls.apply(x, increased), has=("Mul",)),
    Case("sizes in a list", lambda x: Filled.apply(x, [x.shape[0], 2]), has=("Expand",)),
    Case("sizes in a tuple", lambda x: Filled.apply(x, (x.shape[0], 2)), has=("Expand",)),
    Case("a shape", lambda x: Filled.apply(x, x.shape), has=("Expand",)),
    *(
        Case(f"{name}, {kind}", call, has=("Mul",), frontends=frontends)
        for kind, function in (("kept", Times), ("inlined", PlainTimes))
        for name, call, frontends in (
            ("elements", lambda x, function=function: function.apply(x, x.numel()), ("non-strict", "strict", "trace")),
            ("a size divided", lambda x, function=function: function.apply(x, x.shape[0] / 2), ("non-strict", "strict", "trace")),
            ("a root", lambda x, function=function: function.apply(x, x.shape[0] ** 0.5), ("non-strict", "strict", "trace")),
            ("a comparison", lambda x, function=function: function.apply(x, x.shape[0] > 3), ("non-strict", "strict")),
            ("a static size", lambda x, function=function: function.apply(x, x.shape[1]), ("non-strict", "strict", "trace")),
            ("a value", lambda x, function=function: function.apply(x, x.sum().item()), ("non-strict", "strict")),
            ("a count", lambda x, function=function: function.apply(x, (x > 0).sum().item()), ("non-strict", "strict")),
        )
    ),
    Case("deep", lambda x: Deep.apply({"a": [x], "b": (1, {"c": x * 2})}), has=("Sum",)),
    Case("a named tuple", lambda x: Named.apply(Pair(x, x * 2)), has=("Sum",)),
    Case("a dataclass that is read", lambda x: Scaled.apply(x, Factor()), has=("Mul",), frontends=BOTH),
    Case("any number of tensors", lambda x: Summed.apply(x, x * 2, x * 3), has=("Sum",)),
    Case("defaults", lambda x, y: Keywords.apply(x, y), (X, X.flip(0)), has=("Sum", "Sub")),
    *KEYWORDS,
    Case("no tensor", lambda x: x + Made.apply(4)),
]


@rows(CASES)
def test_arguments(case: Case, how: str) -> None:
    check(case, how)
