"""Functions in branches, loops, transforms, modes and modules; equal class names."""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch
from torch._higher_order_ops import map as mapped
from torch._higher_order_ops import scan
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from tests.autograd import functions as f
from tests.autograd.harness import Case, check, rows
from tests.autograd.test_arguments import Times

EXPORT = ("non-strict", "strict")
"""torch.jit.trace knows no torch.cond."""
BOTH = ("non-strict", "trace")


class LogExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.exp().log1p()


class Doubled(torch.autograd.Function):
    """Its rule for vmap is made from its forward."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, factor):
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def symbolic(g, x, factor):
        return g.op("Sum", x, x)


class Ruled(torch.autograd.Function):
    """Its author wrote its rule for vmap."""

    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def vmap(info, in_dims, x):
        return x * 2, in_dims[0]


class Cast(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, x):
        return x * 2

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        return grad

    @staticmethod
    def symbolic(g, x):
        return g.op("Sum", x, x)


class PlainCast(torch.autograd.Function):
    forward, backward = Cast.forward, Cast.backward


class Base(torch.autograd.Function):
    """forward and symbolic are class methods: each class its own factor."""

    factor = 2.0

    @classmethod
    def forward(cls, ctx, x):
        return x * cls.factor

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad

    @classmethod
    def symbolic(cls, g, x):
        return g.op("Mul", g.op("Constant", value_t=torch.tensor(cls.factor)), x)


class Child(Base):
    factor = 3.0


class Grandchild(Child):
    factor = 5.0


class Symbolic:
    @staticmethod
    def symbolic(g, x):
        return g.op("Sum", x, x)


class Mixed(Symbolic, torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2


SOURCE = """
import torch

class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x {sign} 2

    @staticmethod
    def symbolic(g, x):
        return g.op("{op}", x, g.op("Constant", value_t=torch.tensor(2.0)))
"""


def module(name: str, sign: str, op: str) -> Any:
    made = types.ModuleType(name)
    exec(SOURCE.format(sign=sign, op=op), made.__dict__)
    return made


TIMES, MINUS = module("times", "*", "Mul"), module("minus", "-", "Sub")


class Relu(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return f.MyRelu.apply(x)


class Containers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.listed = torch.nn.ModuleList([Relu(), torch.nn.Tanh()])
        self.named = torch.nn.ModuleDict({"relu": Relu()})
        self.apply_it = f.MyRelu.apply

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        for each in self.listed:
            x = each(x)
        return {"a": self.apply_it(self.named["relu"](x)), "b": [Times.apply(x, x.shape[0])]}


class Checkpointed(torch.nn.Module):
    def __init__(self, reentrant: bool | None) -> None:
        super().__init__()
        self.reentrant = reentrant
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 4), Relu(), torch.nn.Linear(4, 4), Relu())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.reentrant is None:
            return checkpoint_sequential(self.layers, 2, x, use_reentrant=False)
        return checkpoint(self.layers, x, use_reentrant=self.reentrant)


def nested(x: torch.Tensor) -> torch.Tensor:
    def positive(x):
        return torch.cond(x.max() > 1, lambda x: f.MyRelu.apply(x), lambda x: Times.apply(x, 3), (x,))

    return torch.cond(x.sum() > 0, positive, lambda x: f.MyRelu.apply(-x), (x,))


def inlined(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda x: LogExp.apply(x), lambda x: LogExp.apply(-x), (x,))


def sized(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda x: Times.apply(x, x.shape[0]), lambda x: f.SetUp.apply(x, 0.1), (x,))


def scanning(x: torch.Tensor) -> Any:
    return scan(lambda c, y: (f.MyRelu.apply(c + y), c * y), torch.zeros(4), x, dim=0)


def looping(x: torch.Tensor) -> Any:
    return torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, f.MyRelu.apply(x - 0.1)), (torch.tensor(0), x))


def asking(x: torch.Tensor) -> Any:
    return torch.while_loop(lambda i, x: f.MyRelu.apply(x.sum()) > i, lambda i, x: (i + 1, x - 0.1), (torch.tensor(0.0), x))


def looping_inlined(x: torch.Tensor) -> Any:
    return torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, LogExp.apply(x - 0.1)), (torch.tensor(0), x))


def modes(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        y = f.MyRelu.apply(x)
    with torch.enable_grad():
        z = f.MyRelu.apply(x * 2)
    return y + z


def inference(x: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return f.MyRelu.apply(x)


def autocast(function: Any) -> Any:
    def forward(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return function.apply(x)

    return forward


CASES = [
    Case("a branch in a branch", nested, has=("If", "Clip"), frontends=EXPORT),
    Case("a branch, inlined", inlined, has=("If",), frontends=EXPORT),
    Case("a size in a branch", sized, has=("If",), frontends=EXPORT),
    Case("a loop", looping, has=("Loop", "Clip"), frontends=EXPORT),
    Case("a loop's condition", asking, has=("Loop", "Clip"), frontends=EXPORT),
    Case("a loop, inlined", looping_inlined, has=("Loop",), frontends=EXPORT),
    Case("scan", scanning, has=("Clip",), frontends=EXPORT),
    Case("map", lambda x: mapped(lambda y: f.MyRelu.apply(y), x), has=("Clip",), frontends=("non-strict",)),
    Case("vmap", lambda x: torch.vmap(Doubled.apply, in_dims=(0, None))(x, 2.0), frontends=BOTH),
    Case("vmap by its own rule", lambda x: torch.vmap(Ruled.apply)(x), frontends=BOTH),
    Case("no vmap", lambda x: Doubled.apply(x, 2.0), has=("Sum",)),
    Case("modes", modes, has=("Clip",)),
    Case("inference mode", inference, has=("Clip",)),
    Case("custom_fwd", Cast.apply, has=("Sum",)),
    Case("custom_fwd, inlined", PlainCast.apply, has=("Mul",)),
    Case("custom_fwd under autocast", autocast(Cast), has=("Sum",)),
    Case("containers", Containers(), has=("Clip", "Tanh")),
    Case("checkpoint", Checkpointed(False), has=("Clip", "Gemm"), frontends=BOTH),  # Dynamo's operator for it runs no example
    Case("checkpoint, reentrant", Checkpointed(True), has=("Clip", "Gemm"), frontends=BOTH),
    Case("checkpointed in pieces", Checkpointed(None), has=("Clip", "Gemm"), frontends=BOTH),
    Case("one name in two modules", lambda x: MINUS.Same.apply(TIMES.Same.apply(x)), has=("Mul", "Sub")),
    Case("class methods of three classes", lambda x: Base.apply(x) + Child.apply(x) + Grandchild.apply(x), has=("Mul",)),
    Case("a symbolic mixed in", Mixed.apply, has=("Sum",)),
    Case("transposed", lambda x: f.MyRelu.apply(x).t() + f.MyRelu.apply(x.t()), has=("Clip",)),
    Case("no elements", lambda x: f.MyRelu.apply(x[:, :0])),
    *(Case(f"{dtype}", lambda x, dtype=dtype: Mixed.apply(x.to(dtype)), has=("Sum",), frontends=BOTH)
      for dtype in (torch.float64, torch.float16)),
]  # fmt: skip


@rows(CASES)
@pytest.mark.filterwarnings("ignore")
def test_regions(case: Case, how: str) -> None:
    check(case, how)
