"""Calls of `apply` by any path, and a torch that lacks the plugin's internals."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import onnxexp
from onnxexp_autograd import plugin
from onnxexp_autograd.plugin import unavailable
from tests.autograd import functions as f
from tests.autograd.harness import Case, X, check, rows
from tests.torch_versions import RELEASE

RELU, SET_UP = f.MyRelu.apply, f.SetUp.apply
PARTIAL = functools.partial(f.SetUp.apply, slope=0.1)
STATE = dict(vars(type(torch.autograd.Function))), dict(vars(torch.autograd.function))


class Keeps(torch.nn.Module):
    def __init__(self, apply: Any) -> None:
        super().__init__()
        self.apply_function = apply

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.apply_function(x)


def keywords(x: torch.Tensor) -> torch.Tensor:
    return SET_UP(x=x, slope=0.1)


class Reads(torch.autograd.Function):
    """Uses another Function's parts as plain functions."""

    @staticmethod
    def forward(ctx, x):
        f.SetUp.setup_context(ctx, (x, 0.1), x)
        return f.SetUp.forward(x, 0.1)


class Recursive(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, depth):
        return Recursive.apply(x + 1, depth - 1) if depth else f.MyRelu.apply(x)


def branch(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda x: RELU(x), lambda x: x * 2, (x,))


def default_argument(x: torch.Tensor, apply: Any = f.MyRelu.apply) -> torch.Tensor:
    return apply(x)


def from_torch() -> tuple[dict[str, Any], dict[str, Any]]:
    return dict(vars(type(torch.autograd.Function))), dict(vars(torch.autograd.function))


CASES = [
    Case("in a global", lambda x: RELU(x), has=("Clip",)),
    # torch 2.11 and 2.12: `apply` takes no keywords
    *[Case("in a global, keywords", keywords, has=("LeakyRelu",), frontends=("non-strict", "trace"))] * (RELEASE > (2, 12)),
    Case("in a default", default_argument, has=("Clip",)),
    Case("in a module", Keeps(f.MyRelu.apply), has=("Clip",)),
    *[Case("in a partial", lambda x: PARTIAL(x), has=("LeakyRelu",), frontends=("non-strict", "trace"))] * (RELEASE > (2, 12)),
    Case("in a list", lambda x, all=(f.MyRelu.apply, SET_UP): all[1](all[0](x)), has=("Clip", "LeakyRelu")),
    Case("in a branch", branch, has=("If", "Clip"), frontends=("non-strict", "strict")),
    Case("by the class", lambda x: f.MyRelu.apply(x), has=("Clip",)),
    Case("parts of another one", Reads.apply, has=("Where",), lacks=("LeakyRelu",), frontends=("non-strict", "trace")),
    Case("recursive", lambda x: Recursive.apply(x, 2), has=("Add", "Clip"), frontends=("non-strict", "trace")),
]


@rows(CASES)
def test_apply_bound_before_the_capture(case: Case, how: str) -> None:
    check(case, how)


def test_captures_that_overlap_in_any_order() -> None:
    """Three threads capture in turns; a fourth one calls Functions undisturbed."""
    enter, leave = [threading.Event() for _ in range(3)], [threading.Event() for _ in range(3)]
    entered, left = [threading.Event() for _ in range(3)], [threading.Event() for _ in range(3)]

    def capture(number: int) -> None:
        enter[number].wait()
        with plugin.capture_context(onnxexp.ExportContext(onnxexp.Options(20))):
            entered[number].set()
            leave[number].wait()
        left[number].set()

    threads = [threading.Thread(target=capture, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for number in range(3):
        enter[number].set()
        entered[number].wait()
    for number in (1, 0, 2):
        x = X.clone().requires_grad_()
        assert f.SetUp.setup_context is f.SetUp.__dict__["setup_context"].__func__
        assert torch.equal(torch.func.vmap(f.SetUp.forward, (0, None))(X, 0.1), SET_UP(X, 0.1))
        (grad,) = torch.autograd.grad(RELU(x).sum(), x)
        assert torch.equal(grad, (X > 0).float())
        leave[number].set()
        left[number].wait()
    for thread in threads:
        thread.join()
    assert from_torch() == STATE


def test_functorch_in_a_capturing_thread() -> None:
    class Squared(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, grad):
            return 3 * grad * ctx.saved_tensors[0]  # not the derivative, to see whose it is

    with plugin.capture_context(onnxexp.ExportContext(onnxexp.Options(20))):
        grad = torch.func.grad(lambda x: Squared.apply(x).sum())(X)
        assert torch.equal(torch.func.vmap(RELU)(X), X.clamp(min=0))  # eager refuses a Function without setup_context
    assert torch.equal(grad, 3 * X)
    assert not torch._C._are_functorch_transforms_active()


def test_setup_context_cannot_be_replaced_while_capturing() -> None:
    with (
        plugin.capture_context(onnxexp.ExportContext(onnxexp.Options(20))),
        pytest.raises(AttributeError, match="setup_context of MyRelu cannot be"),
    ):
        f.MyRelu.setup_context = print


@pytest.fixture
def checked_again(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Let the plugin inspect torch again, now and after the test."""
    for name in [name for name in sys.modules if name.startswith("onnxexp_autograd.")]:
        if name.rpartition(".")[2] in (
            "torch_internals",
            "interception",
            "run_forward",
            "function_capture",
        ):
            monkeypatch.delitem(sys.modules, name)
    package = sys.modules["onnxexp_autograd"]
    for name in ("interception", "function_capture"):
        monkeypatch.delattr(package, name, raising=False)
    unavailable.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    unavailable.cache_clear()


def test_the_check_of_torch_inside_a_fake_mode(checked_again: pytest.MonkeyPatch) -> None:
    with FakeTensorMode():
        assert unavailable(dynamo=True) == ""


def inlined_with_a_warning(text: str) -> None:
    with pytest.warns(UserWarning, match=text) as warned:
        program = onnxexp.export(f.Holder(SET_UP), (X,), plugins=[plugin, ...])
    assert sum("are inlined without their symbolics; install" in str(each.message) for each in warned) == 1
    assert "Where" in {node.op_type for node in program.model.graph}  # the symbolic's is LeakyRelu
    torch.testing.assert_close(program(X), SET_UP(X))
    assert from_torch() == STATE


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (torch._C, "_is_alias_of"),
        (torch._C._functorch, "_grad_increment_nesting"),
        (torch._dynamo.trace_rules, "_allowed_callable_ids"),
        (torch._functorch.autograd_function, "custom_function_call"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_name_that_torch_moved(checked_again: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    checked_again.delattr(owner, name)
    inlined_with_a_warning(rf"torch {torch.__version__.split('+')[0]}\S* lacks internals .*{name}")


def test_an_apply_that_works_in_another_way(checked_again: pytest.MonkeyPatch) -> None:
    """An `apply` that does not look at `setup_context` through the class."""

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return cls.forward(None, *args, **kwargs)

    checked_again.setattr(torch.autograd.Function, "apply", classmethod(apply))
    assert "in a new way" in unavailable(dynamo=True)
