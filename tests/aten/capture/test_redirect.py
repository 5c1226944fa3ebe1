"""capture/redirect.py: replacements see every call, and no other thread sees them."""

from __future__ import annotations

import builtins
import contextlib
import math
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils import _pytree as pytree

import onnxexp
from onnxexp import frontends
from onnxexp._capture import redirect
from onnxexp_aten.capture.computed_sizes import COMPUTED_SIZES
from onnxexp_aten.capture.data_dependent_ops import DATA_DEPENDENT
from onnxexp_aten.capture.recurrent_layers import composite_ops
from onnxexp_quantized import Quantized
from onnxexp_quantized.capture.quantized_tensor import StandIn
from onnxexp_torchscript.trace import trace
from tests.core.test_restricted_calls import Model

X, ROWS, WAVES = torch.randn(5, 4), torch.randn(5, 6, 4), torch.randn(3, 4, 10)
LAYER = nn.LSTM(4, 3, batch_first=True)
PIECES = ((torch, "chunk"), (torch, "unbind"), *((torch.Tensor, name) for name in ("chunk", "split", "unbind")))
PLACES = [*((owner, name) for owner, name, _ in (*composite_ops(), *DATA_DEPENDENT, *COMPUTED_SIZES)), *PIECES]


class Boxed:
    """A tensor in a class that defines torch's functions."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return torch.kron(args[0].tensor, args[0].tensor) if func is torch.relu else NotImplemented


class Hooked(nn.Module):
    """A module with hooks that call redirected functions."""

    def __init__(self) -> None:
        super().__init__()
        self.register_forward_pre_hook(lambda module, args: (torch.kron(args[0], args[0]),))
        self.register_forward_hook(lambda module, args, result: result.split(2)[-1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.hann_window(x.shape[0])[:, None]


class Attention(nn.Module):
    """Attention over rows whose number depends on values."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> Any:
        rows = x[x[:, 0] > 0][None]
        return self.layer(rows, rows, rows, need_weights=False)[0]


MODELS: dict[str, tuple[Any, torch.Tensor]] = {
    "split, which calls the method": (lambda x: torch.split(x, 2)[-1], X),
    "a piece, and all pieces": (lambda x: (x.unbind(1)[-1], [*x.chunk(2, 1)], list(x.split(2, 1))), X),
    "interpolate, which calls adaptive_avg_pool1d": (
        lambda x: functional.interpolate(x.t()[None], size=x.shape[0] - 1, mode="area"),
        X,
    ),
    "interpolate by a computed factor": (lambda x: functional.interpolate(x[None], scale_factor=x.shape[0] / 2.0), X),
    "max_pool1d, which calls torch.max_pool1d": (lambda x: functional.max_pool1d(x, 2), WAVES),
    "max_pool1d of all": (lambda x: functional.max_pool1d(x.t()[None], x.shape[0]), X),
    "MaxPool1d": (nn.MaxPool1d(2), WAVES),
    "attention of a module": (Attention(), X),
    "LSTM": (lambda x: LAYER(x)[0], ROWS),
    "cdist with torch's mode": (
        lambda x: torch.cdist(x[x[:, 0] > 0], x[:2], compute_mode="donot_use_mm_for_euclid_dist"),
        X,
    ),
    "istft of a tensor": (
        lambda x: torch.stft(x.t(), 4, return_complex=True).istft(4, length=x.shape[0]),
        torch.randn(12, 2),
    ),
    "a class that defines functions": (lambda x: torch.relu(Boxed(x)), X),  # type: ignore[arg-type]
    "hooks": (Hooked(), X),
    "a branch": (
        lambda x: torch.cond(x.sum() > 0, lambda x: torch.kron(x, x).sum(0), lambda x: x.kron(x).sum(0) + 1, (x,)),
        X,
    ),
    "a loop": (
        lambda x: torch.while_loop(
            lambda count, x: count < 3,
            lambda count, x: (count + 1, x.roll(1, 0) + functional.max_pool1d(x, 2).sum()),
            (torch.tensor(0), x),
        ),
        X,
    ),
}


def leave_one_mode(monkeypatch: pytest.MonkeyPatch, allowed: bool, start: Callable[[], None] = lambda: None) -> None:
    """Let one of torch.export's modes fail: `allowed` is whether the strict one is left.

    `start` is called before the other.
    """
    original = torch.export.export

    def export(*args: Any, strict: bool, **options: Any) -> Any:
        if strict is not allowed:
            raise RuntimeError("the test leaves the other mode only")
        start()
        return original(*args, strict=strict, **options)

    monkeypatch.setattr(torch.export, "export", export)


@pytest.mark.parametrize("name", MODELS)
def test_nested_calls(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, x = MODELS[name]
    model = (function if isinstance(function, nn.Module) else Model(function)).eval()
    leave_one_mode(monkeypatch, allowed=False)
    program = onnxexp.export(model, (x,), dynamic_shapes=({0: "n"},), capture="export")
    for example in (x, torch.cat([x, x])[: x.shape[0] + 3]):
        expected = model(example)
        torch.testing.assert_close(pytree.tree_leaves(program(example)), pytree.tree_leaves(expected), rtol=1e-4, atol=1e-5)


def test_which_functions_of_torch_call_redirected_ones() -> None:
    names = frozenset({"scaled_dot_product_attention", "adaptive_avg_pool1d", "max_pool1d"})
    calling = (functional.multi_head_attention_forward, functional.interpolate, functional.max_pool1d)
    assert all(redirect._calls_one_of(function, names) for function in calling)
    assert not any(redirect._calls_one_of(function, names) for function in (functional.relu, functional.embedding, torch.norm))


class Watched(nn.Module):
    """A model in whose forward another function runs."""

    def __init__(self, watch: Callable[[], None]) -> None:
        super().__init__()
        vars(self)["watch"] = watch

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        vars(self)["watch"]()
        return torch.relu(x)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_another_thread_sees_torch_as_it_is(capture: str) -> None:
    redirections = trace._redirections() if capture == "trace" else ()
    named = [*PLACES, *((owner, name) for owner, name, _ in redirections)]
    places = [(owner, name) for owner, name in named if hasattr(owner, name)]  # torch 2.11 to 2.15 lack some
    before = [getattr(owner, name) for owner, name in places]
    seen: list[Any] = []

    def look() -> None:
        seen.extend(getattr(owner, name) for owner, name in places)
        seen.append(torch.overrides._get_current_function_mode_stack())
        seen.append(torch.ones(4).split(2))

    def watch() -> None:
        if not seen:
            thread = threading.Thread(target=look)
            thread.start()
            thread.join()

    onnxexp.export(Watched(watch), (X,), capture=capture)
    *functions, modes, pieces = seen
    assert len(functions) == len(before) > 85
    assert all(one is other for one, other in zip(functions, before, strict=True))
    assert not modes
    assert type(pieces) is tuple
    torch.testing.assert_close(pieces[1], torch.ones(2))


class Scaled:
    """A plugin that computes ``scale * relu(x) + 1``."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    @onnxexp.hookimpl
    def capture_context(self, context: onnxexp.ExportContext) -> None:
        context.redirect(torch, "relu", lambda original, x: original(x) * self.scale)
        context.redirect(torch, "relu", lambda original, x: original(x) + 1)
        context.redirect(torch, "no_such_function", lambda original: None)


@pytest.mark.parametrize("kind", ["non-strict", "strict", "trace"])
def test_plugins_redirect_functions(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(lambda x: torch.relu(x) + functional.relu(x))
    if kind != "trace":
        leave_one_mode(monkeypatch, kind == "strict")
    capture = "trace" if kind == "trace" else "export"
    program = onnxexp.export(model, (X,), capture=capture, plugins=[Scaled(3.0), Scaled(0.5), ...])
    once = (X.relu() * 3.0 + 1) * 0.5 + 1
    torch.testing.assert_close(program(X), once + once)
    torch.testing.assert_close(torch.relu(X), X.relu())


LIMITS = {"non-strict": 30, "strict": 129, "trace": 30}
"""How many attributes of torch and Python a capture replaces, with all plugins.

Dynamo traces a mode for functions, but then knows less of the model's own syntax.
"""
PYTHONS = {
    "non-strict": {"sqrt"},  # `math.sqrt` of a symbolic size
    "strict": set[str](),
    "trace": {"len", "max", "min", "sqrt", "exp", "log2"},  # each of a size, which a trace has as a tensor
}
"""Python's own functions that a capture replaces."""


@pytest.mark.parametrize("kind", LIMITS)
def test_replaced_attributes(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the attributes that are replaced at one time, those of the model and of our own classes left out."""
    now: list[tuple[Any, str]] = []
    most: list[tuple[Any, str]] = []
    original = frontends.replace_attributes

    @contextlib.contextmanager
    def counted(table: Any) -> Iterator[None]:
        rows = list(table)
        added = [(owner, name) for owner, name, _ in rows if not isinstance(owner, nn.Module) and owner is not StandIn]
        with original(rows):
            now.extend(added)
            most[:] = max(most, list(dict.fromkeys(now)), key=len)
            try:
                yield
            finally:
                for key in added:
                    now.remove(key)

    def start() -> None:
        most[:] = dict.fromkeys(now)

    for module in [*sys.modules.values()]:
        if isinstance(module, ModuleType) and vars(module).get("replace_attributes") is original:
            monkeypatch.setattr(module, "replace_attributes", counted)
    if kind != "trace":
        leave_one_mode(monkeypatch, kind == "strict", start)
    onnxexp.export(Model(torch.relu), (X,), capture="trace" if kind == "trace" else "export")
    assert {name for owner, name in most if owner in (builtins, math)} == PYTHONS[kind]
    assert 0 < len(most) <= LIMITS[kind], sorted(f"{owner}.{name}" for owner, name in most)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("first", [None, Quantized])
@pytest.mark.parametrize("fails", [False, True])
def test_an_export_leaves_torch_as_it_was(capture: str, first: Any, fails: bool) -> None:
    """Plugins replace the same functions, and end in the opposite order, whichever comes first."""

    def model(x: torch.Tensor) -> torch.Tensor:
        if fails and onnxexp.is_in_onnx_export():
            raise ValueError
        return x.relu()

    owners = (torch, torch.Tensor, functional, torch.jit, torch.export, torch._C, builtins, math)
    before = [dict(vars(owner)) for owner in owners]
    with pytest.raises(onnxexp.CaptureError) if fails else contextlib.nullcontext():
        onnxexp.export(model, (X,), capture=capture, plugins=None if first is None else [first(), ...])
    for owner, attributes in zip(owners, before, strict=True):
        after = vars(owner)
        assert not [name for name, value in attributes.items() if after[name] is not value], owner


DYNAMO = """
import sys, torch, onnxexp
from torch._dynamo import trace_rules

class Strict(torch.nn.Module):
    def forward(self, x):
        if torch.compiler.is_exporting() and not torch.compiler.is_dynamo_compiling():
            raise NotImplementedError
        return x.roll(1, 0)

class Branches(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: torch.roll(x, 1, 0), lambda x: x.roll(2, 0), (x,))

onnxexp.export(globals()[sys.argv[1]](), (torch.randn(5, 4),), dynamic_shapes=({0: "n"},), capture="export")
assert torch.Tensor.roll in trace_rules.get_tensor_method()
assert torch.kron in trace_rules.get_torch_obj_rule_map()
"""


@pytest.mark.parametrize("model", ["Strict", "Branches"])
def test_dynamo_knows_torch_as_it_is_afterwards(model: str) -> None:
    """Dynamo lists torch's functions once, at its first use, which may be in an export."""
    subprocess.run([sys.executable, "-c", DYNAMO, model], check=True, timeout=300)
